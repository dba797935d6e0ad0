"""Token counts that are plausible: a quarter of a token for an ASCII character, one for any other.

The page gives no tokenizer, so nothing may depend on these numbers but their size.
"""

from __future__ import annotations

import msgspec

from ..wire import Json

IMAGE_TOKENS = 1000
"""Tokens that one image costs, whatever its size."""


def count(text: str) -> int:
    """Tokens of a text, rounded up."""
    return (_quarters(text) + 3) // 4


def fit(text: str, limit: int) -> str:
    """The longest start of `text` that has at most `limit` tokens."""
    if text.isascii():
        return text[: 4 * limit]
    left = 4 * limit
    for n, char in enumerate(text):
        left -= 1 if char < "\x80" else 4
        if left < 0:
            return text[:n]
    return text


def of_block(block: Json) -> int:
    """Tokens of one content block of a request."""
    kind, content = block.get("type"), block.get("content")
    if kind == "image":
        return IMAGE_TOKENS
    if kind == "text":
        return count(str(block.get("text", "")))
    if kind == "tool_result" and isinstance(content, list):
        return sum(of_block(item) for item in content)
    return of_json(block)


def of_json(value: object) -> int:
    return (len(msgspec.json.encode(value)) + 3) // 4


def _quarters(text: str) -> int:
    if text.isascii():
        return len(text)
    ascii_only = len(text.encode("ascii", "ignore"))
    return ascii_only + 4 * (len(text) - ascii_only)
