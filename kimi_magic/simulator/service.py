"""The API as a function: a request's bytes in, a reply with its timed chunks out."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from threading import Lock

import msgspec

from ..errors import APIError
from ..wire import CONTEXT_WINDOW, MODELS, Json
from . import events, faults, replies, signing
from .cache import InputTokens, PrefixCache
from .checks import check_key, check_request
from .directives import Directive
from .limits import Outcome, limit
from .reading import Reading, read
from .refusals import bad_request

MARK = "x-kimi-simulator"
"""A header that every reply of the simulator has, so that nobody takes it for the model."""

Chunks = Iterator[tuple[float, bytes]]


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP reply. `chunks` can be read once: seconds to wait, then bytes to send. It raises
    `ConnectionResetError` where the connection is to break."""

    status: int
    headers: dict[str, str]
    chunks: Chunks


@dataclass(kw_only=True)
class Simulator:
    """A server of the Messages API that thinks of nothing itself. It may be used by several threads."""

    clock: Callable[[], float] = time.time
    """Seconds; the cache's time to live is measured by it."""
    speed: float = 140.0
    """Output tokens a second (about 100 English words); 0 or infinity: no waiting at all. The
    highspeed model is twice as fast."""
    chunk: int = 12
    """Characters a delta."""
    lenient: bool = False
    """Accept what other clients add to a request (see `checks`)."""
    refused_keys: Collection[str] = ()
    """API keys that are answered with 401."""
    min_cache_tokens: int = 256
    """Tokens below which a prefix is not cached."""
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)
    _requests: int = field(default=0, init=False, repr=False)
    _tries: dict[tuple[str, str], int] = field(default_factory=dict, init=False, repr=False)
    _cache: PrefixCache = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._cache = PrefixCache(self.min_cache_tokens)

    def handle(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """The reply to any HTTP request: the API under any prefix, one line at `/` and `/health`.

        Raises `ConnectionResetError` where the connection is to close without a reply.
        """
        path = target.partition("?")[0]
        if method == "POST" and path.endswith("/v1/messages") and path.count("/v1") == 1 and "//" not in path:
            return self.reply(body, headers)
        if method == "GET" and path in ("/", "/health"):
            line = b"The kimi_magic simulator. POST /v1/messages; no model answers here.\n"
            return self._reply(200, [(0.0, line)], {"content-type": "text/plain; charset=utf-8"})
        message = f"There is nothing at {method} {path}; the API is POST /v1/messages."
        return self._error(APIError(message, status=404, type="not_found_error"))

    def reply(self, body: bytes, headers: Mapping[str, str]) -> Reply:
        """The reply to `POST /v1/messages`.

        Raises `ConnectionResetError` where the connection is to close without a reply.
        """
        try:
            check_key({k.lower(): v for k, v in headers.items()}, self.refused_keys, lenient=self.lenient)
            request = _parsed(body)
            check_request(request, MODELS, lenient=self.lenient)
            return self._answer(request)
        except APIError as error:
            return self._error(error)
        except RecursionError:
            return self._error(bad_request("The body is nested too deeply."))

    def _answer(self, request: Json) -> Reply:
        content = {key: value for key, value in request.items() if key != "stream"}
        seed = hashlib.sha256(msgspec.json.encode(content)).hexdigest()
        reading = read(request, seed)
        active = [d for d in reading.fresh if d.name in _FAULTS and self._is_due(d, seed)]
        for directive in active:
            if directive.name in faults.IN_PLACE:
                return self._in_place(directive)
        outcome = _outcome(reading)
        with self._lock:
            paid = self._cache.account(request, self.clock())
        if paid.total > CONTEXT_WINDOW:
            raise bad_request(
                f"messages: the prompt has {paid.total:,} tokens, the context window {CONTEXT_WINDOW:,}."
            )
        message = _message(reading, outcome, paid)
        return (
            self._stream(message, outcome, active) if request.get("stream") else self._whole(message, active)
        )

    def _is_due(self, directive: Directive, seed: str) -> bool:
        """Whether a directive with `xN` still strikes; after a success it starts anew."""
        if directive.times is None:
            return True
        key = (seed, directive.name)
        with self._lock:
            done = self._tries.get(key, 0)
            self._tries[key] = done + 1 if done < directive.times else 0
        return done < directive.times

    def _seconds(self, model: str) -> float:
        """The time of one output token."""
        speed = self.speed * (2 if "highspeed" in model else 1)
        return 1 / speed if 0 < speed < math.inf else 0.0

    def _stream(self, message: Json, outcome: Outcome, active: list[Directive]) -> Reply:
        timed = events.stream(message, outcome, max(self.chunk, 1), self._seconds(message["model"]))
        chunks = events.encode(faults.distort(timed, active))
        headers = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
        return self._reply(200, chunks, headers)

    def _whole(self, message: Json, active: list[Directive]) -> Reply:
        wait = message["usage"]["output_tokens"] * self._seconds(message["model"])
        chunks = faults.distort_whole(wait, msgspec.json.encode(message), active)
        return self._reply(200, chunks, {"content-type": "application/json"})

    def _in_place(self, directive: Directive) -> Reply:
        if directive.name == "drop":
            raise ConnectionResetError("The connection closed before any reply, by directive.")
        if directive.name == "html":
            return self._reply(502, [(0.0, faults.HTML_PAGE)], {"content-type": "text/html; charset=utf-8"})
        if directive.name == "openai-error":
            return self._reply(429, [(0.0, faults.OPENAI_ERROR)], {"content-type": "application/json"})
        return self._error(faults.error_for(directive))

    def _error(self, error: APIError) -> Reply:
        name = self._request_id()
        body = {"type": "error", "error": {"type": error.type, "message": error.message}, "request_id": name}
        headers = {"content-type": "application/json", "request-id": name, MARK: "1"}
        if error.retry_after is not None:
            headers["retry-after"] = f"{error.retry_after:g}"
        return Reply(error.status or 500, headers, iter([(0.0, msgspec.json.encode(body))]))

    def _reply(
        self, status: int, chunks: Chunks | list[tuple[float, bytes]], headers: dict[str, str]
    ) -> Reply:
        return Reply(status, {**headers, "request-id": self._request_id(), MARK: "1"}, iter(chunks))

    def _request_id(self) -> str:
        with self._lock:
            self._requests += 1
            return f"req_simulated_{self._requests:06d}"


_FAULTS = faults.IN_PLACE | faults.ON_THE_WAY


def _parsed(body: bytes) -> Json:
    try:
        request = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"The body is not JSON: {error}") from None
    if not isinstance(request, dict):
        raise bad_request("The body must be a JSON object.")
    return request


def _outcome(reading: Reading) -> Outcome:
    request = reading.request
    return limit(replies.compose(reading), request.get("stop_sequences") or (), request["max_tokens"])


def _message(reading: Reading, outcome: Outcome, paid: InputTokens) -> Json:
    """The whole reply as the page has it."""
    searches = sum(part.block["type"] == "web_search_tool_result" for part in outcome.parts)
    return {
        "id": "msg_" + signing.token(reading.seed, "message"),
        "type": "message",
        "role": "assistant",
        "model": reading.request["model"],
        "content": [part.block for part in outcome.parts],
        "stop_reason": outcome.stop_reason,
        "stop_sequence": outcome.stop_sequence,
        "usage": {
            "input_tokens": paid.plain,
            "cache_read_input_tokens": paid.read,
            "cache_creation_input_tokens": paid.written,
            "cache_creation": {
                "ephemeral_5m_input_tokens": paid.written if paid.ttl == "5m" else 0,
                "ephemeral_1h_input_tokens": paid.written if paid.ttl == "1h" else 0,
            },
            "output_tokens": outcome.output_tokens,
            "output_tokens_details": {"thinking_tokens": outcome.thinking_tokens},
            "server_tool_use": {"web_search_requests": searches},
        },
    }
