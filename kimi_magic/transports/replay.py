"""Replies from recordings, without a socket: piece by piece in their own time, or at once.

`ReplayTransport` answers a request that its library has, marks the reply with the header
`x-kimi-replayed`, and raises `ReplayError` for any other, saying what differs from the nearest
recording. `RecordTransport` sends a request on and writes what comes back to a cassette.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx

from ..errors import ReplayError
from ..recordings import KEPT_HEADERS, Library, Recording, from_lines, to_line
from ..wire import Json, fingerprint

REPLAYED = "x-kimi-replayed"
"""Header by which a recording marks itself."""


def read_cassette(path: Path) -> list[Recording]:
    """The recordings of a file. Raises `ReplayError` where it cannot be read."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ReplayError(f"The cassette {path} cannot be read: {error}.") from None
    return from_lines(lines, path.name)


class ReplayTransport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Answers from `library`. speed: 1 in the recording's own time, 2 twice as fast, 0 at once."""

    def __init__(self, library: Library, speed: float = 1.0) -> None:
        self.library = library
        self.speed = speed

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._response(_body(request.read()))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return self._response(_body(await request.aread()))

    def _response(self, request: Json) -> httpx.Response:
        found = self.library.find(fingerprint(request))
        if found is None:
            raise self.library.miss(request)
        headers = {**found.headers, REPLAYED: "1"}
        return httpx.Response(found.status, headers=headers, stream=_Played(found, self.speed))


class _Played(httpx.SyncByteStream, httpx.AsyncByteStream):
    def __init__(self, recording: Recording, speed: float) -> None:
        self._chunks = recording.chunks
        self._scale = 1 / speed if speed > 0 else 0.0

    def __iter__(self) -> Iterator[bytes]:
        for seconds, data in self._chunks:
            if seconds * self._scale > 0:
                time.sleep(seconds * self._scale)
            yield data

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for seconds, data in self._chunks:
            await asyncio.sleep(seconds * self._scale)
            yield data


class RecordTransport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Sends requests on through `inner` (a client of httpx, so that its proxies work) and appends each
    whole reply of status 200 to the cassette at `path`. Headers of requests are never written."""

    def __init__(
        self,
        path: Path,
        inner: httpx.BaseTransport | None = None,
        async_inner: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.path = path
        self._sync = httpx.Client(transport=inner)
        self._async = httpx.AsyncClient(transport=async_inner)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        body = request.read()
        response = self._sync.send(_again(request, body), stream=True)
        return _wrapped(response, _SyncTape(response, _Tape(self.path, body, response)))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = await request.aread()
        response = await self._async.send(_again(request, body), stream=True)
        return _wrapped(response, _AsyncTape(response, _Tape(self.path, body, response)))

    def close(self) -> None:
        self._sync.close()

    async def aclose(self) -> None:
        await self._async.aclose()


class _Tape:
    """What one reply is made of, written when it is whole. Pieces are cut where events end, so that
    a cassette is text."""

    def __init__(self, path: Path, body: bytes, response: httpx.Response) -> None:
        self._path = path
        self._body = body
        self._response = response
        self._since = time.monotonic()
        self._open = b""
        self._chunks: list[tuple[float, bytes]] = []
        self._written = False

    def add(self, data: bytes) -> None:
        self._open += data
        end = self._open.rfind(b"\n\n") + 2
        if end >= 2:
            self._cut(end)

    def _cut(self, end: int) -> None:
        now = time.monotonic()
        self._chunks.append((now - self._since, self._open[:end]))
        self._open, self._since = self._open[end:], now

    def end(self, *, closed: bool = False) -> None:
        """The reply is over. closed: by the reader, who may have seen its end before the connection's."""
        if self._response.status_code != 200 or self._written:
            return
        if closed and not any(b'"message_stop"' in data for _, data in self._chunks[-2:]):
            return
        self._written = True
        if self._open:
            self._cut(len(self._open))
        request = _body(self._body)
        headers = {k: v for k, v in self._response.headers.items() if k.lower() in KEPT_HEADERS}
        secret = self._response.request.headers.get("authorization", "").removeprefix("Bearer ")
        line = to_line(Recording(fingerprint(request), tuple(self._chunks), request, 200, headers))
        with self._path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(line.replace(secret, "[key]") if secret else line)


class _SyncTape(httpx.SyncByteStream):
    def __init__(self, response: httpx.Response, tape: _Tape) -> None:
        self._response, self._tape = response, tape

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._response.iter_bytes():
            self._tape.add(chunk)
            yield chunk
        self._tape.end()

    def close(self) -> None:
        self._tape.end(closed=True)
        self._response.close()


class _AsyncTape(httpx.AsyncByteStream):
    def __init__(self, response: httpx.Response, tape: _Tape) -> None:
        self._response, self._tape = response, tape

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._response.aiter_bytes():
            self._tape.add(chunk)
            yield chunk
        self._tape.end()

    async def aclose(self) -> None:
        self._tape.end(closed=True)
        await self._response.aclose()


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
