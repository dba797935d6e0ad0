"""What the first cell needs, imported while its prompt is written.

A kernel that waits does so in its own loop, in steps between which it hears what comes. So no two
threads want the same modules in a different order, and no import is under way when the process ends. A
cell that comes meanwhile waits for one step at most, and imports the rest itself.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any

from ..config import KimiMagic

PAUSE = 0.1
"""Seconds from loading to the first step: the cell that loads has ended, and in Run All the next one runs."""
_GAP = 0.01
"""Seconds between steps: a message takes the loop several rounds until its cell runs."""


def imports(shell: Any, settings: KimiMagic) -> Iterator[object]:
    """In steps of 15 to 50 ms; one that does nothing is one that a cell has done."""
    yield import_module("kimi_magic.client.hosts")  # and httpx
    yield import_module("kimi_magic.render")
    yield import_module("kimi_magic.simulator")
    yield import_module("kimi_magic.session")
    yield import_module("kimi_magic.magics.running")
    from ..display.live import widget_class
    from .stage import how_shown

    if how_shown(settings, shell)[0] == "live":
        yield widget_class()
    if not settings.would_simulate():  # what httpx leaves for the first request to a server
        yield import_module("httpcore")
        yield import_module("anyio._backends._asyncio")


class Warm:
    """Imports in the loop of the shell's kernel, from a moment after now until `finish()` or `end()`.

    Nothing in the loop where there is no kernel, and where its loop does not run yet: that is an extension
    which the configuration loads into all kernels, of which most ask nothing.
    """

    def __init__(self, shell: Any, settings: KimiMagic) -> None:
        self._steps: Iterator[object] = imports(shell, settings)
        if getattr(shell, "kernel", None) is None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        loop.call_later(PAUSE, self._step, loop)

    def finish(self) -> None:
        """Import the rest now, for the first cell. Nothing is collected meanwhile: what an import makes
        stays, and to look through it again and again is a tenth of the time."""
        collects = gc.isenabled()
        gc.disable()
        try:
            with suppress(Exception):  # what needs it raises it where the user looks
                for _ in self._steps:
                    pass
        finally:
            if collects:
                gc.enable()

    def end(self) -> None:
        """Import no more."""
        self._steps = iter(())

    def _step(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            next(self._steps)
        except StopIteration:
            return
        except Exception:  # noqa: BLE001 - the cell that needs it raises it where the user looks
            return
        loop.call_later(_GAP, self._step, loop)
