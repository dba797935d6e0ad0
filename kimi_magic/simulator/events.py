"""A reply as the events of the stream, with the seconds to wait before each, and as bytes."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ..wire import Json
from . import tokens
from .faults import Timed
from .limits import Outcome, Part

_FIRST_TOKENS = 30
"""The wait for the first event, as the time of so many tokens."""

_DELTAS = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking")}
_CALL_DELTA = ("input_json_delta", "partial_json")


def stream(message: Json, outcome: Outcome, chunk: int, seconds: float) -> Iterator[Timed]:
    """message: the reply without content, with the usage that is known at the start and, under
    `usage`, all totals at its end; chunk: characters a delta; seconds: a token's time."""
    usage = message["usage"]
    start = {**usage, "output_tokens": 0, "server_tool_use": None, "output_tokens_details": None}
    shell = {**message, "content": [], "stop_reason": None, "stop_sequence": None}
    shell["usage"] = {key: value for key, value in start.items() if value is not None}
    yield _FIRST_TOKENS * seconds, {"type": "message_start", "message": shell}
    yield 0.0, {"type": "ping"}
    for index, part in enumerate(outcome.parts):
        yield from _block(index, part, chunk, seconds)
    totals = {key: value for key, value in usage.items() if key != "cache_creation"}
    reason = {"stop_reason": outcome.stop_reason, "stop_sequence": outcome.stop_sequence}
    yield 0.0, {"type": "message_delta", "delta": reason, "usage": totals}
    yield 0.0, {"type": "message_stop"}


def _block(index: int, part: Part, chunk: int, seconds: float) -> Iterator[Timed]:
    block, kind = part.block, part.block["type"]
    yield 0.0, {"type": "content_block_start", "index": index, "content_block": _start(block)}
    for citation in block.get("citations") or ():
        yield 0.0, _delta(index, {"type": "citations_delta", "citation": citation})
    is_call = kind in ("tool_use", "server_tool_use")
    if is_call or kind in _DELTAS:
        name, field = _CALL_DELTA if is_call else _DELTAS[kind]
        body = part.body
        for at in range(0, len(body), chunk):
            piece = body[at : at + chunk]
            wait = seconds and seconds * (len(piece) / 4 if piece.isascii() else tokens.count(piece))
            yield wait, _delta(index, {"type": name, field: piece})
        if is_call and not body:
            yield 0.0, _delta(index, {"type": name, field: ""})
    if block.get("signature"):
        yield 0.0, _delta(index, {"type": "signature_delta", "signature": block["signature"]})
    yield 0.0, {"type": "content_block_stop", "index": index}


def _start(block: Json) -> Json:
    """The block as it begins: what streams is empty, what does not stands there whole."""
    empty = {"text": "", "thinking": "", "signature": "", "citations": [], "input": {}}
    if block["type"] in ("text", "thinking", "tool_use", "server_tool_use"):
        return {key: empty.get(key, value) for key, value in block.items()}
    return block


def _delta(index: int, delta: Json) -> Json:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def encode(events: Iterator[Timed]) -> Iterator[tuple[float, bytes]]:
    """Server-sent events, one chunk each."""
    encoder = msgspec.json.Encoder()
    for wait, event in events:
        if isinstance(event, bytes):
            yield wait, event
        else:
            yield wait, b"event: %s\ndata: %s\n\n" % (event["type"].encode(), encoder.encode(event))
