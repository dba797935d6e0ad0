"""Faults on demand: errors in place of a reply, and replies that go wrong on their way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from ..errors import (
    APIError,
    AuthenticationError,
    BadRequestError,
    OverloadedError,
    QuotaError,
    RateLimitError,
    ServerError,
)
from ..wire import Json
from .directives import Directive

Timed = tuple[float, Json | bytes]
"""Seconds to wait, then an event, or bytes that are sent as they are."""

HTML_PAGE = (
    b"<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body>502 Bad Gateway</body></html>"
)
OPENAI_ERROR = (
    b'{"error": {"message": "Too many requests, by directive.", "type": "rate_limit_reached_error"}}'
)

_IN_PLACE: dict[str, tuple[type[APIError], int, str, str]] = {
    "bad-request": (BadRequestError, 400, "invalid_request_error", "messages: refused by directive."),
    "unauthorized": (
        AuthenticationError,
        401,
        "authentication_error",
        "Authorization: key refused by directive.",
    ),
    "forbidden": (
        AuthenticationError,
        403,
        "permission_error",
        "model: not allowed for this key, by directive.",
    ),
    "rate-limited": (RateLimitError, 429, "rate_limit_error", "Too many requests, by directive."),
    "quota": (QuotaError, 429, "exceeded_current_quota_error", "The account's quota is spent, by directive."),
    "server-error": (ServerError, 500, "api_error", "Internal server error, by directive."),
    "overloaded": (OverloadedError, 529, "overloaded_error", "Overloaded, by directive."),
}
IN_PLACE = {*_IN_PLACE, "html", "openai-error", "drop"}
"""Directives that leave no reply at all."""


def error_for(directive: Directive) -> APIError:
    """The documented error of one of the directives with an API error of their own."""
    cls, status, kind, message = _IN_PLACE[directive.name]
    wait = directive.number(1) if directive.name == "rate-limited" else None
    return cls(message, status=status, type=kind, retry_after=wait)


def distort(events: Iterator[Timed], active: Iterable[Directive]) -> Iterator[Timed]:
    """The stream with its faults. A broken connection is a `ConnectionResetError` on the way."""
    for directive in active:
        if directive.name in _ON_THE_WAY:
            events = _ON_THE_WAY[directive.name](events, directive)
    return events


def _halves(events: Iterator[Timed]) -> tuple[list[Timed], list[Timed]]:
    """Before and after the middle delta, so that something has been shown and something is missing."""
    every = list(events)
    deltas = [
        n for n, (_, e) in enumerate(every) if isinstance(e, dict) and e["type"] == "content_block_delta"
    ]
    text = [n for n in deltas if _delta(every[n][1]) in ("text_delta", "input_json_delta")] or deltas or [1]
    middle = text[len(text) // 2]
    return every[:middle], every[middle:]


def _delta(event: Json | bytes) -> str:
    return str(event["delta"]["type"]) if isinstance(event, dict) else ""


def _error_event(directive: Directive) -> Json:
    kind = directive.word("overloaded_error")
    return {
        "type": "error",
        "error": {"type": kind, "message": f"The stream failed with {kind}, by directive."},
    }


def _early_error(events: Iterator[Timed], directive: Directive) -> Iterator[Timed]:
    yield next(events)
    yield 0.0, _error_event(directive)


def _stream_error(events: Iterator[Timed], directive: Directive) -> Iterator[Timed]:
    before, _ = _halves(events)
    yield from before
    yield 0.0, _error_event(directive)


def _cut(events: Iterator[Timed], _: Directive) -> Iterator[Timed]:
    yield from _halves(events)[0]


def _broken(events: Iterator[Timed], _: Directive) -> Iterator[Timed]:
    yield from _halves(events)[0]
    yield 0.0, b"event: content_block_delta\ndata: {"
    raise ConnectionResetError("The connection broke, by directive.")


def _garbled(events: Iterator[Timed], _: Directive) -> Iterator[Timed]:
    before, after = _halves(events)
    yield from before
    yield 0.0, b'event: content_block_delta\ndata: {"type": "content_block_delta", "index": \n\n'
    yield from after


def _slow(events: Iterator[Timed], directive: Directive) -> Iterator[Timed]:
    delay, first = next(events)
    yield delay + directive.number(5), first
    yield from events


def _silence(events: Iterator[Timed], directive: Directive) -> Iterator[Timed]:
    before, after = _halves(events)
    yield from before
    delay, first = after[0]
    yield delay + directive.number(3600), first
    yield from after[1:]


def _pings(events: Iterator[Timed], directive: Directive) -> Iterator[Timed]:
    yield next(events)
    for _ in range(int(directive.number(5))):
        yield 1.0, {"type": "ping"}
    yield from events


def _unknown(events: Iterator[Timed], _: Directive) -> Iterator[Timed]:
    yield next(events)
    yield 0.0, {"type": "gateway_note", "note": "An event of a kind that nobody knows."}
    yield from events


_ON_THE_WAY: dict[str, Callable[[Iterator[Timed], Directive], Iterator[Timed]]] = {
    "early-error": _early_error,
    "stream-error": _stream_error,
    "cut": _cut,
    "broken": _broken,
    "garbled": _garbled,
    "slow": _slow,
    "silence": _silence,
    "pings": _pings,
    "unknown": _unknown,
}
ON_THE_WAY = set(_ON_THE_WAY)


def distort_whole(wait: float, body: bytes, active: Iterable[Directive]) -> Iterator[tuple[float, bytes]]:
    """The same faults for a reply that comes whole: half a body, a body that is no JSON, an error."""
    names = {directive.name: directive for directive in active}
    half = len(body) // 2
    wait += sum(names[name].number(seconds) for name, seconds in (("slow", 5), ("pings", 5)) if name in names)
    failing = names.get("early-error") or names.get("stream-error")
    if failing:
        yield wait, msgspec.json.encode(_error_event(failing))
    elif "cut" in names or "broken" in names:
        yield wait, body[:half]
        if "broken" in names:
            raise ConnectionResetError("The connection broke, by directive.")
    elif "garbled" in names:
        yield wait, body[:half] + b"\x00" + body[half:]
    elif "silence" in names:
        yield wait, body[:half]
        yield names["silence"].number(3600), body[half:]
    else:
        yield wait, body
