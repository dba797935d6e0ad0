"""One reply in several places at once: its cell, and whoever else watches."""

from __future__ import annotations

from collections.abc import Sequence

from .show import Ending, Progress, View


class Several:
    """Lets each view show the reply, at the pace of the slowest."""

    def __init__(self, views: Sequence[View]) -> None:
        self._views = views

    def update(self, progress: Progress) -> float:
        return max(view.update(progress) for view in self._views)

    def finish(self, ending: Ending) -> None:
        for view in self._views:
            view.finish(ending)
