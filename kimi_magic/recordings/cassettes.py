"""A recording: one request and its reply in pieces, made of a message or read from a cassette.

A cassette is a text file of JSON Lines, one recording a line, that a person can read: the request, and
the reply in pieces with the seconds that each took. No header of the request is in it, so no key.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import ReplayError
from ..wire import Json, Message

PIECE = 24  # characters of a delta, where a reply's own pieces are not known
PACE = 0.03  # seconds for each of them
KEPT_HEADERS = ("content-type", "request-id", "x-request-id", "x-kimi-simulator")

Chunks = tuple[tuple[float, bytes], ...]
"""Seconds since the piece before, and the bytes, whole events each."""


@dataclass(frozen=True, slots=True)
class Recording:
    """One request and its reply, as a cassette has them."""

    request: Json
    chunks: Chunks
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    """Where it comes from, for messages: the store, a file."""


def from_message(message: Message, source: str, *, simulated: bool = False) -> Recording:
    """A recording of a whole message, in pieces of an even pace; its request is not in it."""
    chunks = tuple((PACE if n else 0.0, _event(event)) for n, event in enumerate(_events(message)))
    headers = {"content-type": "text/event-stream"}
    if message.request_id:
        headers["request-id"] = message.request_id
    if simulated:
        headers["x-kimi-simulator"] = "1"
    return Recording({}, chunks, 200, headers, source)


def _events(message: Message) -> Iterable[Json]:
    head = message.to_dict()
    ending = {"stop_reason": head["stop_reason"], "stop_sequence": head["stop_sequence"]}
    yield {"type": "message_start", "message": {**head, "content": [], "stop_reason": None}}
    for index, block in enumerate(message.content):
        kind = {"text": "text", "thinking": "thinking"}.get(block.type)
        text = block.json.get(kind) if kind else None
        if kind is None or not isinstance(text, str):
            yield {"type": "content_block_start", "index": index, "content_block": block.json}
        else:
            yield {"type": "content_block_start", "index": index, "content_block": {**block.json, kind: ""}}
            for start in range(0, len(text), PIECE):
                delta = {"type": f"{kind}_delta", kind: text[start : start + PIECE]}
                yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": ending, "usage": head["usage"]}
    yield {"type": "message_stop"}


def _event(value: Json) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # In a JSON string the escape of half a surrogate pair is that half again.
    return f"event: {value['type']}\ndata: {text}\n\n".encode(errors="backslashreplace")


# --- cassettes ----------------------------------------------------------------------------------


def to_line(recording: Recording) -> str:
    """A recording as one line of a cassette."""
    value = {
        "request": recording.request,
        "status": recording.status,
        "headers": {k: v for k, v in recording.headers.items() if k in KEPT_HEADERS},
        "chunks": [[round(seconds, 4), _as_text(data)] for seconds, data in recording.chunks],
    }
    text = json.dumps(value, ensure_ascii=False) + "\n"
    return text.encode(errors="backslashreplace").decode()


def from_lines(lines: Iterable[str], source: str) -> list[Recording]:
    """The recordings of a cassette. Raises `ReplayError` naming the line that is none."""
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(_from_json(json.loads(line), source))
        except (KeyError, TypeError, ValueError):
            raise ReplayError(
                f"Line {number} of {source} is no recording.", hint="Record it anew with %kimi record FILE."
            ) from None
    return found


def _from_json(value: Json, source: str) -> Recording:
    """Raises KeyError, TypeError or ValueError for what is none."""
    chunks = tuple((float(seconds), _as_bytes(data)) for seconds, data in value["chunks"])
    headers = {str(k): str(v) for k, v in dict(value["headers"]).items() if k in KEPT_HEADERS}
    if not _is_request(value["request"]):
        raise TypeError("request")
    return Recording(value["request"], chunks, int(value["status"]), headers, source)


def _is_request(value: Any) -> bool:
    """Whether it can be compared with other requests."""
    if not isinstance(value, dict) or not isinstance(value.get("output_config", {}), dict):
        return False
    messages = value.get("messages", [])
    return isinstance(messages, list) and all(
        isinstance(message, dict) and isinstance(message.get("content"), str | list) for message in messages
    )


def _as_text(data: bytes) -> Any:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _as_bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else base64.b64decode(value["base64"], validate=True)
