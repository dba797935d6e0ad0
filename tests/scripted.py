"""A server without a socket that says what it is told to, and remembers what it was asked.

    server = Scripted([reply("Hi"), Answer(status=500), reply("Hi again")])
    AsyncClient("key", "http://server.test", transport=server.transport)

The n-th request gets the n-th answer, the last answer all that follow.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx
from contract import breach

from kimi_magic.client import AsyncClient
from kimi_magic.retry import Policy

START = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "kimi-k3.1-pro",
        "content": [],
        "stop_reason": None,
        "usage": {"input_tokens": 30, "output_tokens": 2, "cache_read_input_tokens": 10},
    },
}


def block(index: int, kind: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of one content block."""
    return [
        {"type": "content_block_start", "index": index, "content_block": kind},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text(index: int, *pieces: str) -> list[dict[str, Any]]:
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    return block(index, {"type": "text", "text": ""}, *deltas)


def thinking(index: int, *pieces: str, signature: str = "") -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
    deltas += [{"type": "signature_delta", "signature": signature}] * bool(signature)
    return block(index, {"type": "thinking", "thinking": ""}, *deltas)


def whole(index: int, kind: dict[str, Any]) -> list[dict[str, Any]]:
    return block(index, kind)


def end(stop_reason: str = "end_turn", *output_tokens: int) -> list[dict[str, Any]]:
    """One message_delta for each running total, and message_stop."""
    deltas = [
        {"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": {"output_tokens": n}}
        for n in output_tokens or (40,)
    ]
    return [*deltas, {"type": "message_stop"}]


@dataclass(frozen=True)
class Answer:
    """events: of the stream. then: what comes after them: end, break (the connection), hang; or `hang
    before` any answer."""

    events: tuple[dict[str, Any], ...] = ()
    then: str = "end"
    status: int = 200
    error: dict[str, Any] = field(default_factory=dict)
    """The body where the status is none of success."""


def reply(words: str = "Yes.", *, thought: str = "hm") -> Answer:
    return Answer((START, *thinking(0, thought), *text(1, words), *end()))


def stopping(*events: Any, then: str = "end") -> Answer:
    """START, then these, and no end."""
    flat = [e for each in events for e in (each if isinstance(each, list) else [each])]
    return Answer((START, *flat), then=then)


def failing(status: int, kind: str = "api_error", message: str = "broken") -> Answer:
    return Answer(status=status, error={"type": "error", "error": {"type": kind, "message": message}})


class _Body(httpx.AsyncByteStream):
    def __init__(self, answer: Answer, server: Scripted) -> None:
        self._answer = answer
        self._server = server

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for event in self._answer.events:
            await asyncio.sleep(0)
            yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
        if self._answer.then == "hang":
            await self._server.hang()
        if self._answer.then == "break":
            raise httpx.RemoteProtocolError("peer closed connection")


class Scripted:
    def __init__(self, answers: list[Answer], *, judges: bool = True) -> None:
        self.answers = answers
        self.bodies: list[bytes] = []
        self.headers: list[httpx.Headers] = []
        self.hangs = threading.Semaphore(0)
        """Released when all that is to be said of an answer was said, and it hangs."""
        self.judges = judges
        """Holds every request against the API page."""
        self.transport = httpx.MockTransport(self._answer)

    @property
    def requests(self) -> list[dict[str, Any]]:
        return [json.loads(body) for body in self.bodies]

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        self.bodies.append(await request.aread())
        if self.judges:
            assert not (fault := breach(self.bodies[-1])), fault
        self.headers.append(request.headers)
        answer = self.answers[min(len(self.bodies), len(self.answers)) - 1]
        if answer.status != 200:
            return httpx.Response(answer.status, json=answer.error, headers={"request-id": "req_1"})
        headers = {"content-type": "text/event-stream", "request-id": f"req_{len(self.bodies)}"}
        if answer.then == "hang before":
            await self.hang()
        return httpx.Response(200, headers=headers, stream=_Body(answer, self))

    async def hang(self) -> None:
        self.hangs.release()
        await asyncio.Event().wait()

    def client(self, tries: int = 1) -> AsyncClient:
        async def at_once(seconds: float) -> None:
            await asyncio.sleep(0)

        return AsyncClient(
            "sk-test-key",
            "http://server.test",
            transport=self.transport,
            policy=Policy(tries=tries),
            sleep=at_once,
        )
