"""Where the simulator meets HTTP: an httpx transport without a socket, and a server on loopback.

Both ask `Simulator.handle` and send what it says, chunk by chunk, waiting as the chunks say. A
reply that breaks becomes what the network would make of it: `httpx.RemoteProtocolError` in process,
a connection that closes inside the body over the socket. A wait longer than the client's read
timeout is `httpx.ReadTimeout`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

import httpx

from ..simulator import Reply, Simulator

_BROKEN = "peer closed connection without sending complete message body (incomplete chunked read)"
_DROPPED = "Server disconnected without sending a response."


class SimulatorTransport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """A transport for `httpx.Client` and `httpx.AsyncClient` whose server is a simulator in process.

    sleep, asleep: wait so many seconds. By default a stream that is closed meanwhile stops waiting.
    """

    def __init__(
        self,
        simulator: Simulator | None = None,
        *,
        sleep: Callable[[float], object] | None = None,
        asleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.simulator = simulator or Simulator()
        self._sleep = sleep
        self._asleep = asleep

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        reply = self._ask(request, request.read())
        stream = _SyncBody(reply, _read_timeout(request), self._sleep)
        return httpx.Response(reply.status, headers=reply.headers, stream=stream)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        reply = self._ask(request, await request.aread())
        stream = _AsyncBody(reply, _read_timeout(request), self._asleep)
        return httpx.Response(reply.status, headers=reply.headers, stream=stream)

    def _ask(self, request: httpx.Request, body: bytes) -> Reply:
        try:
            return self.simulator.handle(
                request.method, request.url.raw_path.decode("ascii"), request.headers, body
            )
        except ConnectionResetError:
            raise httpx.RemoteProtocolError(_DROPPED, request=request) from None


def _read_timeout(request: httpx.Request) -> float | None:
    """Seconds; None where the client waits for ever."""
    timeout: dict[str, float | None] = request.extensions.get("timeout", {})
    return timeout.get("read")


class _SyncBody(httpx.SyncByteStream):
    def __init__(self, reply: Reply, timeout: float | None, sleep: Callable[[float], object] | None) -> None:
        self._timeout = timeout
        self._closed = threading.Event()
        self._sleep = sleep or self._closed.wait
        self._body = self._read(reply)

    def __iter__(self) -> Iterator[bytes]:
        return self._body

    def close(self) -> None:
        """May be called from another thread, which then stops waiting at once."""
        self._closed.set()
        try:
            self._body.close()
        except ValueError:
            return  # it runs in another thread, where it finds itself closed at the next chunk

    def _read(self, reply: Reply) -> Generator[bytes, None, None]:
        try:
            for delay, chunk in reply.chunks:
                if delay > 0:
                    self._sleep(delay if self._timeout is None else min(delay, self._timeout))
                _check(self._closed.is_set(), delay, self._timeout)
                yield chunk
        except ConnectionResetError:
            raise httpx.RemoteProtocolError(_BROKEN) from None


def _check(closed: bool, delay: float, timeout: float | None) -> None:
    """Raise what a socket would have raised after that delay. Seconds."""
    if closed:
        raise httpx.ReadError("The reply was closed while it was being read.")
    if timeout is not None and delay > timeout:
        raise httpx.ReadTimeout("The simulator was silent for longer than the read timeout.")


class _AsyncBody(httpx.AsyncByteStream):
    def __init__(
        self, reply: Reply, timeout: float | None, asleep: Callable[[float], Awaitable[object]]
    ) -> None:
        self._reply, self._timeout, self._asleep = reply, timeout, asleep
        self._closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            for delay, chunk in self._reply.chunks:
                # Without any wait the loop would never see to anything else.
                await self._asleep(delay if self._timeout is None else min(delay, self._timeout))
                _check(self._closed, delay, self._timeout)
                yield chunk
        except ConnectionResetError:
            raise httpx.RemoteProtocolError(_BROKEN) from None

    async def aclose(self) -> None:
        self._closed = True


# --- over a socket ------------------------------------------------------------------------------

HOST = "127.0.0.1"
_LOCAL_NAMES = {"127.0.0.1", "localhost", "::1"}


def serve(simulator: Simulator | None = None, port: int = 0) -> Server:
    """Serve a simulator at http://127.0.0.1:PORT until `close()`; port 0 takes a free one.

    Raises `OSError` where the port is taken.
    """
    return Server(simulator or Simulator(), port)


class Server:
    """A running server on loopback, and a context manager that closes it."""

    def __init__(self, simulator: Simulator, port: int) -> None:
        self.simulator = simulator
        self._http = _HTTPServer((HOST, port), _Handler)
        self._http.simulator = simulator
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(0.05,), name="kimi-simulator", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        """The base URL, without `/v1`."""
        return f"http://{HOST}:{self.port}"

    def wait(self) -> None:
        """Return when the server has been closed."""
        self._thread.join()

    def close(self) -> None:
        """Break off what is being sent, close every connection and end every thread."""
        self._http.shutdown()
        self._http.end_connections()
        self._http.server_close()
        self._thread.join()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()


class _HTTPServer(ThreadingHTTPServer):
    daemon_threads = True  # a program that forgets to close the server can still end
    allow_reuse_address = os.name == "posix"  # on Windows it would share a port that is taken
    simulator: Simulator

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.closing = threading.Event()
        self._open: dict[threading.Thread, socket.socket] = {}
        self._lock = threading.Lock()
        super().__init__(address, handler)

    def verify_request(self, request: object, client_address: Any) -> bool:
        return str(client_address[0]).startswith("127.")

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open[threading.current_thread()] = request
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._open.pop(threading.current_thread(), None)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is no event."""

    def end_connections(self) -> None:
        self.closing.set()
        with self._lock:
            threads = dict(self._open)
        for thread, connection in threads.items():
            with contextlib.suppress(OSError):  # the client was quicker
                connection.shutdown(socket.SHUT_RDWR)
            thread.join(5)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "kimi-magic-simulator"
    sys_version = ""
    disable_nagle_algorithm = True
    server: _HTTPServer

    def _handle(self) -> None:
        host = self.headers.get("Host", HOST).rpartition(":")[0] or self.headers.get("Host", HOST)
        if host.strip("[]") not in _LOCAL_NAMES:
            # A web page whose name was bent to this address must not get an answer.
            self.send_error(403, "Only for this machine")
            return
        headers = dict(self.headers.items())
        try:
            body = self._read_body()
        except ValueError:
            self.send_error(400, "The body has no length that can be read")
            return
        try:
            self._send(self.server.simulator.handle(self.command, self.path, headers, body))
        except ConnectionError:
            self._break_off()

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _handle  # noqa: N815 - http.server's names

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            length = int(self.headers.get("Content-Length") or 0)
            if length < 0:
                raise ValueError(length)
            return self.rfile.read(length)
        parts = []
        while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # trailers
        return b"".join(parts)

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        in_chunks = self.request_version != "HTTP/1.0"  # which knows none: there the connection's end is it
        if in_chunks:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for delay, chunk in reply.chunks:
            if delay > 0:
                self._wait(delay)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk) if in_chunks else chunk)
        if in_chunks:
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = self.close_connection or not in_chunks

    def _wait(self, seconds: float) -> None:
        """Wait, but not for a client that has gone or a server that is being closed."""
        readable, _, _ = select.select([self.connection], [], [], seconds)
        if readable and not self.connection.recv(1, socket.MSG_PEEK):
            raise ConnectionAbortedError("Nobody reads this reply any more.")
        if readable and self.server.closing.wait(seconds):  # the next request is already there
            raise ConnectionAbortedError("The server is being closed.")

    def _break_off(self) -> None:
        """Close the connection without the end of the body."""
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Quiet: the one who asked sees the reply."""
