"""How far a batch, or what else takes a while, has come: a bar where tqdm is installed, else a line that is
written again."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, TextIO, TypeVar

from ..counts import counted
from ..usage import money
from .run import Progress

T = TypeVar("T")

_EVERY = 0.2  # seconds between two lines
_PATIENCE = 0.5  # seconds that need no bar


class Bar:
    """Shows `Progress` values. shown: False for nothing."""

    def __init__(self, *, shown: bool = True, stream: TextIO | None = None) -> None:
        self._shown = shown
        self._stream = stream if stream is not None else sys.stdout
        self._tqdm = _tqdm() if shown and stream is None else None
        self._bar: Any = None
        self._due = 0.0
        self._width = 0

    def show(self, progress: Progress) -> None:
        if not self._shown:
            return
        if self._tqdm is None:
            self._line(progress)
            return
        if self._bar is None:
            self._bar = self._tqdm(total=progress.total, unit="row")
        self._bar.n = progress.done
        self._bar.set_postfix_str(_beside(progress), refresh=False)
        self._bar.update(0)

    def _line(self, progress: Progress) -> None:
        now = time.monotonic()
        if now < self._due and progress.done < progress.total:
            return
        self._due = now + _EVERY
        line = f"{progress.done:,} of {counted(progress.total, 'row')}, {_beside(progress)}"
        self._stream.write(f"\r{line:<{self._width}}")
        self._stream.flush()
        self._width = len(line)

    def close(self) -> None:
        """The last state stays."""
        if self._bar is not None:
            self._bar.refresh()
            self._bar.close()
        elif self._width:
            self._stream.write("\n")

    def say(self, line: str) -> None:
        """A line below the last state."""
        if self._shown:
            self._stream.write(f"{line}\n")


def walked(items: Sequence[T], unit: str) -> Iterable[T]:
    """The items one by one, under a bar where they take more than a moment and tqdm is installed."""
    tqdm = _tqdm()
    bar: Iterable[T] = items if tqdm is None else tqdm(items, unit=unit, delay=_PATIENCE, leave=False)
    return bar


class Count:
    """How much has come of something whose length nobody knows: a bar without an end, where it takes more
    than a moment and tqdm is installed. unit: with the space before it."""

    def __init__(self, what: str, unit: str) -> None:
        tqdm = _tqdm()
        self._bar: Any = None if tqdm is None else tqdm(desc=what, unit=unit, delay=_PATIENCE, miniters=0)

    def show(self, number: int) -> None:
        if self._bar is not None:
            self._bar.update(number - self._bar.n)

    def close(self) -> None:
        """The last state stays."""
        if self._bar is not None:
            self._bar.close()


def _beside(progress: Progress) -> str:
    """What stands beside the bar: the money, and what else is to be known."""
    failed = f", {progress.failed:,} failed" if progress.failed else ""
    waits = f", the server asks to wait {progress.waiting:.0f} s" if progress.waiting else ""
    would = "simulated, would cost " if progress.simulated else ""
    return f"{would}{money(progress.cost, progress.currency)}{failed}{waits}"


def _tqdm() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # where its widget is missing it takes text by itself
            from tqdm.auto import tqdm  # type: ignore[import-untyped,import-not-found,unused-ignore]  # optional
    except ImportError:
        return None
    return tqdm
