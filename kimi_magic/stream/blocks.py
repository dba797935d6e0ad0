"""One content block while its pieces arrive (`OpenBlock`), and text that UTF-8 can always write.

What stands in the block's start counts; text, thinking and tool arguments are added to it; a later
signature overwrites; citations append; every other field stays as it came. A kind that nobody knows
takes text, thinking or arguments the way its first delta does.
"""

from __future__ import annotations

from io import StringIO
from typing import Any

from ..wire import Block, Json, ToolUseBlock, block
from .events import (
    CitationsDelta,
    Delta,
    InputJsonDelta,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
    UnknownDelta,
    parse_json,
)

_FIELD: dict[type[Delta], str] = {
    TextDelta: "text",
    ThinkingDelta: "thinking",
    InputJsonDelta: "partial_json",
}
"""Delta that makes a block grow → the field that holds its text."""
_GROWS_BY: dict[str, type[Delta] | None] = {
    "text": TextDelta,
    "thinking": ThinkingDelta,
    "tool_use": InputJsonDelta,
    "server_tool_use": InputJsonDelta,
    "redacted_thinking": None,
    "image": None,
    "tool_result": None,
    "web_search_tool_result": None,
}
"""Kind of block → the deltas that make it grow."""
_IMPLIED: dict[type[Delta], str] = {
    TextDelta: "text",
    CitationsDelta: "text",
    ThinkingDelta: "thinking",
    SignatureDelta: "thinking",
}
"""Delta → the kind of block that it opens by itself."""

_DEEPEST = 200
"""Levels of nesting that are kept. Deeper JSON would break whoever walks or encodes it later."""


class OpenBlock:
    """A block that grows by `add` and can be looked at any time (`snapshot`)."""

    def __init__(self, start: Json) -> None:
        self.kind = str(start.get("type", ""))
        self._text = StringIO()  # of deltas: one buffer, so that many small ones cost no more than a few
        self._half = ""  # the first half of a surrogate pair
        self._changes: Json = {}  # fields that deltas set: signature, citations
        self._made: Block | None = None
        self._grow_by(_GROWS_BY.get(self.kind))
        if self._field in ("text", "thinking"):
            first = start.get(self._field)
            self._text.write(self._whole(first if isinstance(first, str) else ""))
            start = {**start, self._field: self._text.getvalue()}
        self.start: Json = mended(start)

    def _grow_by(self, delta: type[Delta] | None) -> None:
        self._grows_by = delta
        self._field = "" if delta is None else _FIELD[delta]

    @classmethod
    def implied_by(cls, delta: Delta) -> OpenBlock | None:
        """The block that a delta without a start opens; None for a kind that says too little."""
        kind = _IMPLIED.get(type(delta))
        return None if kind is None else cls({"type": kind, kind: ""})

    def takes(self, delta: Delta) -> bool:
        """Whether this delta belongs here: text, thinking and arguments go to blocks of their kind."""
        kind = type(delta)
        if kind is self._grows_by or kind not in _FIELD:
            return True
        return self._grows_by is None and self.kind not in _GROWS_BY

    def add(self, delta: Delta) -> Delta | None:
        """Take one delta in; the delta as it is to be shown, or None where all of it waits."""
        self._made = None
        kind = type(delta)
        if kind is not self._grows_by:
            if kind not in _FIELD:
                return self._set(delta)
            self._adopt(kind)
        text: str = getattr(delta, self._field)
        if self._half or not text.isascii():
            whole = self._whole(text)
            if whole is not text:
                text, delta = whole, _growth(kind, whole)
        self._text.write(text)
        return delta if text else None

    def _adopt(self, delta: type[Delta]) -> None:
        """The first delta of a kind that nobody knows tells which field grows."""
        self._grow_by(delta)
        first = self.start.get(self._field)
        self._text.write(first if isinstance(first, str) else "")

    def _set(self, delta: Delta) -> Delta:
        """Take in a delta that does not grow the text."""
        match delta:
            case SignatureDelta(signature):
                delta = SignatureDelta(mend(signature))
                self._changes["signature"] = delta.signature
            case CitationsDelta(citation):
                before = self._changes.get("citations", self.start.get("citations"))
                delta = CitationsDelta(mended(citation))
                self._changes["citations"] = [*(before if isinstance(before, list) else ()), delta.citation]
            case UnknownDelta(json):
                delta = UnknownDelta(mended(json))
        return delta

    def stop(self) -> Delta | None:
        """The block's end; the replacement for half a pair whose rest never came, if any."""
        if not self._half:
            return None
        self._half, self._made = "", None
        self._text.write("\ufffd")
        return None if self._grows_by is None else _growth(self._grows_by, "\ufffd")

    def _whole(self, text: str) -> str:
        """`text` with surrogate halves joined over the borders of deltas; the very same object
        where there is nothing to mend."""
        text = self._half + text if self._half else text
        try:
            text.encode()
        except UnicodeEncodeError:
            self._half = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""
            return mend(text[:-1] if self._half else text)
        self._half = ""
        return text

    def snapshot(self) -> Block:
        if self._made is None:
            json = {**self.start, **self._changes}
            if self._grows_by is InputJsonDelta:
                self._made = self._tool(json, self._text.getvalue())
            else:
                if self._grows_by is not None:
                    json[self._field] = self._text.getvalue()
                self._made = block(json)
        return self._made

    def _tool(self, json: Json, text: str) -> Block:
        given = json.get("input")
        if not text.strip() and isinstance(given, str):  # some gateways hand the arguments over as text
            text = given
        if not text.strip():
            return block({**json, "input": given if isinstance(given, dict) else {}})
        try:
            value = mended(parse_json(text))
        except ValueError:
            value = None
        made = block({**json, "input": value if isinstance(value, dict) else {}})
        if isinstance(made, ToolUseBlock) and not isinstance(value, dict):
            made.raw_input = text
        return made


def _growth(kind: type[Delta], text: str) -> Delta:
    make: Any = kind  # each of them has one field, the text
    made: Delta = make(text)
    return made


def mend(text: str) -> str:
    """Surrogate pairs joined, halves replaced by U+FFFD: text that UTF-8 can write."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def mended(value: Any, levels: int = _DEEPEST) -> Any:
    """`mend` for all strings of a JSON value, keys too. Raises ValueError for deeper nesting than
    anybody sends in earnest."""
    if isinstance(value, str):
        return value if value.isascii() else mend(value)
    if levels == 0:
        raise ValueError("JSON nested too deeply")
    if isinstance(value, list):
        return [mended(v, levels - 1) for v in value]
    if isinstance(value, dict):
        return {mended(k): mended(v, levels - 1) for k, v in value.items()}
    return value
