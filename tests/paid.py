"""A server that costs money: the simulator behind it, without its mark, and with books of its own.

server = Paid()
kimi = chat(server)                  # a `Kimi` on it
server.books                         # what it has counted, from the bytes that it sent
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx

from kimi_magic.api import Kimi
from kimi_magic.client import AsyncClient
from kimi_magic.config import KimiMagic
from kimi_magic.retry import Policy
from kimi_magic.simulator import MARK, Simulator
from kimi_magic.transports import SimulatorTransport

Refusal = Callable[[int, dict[str, Any]], httpx.Response | None]


class _Tee(httpx.AsyncByteStream):
    """The body, and at its end the books."""

    def __init__(self, body: Any, book: Callable[[bytes], None]) -> None:
        self._body, self._book = body, book

    async def __aiter__(self) -> AsyncIterator[bytes]:
        sent = b""
        async for chunk in self._body:
            sent += chunk
            if b"message_stop" in chunk:
                self._book(sent)
            yield chunk


class Paid(httpx.AsyncBaseTransport):
    """refuse: gets the number of the request, from 0, and its JSON; what it returns goes out instead.
    wait: for how many seconds each reply is held back. hold: from this number on requests are held back for
    as long as it is set; `held` is set when one is."""

    def __init__(
        self,
        refuse: Refusal = lambda n, body: None,
        wait: float = 0.0,
        simulator: Simulator | None = None,
        hold: int | None = None,
    ) -> None:
        self._inner = SimulatorTransport(simulator or Simulator(speed=0))
        self._refuse, self._wait = refuse, wait
        self.hold, self.held = hold, threading.Event()
        self.bodies: list[dict[str, Any]] = []
        self.books: Counter[str] = Counter()
        self.open = self.most = 0
        """Requests that run now, and that ever ran at once."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(await request.aread())
        number = len(self.bodies)
        self.bodies.append(body)
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            await asyncio.sleep(self._wait)
            while self.hold is not None and number >= self.hold:
                self.held.set()
                await asyncio.sleep(0.001)
        finally:
            self.open -= 1
        refused = self._refuse(number, body)
        if refused is not None:
            return refused
        reply = await self._inner.handle_async_request(request)
        headers = {name: value for name, value in reply.headers.items() if name != MARK}
        return httpx.Response(reply.status_code, headers=headers, stream=_Tee(reply.stream, self._count))

    def _count(self, sent: bytes) -> None:
        """Each count once: what a later event says goes before an earlier one."""
        usage: dict[str, Any] = {}
        for line in re.findall(rb"^data: (.*)$", sent, re.MULTILINE):
            event = json.loads(line)
            usage |= event.get("usage") or event.get("message", {}).get("usage") or {}
        self.books["requests"] += 1
        self.books["input"] += usage["input_tokens"]
        self.books["cache_read"] += usage["cache_read_input_tokens"]
        self.books["cache_write"] += usage["cache_creation_input_tokens"]
        self.books["output"] += usage["output_tokens"]
        self.books["thinking"] += usage["output_tokens_details"]["thinking_tokens"]
        self.books["searches"] += usage["server_tool_use"]["web_search_requests"]

    @property
    def texts(self) -> list[str]:
        """The last text block of each request."""
        return [body["messages"][-1]["content"][-1]["text"] for body in self.bodies]

    def client(self, url: str = "http://paid.test", tries: int = 1) -> AsyncClient:
        async def at_once(seconds: float) -> None:
            await asyncio.sleep(0)

        return AsyncClient("sk-key", url, transport=self, policy=Policy(tries=tries), sleep=at_once)


def chat(server: Paid, notebook: str | None = "book.ipynb", tries: int = 1, **settings: Any) -> Kimi:
    """A chat whose requests are paid. Close it."""
    return Kimi(KimiMagic(**settings), server.client(tries=tries), notebook)
