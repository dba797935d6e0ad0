"""Where replies and tables are shown: the front end's kind, and the outputs of earlier cells.

A reply's output can be shown again later under its id: when its turn goes stale, it says so.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..api import view_of
from ..config import KimiMagic
from ..conversation import Turn
from ..display import Ending, ShellOutputs, StaticView, TerminalView, View
from ..render import ReplyView, bundle, closing_lines, table_html, table_text
from ..render.tables import Rows

STALE = (
    "Stale: an earlier cell was run again, so this turn is not part of the conversation. Run this cell again."
)


class Stage:
    """Makes views, and remembers what they showed."""

    def __init__(self, shell: Any, settings: KimiMagic) -> None:
        self._shell = shell
        self._settings = settings
        self._shown: dict[str, tuple[str, ReplyView, Turn]] = {}  # turn id → display id, …

    @property
    def is_terminal(self) -> bool:
        """Text instead of HTML: by the setting, or because no notebook kernel runs this shell."""
        if self._settings.display != "auto":
            return self._settings.display == "terminal"
        return getattr(self._shell, "kernel", None) is None

    def view(self) -> View:
        """A view for the running cell."""
        if self.is_terminal:
            return TerminalView(
                sys.stdout, lambda ending: closing_lines(view_of(ending)), color=sys.stdout.isatty()
            )
        outputs = ShellOutputs(self._shell)
        view = StaticView(outputs, self._final, silent=outputs.captured)
        self._display_id = view.display_id
        return view

    def _final(self, ending: Ending) -> dict[str, Any]:
        turn = ending.stream.turn
        assert turn is not None
        view = view_of(ending)
        self._shown[turn.id] = (self._display_id, view, turn)
        return bundle(view, turn.to_json())

    def mark_stale(self, turns: Sequence[Turn]) -> None:
        """Let the outputs of these turns say that they are stale, where this kernel showed them."""
        for turn in turns:
            if turn.id in self._shown:
                display_id, view, turn = self._shown[turn.id]
                marked = replace(view, notes=(STALE, *view.notes))
                ShellOutputs(self._shell).update(bundle(marked, turn.to_json()), display_id)

    def table(self, rows: Rows, caption: str) -> None:
        """A table, as HTML with a text twin, or as text."""
        if self.is_terminal:
            print(table_text(rows, caption))
        else:
            data = {"text/html": table_html(rows, caption), "text/plain": table_text(rows, caption)}
            self._shell.display_pub.publish(data=data, metadata={})

    def say(self, text: str) -> None:
        """Lines of plain text."""
        print(text)
