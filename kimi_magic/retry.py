"""What to try next: a generator of attempts over the base URLs. No clock, no sleep, no I/O.

`attempts()` yields an `Attempt` and is sent the failure of it; it yields the next one, or raises
the failure when trying again is no use. A driver of a few lines pumps it (`client`), the same for
sync and async.

Rules:

- nothing is tried again once any of the reply was shown;
- retryable are failures of the connection, 408, 409, 429, 5xx, an overloaded event before content,
  an empty reply; final are a spent quota and every other 4xx;
- the server's own wait (`retry-after-ms`, `Retry-After`) counts, up to `max_wait`; else the wait
  doubles from `first_wait`, less up to a quarter by chance, so that many clients do not come back together
  and yet each wait is longer than the one before;
- a host that cannot be reached hands over to the next at once and is left alone for a while
  (`Hosts`); an answer of 5xx hands over after the wait; 429 stays, because the account is the same;
- a kept-alive connection that the server had closed meanwhile is opened again once, at once;
- silence is paid for in minutes (`client.Limits`), not in seconds as a refusal is: after one more try, on
  the next host where there is one, the second silence is the end.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from .errors import (
    APIError,
    ConnectError,
    GatewayError,
    KimiError,
    QuotaError,
    RateLimitError,
    ServerError,
    StreamError,
    TimeoutError,
)


@dataclass(frozen=True, slots=True)
class Policy:
    """How patient to be. Waits in seconds."""

    tries: int = 4
    """Attempts in all, the first one included."""
    silences: int = 1
    """Attempts that may follow a silence."""
    first_wait: float = 0.5
    max_wait: float = 60.0
    """No wait is longer, whatever the server asks."""
    rest: float = 60.0
    """How long a host that could not be reached is left alone."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One thing to try: wait so long, then send to `base_url`."""

    base_url: str
    wait: float = 0.0
    number: int = 1
    cause: KimiError | None = None
    """Why the attempt before failed; None for the first."""

    type = "retry"
    """Named like the API's events, among which it appears (`Client.stream`)."""


@dataclass(slots=True)
class Hosts:
    """The base URLs in order of preference, and which of them are left alone until when."""

    urls: tuple[str, ...]
    rest: float = 60.0
    _until: dict[str, float] = field(default_factory=dict)

    def order(self, now: float) -> tuple[str, ...]:
        """Those that rest go last, the one that has rested longest first among them. now: seconds on
        the clock that `failed` was told."""
        return tuple(sorted(self.urls, key=lambda url: max(self._until.get(url, now), now)))

    def failed(self, url: str, now: float) -> None:
        self._until[url] = now + self.rest

    def answered(self, url: str) -> None:
        self._until.pop(url, None)


def attempts(
    urls: tuple[str, ...],
    policy: Policy,
    jitter: Callable[[], float],
) -> Generator[Attempt, KimiError, None]:
    """Yield what to try; be sent what went wrong. jitter: random numbers in 0…1."""
    place = 0
    reopened = False
    failure = yield Attempt(urls[0])
    number, silences, backoff = 1, 0, policy.first_wait
    while is_retryable(failure):
        silences += isinstance(failure, TimeoutError)
        stale = isinstance(failure, ConnectError) and failure.stale and not reopened
        if stale:
            reopened = True
        else:
            number += 1
        if number > policy.tries or silences > policy.silences:
            break
        hand_over = not stale and isinstance(failure, (ConnectError, TimeoutError, ServerError, GatewayError))
        place = (place + hand_over) % len(urls)
        wait = 0.0
        if not stale and not (isinstance(failure, ConnectError) and place):
            wait = _wait(failure, backoff * (0.75 + jitter() / 4), policy.max_wait)
            backoff *= 2
        failure = yield Attempt(urls[place], wait, number, failure)
    raise failure


def is_retryable(failure: KimiError) -> bool:
    """Whether the same request may be sent again."""
    if failure.partial is not None and not failure.partial.is_empty:
        return False
    if isinstance(failure, QuotaError):
        return False
    if isinstance(failure, (RateLimitError, ServerError, ConnectError, TimeoutError, StreamError)):
        return True
    return isinstance(failure, APIError) and _passes(failure.status)


def _passes(status: int | None) -> bool:
    """Whether what this HTTP status tells of may be over in a moment."""
    return status in (408, 409, 429) or (status is not None and status >= 500)


def _wait(failure: KimiError, backoff: float, longest: float) -> float:
    asked = failure.retry_after if isinstance(failure, APIError) else None
    return min(longest, backoff if asked is None else asked)
