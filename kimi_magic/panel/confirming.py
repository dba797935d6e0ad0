"""Asks the user in the panel whether a tool may run, while its turn waits in the background."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable
from typing import Any

from ..render.sanitise import clean
from ..tools import Tool
from ..wire import ToolUseBlock

_SHOWN = 300  # characters of the arguments
_TICK = 0.1


class Confirming:
    """send: to the front end."""

    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        self._send = send
        self._open: dict[str, _Question] = {}

    def ask(self, tool: Tool, call: ToolUseBlock, runs: Callable[[], bool]) -> bool | None:
        """Wait for the answer, as long as the turn runs; no where the panel is closed."""
        given = ", ".join(f"{k}={json.dumps(v, ensure_ascii=False)}" for k, v in call.input.items())
        if len(given) > _SHOWN:
            given = f"{given[:_SHOWN]} … ({len(given):,} characters in all)"
        text = clean(f"Run {tool.name}({given})?")
        question = _Question(uuid.uuid4().hex, text)
        self._open[question.key] = question
        self._show(question)
        while runs() and not question.answered.wait(_TICK):
            pass
        if self._open.pop(question.key, None) is not None:
            self._send({"kind": "asked", "call": question.key, "text": ""})
        return question.allowed

    def answer(self, key: str, allowed: bool) -> None:
        question = self._open.get(key)
        if question is not None:
            question.allowed = allowed
            question.answered.set()

    def repeat(self) -> None:
        """For a front end that came later."""
        for question in list(self._open.values()):
            self._show(question)

    def close(self) -> None:
        """Nobody answers any more."""
        for question in list(self._open.values()):
            question.answered.set()

    def _show(self, question: _Question) -> None:
        self._send({"kind": "asked", "call": question.key, "text": question.text})


class _Question:
    def __init__(self, key: str, text: str) -> None:
        self.key = key
        self.text = text
        self.allowed = False
        self.answered = threading.Event()
