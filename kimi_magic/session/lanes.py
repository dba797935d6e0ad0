"""Turns of one conversation run one after the other, in the order in which they were started; those of
different conversations run side by side.

A question that a tool of a turn asks in the turn's own conversation does not wait: it would wait for
itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
import weakref
from collections.abc import Iterator

_TICK = 0.02  # seconds between two looks: a turn ahead may end in another loop, or be dropped unheard

_inside: contextvars.ContextVar[frozenset[str]] = contextvars.ContextVar("inside", default=frozenset())


class Lanes:
    """The waiting lines of a session, one a conversation."""

    def __init__(self) -> None:
        self._lanes: dict[str, list[weakref.ref[Ticket]]] = {}
        self._lock = threading.Lock()

    def enter(self, conversation: str | None) -> Ticket:
        """A place at the end of the line; None for a turn that is in no conversation."""
        if conversation is None or conversation in _inside.get():
            return Ticket([], self._lock)
        return Ticket(self._lanes.setdefault(conversation, []), self._lock)


class Ticket:
    """A turn's place in a line, until it leaves, or nobody knows it any more."""

    def __init__(self, lane: list[weakref.ref[Ticket]], lock: threading.Lock) -> None:
        self._lane = lane
        self._lock = lock
        with lock:
            lane.append(weakref.ref(self))

    @property
    def is_first(self) -> bool:
        with self._lock:
            self._lane[:] = [place for place in self._lane if place() is not None]
            return not self._lane or self._lane[0]() is self

    async def come(self) -> bool:
        """Wait until no other is ahead; whether there was any."""
        waited = False
        while not self.is_first:
            waited = True
            await asyncio.sleep(_TICK)
        return waited

    def leave(self) -> None:
        with self._lock:
            self._lane[:] = [place for place in self._lane if place() not in (None, self)]


@contextlib.contextmanager
def inside(conversation: str) -> Iterator[None]:
    """What runs here runs for a turn of that conversation."""
    token = _inside.set(_inside.get() | {conversation})
    try:
        yield
    finally:
        _inside.reset(token)
