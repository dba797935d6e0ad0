"""Events → a `Message` that is valid at any moment.

Rules (the page's schemas and what servers really send, see `tests/wire`):

- text, thinking and tool arguments concatenate; what stands in the block's start counts; a later
  signature overwrites; citations append; every other field of a block stays as it came.
- a tool's arguments are read when its block stops: nothing means `{}` or what the start held;
  what is not a JSON object is kept as text in `ToolUseBlock.raw_input`, and the call is not run.
- a delta without a start opens a block of its own kind.
- usage runs on: later counts overwrite, null keeps.
- half a surrogate pair waits for its other half in the next delta, and becomes U+FFFD without it.
- the end is `message_stop`, whatever the socket does; an end without a stop reason is an error.

Pieces are kept in lists and joined when somebody looks, so a reply costs what its text costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..errors import EmptyResponseError, IncompleteStreamError, KimiError, StreamDecodeError
from ..wire import Block, Json, Message, ToolUseBlock, Usage, api_error, block
from .events import (
    CitationsDelta,
    ContentBlockDelta,
    ContentBlockStart,
    ContentBlockStop,
    Delta,
    ErrorEvent,
    Event,
    InputJsonDelta,
    MessageDelta,
    MessageStart,
    MessageStop,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
    decode_event,
    parse_json,
)
from .sse import EventDecoder

_TOOLS = ("tool_use", "server_tool_use")
_IMPLICIT = {TextDelta: ("text", "text"), ThinkingDelta: ("thinking", "thinking")}
"""Delta → the kind of block that it opens by itself, and the field that it fills."""


class MessageStream:
    """One streamed reply: `feed(chunk)` yields events, `message` is what they add up to so far.

    Exhaust each `feed` before the next one. `close()` says that no bytes follow. Both raise
    `StreamError` or `APIError` with `partial` set.
    """

    def __init__(self, request_id: str | None = None) -> None:
        self.done = False
        """`message_stop` was seen: nothing after it counts."""
        self._sse = EventDecoder()
        self._request_id = request_id
        self._start: Json = {}
        self._end: Json = {}
        self._usage = Usage()
        self._blocks: dict[int, _OpenBlock] = {}
        self._snapshot: Message | None = None

    @property
    def has_output(self) -> bool:
        """Whether any of the reply's content has begun."""
        return bool(self._blocks)

    @property
    def message(self) -> Message:
        """The reply so far."""
        if self._snapshot is None:
            head = Message.from_dict({**self._start, **self._end}, self._request_id)
            self._snapshot = Message(
                id=head.id,
                model=head.model,
                content=tuple(b.snapshot() for b in self._blocks.values()),
                stop_reason=head.stop_reason,
                stop_sequence=head.stop_sequence,
                usage=self._usage,
                request_id=self._request_id,
                extra=head.extra,
            )
        return self._snapshot

    def feed(self, chunk: bytes) -> Iterator[Event]:
        for name, data in self._sse.feed(chunk):
            if self.done:
                return
            try:
                event = decode_event(name, data)
            except ValueError:
                raise self._failed(
                    StreamDecodeError(
                        f"An event of the stream is not JSON: {data[:60].decode('utf-8', 'replace')!r}.",
                        hint="What arrived is kept. Run the cell again.",
                    )
                ) from None
            if isinstance(event, ErrorEvent):
                raise self._failed(
                    api_error(
                        None, {"error": event.error, "request_id": event.request_id or self._request_id}
                    )
                )
            if event is not None:
                self._snapshot = None
                yield from self._apply(event)

    def feed_whole(self, message: Json) -> Iterator[Event]:
        """A reply that came as one JSON object, as the events that would have streamed it."""
        blocks = message.get("content") or []
        events: list[Event] = [MessageStart({k: v for k, v in message.items() if k != "content"})]
        for index, json in enumerate(blocks):
            events += [ContentBlockStart(index, json), ContentBlockStop(index)]
        ending = {k: message.get(k) for k in ("stop_reason", "stop_sequence")}
        events += [MessageDelta(ending, message.get("usage")), MessageStop()]
        self._snapshot = None
        for event in events:
            yield from self._apply(event)

    def close(self) -> None:
        """No bytes follow."""
        if self.message.stop_reason is None:
            raise self._failed(
                IncompleteStreamError(
                    "The reply ended in the middle: the connection closed before the server said why.",
                    hint="What arrived is kept. Run the cell again.",
                )
            )
        if not self._blocks and self.message.stop_reason != "refusal":
            raise self._failed(
                EmptyResponseError(
                    "The server finished the reply without any content.", hint="Run the cell again."
                )
            )

    def _failed(self, error: KimiError) -> KimiError:
        error.partial = self.message
        error.request_id = error.request_id or self._request_id
        return error

    def _apply(self, event: Event) -> Iterator[Event]:
        match event:
            case ContentBlockDelta(index, delta):
                open_block = self._blocks.get(index)
                if open_block is None:
                    open_block = self._blocks[index] = _OpenBlock.implied_by(delta)
                added = open_block.add(delta)
                if added is not None:
                    yield event if added is delta else ContentBlockDelta(index, added)
                return
            case ContentBlockStart(index, json):
                self._blocks[index] = _OpenBlock(json)
            case ContentBlockStop(index) if index in self._blocks:
                rest = self._blocks[index].stop()
                if rest is not None:
                    yield ContentBlockDelta(index, rest)
            case MessageStart(message):
                self._start = {
                    k: v for k, v in message.items() if k not in ("content", "usage", "stop_reason")
                }
                self._usage = self._usage.merged(message.get("usage"))
                for index, json in enumerate(message.get("content") or []):
                    self._blocks[index] = _OpenBlock(json)
            case MessageDelta(delta, usage):
                self._end.update((k, v) for k, v in delta.items() if v is not None)
                self._usage = self._usage.merged(usage)
            case MessageStop():
                self.done = True
        yield event


class _OpenBlock:
    """One content block while its pieces arrive."""

    def __init__(self, start: Json) -> None:
        self.start = start
        self.field = str(start.get("type", "text"))  # text → "text", thinking → "thinking"
        self.pieces: list[str] = []
        self.arguments: list[str] = []
        self.changes: Json = {}  # fields that deltas set: signature, citations
        self.half = ""  # the first half of a surrogate pair
        first = start.get(self.field)
        if self.field in ("text", "thinking") and isinstance(first, str) and first:
            self.pieces.append(first)

    @classmethod
    def implied_by(cls, delta: Delta) -> _OpenBlock:
        kind, field = _IMPLICIT.get(type(delta), ("text", "text"))
        return cls({"type": kind, field: ""})

    def add(self, delta: Delta) -> Delta | None:
        """Take one delta in; the delta as it is to be shown, or None where all of it waits."""
        match delta:
            case TextDelta(text):
                whole = self._whole(text)
                self.pieces.append(whole)
                return delta if whole is text else TextDelta(whole) if whole else None
            case ThinkingDelta(text):
                whole = self._whole(text)
                self.pieces.append(whole)
                return delta if whole is text else ThinkingDelta(whole) if whole else None
            case InputJsonDelta(part):
                self.arguments.append(part)
            case SignatureDelta(signature):
                self.changes["signature"] = signature
            case CitationsDelta(citation):
                before = self.changes.get("citations", self.start.get("citations")) or []
                self.changes["citations"] = [*before, citation]
        return delta

    def stop(self) -> Delta | None:
        """The block's end; the replacement for half a pair whose rest never came, if any."""
        if not self.half:
            return None
        self.half = ""
        self.pieces.append("\ufffd")
        return ThinkingDelta("\ufffd") if self.field == "thinking" else TextDelta("\ufffd")

    def _whole(self, text: str) -> str:
        """`text` with surrogate halves joined over the borders of deltas; the very same object
        where there is nothing to mend."""
        if not self.half and text.isascii():
            return text
        text_with_half = self.half + text if self.half else text
        try:
            text_with_half.encode()
        except UnicodeEncodeError:
            pass
        else:
            self.half = ""
            return text_with_half
        self.half = text_with_half[-1] if "\ud800" <= text_with_half[-1] <= "\udbff" else ""
        return mend(text_with_half[:-1] if self.half else text_with_half)

    def snapshot(self) -> Block:
        if self.field in _TOOLS:
            return self._tool()
        json = {**self.start, **self.changes}
        if self.pieces:
            self.pieces = ["".join(self.pieces)]
            json[self.field] = self.pieces[0]
        return block(json)

    def _tool(self) -> Block:
        text = "".join(self.arguments)
        if not text.strip():
            return block({**self.start, **self.changes, "input": self.start.get("input") or {}})
        try:
            value = mended(parse_json(text))
        except ValueError:
            value = None
        made = block({**self.start, **self.changes, "input": value if isinstance(value, dict) else {}})
        if isinstance(made, ToolUseBlock) and not isinstance(value, dict):
            made.raw_input = text
        return made


def mend(text: str) -> str:
    """Surrogate pairs joined, halves replaced by U+FFFD: text that UTF-8 can write."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def mended(value: Any) -> Any:
    """`mend` for all strings of a JSON value, keys too."""
    if isinstance(value, str):
        return value if value.isascii() else mend(value)
    if isinstance(value, list):
        return [mended(v) for v in value]
    if isinstance(value, dict):
        return {mended(k): mended(v) for k, v in value.items()}
    return value
