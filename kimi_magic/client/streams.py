"""One reply as it comes, blocking and async.

Two drivers of one `Exchange`: they send, read and sleep, and decide nothing. Events come up as an
iterator: the API's events, and a `retry.Attempt` before each further try. A stream closes its
connection when its `with` block ends, however it ends.
"""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Self

import httpx

from ..errors import KimiError
from ..retry import Attempt
from ..stream import Event
from ..wire import Message
from .exchange import Exchange
from .lines import Line
from .pools import Pools

_FOREIGN = (KimiError, httpx.TransportError, httpx.DecodingError, httpx.InvalidURL)
_REST = 16
"""Chunks that may follow the end of the reply."""


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
        return self._exchange.sent

    @property
    def simulated(self) -> bool:
        """The reply says that a simulator made it."""
        return self._exchange.simulated


class SyncMessageStream(_Stream):
    """One reply as it comes: iterate for `stream.Event` (and `retry.Attempt`) values."""

    def __init__(
        self, http: httpx.Client, exchange: Exchange, line: Line, sleep: Callable[[float], object] | None
    ) -> None:
        super().__init__(exchange)
        self._http = http
        self._line = line
        self._sleep = sleep or line.is_cut.wait
        self._events = self._run()

    def _run(self) -> Iterator[Event | Attempt]:
        exchange = self._exchange
        try:
            while not self._line.is_cut.is_set():
                try:
                    yield from self._once()
                    return
                except _FOREIGN as cause:
                    failure = exchange.failure(cause)
                if not self._line.is_cut.is_set():
                    yield exchange.next_attempt(failure)
                    self._sleep(exchange.attempt.wait)
        finally:
            exchange.let_go()

    def _once(self) -> Iterator[Event]:
        exchange = self._exchange
        response = self._http.send(exchange.http_request(trace=self._line.trace), stream=True)
        try:
            self._line.answered(response)
            reply = exchange.start(response)
            chunks = _chunks(response)
            for chunk in chunks:
                yield from exchange.feed(chunk)
                if reply.done:
                    _read_out(response, exchange.limits.ending)
                    break
        finally:
            response.close()
            self._line.ended()
            _let_go(response)
        yield from exchange.close()

    def cancel(self) -> None:
        """End the iteration, from any thread and wherever it waits (only a connection that is just
        being made runs into its own time limit). No error: `message` has what arrived."""
        self._line.cut()

    def __iter__(self) -> Iterator[Event | Attempt]:
        return self._events

    def close(self) -> None:
        """End it, from the thread that iterates."""
        self._events.close()  # type: ignore[attr-defined]  # a generator

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class AsyncMessageStream(_Stream):
    """`SyncMessageStream` for `async with` and `async for`; cancel its task to end it early."""

    def __init__(self, pools: Pools, exchange: Exchange, sleep: Callable[[float], Awaitable[object]]) -> None:
        super().__init__(exchange)
        self._pools = pools
        self._sleep = sleep
        self._events = self._run()

    async def _run(self) -> AsyncIterator[Event | Attempt]:
        exchange, http = self._exchange, self._pools.take()
        try:
            while True:
                try:
                    response = await http.send(exchange.http_request(), stream=True)
                    try:
                        reply = exchange.start(response)
                        chunks = _achunks(response)
                        async for chunk in chunks:
                            for event in exchange.feed(chunk):
                                yield event
                            if reply.done:
                                await _aread_out(chunks, exchange.limits.ending)
                                break
                    finally:
                        await response.aclose()
                        _let_go(response)
                    for event in exchange.close():
                        yield event
                    return
                except _FOREIGN as cause:
                    failure = exchange.failure(cause)
                yield exchange.next_attempt(failure)
                await self._sleep(exchange.attempt.wait)
        finally:
            exchange.let_go()
            await self._pools.give_back(http)

    def __aiter__(self) -> AsyncIterator[Event | Attempt]:
        return self._events

    async def aclose(self) -> None:
        """End it, from the task that iterates."""
        await self._events.aclose()  # type: ignore[attr-defined]  # a generator

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


def _chunks(response: httpx.Response) -> Iterator[bytes]:
    """The body as the server cut it; through httpx's decoder only where there is something to decode,
    since its layers cost more than the whole parser."""
    return response.iter_bytes() if "content-encoding" in response.headers else iter(_raw(response))


def _achunks(response: httpx.Response) -> AsyncIterator[bytes]:
    return response.aiter_bytes() if "content-encoding" in response.headers else aiter(_araw(response))


def _raw(response: httpx.Response) -> httpx.SyncByteStream:
    assert isinstance(response.stream, httpx.SyncByteStream)
    return response.stream


def _araw(response: httpx.Response) -> httpx.AsyncByteStream:
    assert isinstance(response.stream, httpx.AsyncByteStream)
    return response.stream


def _read_out(response: httpx.Response, seconds: float) -> None:
    """Take the end of the body, so that the connection can serve the next request, but wait no more
    than a moment for it: httpcore looks the timeout up again for each iteration of the stream."""
    if "network_stream" in response.extensions:  # else it is a transport of one's own
        response.request.extensions["timeout"]["read"] = seconds
        with suppress(httpx.TransportError, httpx.StreamError):  # some can be read only once
            for _ in zip(range(_REST), _raw(response), strict=False):
                pass


async def _aread_out(chunks: AsyncIterator[bytes], seconds: float) -> None:
    """The same; here a wait that is cut off also ends the generators that httpx puts into each other,
    which would else be left to the loop."""
    with suppress(httpx.TransportError, httpx.DecodingError, builtins.TimeoutError):
        async with asyncio.timeout(seconds):
            async for _ in chunks:
                pass


def _let_go(response: httpx.Response) -> None:
    """httpx 0.28 ties response and stream into a cycle, which would wait for a cyclic collection with
    all that hangs on it: cut it."""
    if "stream" in vars(response):
        del response.stream
