"""Replies from recordings, without a socket: piece by piece in their own time, or at once.

`ReplayTransport` answers a request that its library has, marks the reply with the header
`x-kimi-replayed`, and raises `ReplayError` for any other, saying what differs from the nearest
recording. `RecordTransport` sends a request on and writes what comes back to a cassette.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx

from ..errors import KimiError, ReplayError, StoreError
from ..keys import Key
from ..recordings import KEPT_HEADERS, Library, Recording, from_lines, to_line
from ..stream import Reply
from ..wire import Json, fingerprint

REPLAYED = "x-kimi-replayed"
"""Header by which a recording marks itself."""


def read_cassette(path: Path) -> list[Recording]:
    """The recordings of a file. Raises `ReplayError` where it cannot be read."""
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        raise ReplayError(f"The cassette {path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ReplayError(f"The cassette {path} is not UTF-8 text.") from None
    return from_lines(lines, path.name)


class ReplayTransport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Answers from `library`, or from the cassette of that name. speed: 1 in the recording's own time,
    2 twice as fast, 0 at once."""

    def __init__(self, library: Library | Path | str, speed: float = 1.0) -> None:
        self.recordings = library if isinstance(library, Library) else Library(read_cassette(Path(library)))
        self.speed = speed

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._response(_body(request.read()))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return self._response(_body(await request.aread()))

    def _response(self, request: Json) -> httpx.Response:
        found = self.recordings.find(fingerprint(request))
        if found is None:
            raise self.recordings.miss(request)
        headers = {**found.headers, REPLAYED: "1"}
        return httpx.Response(found.status, headers=headers, stream=_Played(found, self.speed))


class _Played(httpx.SyncByteStream, httpx.AsyncByteStream):
    """Also a stream that is closed from another thread ends at once."""

    def __init__(self, recording: Recording, speed: float) -> None:
        self._chunks = recording.chunks
        self._scale = 1 / speed if speed > 0 else 0.0
        self._closed = threading.Event()

    def __iter__(self) -> Iterator[bytes]:
        for seconds, data in self._chunks:
            if self._closed.wait(seconds * self._scale) if seconds * self._scale > 0 else False:
                raise httpx.ReadError("The reply was closed while it was being read.")
            yield data

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for seconds, data in self._chunks:
            await asyncio.sleep(seconds * self._scale)
            yield data

    def close(self) -> None:
        self._closed.set()


class RecordTransport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Sends requests on through `inner` (a client of httpx, so that its proxies work) and appends each
    whole reply of status 200 to the cassette at `path`.

    Headers of requests are never written, and no six characters of the key from anywhere else. Raises
    `StoreError` where the file cannot be written; once a reply is there, `missed` is told instead, where it
    is given, and the reply is whole though not recorded.
    """

    def __init__(
        self,
        path: Path | str,
        inner: httpx.BaseTransport | None = None,
        async_inner: httpx.AsyncBaseTransport | None = None,
        missed: Callable[[StoreError], None] | None = None,
    ) -> None:
        self.path = Path(path)
        self._missed = missed
        _append(self.path, "")  # better now than when a reply has been paid for
        self._inner, self._async_inner = inner, async_inner
        self._sync: httpx.Client | None = None
        self._async: httpx.AsyncClient | None = None

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        body = request.read()
        tape = _Tape(self._keep, body, request)
        if self._sync is None:
            self._sync = httpx.Client(transport=self._inner)
        response = self._sync.send(_again(request, body), stream=True)
        return _wrapped(response, _SyncTape(response, tape))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = await request.aread()
        tape = _Tape(self._keep, body, request)
        if self._async is None:
            self._async = httpx.AsyncClient(transport=self._async_inner)
        response = await self._async.send(_again(request, body), stream=True)
        return _wrapped(response, _AsyncTape(response, tape))

    def _keep(self, recording: Recording) -> None:
        try:
            _append(self.path, to_line(recording))
        except StoreError as error:
            if self._missed is None:
                raise
            self._missed(error)

    def close(self) -> None:
        if self._sync is not None:
            self._sync.close()

    async def aclose(self) -> None:
        if self._async is not None:
            await self._async.aclose()


class _Tape:
    """What one reply is made of, written when it is whole. Pieces are cut where events end, so that
    a cassette is text."""

    def __init__(self, keep: Callable[[Recording], None], body: bytes, request: httpx.Request) -> None:
        self._keep = keep
        self._request = _body(body)
        secret = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
        self._hidden: Callable[[str], str] = Key(secret).scrub if secret else str
        self._since = time.monotonic()
        self._open = b""
        self._chunks: list[tuple[float, bytes]] = []
        self._is_over = False

    def add(self, data: bytes) -> None:
        self._open += data
        ends = [self._open.rfind(mark) + len(mark) for mark in _ENDS if mark in self._open]
        if ends:
            self._cut(max(ends))

    def _cut(self, end: int) -> None:
        if not end:
            return
        now = time.monotonic()
        self._chunks.append((now - self._since, self._open[:end]))
        self._open, self._since = self._open[end:], now

    def end(self, response: httpx.Response) -> None:
        """The reply is over, or closed by its reader, who may have seen its end before the connection's."""
        if self._is_over:
            return
        self._is_over = True
        self._cut(len(self._open))
        if response.status_code == 200 and _is_whole(response, self._chunks):
            headers = {k: v for k, v in response.headers.items() if k.lower() in KEPT_HEADERS}
            recording = Recording(self._request, tuple(self._chunks), 200, headers)
            self._keep(_without(recording, self._hidden))


def _is_whole(response: httpx.Response, chunks: Iterable[tuple[float, bytes]]) -> bool:
    """Whether it is a reply that a client takes for one, rather than cut, an error or a page."""
    reply = Reply(response.status_code, response.headers)
    try:
        for _ in reply.feed(b"".join(data for _, data in chunks)):
            pass
        for _ in reply.close():
            pass
    except KimiError:
        return False
    return True


_ENDS = (b"\n\n", b"\r\r", b"\r\n\r\n")
"""What events end with."""


def _append(path: Path, line: str) -> None:
    """In one write, so that lines of several kernels do not mix; a line that did not fit is taken away."""
    try:
        data = line.encode()
        with open(path, "ab", buffering=0, opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            written = file.write(data)
            if written < len(data):
                if file.tell() == os.fstat(file.fileno()).st_size:  # else another kernel wrote behind it
                    file.truncate(file.tell() - written)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError as error:
        raise StoreError(f"The cassette {path} cannot be written: {error.strerror}.") from None


def _without(recording: Recording, hidden: Callable[[str], str]) -> Recording:
    """The recording with a key taken out of everything that it says."""

    def clean(value: Any) -> Any:
        if isinstance(value, str):
            return hidden(value)
        if isinstance(value, dict):
            return {clean(k): clean(v) for k, v in value.items()}
        return [clean(v) for v in value] if isinstance(value, list) else value

    chunks = tuple(
        (s, hidden(d.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape"))
        for s, d in recording.chunks
    )
    return Recording(clean(recording.request), chunks, recording.status, clean(dict(recording.headers)))


class _SyncTape(httpx.SyncByteStream):
    """Who has seen the reply's end may iterate again, for the end of the connection's body: that is not
    taped."""

    def __init__(self, response: httpx.Response, tape: _Tape) -> None:
        self._response, self._tape = response, tape
        self._is_begun = False

    def __iter__(self) -> Iterator[bytes]:
        if self._is_begun:
            assert isinstance(self._response.stream, httpx.SyncByteStream)
            yield from self._response.stream
            return
        self._is_begun = True
        for chunk in self._response.iter_bytes():
            self._tape.add(chunk)
            yield chunk
        self._tape.end(self._response)

    def close(self) -> None:
        self._response.close()
        self._tape.end(self._response)


class _AsyncTape(httpx.AsyncByteStream):
    def __init__(self, response: httpx.Response, tape: _Tape) -> None:
        self._response, self._tape = response, tape

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._response.aiter_bytes():
            self._tape.add(chunk)
            yield chunk
        self._tape.end(self._response)

    async def aclose(self) -> None:
        await self._response.aclose()
        self._tape.end(self._response)


def _again(request: httpx.Request, body: bytes) -> httpx.Request:
    """The same request for the inner client, which frames the body itself."""
    return httpx.Request(
        request.method, request.url, headers=request.headers, content=body, extensions=request.extensions
    )


_FRAMING = ("content-encoding", "content-length", "transfer-encoding")


def _wrapped(
    response: httpx.Response, stream: httpx.SyncByteStream | httpx.AsyncByteStream
) -> httpx.Response:
    """The reply with its bytes taped; they come decoded, so the headers that say otherwise go."""
    headers = {k: v for k, v in response.headers.items() if k.lower() not in _FRAMING}
    return httpx.Response(
        response.status_code, headers=headers, stream=stream, extensions=response.extensions
    )


def _body(body: bytes) -> Json:
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ReplayError("Only requests to the Messages API can be recorded and replayed.")
    return value
