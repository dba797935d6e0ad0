"""Ending a blocking read from another thread.

A thread that waits in `recv` wakes up when its socket is shut down, and only then. So a `Line` knows
the socket that one request may be waiting on: httpcore tells of each new connection through its
`trace` extension, and a reply carries its own. In between, while a connection that was used before
waits for the next reply, all that is known is that it is one of the client's idle ones: then they are
all shut down. Another request that was just sent on one of them finds a stale connection, which is
opened again (`retry`).
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from weakref import WeakSet

import httpx


class Lines:
    """The idle connections of one client."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: WeakSet[Any] = WeakSet()  # httpcore's network streams

    def take(self, stream: Any) -> None:
        with self._lock:
            self._idle.discard(stream)

    def give_back(self, stream: Any) -> None:
        with self._lock:
            self._idle.add(stream)

    def idle(self) -> list[Any]:
        with self._lock:
            return list(self._idle)


class Line:
    """The connection of one request, to be `cut` at any time by any thread."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._stream: Any = None  # httpcore's network stream, or the body of a transport of one's own
        self.is_cut = threading.Event()

    def trace(self, name: str, info: Mapping[str, Any]) -> None:
        """httpcore's `trace` extension: a new connection stands."""
        if name.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._hold(info["return_value"])

    def answered(self, response: httpx.Response) -> None:
        stream = response.extensions.get("network_stream", response.stream)
        self._lines.take(stream)
        self._hold(stream)

    def ended(self) -> None:
        """The reply is over; its connection may serve another request."""
        stream, self._stream = self._stream, None
        if stream is not None and not isinstance(stream, httpx.SyncByteStream):
            self._lines.give_back(stream)

    def cut(self) -> None:
        self.is_cut.set()
        stream = self._stream
        for each in self._lines.idle() if stream is None else [stream]:
            _end(each)

    def _hold(self, stream: Any) -> None:
        self._stream = stream
        if self.is_cut.is_set():
            _end(stream)


def _end(stream: Any) -> None:
    if isinstance(stream, httpx.SyncByteStream):
        stream.close()
        return
    sock = stream.get_extra_info("socket")
    if isinstance(sock, socket.socket):
        with suppress(OSError):  # it is closed already
            socket.socket.shutdown(sock, socket.SHUT_RDWR)  # below TLS, which another thread is reading
