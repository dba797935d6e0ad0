"""Replies that were said before, found again by the request that they answered. Values only.

A `Library` holds recordings from a store, from a notebook's outputs and from cassettes. It looks them
up by the hash of the whole request (model, settings, system, tools, all messages; not whether it was
streamed), and explains a miss by the first difference to the nearest one.

A cassette is a text file of JSON Lines, one recording a line, that a person can read: the request, and
the reply in pieces with the seconds that each took. No header of the request is in it, so no key.
"""

from __future__ import annotations

import base64
import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .conversation import Turn
from .errors import ReplayError
from .wire import Json, Message, fingerprint

PIECE = 24  # characters of a delta, where a reply's own pieces are not known
PACE = 0.03  # seconds for each of them
KEPT_HEADERS = ("content-type", "request-id", "x-request-id", "x-kimi-simulator")


@dataclass(frozen=True, slots=True)
class Recording:
    """One request and its reply."""

    fingerprint: str
    chunks: tuple[tuple[float, bytes], ...]
    """Seconds since the piece before, and the bytes, whole events each."""
    request: Json = field(default_factory=dict)
    """The request's JSON; empty where only its hash is known."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    """Where it comes from, for messages: the store, a file."""


class Library:
    """Recordings by what they answered."""

    def __init__(self, recordings: Iterable[Recording] = ()) -> None:
        self._found: dict[str, Recording] = {}
        for recording in recordings:
            self.add(recording)

    def add(self, recording: Recording) -> None:
        """The latest recording of a request counts."""
        self._found[recording.fingerprint] = recording

    def add_turn(self, turn: Turn, source: str, before: tuple[Json, ...] | None = None) -> None:
        """The replies of a turn. before: the messages ahead of it, where they are known."""
        for number, (found, message) in enumerate(turn.recorded()):
            request = None
            if before is not None and number == 0:
                request = {**turn.settings, "messages": [*before, turn.messages[0]]}
            self.add(from_message(found, message, source, request=request, simulated=turn.simulated))

    def find(self, request_fingerprint: str) -> Recording | None:
        return self._found.get(request_fingerprint)

    def __len__(self) -> int:
        return len(self._found)

    def miss(self, request: Json) -> ReplayError:
        """The error for a request that nothing answers: what differs from the nearest recording."""
        nearest = _nearest(request, [r for r in self._found.values() if r.request])
        if nearest is None:
            return ReplayError(
                f"Nothing is recorded for this request ({len(self)} recordings are known).",
                hint="Run it once with --replay auto and a key, or name a cassette: %kimi replay only FILE.",
            )
        return ReplayError(
            f"Nothing is recorded for this request. The nearest recording ({nearest.source}) differs in"
            f" {difference(request, nearest.request)}.",
            hint="Change it back, or run the cell once with --replay auto and a key.",
        )


def from_message(
    request_fingerprint: str,
    message: Message,
    source: str,
    *,
    request: Json | None = None,
    simulated: bool = False,
) -> Recording:
    """A recording of a whole message, in pieces of an even pace. request: where it is known."""
    chunks = tuple((PACE if n else 0.0, _event(event)) for n, event in enumerate(_events(message)))
    headers = {"content-type": "text/event-stream"}
    if message.request_id:
        headers["request-id"] = message.request_id
    if simulated:
        headers["x-kimi-simulator"] = "1"
    return Recording(request_fingerprint, chunks, request or {}, 200, headers, source)


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
    return f"event: {value['type']}\ndata: {text}\n\n".encode()


# --- cassettes ----------------------------------------------------------------------------------


def to_line(recording: Recording) -> str:
    """A recording as one line of a cassette."""
    value = {
        "request": recording.request,
        "status": recording.status,
        "headers": {k: v for k, v in recording.headers.items() if k in KEPT_HEADERS},
        "chunks": [[round(seconds, 4), _as_text(data)] for seconds, data in recording.chunks],
    }
    return json.dumps(value, ensure_ascii=False) + "\n"


def from_lines(lines: Iterable[str], source: str) -> list[Recording]:
    """The recordings of a cassette. Raises `ReplayError` naming the line that is none."""
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            chunks = tuple((float(seconds), _as_bytes(data)) for seconds, data in value["chunks"])
            found.append(
                Recording(
                    fingerprint(value["request"]),
                    chunks,
                    value["request"],
                    int(value["status"]),
                    value["headers"],
                    source,
                )
            )
        except (KeyError, TypeError, ValueError):
            raise ReplayError(
                f"Line {number} of {source} is no recording.", hint="Record it anew with %kimi record FILE."
            ) from None
    return found


def _as_text(data: bytes) -> Any:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _as_bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else base64.b64decode(value["base64"], validate=True)


# --- misses -------------------------------------------------------------------------------------


def _nearest(request: Json, candidates: list[Recording]) -> Recording | None:
    """The recording whose last message is most like the request's; the newest of equals."""
    wanted = _last_text(request)[:2_000]

    def likeness(recording: Recording) -> float:
        matcher = difflib.SequenceMatcher(None, wanted, _last_text(recording.request)[:2_000], autojunk=False)
        return matcher.real_quick_ratio() if len(candidates) > 200 else matcher.ratio()

    return max(reversed(candidates), key=likeness, default=None)


def _last_text(request: Json) -> str:
    messages = request.get("messages") or [{}]
    return _text(messages[-1].get("content", ""))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(str(b.get("text", f"[{b.get('type')}]")) for b in content if isinstance(b, dict))


def difference(here: Json, recorded: Json) -> str:
    """The first difference of two requests in words: the field and both values, or where a prompt
    goes another way."""
    for name in dict.fromkeys([*here, *recorded]):
        if name in ("messages", "stream") or here.get(name) == recorded.get(name):
            continue
        return f"{name}: {_short(here.get(name))} here, {_short(recorded.get(name))} there"
    ours, theirs = here.get("messages", []), recorded.get("messages", [])
    for number, (our, their) in enumerate(zip(ours, theirs, strict=False), 1):
        if our != their:
            place = "the prompt" if number == len(ours) else f"message {number} of {len(ours)}"
            return f"{place}: {_texts_differ(_text(our['content']), _text(their['content']))}"
    return f"the number of messages: {len(ours)} here, {len(theirs)} there"


def _texts_differ(ours: str, theirs: str) -> str:
    at = next(
        (n for n, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs))
    )
    begin = max(0, at - 20)
    return f"{_short(ours[begin : at + 40])} here, {_short(theirs[begin : at + 40])} there"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"{text[:80]!r}" if isinstance(value, str) else text[:80]
