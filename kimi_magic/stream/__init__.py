"""Bytes of an HTTP reply → server-sent events → typed events → a growing Message. No I/O here.

    sse       bytes → (event name, data): lines end at CR, LF or CRLF and nowhere else
    events    data → one typed event; what the API documents, and what it does not
    blocks    deltas → one content block
    message   events → a `Message` that is valid at any moment (`MessageStream`)
    reply     one HTTP reply, whatever came: events, whole JSON, an error, an HTML page (`Reply`)

The shape is `feed(bytes) -> events`: nothing waits, nothing is scheduled, so each case is tested
whole, cut anywhere and byte by byte, without a socket.
"""

from .events import (
    CitationsDelta,
    ContentBlockDelta,
    ContentBlockStart,
    ContentBlockStop,
    Delta,
    Event,
    InputJsonDelta,
    MessageDelta,
    MessageStart,
    MessageStop,
    Ping,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
    UnknownDelta,
    UnknownEvent,
)
from .message import MessageStream
from .reply import Reply
from .sse import EventDecoder

__all__ = [
    "CitationsDelta",
    "ContentBlockDelta",
    "ContentBlockStart",
    "ContentBlockStop",
    "Delta",
    "Event",
    "EventDecoder",
    "InputJsonDelta",
    "MessageDelta",
    "MessageStart",
    "MessageStop",
    "MessageStream",
    "Ping",
    "Reply",
    "SignatureDelta",
    "TextDelta",
    "ThinkingDelta",
    "UnknownDelta",
    "UnknownEvent",
]
