"""`Client` and `AsyncClient`: what they are made with, and the two ways to ask."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Self

import httpx

from ..errors import ConfigError, RequestError
from ..keys import Key
from ..retry import Hosts, Policy
from ..wire import Message, Request
from .defaults import choose_server
from .exchange import Exchange, Limits, Setup
from .fields import build_request
from .hosts import BASE_URLS
from .lines import Line, Lines
from .logs import keep_out
from .pools import Pools, one_line
from .streams import AsyncMessageStream, SyncMessageStream


class _Base:
    """What both clients are made with (see `Client`)."""

    def __init__(
        self,
        api_key: str | Key | None = None,
        base_url: str | Sequence[str] | None = None,
        replay: str | Path | None = None,
        *,
        transport: Any = None,
        policy: Policy | None = None,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        policy = policy or Policy()
        server = choose_server(api_key, base_url, transport, replay)
        if server.key is not None:
            keep_out(server.key)
        self._transport = server.transport
        self._setup = Setup(
            key=server.key,
            hosts=Hosts(server.urls, policy.rest),
            policy=policy,
            limits=limits or Limits(),
            clock=clock,
            utc=time.time,
        )

    @property
    def base_urls(self) -> tuple[str, ...]:
        """Where requests go, in order of preference, without `/v1/messages`."""
        return self._setup.hosts.urls

    @property
    def key_source(self) -> str | None:
        """The place that the key came from, None without a key. Never the key."""
        return self._setup.key.source if self._setup.key else None

    def __repr__(self) -> str:
        key = f"key from {self.key_source}" if self.key_source else "no key"
        return f"{type(self).__name__}({self.base_urls[0]}, {key})"

    def _exchange(self, request: Request | None, fields: dict[str, Any], closed: bool) -> Exchange:
        if closed:
            raise ConfigError("This client is closed.", hint="Make a new one.")
        if request is not None and fields:
            raise RequestError(f"{next(iter(fields))}: stands beside a whole Request; give one or the other.")
        if request is not None and not isinstance(request, Request):
            raise RequestError(
                f"A question is given as messages, not as a value of type {type(request).__name__}.",
                hint='create(messages=[{"role": "user", "content": "…"}], max_tokens=1024); stream likewise.',
            )
        request = request if request is not None else build_request(fields)
        self.check(request)
        return Exchange(self._setup, request)

    def check(self, request: Request) -> None:
        """Raise `RequestError` for what the API page rules out. Other models pass where the base URL
        is one's own."""
        request.check(any_model=self.base_urls != BASE_URLS)


class Client(_Base):
    """The Messages API, blocking. Close it, or use it in a `with` block.

    api_key: else `KIMI_API_KEY`, `EVOLINK_API_KEY` or the system keyring (see `keys`).
    base_url: one URL or several, in order of preference; else `KIMI_BASE_URL`, else the API's two hosts
        (see `hosts`).
    replay: a cassette; it answers, and nothing is asked.
    sleep: waits so many seconds between two attempts.
    settings: transport, an httpx transport to send through instead of the network; policy and limits, the
        patience with failures (`retry.Policy`) and with silence (`Limits`), in seconds; clock, monotonic
        seconds.

    Without a key, a base URL and a transport the embedded simulator answers, and says so (see `defaults`).
    Raises `ConfigError` for a key, a URL or a variable that cannot be used, `ReplayError` for a cassette that
    cannot be read.
    """

    def __init__(
        self,
        api_key: str | Key | None = None,
        base_url: str | Sequence[str] | None = None,
        replay: str | Path | None = None,
        *,
        sleep: Callable[[float], object] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(api_key, base_url, replay, **settings)
        self._sleep = sleep
        self._lines = Lines()
        with one_line(self._transport):
            self._http = httpx.Client(transport=self._transport)

    def create(self, request: Request | None = None, /, **fields: Any) -> Message:
        """Ask and wait for the whole reply.

        request: a ready `wire.Request`, in place of all fields.
        fields: messages (objects with role and content, which is text or blocks, also as they came in a
            reply), max_tokens (1 to 1,048,576, thinking included; 32,768), model, system, tools,
            tool_choice, stop_sequences, output_config and cache_control as the API page has them; effort,
            schema and cache_ttl are short for output_config.effort, output_config.format.schema and
            cache_control.ttl.

        It is streamed all the same, unless `stream=False` is among the fields: minutes of thinking without
        a byte look like a dead connection to what stands between. Raises `RequestError` before sending,
        `APIError`, `TransportError` or `StreamError` after.
        """
        with self.stream(request, **fields) as stream:
            for _ in stream:
                pass
            return stream.message

    def stream(self, request: Request | None = None, /, **fields: Any) -> SyncMessageStream:
        """Ask and get the reply as it comes; to be used in a `with` block and iterated.

        fields and errors as for `create`; an error's `partial` has what arrived before it.
        """
        exchange = self._exchange(request, fields, self._http.is_closed)
        return SyncMessageStream(self._http, exchange, Line(self._lines), self._sleep)

    def close(self) -> None:
        """Close the idle connections; what still streams breaks off."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class AsyncClient(_Base):
    """The Messages API for asyncio; mirrors `Client`, and is made with the same. sleep is awaited here."""

    def __init__(
        self,
        api_key: str | Key | None = None,
        base_url: str | Sequence[str] | None = None,
        replay: str | Path | None = None,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        **settings: Any,
    ) -> None:
        super().__init__(api_key, base_url, replay, **settings)
        self._sleep = sleep
        self._pools = Pools(self._transport)

    async def create(self, request: Request | None = None, /, **fields: Any) -> Message:
        """`Client.create`, awaited."""
        async with self.stream(request, **fields) as stream:
            async for _ in stream:
                pass
            return stream.message

    def stream(self, request: Request | None = None, /, **fields: Any) -> AsyncMessageStream:
        """`Client.stream`, for `async with` and `async for`."""
        exchange = self._exchange(request, fields, self._pools.is_closed)
        return AsyncMessageStream(self._pools, exchange, self._sleep)

    async def aclose(self) -> None:
        """Close the idle connections; what still streams ends by itself."""
        await self._pools.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()
