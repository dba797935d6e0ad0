"""Where replies and tables are shown: the front end's kind, and the outputs of earlier cells.

An output can be shown again under its id, also from a later cell: so when a turn leaves the
conversation its output says so, and when it is whole again the line goes.
"""

from __future__ import annotations

import os
import sys
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any

from ..api import view_of
from ..config import KimiMagic
from ..conversation import Conversation, Place, Turn
from ..display import Ending, LiveFrontEnd, LiveView, ShellOutputs, StaticView, TerminalView, View
from ..notebook import jupyter_session
from ..render import ReplyView, Terminal, bundle, closing_lines, table_html, table_text
from ..render.reply import text
from ..render.tables import Rows
from ..session import Session, TurnStream
from ..store import TWIN, twin_of
from ..usage import Record
from .failures import Failures
from .notes import notes

LINE = 48  # characters of a prompt, in a table or a sentence


@dataclass(slots=True)
class _Shown:
    """A reply's output."""

    display_id: str
    conversation: str | None
    turn: Turn
    place: Place
    view: ReplyView
    warnings: tuple[str, ...]
    about: frozenset[str] = field(init=False)
    """The turns that its notes speak of."""

    def __post_init__(self) -> None:
        others = (self.place.replaces, *self.place.stale)
        self.about = frozenset({self.turn.id, *(turn.id for turn in others if turn is not None)})


def how_shown(settings: KimiMagic, shell: Any, *, widgets: bool = True) -> tuple[str, str]:
    """How replies are shown while they come (live, static or terminal), and why so. widgets: the front
    end starts them, as far as is known."""
    if settings.display != "auto":
        return settings.display, "by the setting display"
    if getattr(shell, "kernel", None) is None:
        return "terminal", "no notebook kernel runs this shell"
    if jupyter_session(os.environ) is None:
        return "static", "no Jupyter server has named its session here (JPY_SESSION_NAME)"
    if find_spec("anywidget") is None:
        return "static", "anywidget is not installed beside this kernel"
    if not widgets:
        return "static", "the front end has started no widget"
    return "live", "a Jupyter server is there, and anywidget"


class Stage:
    """Makes views, and remembers what they showed. session: gives the session, made on first use."""

    def __init__(self, shell: Any, settings: KimiMagic, session: Callable[[], Session]) -> None:
        self.shell = shell
        self.failures = Failures(shell)
        """The last exception of the notebook."""
        self._settings = settings
        self._session = session
        self._shown: dict[str, _Shown] = {}  # by the turn's id
        self._states: dict[str, dict[str, str]] = {}  # of each conversation's turns, at the last look
        self._front_end = LiveFrontEnd()
        self._listeners: dict[str, Callable[..., None]] = {
            "pre_run_cell": lambda *_: self._front_end.cell_began(),
            "post_run_cell": lambda *_: self._front_end.cell_ended(),
        }
        for event, listener in self._listeners.items():
            shell.events.register(event, listener)

    def close(self) -> None:
        """Listen to the shell no more, and leave no widget open."""
        for event, listener in self._listeners.items():
            self.shell.events.unregister(event, listener)
        self._front_end.close()
        self.failures.close()

    @property
    def display(self) -> tuple[str, str]:
        """What `how_shown` says of this front end."""
        return how_shown(self._settings, self.shell, widgets=self._front_end.works)

    @property
    def is_terminal(self) -> bool:
        """Text instead of HTML."""
        return self.display[0] == "terminal"

    def view(self, *, alone: bool, background: bool = False) -> View:
        """A view for the running cell. alone: nothing else is among its outputs. background: the cell ends
        before the reply, which then has one output that is found by its id, whatever runs meanwhile; it
        is no widget, since the notebook may be saved or left in the middle of it."""
        if self.is_terminal:
            return TerminalView(
                sys.stdout,
                lambda ending: closing_lines(self._view_of(ending, self._warnings(ending), background)),
                at_end=background,
            )
        outputs = ShellOutputs(self.shell)

        def final(ending: Ending) -> dict[str, Any]:
            return self._final(ending, view.display_id, background)

        view: LiveView | StaticView
        if self.display[0] == "live" and not (outputs.captured or background):
            view = LiveView(outputs, self._front_end, final)
        else:
            view = StaticView(outputs, final, silent=outputs.captured, alone=alone and not background)
        return view

    def refresh(self) -> None:
        """Let the outputs of this kernel say what has become of their turns."""
        outputs = list(self._shown.values())
        names = {shown.conversation for shown in outputs if shown.conversation is not None}
        changed = {name: self._changes(name) for name in names}
        for shown in outputs:
            name = shown.conversation
            if name is None or shown.about.isdisjoint(changed[name]):
                continue
            now = (*shown.warnings, *notes(self._states[name], shown.turn, shown.place))
            if now != shown.view.notes:
                shown.view = replace(shown.view, notes=now)
                ShellOutputs(self.shell).update(self._bundle(shown), shown.display_id)

    def _changes(self, name: str) -> set[str]:
        """The turns of a conversation that something has become of since the last look."""
        before, now = self._states.get(name, {}), self._session().conversation(name).states()
        self._states[name] = now
        return {key for key, state in now.items() if before.get(key) != state}

    def watch(self, stream: TurnStream) -> View | None:
        """Each cell has its own view of the turn that it asks for."""
        return None

    def show_again(self, turn: Turn) -> None:
        """Send the output of a turn once more."""
        shown = self._shown.get(turn.id)
        if shown is not None:
            ShellOutputs(self.shell).update(self._bundle(shown), shown.display_id)

    def show_stored(self, turn: Turn, conversation: Conversation, records: Sequence[Record]) -> None:
        """An output of its own for a turn of a conversation: what was shown of it, as far as this kernel
        showed it, else what is stored of it."""
        from ..panel.transcript import view_of_turn

        shown = self._shown.get(turn.id)
        view = shown.view if shown is not None else view_of_turn(turn, records)
        about = notes(conversation.states(), turn, Place(turn.parent)) if shown is None else view.notes
        view = replace(view, notes=about, raised=False)
        if self.is_terminal:
            terminal = Terminal(color=False)
            lines = "\n".join(["", *closing_lines(view)])
            print(terminal.feed(text(view) + "\n" + lines) + terminal.close())
            return
        twin = twin_of(turn, conversation, view.records)
        self.shell.display_pub.publish(data={**bundle(view), TWIN: twin}, metadata={})

    def _final(self, ending: Ending, display_id: str, background: bool) -> dict[str, Any]:
        """The mimebundle to save of a reply that ended."""
        turn, plan = ending.stream.turn, ending.stream.plan
        assert turn is not None
        conversation = None if plan.ask.once else plan.ask.conversation
        warnings = self._warnings(ending)
        view = self._view_of(ending, warnings, background)
        shown = _Shown(display_id, conversation, turn, plan.place, view, warnings)
        data = self._bundle(shown)
        if turn.cell is not None:  # the output of this cell's earlier turn is gone
            self._shown = {k: s for k, s in self._shown.items() if s.turn.cell != turn.cell}
        self._shown[turn.id] = shown
        return data

    def _bundle(self, shown: _Shown) -> dict[str, Any]:
        name = shown.conversation
        conversation = self._session().conversation(name) if name is not None else None
        return {**bundle(shown.view), TWIN: twin_of(shown.turn, conversation, shown.view.records)}

    def _warnings(self, ending: Ending) -> tuple[str, ...]:
        """What the user is to be told with this reply, whatever becomes of its turn later."""
        return (*ending.stream.notes, *self._session().take_warnings())

    def _view_of(self, ending: Ending, warnings: tuple[str, ...], background: bool) -> ReplyView:
        if background and ending.stream.error is not None:
            error = ending.stream.error
            ending = replace(ending, failure=f"{type(error).__name__}: {error}")
        session, plan, turn = self._session(), ending.stream.plan, ending.stream.turn
        assert turn is not None
        if plan.ask.once:
            return view_of(ending, warnings, raised=not background)
        states = session.conversation(plan.ask.conversation).states()
        about = notes(states, turn, plan.place)
        return view_of(ending, (*warnings, *about), raised=not background)

    def table(self, rows: Rows, caption: str, text: str = "") -> None:
        """A table, as HTML with a text twin, or as text. text: that, where columns would be too wide."""
        text = text or table_text(rows, caption)
        if self.is_terminal:
            print(text)
        else:
            data = {"text/html": table_html(rows, caption), "text/plain": text}
            self.shell.display_pub.publish(data=data, metadata={})

    def picture(self, png: bytes, text: str) -> None:
        """A picture; in a terminal, and for those who cannot see it, the text."""
        if self.is_terminal:
            print(f"{text}: a terminal shows no pictures.")
            return
        data = {"image/png": b64encode(png).decode("ascii"), "text/plain": text}
        self.shell.display_pub.publish(data=data, metadata={})

    def say(self, text: str) -> None:
        """Lines of plain text."""
        print(text)


def shortened(text: str) -> str:
    """One line of at most `LINE` characters."""
    line = " ".join(text[: 8 * LINE].split())  # more is not worth looking at
    return line if len(line) <= LINE else f"{line[: LINE - 1]}…"
