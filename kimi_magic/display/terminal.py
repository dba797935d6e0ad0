"""Text as it comes, for terminals: the thinking dimmed, then the reply, then the lines under it.

What is printed only ever grows, so it works in a pipe as well. The formatter makes every escape
sequence of the model harmless.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TextIO

from ..counts import counted
from ..render import DIM, Terminal
from ..render.calls import call_state
from ..render.pieces import Call, Data, Piece, Search, Text, Thinking, pieces
from ..wire import TextBlock
from .show import Ending, Progress

INTERVAL = 0.05
RESULT_LINES, RESULT_WIDTH = 8, 160  # of a tool's result that are printed


class TerminalView:
    """Prints one reply to `out`. closing: the lines under it, made of what came of it. color: by default
    where `out` is a terminal, unless the environment variable NO_COLOR is set (https://no-color.org).
    at_end: print nothing before the reply has ended, lest it come between what somebody types."""

    def __init__(
        self,
        out: TextIO,
        closing: Callable[[Ending], list[str]],
        *,
        color: bool | None = None,
        at_end: bool = False,
    ) -> None:
        if color is None:
            color = out.isatty() and not os.environ.get("NO_COLOR")
        self._out = out
        self._closing = closing
        self._color = color
        self._at_end = at_end
        self._place = -1  # of the piece that is being printed
        self._fed = 0  # characters of it
        self._terminal = Terminal(color=color)

    def update(self, progress: Progress) -> float:
        if not self._at_end:
            self._print(progress.pieces())
        return INTERVAL

    def finish(self, ending: Ending) -> None:
        turn = ending.stream.turn
        assert turn is not None
        structured = ending.stream.plan.ask.schema is not None
        self._print(pieces(turn.content, ending.stream.call_seconds, structured=structured), ended=True)
        self._end_piece()
        dim = Terminal(color=self._color, style=DIM)
        lines = "".join(f"{line}\n" for line in self._closing(ending))
        self._write(dim.feed(lines) + dim.close())

    def _print(self, found: list[Piece], *, ended: bool = False) -> None:
        """Print what is new. What follows a call waits for its result, which stands behind it."""
        for place in range(max(self._place, 0), len(found)):
            if place != self._place:
                self._begin_piece(place, found[place])
            piece = found[place]
            text = _text_of(piece)
            self._write(self._terminal.feed(text[self._fed :]))
            self._fed = max(self._fed, len(text))
            if isinstance(piece, Call) and piece.result is None and not ended:
                return

    def _begin_piece(self, place: int, piece: Piece) -> None:
        self._end_piece()
        self._place, self._fed = place, 0
        self._terminal = Terminal(color=self._color, style="" if isinstance(piece, Text | Data) else DIM)

    def _end_piece(self) -> None:
        if self._place >= 0:
            self._write(self._terminal.close() + "\n\n")
        self._place = -1

    def _write(self, text: str) -> None:
        if text:
            self._out.write(text)
            self._out.flush()


def _text_of(piece: Piece) -> str:
    """What is printed of a piece; it grows at its end only."""
    match piece:
        case Text(markdown):
            return markdown
        case Thinking(text, redacted):
            return "[thinking, encrypted]" if redacted else f"Thinking: {text}"
        case Data(text):
            return text
        case Call():
            return f"[tool: {piece.name}" + ("" if piece.result is None else _result_of(piece))
        case Search(query, results, error, ended):
            found = f": {error}]" if error else f": {counted(len(results), 'result')}]" if ended else ""
            return f"[search {query!r}{found}" if query else ""


def _result_of(call: Call) -> str:
    """Arguments, time and the first lines of what a call gave."""
    given = json.dumps(call.input, ensure_ascii=False) if call.input else ""
    blocks = call.result or ()
    texts = [b.text if isinstance(b, TextBlock) else f"[{b.type}]" for b in blocks]
    lines = "\n".join(texts).splitlines()
    shown = [_short(line) for line in lines[:RESULT_LINES]]
    if len(lines) > RESULT_LINES:
        shown.append(f"… {len(lines) - RESULT_LINES:,} more lines")
    return "\n  ".join([f" {_short(given)}".rstrip() + f"] {call_state(call)}", *shown])


def _short(line: str) -> str:
    return line if len(line) <= RESULT_WIDTH else f"{line[: RESULT_WIDTH - 1]}…"
