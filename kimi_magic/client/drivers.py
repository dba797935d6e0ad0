"""`Client` and `AsyncClient`, and the streams they open.

Two drivers of one `Exchange`: they send, read and sleep, and decide nothing. Events come up as an
iterator: the API's events, and a `retry.Attempt` before each further try. A stream closes its
connection when its `with` block ends, however it ends.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self, TypeVar

import httpx

from ..errors import ConfigError, KimiError
from ..retry import Attempt, Hosts, Policy
from ..stream import Event
from ..wire import Message, Request
from .exchange import Exchange, Limits, Setup, build_request
from .hosts import BASE_URLS, base_urls
from .keys import find_key

_T = TypeVar("_T")
_FOREIGN = (KimiError, httpx.TransportError, httpx.InvalidURL)


class _Base:
    """What both clients are made with.

    api_key: else from the environment or the keyring (see `keys`).
    base_url: one URL or several, in order of preference (see `hosts`).
    policy, limits: patience with failures and with silence.
    clock: monotonic seconds.
    """

    def __init__(
        self,
        api_key: str | None = None,
        base_url: str | Sequence[str] | None = None,
        *,
        policy: Policy | None = None,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        policy = policy or Policy()
        self._setup = Setup(
            key=find_key(api_key),
            hosts=Hosts(base_urls(base_url), policy.rest),
            policy=policy,
            limits=limits or Limits(),
            clock=clock,
            utc=time.time,
        )

    @property
    def base_urls(self) -> tuple[str, ...]:
        return self._setup.hosts.urls

    @property
    def key_source(self) -> str | None:
        """The place that the key came from, None without a key. Never the key."""
        return self._setup.key.source if self._setup.key else None

    def __repr__(self) -> str:
        key = f"key from {self.key_source}" if self.key_source else "no key"
        return f"{type(self).__name__}({self.base_urls[0]}, {key})"

    def _exchange(self, request: Request | None, stream: bool, fields: dict[str, Any]) -> Exchange:
        request = request if request is not None else build_request(stream, fields)
        request.check(any_model=self.base_urls != BASE_URLS)
        return Exchange(self._setup, request)


class Client(_Base):
    """The Messages API, blocking.

    transport: an httpx transport to send through (replay, simulator …) instead of the network.
    """

    def __init__(
        self,
        api_key: str | None = None,
        base_url: str | Sequence[str] | None = None,
        *,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        **settings: Any,
    ) -> None:
        super().__init__(api_key, base_url, **settings)
        self._sleep = sleep
        with _one_line():
            self._http = httpx.Client(transport=transport)

    def create(self, request: Request | None = None, /, **fields: Any) -> Message:
        """Ask and wait for the whole reply.

        fields: those of `wire.Request` (messages, max_tokens, effort …), or the API's own
        output_config and cache_control. Raises `RequestError` before sending, `APIError`,
        `TransportError` or `StreamError` after.
        """
        with SyncMessageStream(self._http, self._exchange(request, False, fields), self._sleep) as stream:
            for _ in stream:
                pass
            return stream.message

    def stream(self, request: Request | None = None, /, **fields: Any) -> SyncMessageStream:
        """Ask and get the reply as it comes; to be used in a `with` block and iterated.

        fields and errors as for `create`; an error's `partial` has what arrived before it.
        """
        return SyncMessageStream(self._http, self._exchange(request, True, fields), self._sleep)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class AsyncClient(_Base):
    """The Messages API for asyncio; mirrors `Client`."""

    def __init__(
        self,
        api_key: str | None = None,
        base_url: str | Sequence[str] | None = None,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(api_key, base_url, **settings)
        with _one_line():
            self._http = httpx.AsyncClient(transport=transport)

    async def create(self, request: Request | None = None, /, **fields: Any) -> Message:
        """`Client.create`, awaited."""
        async with AsyncMessageStream(self._http, self._exchange(request, False, fields)) as stream:
            async for _ in stream:
                pass
            return stream.message

    def stream(self, request: Request | None = None, /, **fields: Any) -> AsyncMessageStream:
        """`Client.stream`, for `async with` and `async for`."""
        return AsyncMessageStream(self._http, self._exchange(request, True, fields))

    async def aclose(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


class _Stream:
    """What both streams can tell while they run and after."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    @property
    def message(self) -> Message:
        """The reply so far; valid at any moment."""
        return self._exchange.message

    @property
    def attempts(self) -> int:
        """How many requests it has taken so far."""
        return self._exchange.attempt.number

    @property
    def simulated(self) -> bool:
        """The reply says that a simulator made it."""
        return self._exchange.simulated


class SyncMessageStream(_Stream):
    """One reply as it comes: iterate for `stream.Event` (and `retry.Attempt`) values."""

    def __init__(self, http: httpx.Client, exchange: Exchange, sleep: Callable[[float], None]) -> None:
        super().__init__(exchange)
        self._http = http
        self._sleep = sleep
        self._events = self._run()

    def _run(self) -> Iterator[Event | Attempt]:
        exchange = self._exchange
        while True:
            try:
                response = self._http.send(exchange.http_request(), stream=True)
                try:
                    reply = exchange.start(response)
                    for chunk in _decoded(response, response.iter_raw, response.iter_bytes):
                        yield from exchange.feed(chunk)
                        if reply.done:
                            break
                finally:
                    response.close()
                    _let_go(response)
                yield from exchange.close()
                return
            except _FOREIGN as cause:
                attempt = exchange.next_attempt(cause)
            yield attempt
            self._sleep(attempt.wait)

    def __iter__(self) -> Iterator[Event | Attempt]:
        return self._events

    def close(self) -> None:
        self._events.close()  # type: ignore[attr-defined]  # a generator

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class AsyncMessageStream(_Stream):
    """`SyncMessageStream` for `async with` and `async for`."""

    def __init__(self, http: httpx.AsyncClient, exchange: Exchange) -> None:
        super().__init__(exchange)
        self._http = http
        self._events = self._run()

    async def _run(self) -> AsyncIterator[Event | Attempt]:
        exchange = self._exchange
        while True:
            try:
                response = await self._http.send(exchange.http_request(), stream=True)
                try:
                    reply = exchange.start(response)
                    async for chunk in _decoded(response, response.aiter_raw, response.aiter_bytes):
                        for event in exchange.feed(chunk):
                            yield event
                        if reply.done:
                            break
                finally:
                    await response.aclose()
                    _let_go(response)
                for event in exchange.close():
                    yield event
                return
            except _FOREIGN as cause:
                attempt = exchange.next_attempt(cause)
            yield attempt
            await asyncio.sleep(attempt.wait)

    def __aiter__(self) -> AsyncIterator[Event | Attempt]:
        return self._events

    async def aclose(self) -> None:
        await self._events.aclose()  # type: ignore[attr-defined]  # a generator

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


def _decoded(response: httpx.Response, raw: Callable[[], _T], decoded: Callable[[], _T]) -> _T:
    """The chunks as the server cut them; through httpx's decoder only where there is something to
    decode, since it costs more than the whole parser."""
    return decoded() if "content-encoding" in response.headers else raw()


def _let_go(response: httpx.Response) -> None:
    """httpx 0.28 ties response and stream into a cycle that keeps every request's body until a
    cyclic collection (136 MB after a few turns of 16 MB): cut it."""
    if "stream" in vars(response):
        del response.stream


@contextmanager
def _one_line() -> Iterator[None]:
    """httpx reads the proxy variables when a client is made; what it finds wrong there is the
    user's to mend."""
    try:
        yield
    except ImportError:
        raise ConfigError(
            "A SOCKS proxy is set (ALL_PROXY …) and the package for it is missing.",
            hint="pip install 'httpx[socks]', or unset the variable.",
        ) from None
    except (ValueError, httpx.InvalidURL) as error:
        raise ConfigError(
            f"A proxy variable (HTTPS_PROXY, ALL_PROXY …) is not usable: {error}.", hint="Mend or unset it."
        ) from None
