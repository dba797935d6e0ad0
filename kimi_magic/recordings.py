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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .conversation import Turn
from .errors import ReplayError
from .wire import Json, Message, fingerprint

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


@dataclass(frozen=True, slots=True)
class _Entry:
    """A recording that is made when it is needed."""

    source: str
    question: str
    """Text of the request's last message; empty where only its hash is known."""
    request: Callable[[], Json]
    """The request's JSON; empty where only its hash is known."""
    recording: Callable[[], Recording]


class Library:
    """Recordings by what they answered. Adding a turn costs next to nothing until it is asked for."""

    def __init__(self, recordings: Iterable[Recording] = ()) -> None:
        self._found: dict[str, _Entry] = {}
        for recording in recordings:
            self.add(recording)

    def add(self, recording: Recording) -> None:
        """The latest recording of a request counts."""
        self._put(
            fingerprint(recording.request),
            _Entry(
                recording.source, _last_text(recording.request), lambda: recording.request, lambda: recording
            ),
        )

    def add_turn(self, turn: Turn, source: str, before: Callable[[], Iterable[Json]] | None = None) -> None:
        """The replies of a turn. before: gives the messages ahead of it, where they are known."""
        recorded = turn.recorded()
        asked = _asked(turn, len(recorded))
        for number, (found, message) in enumerate(recorded):

            def request(number: int = number) -> Json:
                if before is None or not asked[number]:
                    return {}
                return {**turn.settings, "messages": [*before(), *asked[number]]}

            def recording(message: Message = message) -> Recording:
                return from_message(message, source, simulated=turn.simulated)

            question = _text(asked[number][-1]["content"]) if asked[number] else ""
            self._put(found, _Entry(source, question, request, recording))

    def _put(self, found: str, entry: _Entry) -> None:
        self._found.pop(found, None)
        self._found[found] = entry

    def __contains__(self, request_fingerprint: str) -> bool:
        return request_fingerprint in self._found

    def find(self, request_fingerprint: str) -> Recording | None:
        entry = self._found.get(request_fingerprint)
        return entry.recording() if entry is not None else None

    def __len__(self) -> int:
        return len(self._found)

    def miss(self, request: Json) -> ReplayError:
        """The error for a request that nothing answers: what differs from the nearest recording."""
        nearest = _nearest(request, list(self._found.values()))
        if nearest is None:
            return ReplayError(
                f"Nothing is recorded for this request ({len(self)} recordings are known).",
                hint="Run it once with --replay auto and a key, or name a cassette: %kimi replay only FILE.",
            )
        recorded = nearest.request()
        differs = difference(request, recorded) if recorded else "what came before the prompt, or a setting"
        return ReplayError(
            f"Nothing is recorded for this request. The nearest recording ({nearest.source}) differs in"
            f" {differs}.",
            hint="Change it back, or run the cell once with --replay auto and a key.",
        )


def _asked(turn: Turn, requests: int) -> list[tuple[Json, ...]]:
    """Of each request that the turn took, the turn's messages in it; empty where that cannot be told (a
    paused reply is one message of several requests)."""
    replies = [n for n, message in enumerate(turn.messages) if message["role"] == "assistant"]
    if len(replies) != requests:
        return [turn.sent[:1], *[()] * (requests - 1)]
    return [turn.sent[:n] for n in replies]


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
    if not isinstance(value["request"], dict):
        raise TypeError("request")
    return Recording(value["request"], chunks, int(value["status"]), headers, source)


def _as_text(data: bytes) -> Any:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _as_bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else base64.b64decode(value["base64"], validate=True)


# --- misses -------------------------------------------------------------------------------------

_COMPARED = 20  # recordings that are looked at closely


def _nearest(request: Json, entries: list[_Entry]) -> _Entry | None:
    """The recording whose last message is most like the request's; the newest of equals."""
    wanted = _last_text(request)[:2_000]
    entries = [entry for entry in entries if entry.question]
    matcher = difflib.SequenceMatcher(None, "", wanted, autojunk=False)

    def likeness(entry: _Entry) -> float:
        matcher.set_seq1(entry.question[:2_000])
        return matcher.ratio()

    def rough_likeness(entry: _Entry) -> float:
        matcher.set_seq1(entry.question[:2_000])
        return matcher.quick_ratio()

    newest_first = entries[::-1]  # which is the order of equals
    close = sorted(newest_first, key=rough_likeness, reverse=True)[:_COMPARED]
    return max(close, key=likeness, default=None)


def _last_text(request: Json) -> str:
    messages = request.get("messages") or [{}]
    return _text(messages[-1].get("content", ""))


def _text(content: Any) -> str:
    """The text of a message, and what else is in it by its kind."""
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
            is_prompt = number == len(ours) and "tool_result" not in _text(our.get("content", ""))
            place = "the prompt" if is_prompt else f"message {number} of {len(ours)}"
            return f"{place}: {_contents_differ(our.get('content'), their.get('content'))}"
    if len(ours) != len(theirs):
        return f"the number of messages: {len(ours)} here, {len(theirs)} there"
    return "the order of its fields"  # equal as JSON, and yet other bytes


def _contents_differ(ours: Any, theirs: Any) -> str:
    our_text, their_text = _text(ours), _text(theirs)
    if our_text != their_text:
        return _texts_differ(our_text, their_text)
    if isinstance(ours, list) and isinstance(theirs, list):
        for number, (a, b) in enumerate(zip(ours, theirs, strict=False), 1):
            if a != b:
                values = f"{_short(_value(a, b))} here, {_short(_value(b, a))} there"
                return f"block {number}, {a.get('type')}: {values}"
    return "the same text in other blocks"


def _value(block: Json, other: Json) -> Any:
    """What of a block is not as in the other one."""
    return {k: v for k, v in block.items() if v != other.get(k)}


def _texts_differ(ours: str, theirs: str) -> str:
    pairs = zip(ours, theirs, strict=False)
    at = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(ours), len(theirs)))
    begin = max(0, at - 20)
    return f"{_short(ours[begin : at + 40])} here, {_short(theirs[begin : at + 40])} there"


def _short(value: Any) -> str:
    if isinstance(value, str):
        return repr(value[:80])
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:79]}…"
