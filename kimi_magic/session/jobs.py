"""Turns that run beside the cells, each followed by a thread of its own.

The thread has a copy of the caller's context, so what a tool prints there goes to the cell that began
the job. What ended a job stays in `error` until somebody asks for its `result`; an error that is not
ours is a mistake of the program, and the thread shows its traceback as well.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from ..counts import counted
from ..errors import ConversationError, Interrupted, KimiError
from .turns import TurnStream

T = TypeVar("T")
GRACE = 2.0  # seconds in which a stopped job shows what arrived
KEPT = 50  # jobs that have ended and are still listed


class Job(Generic[T]):
    """A turn in the background. `number` counts the jobs of a session, from 1."""

    def __init__(self, number: int, stream: TurnStream, follow: Callable[[TurnStream], T]) -> None:
        self.number = number
        self.stream = stream
        self.error: BaseException | None = None
        """What ended it, where it is not whole; known when it has ended."""
        self.heard = False
        """Somebody has asked for its result."""
        self._follow = follow
        self._value: T | None = None
        self._ended = threading.Event()
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(self._run,), name=f"kimi-magic job {number}", daemon=True
        )

    def begin(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        try:
            self._value = self._follow(self.stream)
        except (KimiError, Interrupted) as error:
            self.error = error
        except BaseException as error:
            self.error = error
            raise
        finally:
            self._ended.set()

    @property
    def state(self) -> str:
        """queued, running, or the status of its turn."""
        if not self._ended.is_set():
            return "queued" if self.stream.is_queued else "running"
        return self.stream.turn.status if self.stream.turn is not None else "failed"

    @property
    def is_over(self) -> bool:
        return self._ended.is_set()

    def stop(self) -> None:
        """End it as an interrupt does; what arrived is kept and shown."""
        self.stream.stop()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is over, so long at most; whether it is."""
        return self._ended.wait(seconds)

    def result(self) -> T:
        """What came of it, once it is over. Raises what ended it."""
        while not self.wait(0.1):
            pass  # in short steps, so that an interrupt is felt on every system
        self.heard = True
        if self.error is not None:
            raise self.error
        return self._value  # type: ignore[return-value]  # there is one where there is no error

    def __repr__(self) -> str:
        return f"<job {self.number}: {self.state}; .result() waits for it, .stop() ends it>"


class Jobs(Generic[T]):
    """The jobs of a session, oldest first."""

    def __init__(self) -> None:
        self._jobs: list[Job[T]] = []
        self._count = 0

    def add(self, stream: TurnStream, follow: Callable[[TurnStream], T]) -> Job[T]:
        """A job that follows the stream in the background, once it is told to `begin`."""
        self._count += 1
        job = Job(self._count, stream, follow)
        over = [old for old in self._jobs if old.is_over]
        self._jobs = [old for old in self._jobs if old not in over[:-KEPT]]
        self._jobs.append(job)
        return job

    @property
    def used(self) -> bool:
        """Whether there ever was one."""
        return self._count > 0

    def __repr__(self) -> str:
        return f"<{counted(len(self._jobs), 'job')}, {len(self.running):,} not over; %kimi jobs lists them>"

    def __iter__(self) -> Iterator[Job[T]]:
        return iter(list(self._jobs))

    @property
    def running(self) -> list[Job[T]]:
        """Those that are not over."""
        return [job for job in self if not job.is_over]

    def chosen(self, number: int | None) -> list[Job[T]]:
        """The job of that number, or all that are not over. Raises `ConversationError`."""
        if number is None:
            return self.running
        found = [job for job in self if job.number == number]
        if not found:
            raise ConversationError(f"There is no job {number}.", hint="%kimi jobs lists them.")
        return found

    def give_way(self, cell: str | None) -> None:
        """End what still runs for a cell that asks again: its output is gone, and its turn is replaced."""
        for job in self.running:
            if cell is not None and job.stream.plan.ask.cell == cell:
                job.stop()

    def stop(self, number: int | None = None) -> list[Job[T]]:
        """End the job of that number, or all, and wait a moment until their outputs say so; those that
        ran. Raises `ConversationError`."""
        ended = [job for job in self.chosen(number) if not job.is_over]
        for job in ended:
            job.stop()
        for job in ended:
            job.wait(GRACE)
        return ended
