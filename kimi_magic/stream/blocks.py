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

_FIELDS: dict[str, str | None] = {
    "text": "text",
    "thinking": "thinking",
    "tool_use": "partial_json",
    "server_tool_use": "partial_json",
    "redacted_thinking": None,
    "image": None,
    "tool_result": None,
    "web_search_tool_result": None,
}
"""Kind of block → the field of the deltas that fill it."""

FIELD_OF: dict[type[Delta], str] = {
    TextDelta: "text",
    ThinkingDelta: "thinking",
    InputJsonDelta: "partial_json",
}
IMPLIED = {TextDelta: "text", CitationsDelta: "text", ThinkingDelta: "thinking", SignatureDelta: "thinking"}
"""Delta → the kind of block that it opens by itself."""

_DEEPEST = 200
"""Levels of nesting that are kept. Deeper JSON would break whoever walks or encodes it later."""


class OpenBlock:
    """A block that grows by `add` and can be looked at any time (`snapshot`)."""

    def __init__(self, start: Json) -> None:
        self.kind = str(start.get("type", ""))
        self.field = _FIELDS.get(self.kind)
        self._text = StringIO()  # of deltas: one buffer, so that many small ones cost no more than a few
        self._half = ""  # the first half of a surrogate pair
        self._changes: Json = {}  # fields that deltas set: signature, citations
        self._made: Block | None = None
        if self.field in ("text", "thinking"):
            first = start.get(self.field)
            self._text.write(self._whole(first if isinstance(first, str) else ""))
            start = {**start, self.field: self._text.getvalue()}
        self.start: Json = mended(start)

    @classmethod
    def implied_by(cls, delta: Delta) -> OpenBlock | None:
        """The block that a delta without a start opens; None for a kind that says too little."""
        kind = IMPLIED.get(type(delta))
        return None if kind is None else cls({"type": kind, kind: ""})

    def takes(self, field: str | None) -> bool:
        """Whether deltas with this text field belong here."""
        return field == self.field or field is None or (self.field is None and self.kind not in _FIELDS)

    def add(self, delta: Delta) -> Delta | None:
        """Take one delta in; the delta as it is to be shown, or None where all of it waits."""
        self._made = None
        kind = type(delta)
        if kind is TextDelta or kind is ThinkingDelta or kind is InputJsonDelta:
            field = FIELD_OF[kind]
            if field is not self.field:
                if not self.takes(field):
                    return delta
                self._adopt(field)
            text: str = getattr(delta, field)
            if self._half or not text.isascii():
                whole = self._whole(text)
                if whole is not text:
                    text, delta = whole, kind(whole)
            self._text.write(text)
            return delta if text else None
        return self._add_other(delta)

    def _adopt(self, field: str) -> None:
        """The first delta of a kind that nobody knows tells which field grows."""
        first = self.start.get(field)
        self.field = field
        self._text.write(first if isinstance(first, str) else "")

    def _add_other(self, delta: Delta) -> Delta:
        match delta:
            case SignatureDelta(signature):
                self._changes["signature"] = mend(signature)
                return SignatureDelta(mend(signature))
            case CitationsDelta(citation):
                before = self._changes.get("citations", self.start.get("citations"))
                delta = CitationsDelta(mended(citation))
                self._changes["citations"] = [*(before if isinstance(before, list) else ()), delta.citation]
            case UnknownDelta(json):
                return UnknownDelta(mended(json))
        return delta

    def stop(self) -> Delta | None:
        """The block's end; the replacement for half a pair whose rest never came, if any."""
        if not self._half:
            return None
        self._half, self._made = "", None
        self._text.write("\ufffd")
        if self.field == "partial_json":
            return InputJsonDelta("\ufffd")
        return ThinkingDelta("\ufffd") if self.field == "thinking" else TextDelta("\ufffd")

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
            if self.field == "partial_json":
                self._made = self._tool(json, self._text.getvalue())
            else:
                if self.field is not None:
                    json[self.field] = self._text.getvalue()
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
