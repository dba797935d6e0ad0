"""Bytes of a text file → text, by what the bytes themselves say. In this order:

    a byte order mark       UTF-8, UTF-16 or UTF-32
    zero bytes at every     UTF-16 without a mark, little or big endian
    other place
    valid UTF-8             UTF-8
    two-byte characters     GB18030 (GBK and GB2312 are part of it), where most of them are signs in
                            common use; letters of other alphabets are not
    few bytes above 127,    Windows-1252: Western European, a guess
    all of them letters

Anything else is no text that can be read: better none than a wrong one.
"""

from __future__ import annotations

import codecs
import re

_MARKS = {
    codecs.BOM_UTF8: ("utf-8-sig", "UTF-8 with BOM"),
    codecs.BOM_UTF32_LE: ("utf-32", "UTF-32"),  # begins like UTF-16's
    codecs.BOM_UTF32_BE: ("utf-32", "UTF-32"),
    codecs.BOM_UTF16_LE: ("utf-16", "UTF-16"),
    codecs.BOM_UTF16_BE: ("utf-16", "UTF-16"),
}
_PAIR = re.compile(rb"[\x81-\xfe][\x40-\xfe]")
_COMMON = re.compile(rb"[\xa1-\xa3\xb0-\xd7][\xa1-\xfe]")
"""GB2312: punctuation, full-width letters, and the 3,755 signs of level 1."""
_WESTERN = re.compile(
    rb"[\xc0-\xff\x80\x82\x84\x85\x8a\x8c\x8e\x91-\x97\x9a\x9c\x9e\x9f\xa0\xa3\xa7\xab\xb0-\xb5\xbb\xbf]"
)
"""Windows-1252: accented letters, quotes, dashes, € £ § ° µ « » ¿."""
_CONTROL = re.compile("[\x01-\x08\x0e-\x1a\x1c-\x1f]")  # but for escape, which logs have


def decoded(data: bytes) -> tuple[str, str] | None:
    """(text, name of the encoding), or None where the bytes are no text."""
    found = _decoded(data)
    if found is None or "\0" in found[0] or len(_CONTROL.findall(found[0])) * 50 > len(found[0]):
        return None
    return found


def _decoded(data: bytes) -> tuple[str, str] | None:
    for mark, (codec, name) in _MARKS.items():
        if data.startswith(mark):
            return _read(data, codec, name)
    wide = _wide(data)
    if wide:
        return _read(data, wide, "UTF-16 without BOM")
    return (
        _read(data, "utf-8", "UTF-8")
        or (_read(data, "gb18030", "GBK") if _is_chinese(data) else None)
        or (_read(data, "cp1252", "Windows-1252, a guess") if _is_western(data) else None)
    )


def _read(data: bytes, codec: str, name: str) -> tuple[str, str] | None:
    try:
        return data.decode(codec), name
    except UnicodeDecodeError:
        return None


def _wide(data: bytes) -> str:
    """The codec where nearly every second byte is zero, as ASCII in UTF-16 has it; else ""."""
    start = data[:4096]
    if len(data) % 2 or len(start) < 4:
        return ""
    even, odd = start[::2].count(0), start[1::2].count(0)
    half = len(start) // 2
    if odd * 10 > half * 4 and even * 50 < half:
        return "utf-16-le"
    return "utf-16-be" if even * 10 > half * 4 and odd * 50 < half else ""


def _is_chinese(data: bytes) -> bool:
    pairs = _PAIR.findall(data)
    return bool(pairs) and sum(map(bool, map(_COMMON.fullmatch, pairs))) * 4 >= len(pairs) * 3


def _is_western(data: bytes) -> bool:
    high = sum(byte > 127 for byte in data)
    return high * 3 <= len(data) and len(_WESTERN.findall(data)) == high
