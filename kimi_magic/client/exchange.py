"""What the sync and the async driver share: one `Exchange` a request, without any I/O of its own.

It turns a `wire.Request` into the HTTP request of an attempt, keeps the `Reply` of the attempt, and
makes every foreign error ours, with the key taken out of its text. What is left for a driver is to
send, to read and to sleep.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from .. import retry
from ..errors import ConfigError, ConnectError, KimiError, TimeoutError
from ..keys import Key
from ..stream import Event, Reply
from ..wire import Message, Request, grouped

SIMULATED = "x-kimi-simulator"
"""Header by which a simulator marks its replies."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Times in seconds. The first event of a reply can take minutes at effort max."""

    connect: float = 15.0
    silence: float = 600.0
    """Without a single byte."""
    progress: float = 1800.0
    """With nothing but pings."""
    ending: float = 0.1
    """From the end of the reply to the end of its HTTP body, after which the connection can serve the next
    request; it is closed sooner than waited for."""

    def timeout(self) -> httpx.Timeout:
        """httpx's own, for one attempt; a place in the pool is waited for without limit."""
        return httpx.Timeout(self.silence, connect=self.connect, pool=None)


@dataclass(slots=True)
class Setup:
    """All that a client was made with."""

    key: Key | None
    hosts: retry.Hosts
    policy: retry.Policy
    limits: Limits
    clock: Callable[[], float]
    """Seconds, monotonic."""
    utc: Callable[[], float]
    """Seconds since 1970."""
    headers: dict[str, str] = field(default_factory=dict)


class _Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A request's bytes. `clear` frees them, whoever still holds the request then (a traceback, the cycle
    that httpx ties)."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    def __len__(self) -> int:
        return sum(map(len, self._pieces))

    def __iter__(self) -> Iterator[bytes]:
        return grouped(self._pieces)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for group in self:
            yield group

    def clear(self) -> None:
        self._pieces = []


class Exchange:
    """One request and its attempts. `attempt` is what to do now; `reply` is what came of it."""

    def __init__(self, setup: Setup, request: Request) -> None:
        self._setup = setup
        self._body = _Body(request.pieces())
        self._plan = retry.attempts(setup.hosts.order(setup.clock()), setup.policy, random.random)
        self.attempt = next(self._plan)
        self.reply: Reply | None = None
        self.sent = 0
        """How many requests it has taken so far."""

    @property
    def message(self) -> Message:
        return self.reply.message if self.reply is not None else Message()

    @property
    def limits(self) -> Limits:
        return self._setup.limits

    @property
    def simulated(self) -> bool:
        return self.reply is not None and SIMULATED in self.reply.headers

    def http_request(self, **extensions: Any) -> httpx.Request:
        """The attempt's request, ready to be sent. extensions: further ones of httpx."""
        self.sent += 1
        url = httpx.URL(f"{self.attempt.base_url}/v1/messages")
        headers = {
            "host": url.netloc.decode("ascii"),
            "content-type": "application/json",
            "content-length": str(len(self._body)),
            "accept": "text/event-stream, application/json",
            "accept-encoding": "identity",  # a proxy that compresses a stream holds it back
            "user-agent": "kimi-magic",
        }
        if self._setup.key is not None:
            headers["authorization"] = self._setup.key.authorization()
        return httpx.Request(
            "POST",
            url,
            headers=headers | self._setup.headers,
            stream=self._body,
            extensions={"timeout": self._setup.limits.timeout().as_dict(), **extensions},
        )

    def start(self, response: httpx.Response) -> Reply:
        """The head of the reply has come."""
        self._setup.hosts.answered(self.attempt.base_url)
        self.reply = Reply(
            response.status_code,
            response.headers,
            now=self._setup.clock(),
            progress_limit=self._setup.limits.progress,
        )
        return self.reply

    def feed(self, chunk: bytes) -> Iterator[Event]:
        assert self.reply is not None
        return self.reply.feed(chunk, self._setup.clock())

    def close(self) -> Iterator[Event]:
        assert self.reply is not None
        return self.reply.close(self._setup.utc())

    def next_attempt(self, failure: KimiError) -> retry.Attempt:
        """What to try after `failure`; raises it where that is the end."""
        if isinstance(failure, (ConnectError, TimeoutError)) and not getattr(failure, "stale", False):
            self._setup.hosts.failed(self.attempt.base_url, self._setup.clock())
        self.attempt = self._plan.send(failure)
        self.reply = None
        return self.attempt

    def let_go(self) -> None:
        """Free the request's bytes: nothing more will be sent."""
        self._body.clear()

    def failure(self, cause: Exception) -> KimiError:
        """A foreign error as ours, and any without a piece of the key."""
        error = cause if isinstance(cause, KimiError) else self._ours(cause)
        return error if self._setup.key is None else _scrubbed(error, self._setup.key)

    def _ours(self, cause: Exception) -> KimiError:
        name = type(cause).__name__
        if self.reply is None:
            return self._no_reply(cause, name)
        if not isinstance(cause, httpx.ReadTimeout):
            return self.reply.broken(name)
        error = TimeoutError(
            f"The server fell silent for {self._setup.limits.silence:g} s inside the reply.",
            hint="What arrived is kept. Run the cell again.",
        )
        error.partial, error.request_id = self.reply.message, self.reply.request_id
        return error

    def _no_reply(self, cause: Exception, name: str) -> KimiError:
        url = self.attempt.base_url
        if isinstance(cause, (httpx.ReadTimeout, httpx.WriteTimeout)):
            return TimeoutError(
                f"{url} did not answer within {self._setup.limits.silence:g} s.", hint="Run the cell again."
            )
        if isinstance(cause, (httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.LocalProtocolError)):
            return ConfigError(
                f"{url}: the request cannot be sent{_reason(cause)}.",
                hint="Check KIMI_BASE_URL and the proxy variables.",
            )
        stale = isinstance(cause, (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError))
        said = f"{url} broke the connection off before an answer" if stale else f"No connection to {url}"
        error = ConnectError(
            f"{said} ({name}{_reason(cause)}).",
            hint="Check the network, KIMI_BASE_URL and the proxy variables.",
        )
        error.stale = stale
        return error


def _scrubbed(error: KimiError, key: Key) -> KimiError:
    """`error` without a piece of the key, which servers echo."""
    for name in ("message", "hint", "type", "request_id"):
        text = getattr(error, name, None)
        if text and key.scrub(text) != text:
            setattr(error, name, key.scrub(text))
            error.args = (f"{error.message} {error.hint}".strip(),)
    return error


def _reason(cause: Exception) -> str:
    text = " ".join(str(cause).split())
    return f": {text}" if text else ""
