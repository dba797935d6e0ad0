"""A raw HTTP server on loopback that says exactly the bytes it is told to.

    with Loopback([Answer(b"HTTP/1.1 200 OK ...")]) as server:
        ... server.url, server.requests

The n-th request gets the n-th answer, whichever connection it comes on; the last answer is for all
that follow. At the end of the block the API page judges the requests, unless the test means to send
something else (`judges=False`).
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

import httpx
from contract import breach

_CONTEXT = httpx.create_ssl_context()


def network() -> httpx.HTTPTransport:
    """The transport that `Client` makes by itself; reading the certificates anew each time takes longer
    than a whole test."""
    return httpx.HTTPTransport(verify=_CONTEXT)


def anetwork() -> httpx.AsyncHTTPTransport:
    return httpx.AsyncHTTPTransport(verify=_CONTEXT)


@dataclass(frozen=True)
class Answer:
    data: bytes
    step: int | None = None
    """Bytes for one `send`; None for all of them."""
    after: str = "close"
    """What the connection does next: close, reset, keep (serve another request), hold (stay open, say
    nothing)."""
    pause: float = 0.0
    """Seconds between two sends."""


@dataclass
class Received:
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def is_question(self) -> bool:
        """It asks for a message, and all of it has come; `{}` is a knock at the door (`client.reach`)."""
        whole = len(self.body) == int(self.headers.get("content-length", 0)) > 0
        return whole and self.body != b"{}" and self.path.partition("?")[0].endswith("/v1/messages")


def http(body: bytes | str | dict[str, Any], status: str = "200 OK", **headers: str) -> bytes:
    """One whole response with a content length. Underscores in header names become dashes."""
    if isinstance(body, dict):
        body = json.dumps(body)
    body = body.encode() if isinstance(body, str) else body
    named = {"content-type": "text/event-stream", "content-length": str(len(body))}
    named |= {k.replace("_", "-"): v for k, v in headers.items()}
    head = "".join(f"{k}: {v}\r\n" for k, v in named.items() if v)
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body


def chunked(*parts: bytes, end: bool = True, **headers: str) -> bytes:
    """A response whose body is sent in HTTP chunks."""
    body = b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in parts) + (b"0\r\n\r\n" if end else b"")
    head = http(b"", content_length="", transfer_encoding="chunked", **headers)
    return head + body


@dataclass
class Loopback:
    answers: list[Answer]
    requests: list[Received] = field(default_factory=list)
    connections: int = 0
    judges: bool = True
    """Holds every whole request for a message against the API page."""

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self.threads: list[threading.Thread] = []
        """One for each connection."""
        self.arrived = threading.Semaphore(0)
        """Released once for each request."""
        self.over = threading.Semaphore(0)
        """Released once for each connection that has ended, whoever ended it."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._acceptor.start()
        return self

    def __exit__(self, failed: type[BaseException] | None, *rest: object) -> None:
        self._close()
        if self.judges and failed is None:
            for request in self.requests:
                fault = breach(request.body) if request.is_question else ""
                assert not fault, fault

    def _close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in tuple(self._open):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in [self._acceptor, *self.threads]:
            thread.join(5)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open.add(sock)
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(sock, self.connections), daemon=True)
            self.threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket, number: int) -> None:
        try:
            with suppress(ConnectionError, TimeoutError), sock.makefile("rb") as reader:
                while (request := _read(reader, number)) is not None and self._answer(sock, request):
                    pass
        finally:
            self._open.discard(sock)
            sock.close()
            self.over.release()

    def _answer(self, sock: socket.socket, request: Received) -> bool:
        """Say the next answer; whether the connection goes on."""
        with self._lock:
            answer = self.answers[min(len(self.requests), len(self.answers) - 1)]
            self.requests.append(request)
        self.arrived.release()
        step = answer.step or max(1, len(answer.data))
        for i in range(0, len(answer.data), step):
            sock.sendall(answer.data[i : i + step])
            time.sleep(answer.pause)
        if answer.after == "hold":
            sock.recv(1)  # until the other side closes
        elif answer.after == "reset":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return answer.after == "keep"


def _read(reader: Any, connection: int) -> Received | None:
    first = reader.readline()
    if not first:
        return None
    headers = {}
    while (line := reader.readline()) not in (b"\r\n", b""):
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    body = reader.read(int(headers.get("content-length", 0)))
    return Received(first.split()[1].decode("latin-1"), headers, body, connection)
