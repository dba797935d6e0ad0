"""The calls of a reply, handed to whoever shows the turn: they run there, in the thread of the cell, so
that an interrupt reaches them."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..prompt import written
from ..tools import BROKEN_OFF, DECLINED, Outcome, Tool, refusal
from ..wire import ToolResultBlock, ToolUseBlock
from .lanes import inside

Confirm = Callable[[Tool, ToolUseBlock], bool | None]
"""Asks the user whether a call may run; None where nobody can be asked."""


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """The model asks for these calls. `run` each and give what comes of it to `TurnStream.answer`, in
    their order; the turn goes on when all are answered."""

    calls: tuple[ToolUseBlock, ...]
    tools: tuple[Tool, ...]
    conversation: str
    """The one that they are made for."""

    def run(self, call: ToolUseBlock, confirm: Confirm) -> Outcome:
        """What comes of one call. Only `KeyboardInterrupt` gets through."""
        tool = next((tool for tool in self.tools if tool.name == call.name), None)
        if tool is None:
            return refusal(_unknown(call.name, [tool.name for tool in self.tools]))
        if tool.confirm and call.raw_input is None:
            allowed = confirm(tool, call)
            if allowed is None:
                return refusal(f"{tool.name} needs the user's consent, and nobody can be asked here.")
            if not allowed:
                return refusal(f"{DECLINED} this call of {tool.name}.")
        with inside(self.conversation):
            return tool.call(call, written)

    def run_all(self, answer: Callable[[Outcome, float], None]) -> None:
        """Run them in their order where nobody can be asked. answer: `TurnStream.answer`."""
        for call in self.calls:
            began = time.monotonic()
            answer(self.run(call, lambda tool, call: None), time.monotonic() - began)


class Waiting:
    """The calls that a turn waits for, and the results so far. loop: the one that the turn runs in."""

    def __init__(
        self, calls: tuple[ToolUseBlock, ...] = (), loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        self.calls = calls
        self.done: list[ToolResultBlock] = []
        self.answered = asyncio.Event()
        self._loop = loop

    def tell(self, take: Callable[[], None]) -> None:
        """Let the turn's loop take a result, from any thread; nothing where the turn has ended."""
        with contextlib.suppress(RuntimeError):
            if self._loop is not None:
                self._loop.call_soon_threadsafe(take)

    def take(self, outcome: Outcome) -> ToolUseBlock:
        """The result of the next call; which call it was."""
        call = self.calls[len(self.done)]
        self.done.append(outcome.block(call))
        if len(self.done) == len(self.calls):
            self.answered.set()
        return call

    def results(self) -> tuple[ToolResultBlock, ...]:
        """One for each call: those that have not come say so."""
        missing = refusal(f"{BROKEN_OFF} the call did not end.")
        return (*self.done, *(missing.block(call) for call in self.calls[len(self.done) :]))


def _unknown(name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, names, n=1)
    meant = f" Did you mean {near[0]}?" if near else ""
    return f"There is no tool {name!r}.{meant} Tools: {', '.join(names) or 'none'}."
