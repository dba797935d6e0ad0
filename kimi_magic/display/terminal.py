"""Text as it comes, for terminals: the thinking dimmed, then the reply, then the lines under it.

What is printed only ever grows, so it works in a pipe as well. The formatter makes every escape
sequence of the model harmless.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TextIO

from ..render import DIM, Terminal
from ..render.pieces import Call, Piece, Search, Text, Thinking, pieces
from ..wire import Block
from .show import Ending, Progress

INTERVAL = 0.05


class TerminalView:
    """Prints one reply to `out`. closing: the lines under it, made of what came of it. color: by default
    where `out` is a terminal, unless the environment variable NO_COLOR is set (https://no-color.org)."""

    def __init__(
        self, out: TextIO, closing: Callable[[Ending], list[str]], *, color: bool | None = None
    ) -> None:
        if color is None:
            color = out.isatty() and not os.environ.get("NO_COLOR")
        self._out = out
        self._closing = closing
        self._color = color
        self._place = -1  # of the piece that is being printed
        self._fed = 0  # characters of it
        self._terminal = Terminal(color=color)

    def update(self, progress: Progress) -> float:
        self._print(progress.content)
        return INTERVAL

    def finish(self, ending: Ending) -> None:
        turn = ending.stream.turn
        assert turn is not None
        self._print(tuple(turn.reply))
        self._end_piece()
        dim = Terminal(color=self._color, style=DIM)
        lines = "".join(f"{line}\n" for line in self._closing(ending))
        self._write(dim.feed(lines) + dim.close())

    def _print(self, content: tuple[Block, ...]) -> None:
        """Print what is new."""
        found = pieces(content)
        for place in range(max(self._place, 0), len(found)):
            if place != self._place:
                self._begin_piece(place, found[place])
            text = _text_of(found[place])
            self._write(self._terminal.feed(text[self._fed :]))
            self._fed = max(self._fed, len(text))

    def _begin_piece(self, place: int, piece: Piece) -> None:
        self._end_piece()
        self._place, self._fed = place, 0
        self._terminal = Terminal(color=self._color, style="" if isinstance(piece, Text) else DIM)

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
        case Call(name):
            return f"[tool: {name}]"
        case Search(query, results, error):
            found = f": {error}]" if error else f": {len(results)} results]" if results else ""
            return f"[search {query!r}{found}" if query else ""
