"""A notebook without a front end: cells run one after the other in a shell, against a server that judges.

notebook = Notebook()
notebook.run("fig = …")
notebook.ask("-i fig", "What does it show?")
notebook.sent              # the blocks of the last request's last message
"""

from __future__ import annotations

import base64
import io
import json
from contextlib import redirect_stdout
from typing import Any

import httpx
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from kimi_magic.api import Kimi
from kimi_magic.client import AsyncClient
from kimi_magic.config import KimiMagic
from kimi_magic.magics import load
from kimi_magic.pixels import media_type, pixel_size
from kimi_magic.simulator import Simulator
from kimi_magic.transports import SimulatorTransport


class Judge(httpx.AsyncBaseTransport):
    """The simulator, with the limits for images that the field's servers have."""

    def __init__(self, most: int = 5 * 1024**2, side: int = 8000) -> None:
        self._most, self._side = most, side
        self._inner = SimulatorTransport(Simulator(speed=0))
        self.bodies: list[dict[str, Any]] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(await request.aread())
        self.bodies.append(body)
        for source in _sources(body["messages"]):
            data = base64.b64decode(source["data"])
            fits = len(source["data"]) <= self._most and max(pixel_size(data) or [10**9]) <= self._side
            if not fits or media_type(data) != source["media_type"]:
                error = {"type": "invalid_request_error", "message": "image: too large"}
                return httpx.Response(400, json={"type": "error", "error": error})
        return await self._inner.handle_async_request(request)


def _sources(value: Any) -> list[dict[str, Any]]:
    """Sources of the base64 images anywhere in a message."""
    if isinstance(value, list):
        return [source for item in value for source in _sources(item)]
    if not isinstance(value, dict):
        return []
    if value.get("type") == "image" and value["source"]["type"] == "base64":
        return [value["source"]]
    return _sources(list(value.values()))


class Notebook:
    """settings: of `KimiMagic`."""

    def __init__(self, **settings: Any) -> None:
        self.server = Judge()
        client = AsyncClient("sk-test-key", "http://server.test", transport=self.server)
        self.kimi = Kimi(KimiMagic(**{"store": "off", "display": "terminal", **settings}), client)
        self.shell = InteractiveShell(config=Config({"HistoryManager": {"hist_file": ":memory:"}}))
        self.shell.user_ns["kimi"] = self.kimi
        load(self.shell, self.kimi.settings, lambda: self.kimi)
        self.printed = ""

    def run(self, source: str) -> BaseException | None:
        """A cell; the error that ended it."""
        with redirect_stdout(io.StringIO()) as out:
            result = self.shell.run_cell(source, store_history=True)
        self.printed = out.getvalue()
        error: BaseException | None = result.error_before_exec or result.error_in_exec
        return error

    def ask(self, options: str, prompt: str) -> BaseException | None:
        return self.run(f"%%kimi {options}\n{prompt}")

    @property
    def sent(self) -> list[dict[str, Any]]:
        content = self.server.bodies[-1]["messages"][-1]["content"]
        assert isinstance(content, list)
        return content

    @property
    def text(self) -> str:
        """The text blocks of the last message, joined."""
        return "".join(block["text"] for block in self.sent if block["type"] == "text")

    def close(self) -> None:
        self.kimi.close()
