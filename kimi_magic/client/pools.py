"""One httpx client for each request of an `AsyncClient` that runs at the same time.

httpcore's pool looks through all its connections whenever a request begins or ends, asks the system about
the idle ones, gives requests that begin together the same one (all but one look again), and closes what is
idle where it has more than 20. With 64 requests at once that costs more than reading the replies, and a new
connection for nearly each of them. So a request takes a client that nobody else uses, the last one that was
given back: its pool has one connection, which mostly is still open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.request import getproxies

import httpx

from ..errors import ConfigError

_QUIET = 0.5
"""Seconds without a request after which one connection is enough."""


class Pools:
    """transport: an httpx transport of one's own, which all requests share; None for the network."""

    def __init__(self, transport: Any) -> None:
        with one_line(transport):
            self._shared = None if transport is None else httpx.AsyncClient(transport=transport)
            self._tls: Any = httpx.create_ssl_context() if self._shared is None else None
        self._idle: list[httpx.AsyncClient] = [] if self._shared else [self._made()]
        self._taken = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._later: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None
        self.is_closed = False

    def _made(self) -> httpx.AsyncClient:
        with one_line():
            return httpx.AsyncClient(verify=self._tls)  # to load the certificates takes 20 ms: once for all

    def take(self) -> httpx.AsyncClient:
        """A client for one request at a time, to be given back."""
        self._taken += 1
        self._forget()
        self._settle()
        return self._shared or (self._idle.pop() if self._idle else self._made())

    async def give_back(self, client: httpx.AsyncClient) -> None:
        """The request is over, and all that it held."""
        self._taken -= 1
        if self._shared is not None:
            return
        self._idle.append(client)
        if self.is_closed:
            await self._close_idle(0)
        elif not self._taken and len(self._idle) > 1:  # of a batch, more may come in a moment
            self._later = asyncio.get_running_loop().call_later(_QUIET, self._rest)

    async def aclose(self) -> None:
        """Close what is idle now, and the rest when it is given back."""
        self.is_closed = True
        self._forget()
        self._settle()
        if self._shared is not None:
            await self._shared.aclose()
        await self._close_idle(0)

    def _rest(self) -> None:
        self._closing = asyncio.create_task(self._close_idle(1))

    def _forget(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None

    def _settle(self) -> None:
        """Connections of an event loop that is over (`asyncio.run`) can neither be used nor closed in the
        next one: they end as garbage."""
        loop = asyncio.get_running_loop()
        if self._loop not in (None, loop):
            self._idle.clear()
        self._loop = loop

    async def _close_idle(self, kept: int) -> None:
        closing = self._idle[: len(self._idle) - kept]
        del self._idle[: len(closing)]
        for client in closing:
            await client.aclose()


@contextmanager
def one_line(transport: Any = None) -> Iterator[None]:
    """httpx reads the proxy variables when a client is made; what it finds wrong there is the
    user's to mend. transport: with one of one's own they are not read."""
    try:
        if transport is None:
            _check_ports(getproxies())
        yield
    except ImportError:
        raise ConfigError(
            "A SOCKS proxy is set (ALL_PROXY …) and the package for it is missing.",
            hint="pip install 'httpx[socks]', or unset the variable.",
        ) from None
    except OSError as error:
        raise ConfigError(
            f"The certificates cannot be read ({error}).", hint="Check SSL_CERT_FILE and SSL_CERT_DIR."
        ) from None
    except (ValueError, httpx.InvalidURL) as error:
        raise ConfigError(
            f"A proxy variable (HTTPS_PROXY, ALL_PROXY, NO_PROXY …) is not usable: {error}.",
            hint="Mend or unset it.",
        ) from None


def _check_ports(proxies: Mapping[str, str]) -> None:
    """Raise ValueError for a port that there is not: a socket would take another one, or fail in its own
    way."""
    for name in ("http", "https", "all"):
        url = proxies.get(name, "")
        port = httpx.URL(url if "://" in url else f"http://{url}").port
        if port is not None and port >= 2**16:
            raise ValueError(f"Invalid port: '{port}'")
