"""The loop that shows a turn: wait for events, look at the reply so far, let the view show it.

The view is finished whatever happens, so what arrived stays visible: after an error, which is raised
again, and after an interrupt, which becomes `Interrupted`, one line that still is a
`KeyboardInterrupt` and stops Run All.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Protocol

from ..errors import Interrupted, KimiError
from ..render.pieces import Piece, pieces
from ..retry import Attempt
from ..session import Confirm, ToolCalls, TurnStream, Worker
from ..stream import Event
from ..wire import Block
from .confirm import by_input
from .interrupts import Interrupts


@dataclass(frozen=True, slots=True)
class Progress:
    """A reply that runs."""

    content: tuple[Block, ...]
    seconds: float
    """Since it was asked."""
    model: str
    thinking_seconds: float | None = None
    """How long it has thought so far, or did; None before it began."""
    retry: Attempt | None = None
    """The attempt under way, where it is not the first."""
    simulated: bool = False
    call_seconds: tuple[float, ...] = ()
    """How long each tool call took, in order, of those that have ended."""
    structured: bool = False
    """Its text is JSON that follows a schema."""
    queued: bool = False
    """Other replies of its conversation come first."""

    def pieces(self) -> list[Piece]:
        """What a reader sees of it."""
        return pieces(self.content, self.call_seconds, structured=self.structured)


@dataclass(frozen=True, slots=True)
class Ending:
    """A reply that ended, however it did."""

    stream: TurnStream
    failure: str
    """Why it is not whole, for the reader; empty for one that is."""


class View(Protocol):
    """Something that shows a reply."""

    def update(self, progress: Progress) -> float:
        """Show it as far as it has come; the seconds until the next update is welcome."""

    def finish(self, ending: Ending) -> None:
        """Show it as it stays."""


def show(
    stream: TurnStream,
    worker: Worker,
    view: View,
    clock: Callable[[], float] = time.monotonic,
    confirm: Confirm = by_input,
) -> None:
    """Run the turn and show it; tools run here, in the thread that calls. confirm: asks the user about
    those that want it. Raises the `KimiError` that ended the turn, or `Interrupted`."""
    watch = _Watch(clock, stream.plan.request.model)
    failure = ""
    with Interrupts() as interrupts:
        try:
            with closing(worker.iterate(stream.events)) as events:  # type: ignore[type-var]  # a generator
                _Follower(stream, worker, view, watch, confirm, interrupts).follow(events)
        except KimiError as error:
            failure = str(error)
            raise
        except KeyboardInterrupt:
            failure = _interrupted(stream)
            raise Interrupted("Run the cell again to ask anew.") from None
        finally:
            interrupts.hold()
            if stream.turn is not None:
                view.finish(Ending(stream, failure))


@dataclass(slots=True)
class _Follower:
    """Lets a view show the turn until it ends, and runs the tools that it calls."""

    stream: TurnStream
    worker: Worker
    view: View
    watch: _Watch
    confirm: Confirm
    interrupts: Interrupts
    due: float = 0.0

    def follow(self, events: Iterable[Event | Attempt | ToolCalls | None]) -> None:
        for event in events:
            self.watch.see(event)
            if isinstance(event, ToolCalls):
                self._run(event)
            if self.watch.clock() >= self.due:
                self._look()

    def _look(self) -> None:
        content, simulated = self.worker.call(self.stream.so_far)
        progress = self.watch.progress(content, simulated)
        progress = replace(
            progress,
            thinking_seconds=self.stream.thinking_seconds,
            call_seconds=tuple(self.stream.call_seconds),
            structured=self.stream.plan.ask.schema is not None,
            queued=self.stream.is_queued,
        )
        self.due = self.watch.clock() + self.view.update(progress)

    def _run(self, event: ToolCalls) -> None:
        for call in event.calls:
            self._look()  # so that it is seen what runs, or what is asked about
            began = self.watch.clock()
            outcome = event.run(call, self.confirm)
            if self.interrupts.struck:  # and the function has swallowed it
                raise KeyboardInterrupt
            self.stream.answer(outcome, self.watch.clock() - began)


def _interrupted(stream: TurnStream) -> str:
    """What the output says of an interrupted turn; the error below it says only what to do."""
    if stream.turn is None or not stream.turn.content:
        return "Interrupted before anything arrived."
    return "Interrupted: what had arrived is kept here, and will not be sent again."


class _Watch:
    """How long things take."""

    def __init__(self, clock: Callable[[], float], model: str) -> None:
        self.clock = clock
        self._began = clock()
        self._model = model
        self._retry: Attempt | None = None

    def see(self, event: Event | Attempt | ToolCalls | None) -> None:
        if isinstance(event, Attempt):
            self._retry = event

    def progress(self, content: tuple[Block, ...], simulated: bool) -> Progress:
        return Progress(
            content, self.clock() - self._began, self._model, retry=self._retry, simulated=simulated
        )
