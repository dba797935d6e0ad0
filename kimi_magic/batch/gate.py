"""How many requests of a batch run at once.

A server that says "too many" (429) or "overloaded" means the account, not the request: so all wait as
long as it asks, and half as many go on after that. Each reply that comes lets a little more through,
up to what the user asked for.
"""

from __future__ import annotations

from collections.abc import Callable


class Gate:
    """most: at once. clock: monotonic seconds."""

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self.most = most
        self._limit = float(most)
        self._clock = clock
        self._until = clock()

    @property
    def limit(self) -> int:
        """How many may run now."""
        return max(1, int(self._limit))

    def slow(self, seconds: float) -> None:
        """The server asks to wait so long. What several rows hear at once counts once."""
        now = self._clock()
        if now >= self._until:
            self._limit = max(1.0, self._limit / 2)
        self._until = max(self._until, now + seconds)

    def answered(self) -> None:
        """A reply has come."""
        self._limit = min(float(self.most), self._limit + 1 / self._limit)

    def wait(self) -> float:
        """Seconds until a further request may go out; 0 for now."""
        return max(0.0, self._until - self._clock())
