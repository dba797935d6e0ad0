"""What the first bytes of an image file say, without decoding it: type, size in pixels, animation."""

from __future__ import annotations

import re
import struct

_MAGIC = {
    "image/png": rb"\x89PNG\r\n\x1a\n",
    "image/jpeg": rb"\xff\xd8\xff",
    "image/gif": rb"GIF8[79]a",
    "image/webp": rb"RIFF....WEBP",
    "image/svg+xml": rb"(?:\xef\xbb\xbf)?\s*<(?:svg[\s/>]|(?:\?xml|!).*<svg[\s/>])",
    "image/tiff": rb"II\*\x00|MM\x00\*",
    "image/bmp": rb"BM.{4}\x00{4}",
    "image/heic": rb"....ftyp(?:hei[cmsx]|hev[cx]|mif1|msf1)",
    "image/avif": rb"....ftypavi[fs]",
    "image/jp2": rb"\x00\x00\x00\x0cjP  ",
    "image/x-icon": rb"\x00\x00\x01\x00.{10}",
    "image/vnd.adobe.photoshop": rb"8BPS",
}


def media_type(data: bytes) -> str | None:
    """The type by the magic bytes, whatever the file is called; None where they are no image's."""
    start = data[:4096]
    return next((kind for kind, magic in _MAGIC.items() if re.match(magic, start, re.DOTALL)), None)


def pixel_size(data: bytes) -> tuple[int, int] | None:
    """(width, height) of a PNG, JPEG, GIF or WebP; None where the bytes are none, or cut short."""
    try:
        match media_type(data):
            case "image/png":
                return _pair(">II", data, 16)
            case "image/gif":
                return _pair("<HH", data, 6)
            case "image/webp":
                return _webp(data)
            case "image/jpeg":
                return _jpeg(data)
    except (struct.error, IndexError):
        return None
    return None


def is_animated(data: bytes) -> bool:
    """More than one frame: of a GIF, a WebP or a PNG."""
    match media_type(data):
        case "image/gif":
            return _gif_frames(data) > 1
        case "image/webp":
            return data[12:16] == b"VP8X" and bool(data[20:21]) and bool(data[20] & 2)
        case "image/png":
            return b"acTL" in data[: data.find(b"IDAT")]
    return False


def _pair(form: str, data: bytes, at: int) -> tuple[int, int]:
    first, second = struct.unpack_from(form, data, at)
    return int(first), int(second)


def _webp(data: bytes) -> tuple[int, int] | None:
    kind = data[12:16]
    if kind == b"VP8 ":
        width, height = _pair("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L":
        bits = struct.unpack_from("<I", data, 21)[0]
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8X" and len(data) >= 30:
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    return None


def _jpeg(data: bytes) -> tuple[int, int] | None:
    """Walk the segments to the frame header (SOF0…SOF15 but DHT, JPG and DAC)."""
    at = 2
    while at + 4 <= len(data):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker == 0xFF:  # padding before a marker
            at += 1
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = _pair(">HH", data, at + 5)
            return width, height
        elif marker == 0x01 or 0xD0 <= marker <= 0xD8:  # markers that have no length
            at += 2
        else:
            at += 2 + struct.unpack_from(">H", data, at + 2)[0]
    return None


def _gif_frames(data: bytes) -> int:
    """Image descriptors, counted up to the second."""
    frames, at = 0, 13 + _table(data, 10)
    while frames < 2 and at + 10 <= len(data):
        if data[at] == 0x2C:  # an image: descriptor, colour table, code size, sub-blocks
            frames += 1
            at = _behind_blocks(data, at + 11 + _table(data, at + 9))
        elif data[at] == 0x21:  # an extension
            at = _behind_blocks(data, at + 2)
        else:
            break
    return frames


def _table(data: bytes, at: int) -> int:
    """Bytes of the colour table that the flags at this place announce."""
    flags = data[at] if at < len(data) else 0
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _behind_blocks(data: bytes, at: int) -> int:
    while at < len(data) and data[at]:
        at += data[at] + 1
    return at + 1
