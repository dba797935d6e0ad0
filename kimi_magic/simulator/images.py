"""Pixel sizes from the headers of PNG, JPEG, GIF and WebP files, without decoding the image."""

from __future__ import annotations

import struct


def pixel_size(data: bytes) -> tuple[int, int] | None:
    """(width, height) in pixels, or None where the bytes are no such image."""
    try:
        if data.startswith(b"\x89PNG\r\n\x1a\n"):
            return _pair(">II", data, 16)
        if data.startswith((b"GIF87a", b"GIF89a")):
            return _pair("<HH", data, 6)
        if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
            return _webp(data)
        if data.startswith(b"\xff\xd8"):
            return _jpeg(data)
    except (struct.error, IndexError):
        return None  # the header is cut short
    return None


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
    if kind == b"VP8X":
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
