"""Who shows the chat, beside the cell that asks; and the view of one that shows nothing."""

from __future__ import annotations

from typing import Protocol

from ..display import View
from ..session import TurnStream


class Audience(Protocol):
    """Shows the chat, whoever asks."""

    def watch(self, stream: TurnStream) -> View | None:
        """A view of a turn that begins, if it wants one."""

    def refresh(self) -> None:
        """Something has changed. In any thread."""


class Silent:
    """The view of a reply that nobody looks at while it comes."""

    def update(self, progress: object) -> float:
        return 0.1

    def finish(self, ending: object) -> None:
        pass
