"""Events → a `Message` that is valid at any moment.

Rules (the page's schemas and what servers really send, see `tests/wire_cases`):

- blocks grow as `blocks` says; a start at an index that was used before opens another block.
- a delta without a start, or of another kind than its block, opens a block of its own kind.
- a tool's arguments are read when somebody looks: nothing means `{}` or what the start held; what is
  not a JSON object is kept as text in `ToolUseBlock.raw_input`, and the call is not run.
- usage runs on: later counts overwrite, null keeps.
- half a surrogate pair waits for its other half in the next delta, and becomes U+FFFD without it.
- the end is `message_stop`, whatever the socket does; an end without a stop reason is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..errors import EmptyResponseError, IncompleteStreamError, KimiError, StreamDecodeError
from ..wire import Json, Message, Usage, api_error
from .blocks import OpenBlock, mended
from .events import (
    ContentBlockDelta,
    ContentBlockStart,
    ContentBlockStop,
    Delta,
    ErrorEvent,
    Event,
    MessageDelta,
    MessageStart,
    MessageStop,
    UnknownEvent,
    decode_event,
)
from .sse import EventDecoder

_NEVER_EMPTY = ("end_turn", "tool_use")
"""Stop reasons that promise content; the others may cut a reply before its first character."""


class MessageStream:
    """One streamed reply: `feed(chunk)` yields events, `message` is what they add up to so far.

    Exhaust each `feed` before the next one. `close()` says that no bytes follow. Both raise
    `StreamError` or `APIError` with `partial` set.
    """

    def __init__(self, request_id: str | None = None) -> None:
        self.done = False
        """`message_stop` was seen: nothing after it counts."""
        self.has_output = False
        """A reader could have seen something of the reply (`Message.is_empty` is false)."""
        self._sse = EventDecoder()
        self._request_id = request_id
        self._head: Json = {}
        self._usage = Usage()
        self._blocks: list[OpenBlock] = []
        self._at: dict[int, OpenBlock] = {}  # the latest block of each index
        self._snapshot: Message | None = None

    @property
    def message(self) -> Message:
        """The reply so far."""
        if self._snapshot is None:
            head = {k: v for k, v in self._head.items() if k not in ("content", "usage")}
            self._snapshot = Message.from_dict(
                {**head, "content": [b.snapshot() for b in self._blocks], "usage": self._usage.json},
                self._request_id,
            )
        return self._snapshot

    def feed(self, chunk: bytes) -> Iterator[Event]:
        for name, data in self._sse.feed(chunk):
            if self.done:
                return
            try:
                event = decode_event(name, data)
                if type(event) is ContentBlockDelta:
                    shown = self._delta(event)
                else:
                    shown = () if event is None else self._other(event)
            except ValueError:
                raise self._failed(_not_json(data)) from None
            yield from shown

    def feed_whole(self, message: Json) -> Iterator[Event]:
        """A reply that came as one JSON object, as the events that would have streamed it.

        Raises ValueError for JSON that is nested too deeply.
        """
        message = mended(message)
        events: list[Event] = [MessageStart({k: v for k, v in message.items() if k != "content"})]
        for index, json in enumerate(_blocks(message.get("content"))):
            events += [ContentBlockStart(index, json), ContentBlockStop(index)]
        ending = {k: message.get(k) for k in ("stop_reason", "stop_sequence")}
        events += [MessageDelta(ending, message.get("usage")), MessageStop()]
        for event in events:
            yield from self._other(event)

    def close(self) -> None:
        """No bytes follow."""
        reason = self.message.stop_reason
        if reason is None:
            raise self._failed(
                IncompleteStreamError(
                    "The reply ended in the middle: the connection closed before the server said why.",
                    hint="What arrived is kept. Run the cell again.",
                )
            )
        if reason in _NEVER_EMPTY and self.message.is_empty:
            raise self._failed(
                EmptyResponseError(
                    "The server finished the reply without any content.", hint="Run the cell again."
                )
            )

    def _failed(self, error: KimiError) -> KimiError:
        error.partial = self.message
        error.request_id = error.request_id or self._request_id
        return error

    def _delta(self, event: ContentBlockDelta) -> tuple[Event, ...]:
        """Take a delta in; the events to show for it."""
        self._snapshot = None
        open_block = self._at.get(event.index)
        if open_block is None or not open_block.takes(event.delta):
            return self._delta_alone(event.index, event.delta)
        added = open_block.add(event.delta)
        if added is None:
            return ()
        if not self.has_output:
            self.has_output = not Message(content=(open_block.snapshot(),)).is_empty
        return (event if added is event.delta else ContentBlockDelta(event.index, added),)

    def _delta_alone(self, index: int, delta: Delta) -> tuple[Event, ...]:
        """A delta that no block waits for."""
        implied = OpenBlock.implied_by(delta)
        if implied is None:
            return ()
        start = self._open(index, implied)
        return (start, *self._delta(ContentBlockDelta(index, delta)))

    def _open(self, index: int, new: OpenBlock) -> ContentBlockStart:
        self._blocks.append(new)
        self._at[index] = new
        self.has_output = self.has_output or not Message(content=(new.snapshot(),)).is_empty
        return ContentBlockStart(index, new.start)

    def _other(self, event: Event | ErrorEvent) -> tuple[Event, ...]:
        """Take in what is no delta of a block; the events to show for it."""
        self._snapshot = None
        match event:
            case ContentBlockStart(index, json):
                return (self._open(index, OpenBlock(json)),)
            case ContentBlockStop(index):
                rest = self._at[index].stop() if index in self._at else None
                return (event,) if rest is None else (ContentBlockDelta(index, rest), event)
            case MessageStart(message):
                message = mended(message)
                self._head.update((k, v) for k, v in message.items() if k != "stop_reason")
                self._usage = self._usage.merged(_object(message.get("usage")))
                opened = enumerate(_blocks(message.get("content")))
                return (MessageStart(message), *(self._open(i, OpenBlock(json)) for i, json in opened))
            case MessageDelta(delta, usage):
                self._head.update((k, v) for k, v in mended(delta).items() if v is not None)
                self._usage = self._usage.merged(mended(_object(usage)))
            case MessageStop():
                self.done = True
            case UnknownEvent(json):
                return (UnknownEvent(mended(json)),)
            case ErrorEvent(error, message, request_id):
                said = mended(error if error is not None else {"message": message})
                raise self._failed(
                    api_error(None, {"error": said, "request_id": request_id or self._request_id})
                )
        return (event,)


def _not_json(data: bytes) -> StreamDecodeError:
    return StreamDecodeError(
        f"The stream holds an event that is not JSON: {data[:60].decode('utf-8', 'replace')!r}.",
        hint="What arrived is kept. Run the cell again.",
    )


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _blocks(value: Any) -> list[Json]:
    if isinstance(value, str):  # some gateways send the text alone
        return [{"type": "text", "text": value}] if value else []
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []
