"""The user's interrupt at a moment that a test chooses."""

from __future__ import annotations


class InterruptAt:
    """A view that is interrupted at its n-th update, as by the user."""

    def __init__(self, number: int) -> None:
        self._left = number

    def update(self, progress: object) -> float:
        self._left -= 1
        if self._left < 0:
            raise KeyboardInterrupt
        return 0.0

    def finish(self, ending: object) -> None:
        pass
