"""A notebook's outputs, without a widget: HTML in segments while the reply streams, then one output.

- A segment is an output of its own, published once and updated by its id; when it is finished it is
  never sent again. So what a reader opened stays open, and the kernel sends each part about once.
- A long text is cut into segments of growing size at borders of blocks that are frozen, so that the
  number of outputs stays far below the limit from which JupyterLab hides them (50).
- Updates come at most 7 times a second, at most 40 KB a second, and not sooner than three times what
  the last one took. For each one the front end lays the page out and sets all formulas of the segment
  again: at 110 KB a second that is half of a browser's time.
- The finished reply takes the place of the segments: one static output, complete in each MIME type.
  A single segment becomes it; several can only be cleared, and what else the cell has shown with them.
  So in a cell that shows other things, too, a reply is one segment.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

from ..render import running
from ..render.pieces import Call, Piece, Search, Text, Thinking
from ..session import tokens
from .growing import GrowingText
from .outputs import Outputs
from .show import Ending, Progress
from .waiting import waiting

MIN_INTERVAL = 0.15
BYTES_PER_SECOND = 40_000
MAX_SEGMENTS = 40
FIRST_SEGMENT = 10_000  # characters of HTML
STEADY = 30  # segments, each a little longer than the one before: they hold 200 KB of markdown
GROWTH, LATE_GROWTH = 1.03, 1.5  # and of those after them: 40 hold 2 MB


class StaticView:
    """Shows one reply in `outputs`.

    final: makes the saved mimebundle of what came of it. silent: show nothing before it. alone: nothing
    else is among the cell's outputs.
    """

    def __init__(
        self,
        outputs: Outputs,
        final: Callable[[Ending], dict[str, Any]],
        *,
        silent: bool = False,
        alone: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._outputs = outputs
        self._final = final
        self._silent = silent
        self._limit = MAX_SEGMENTS if alone else 1
        self._clock = clock
        self.display_id = uuid.uuid4().hex
        """Of the finished output."""
        self._shown: list[str] = []  # what each segment shows now
        self._texts: dict[int, _Segmented] = {}  # by the place of the piece
        self._finished: dict[int, list[str]] = {}

    def update(self, progress: Progress) -> float:
        if self._silent:
            return MIN_INTERVAL
        self._forget_cleared()
        began = self._clock()
        sent = sum(self._put(place, html) for place, html in enumerate(self._segments(progress)))
        took = self._clock() - began
        return max(MIN_INTERVAL, sent / BYTES_PER_SECOND, 3 * took)

    def finish(self, ending: Ending) -> None:
        data = self._final(ending)
        self._forget_cleared()
        if len(self._shown) == 1:
            self._outputs.update(data, self.display_id)
            return
        if self._shown:
            self._outputs.clear()
        self._outputs.publish(data, self.display_id)

    def _forget_cleared(self) -> None:
        """Show all anew where the outputs were cleared meanwhile."""
        if self._outputs.cleared():
            self._shown.clear()

    def _put(self, place: int, html: str) -> int:
        """Show `html` in the segment at `place`, if it is not there already; the bytes sent."""
        data = {"text/html": html, "text/plain": "…"}
        if place == len(self._shown):
            self._shown.append(html)
            self._outputs.publish(data, self._segment_id(place))
        elif self._shown[place] != html:
            self._shown[place] = html
            self._outputs.update(data, self._segment_id(place))
        else:
            return 0
        return len(html.encode())

    def _segment_id(self, place: int) -> str:
        return f"{self.display_id}-{place}" if place else self.display_id

    def _segments(self, progress: Progress) -> list[str]:
        """The HTML of all segments, in order; a finished piece is made once."""
        found = progress.pieces()
        if not found:
            return [waiting(progress)]
        segments: list[str] = []
        for place, piece in enumerate(found):
            parts = self._finished.get(place) or self._parts(place, piece, progress)
            if place < len(found) - 1 and not _is_open(piece):
                self._finished[place] = parts
            segments += parts
        if len(segments) > self._limit:
            segments[self._limit - 1 :] = ["".join(segments[self._limit - 1 :])]
        return segments + [""] * (len(self._shown) - len(segments))  # a text that began again has fewer

    def _parts(self, place: int, piece: Piece, progress: Progress) -> list[str]:
        """The segments of one piece: several for a long text, else one."""
        first = progress.simulated if place == 0 else None
        if isinstance(piece, Text):
            bodies = self._texts.setdefault(place, _Segmented()).parts(piece.markdown)
            bodies[0] = f'<div class="kimi-text">{bodies[0]}</div>'
        else:
            thought = tokens(piece.text) if isinstance(piece, Thinking) else 0
            bodies = [running.piece(piece, progress.thinking_seconds, thought)]
        return [running.segment(body, simulated=first if n == 0 else None) for n, body in enumerate(bodies)]


def _is_open(piece: Piece) -> bool:
    """A call or a search whose results may still come, while other pieces follow it."""
    if isinstance(piece, Call):
        return piece.result is None
    return isinstance(piece, Search) and not piece.ended


class _Segmented:
    """One piece of text as it grows: finished parts, and the open rest."""

    def __init__(self) -> None:
        self._text = GrowingText()
        self._begin()

    def _begin(self) -> None:
        self._parts: list[str] = []
        self._taken = 0  # frozen blocks that are in finished parts
        self._limit: float = FIRST_SEGMENT

    def parts(self, text: str) -> list[str]:
        """HTML of the finished parts and of the rest, for all of the text so far."""
        if self._text.grow(text):
            self._begin()
        frozen = self._text.frozen
        size = 0
        for end in range(self._taken, len(frozen)):
            size += len(frozen[end])
            if size >= self._limit:
                growth = GROWTH if len(self._parts) < STEADY else LATE_GROWTH
                self._parts.append("".join(frozen[self._taken : end + 1]))
                self._taken, self._limit, size = end + 1, self._limit * growth, 0
        return [*self._parts, "".join(frozen[self._taken :]) + self._text.tail]
