"""The user's interrupt, at the moments when it may strike.

While a reply is awaited it raises `KeyboardInterrupt` at once. After that (the network tidied up, the
finished output put in the place of the running one) it waits: half of either would lose what arrived.
In a cell that also awaits something, IPython would not raise it at all; here it does.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class Interrupts:
    """A context in which an interrupt raises `KeyboardInterrupt` once, until `hold()`. One that came
    after that is handed on when the context ends.

    Elsewhere than in the main thread nobody can interrupt, and nothing is done.
    """

    def __init__(self) -> None:
        self._main = threading.current_thread() is threading.main_thread()
        self._armed = True
        self._struck = False
        self._missed: tuple[int, FrameType | None] | None = None

    @property
    def struck(self) -> bool:
        """An interrupt was raised; code in between may have swallowed it."""
        return self._struck

    def hold(self) -> None:
        """From now on interrupts wait."""
        self._armed = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self._armed:
            self._missed = number, frame
            return
        self._armed, self._struck = False, True
        raise KeyboardInterrupt

    def __enter__(self) -> Self:
        if self._main:
            self._before: Any = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if not self._main:
            return
        signal.signal(signal.SIGINT, self._before)
        if self._missed is not None and kind is None and callable(self._before):
            self._before(*self._missed)
