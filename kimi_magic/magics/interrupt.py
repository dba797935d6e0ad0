"""The kernel's interrupt ends the replies in the background, too: with the cell that it ends, and where none
runs.

While no cell runs ipykernel ignores the signal. It keeps what it does then in `saved_sigint_handler` as long
as a message is handled, and puts that back behind it: so it is changed there.
"""

from __future__ import annotations

from types import FrameType
from typing import Any

from ..api import Reply
from ..session import Jobs

_KEPT = "saved_sigint_handler"


class KernelInterrupt:
    """Listens for the interrupts of one shell; to be made and closed while a cell runs."""

    def __init__(self, shell: Any, jobs: Jobs[Reply]) -> None:
        self._events = shell.events
        self._kernel = getattr(shell, "kernel", None)
        self._jobs = jobs
        self._before: Any = getattr(self._kernel, _KEPT, None)
        if self._before is not None:
            setattr(self._kernel, _KEPT, self._strike)
        self._events.register("post_run_cell", self._cell_ended)

    def close(self) -> None:
        """Leave the shell as it was."""
        self._events.unregister("post_run_cell", self._cell_ended)
        if getattr(self._kernel, _KEPT, None) == self._strike:
            setattr(self._kernel, _KEPT, self._before)

    def _strike(self, number: int, frame: FrameType | None) -> None:
        for job in self._jobs.running:
            job.stop()
        if callable(self._before):
            self._before(number, frame)

    def _cell_ended(self, result: Any) -> None:
        """What ended a job is raised by those who ask for its result, and is no interrupt of theirs."""
        error = result.error_in_exec
        if isinstance(error, KeyboardInterrupt) and all(job.error is not error for job in self._jobs):
            self._jobs.stop()
