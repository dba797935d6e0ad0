"""What came of a call → the content of a `tool_result`: valid, bounded, never blank.

A value that was cut keeps its head and its tail, says in the text what is missing, and gives a note for
the user. A value that cannot be written at all is shown by its `repr`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence

from ..wire import Block, TextBlock

BUDGET = 30_000
"""Characters of one result, beyond which its middle is left out."""
_LINE = 400  # a cut is moved to a line's end that is as near

Write = Callable[[object, int], tuple[Sequence[str | Block], str]]
"""How a value is written for a model: the value and a budget in characters → texts and images in
order, and a note of what was left out. May raise anything for a value that it does not take."""

_BYTES = (bytes, bytearray, memoryview)


def as_content(value: object, write: Write, budget: int = BUDGET) -> tuple[tuple[Block, ...], str]:
    """Content blocks for a value of any type, and a note of what was left out ("" for nothing)."""
    try:
        parts, note = write(value, budget)
    except Exception as error:  # noqa: BLE001 - a class's own methods may raise anything; its repr is left
        parts, note = [_bytes(bytes(value), error) if isinstance(value, _BYTES) else _safe_repr(value)], ""
    content: list[Block] = []
    for part in parts:
        if isinstance(part, str):
            text, missing = cut(part, budget)
            note = note or missing
            content += [TextBlock.of(text)] if text.strip() else []
        else:
            content.append(part)
    return tuple(content or [TextBlock.of(_nothing(value))]), note


def cut(text: str, budget: int) -> tuple[str, str]:
    """The text within about `budget` characters, its head and tail kept, at ends of lines where they
    are near; and a note ("" for nothing). Halves of surrogate pairs, which UTF-8 cannot write, become
    U+FFFD."""
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if len(text) <= budget:
        return text, ""
    head, tail = budget - budget // 3, len(text) - budget // 3
    if (line := text.rfind("\n", max(head - _LINE, 0), head)) >= 0:
        head = line + 1
    if (line := text.find("\n", tail, tail + _LINE)) >= 0:
        tail = line + 1
    head, tail = _between_characters(text, head), _between_characters(text, tail)
    note = f"{tail - head:,} of {len(text):,} characters"
    return f"{text[:head]}[… {note} left out here …]\n{text[tail:]}", f"{note} left out"


def _between_characters(text: str, place: int) -> int:
    """The place moved back to where no combining mark, joiner or variation sign is cut off from what
    it belongs to."""
    while 0 < place < len(text) and (_joins(text[place]) or text[place - 1] == "\u200d"):
        place -= 1
    return place


def _joins(character: str) -> bool:
    return (
        unicodedata.combining(character) > 0
        or character in "\u200d\ufe0f\ufe0e\u20e3"
        or "\U0001f3fb" <= character <= "\U0001f3ff"
    )


def _bytes(data: bytes, refusal: Exception) -> str:
    """UTF-8 as text, else how many bytes there are, the first of them, and why they are no image."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        more = " …" if len(data) > 64 else ""
        return f"{len(data):,} bytes that are no text: {data[:64]!r}{more} ({refusal})"


def _safe_repr(value: object) -> str:
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001 - a class's own __repr__ may raise anything
        return f"a value of type {type(value).__name__} that cannot be written ({type(error).__name__})"


def _nothing(value: object) -> str:
    return "(an empty text)" if isinstance(value, str) else f"(an empty {type(value).__name__})"
