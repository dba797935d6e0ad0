"""The panel of a chat: hears what the front end wants, and tells it what there is.

- There is one panel a chat, shown as often as one likes: each place is a view of the same widget.
- It is among the chat's audience, so what cells ask appears in it while it streams; what it asks is a
  turn like any other, in the background.
- A front end that comes (or comes back) says hello and gets all there is; then it gets news.
- What cells change (settings, tools, variables) it looks at when a cell has ended.
- Each wish of a front end is acknowledged at once. While a cell runs it waits in the kernel's queue, and
  the front end says so itself.
- A second output below the widget holds the conversation as static HTML: that is what is left of it in
  a saved notebook. The widget's style sheet hides it as long as the widget lives.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, Protocol

from ..api import Kimi, view_of
from ..conversation import Conversation, Turn
from ..counts import counted
from ..display import Deltas, Ending, Outputs, Progress, View
from ..errors import ConversationError, KimiError
from ..notebook import jupyter_session
from ..render import ReplyView
from ..session import TurnStream
from ..tools import Tool
from ..wire import ToolUseBlock
from .asking import Form, plan_of
from .confirming import Confirming
from .state import item, notebook, state
from .transcript import LIVE_ONLY, NOT_DRAWN, Entry, is_of_panel, saved, shown, view_of_turn, without_cell
from .widget import is_open, made

INTERVAL = 0.1  # seconds between two updates of a running reply, at least
BYTES_PER_SECOND = 150_000
REMEMBERED = 1000  # wishes whose repetition is not heeded

Said = Mapping[str, Any]


class Events(Protocol):
    """Those of an IPython shell."""

    def register(self, event: str, function: Callable[..., None]) -> None: ...

    def unregister(self, event: str, function: Callable[..., None]) -> None: ...


class Panel:
    """names: the notebook's variables. outputs: where it is shown. events: of the shell that runs cells."""

    def __init__(self, kimi: Kimi, names: Mapping[str, Any], outputs: Outputs, events: Events) -> None:
        self.kimi = kimi
        self._names = names
        self._outputs = outputs
        self._events = events
        self._widget: Any = None
        self._saved_id = uuid.uuid4().hex
        self._lock = threading.RLock()
        self._running: list[TurnStream] = []
        self._sent: set[str] = set()  # turns that the front ends have
        self._notebook: dict[str, Any] = {}  # as the front ends know it
        self._views: dict[str, ReplyView] = {}  # by turn: of those that ended before its eyes
        self._entries: dict[str, Entry] = {}  # by turn
        self._kept: tuple[str, ...] = ()  # the turns of the saved output
        self._files: dict[str | None, tuple[str, ...]] = {}  # what was attached here, by the turn's cell
        self._heard: dict[str, None] = {}
        self.greetings = 0
        """How often a front end came: each needs all there is."""
        self._confirming = Confirming(self.send)
        self._wishes: dict[str, Callable[[Said], None]] = {
            "hello": self._hello,
            "ask": self._ask,
            "again": self._again,
            "stop": self._stop,
            "new": lambda said: self._change(self.kimi.conversation.fresh()),
            "undo": lambda said: self._change(self.kimi.conversation.undo()),
            "use": lambda said: self._change(self.kimi.conversation.use(str(said["turn"]))),
            "switch": self._switch,
            "system": self._system,
            "answer": lambda said: self._confirming.answer(str(said["call"]), bool(said["allowed"])),
        }
        kimi.audience.append(self)
        events.register("post_run_cell", self._cell_ended)

    # --- shown ----------------------------------------------------------------------------------

    def _ipython_display_(self) -> None:
        """Show it here, too: the widget where a front end can draw one, and what a notebook keeps."""
        if self._is_live:
            if self._widget is None or not is_open(self._widget):
                self._widget = made(_panel=uuid.uuid4().hex, _saved=self._saved()["text/html"])
                self._widget.on_msg(lambda widget, said, buffers: self.hear(said))
            view = {"version_major": 2, "version_minor": 1, "model_id": self._widget.model_id}
            self._outputs.publish(
                {"text/plain": "Kimi panel", "application/vnd.jupyter.widget-view+json": view},
                uuid.uuid4().hex,
            )
        self._outputs.publish(self._saved(), self._saved_id)

    @property
    def _is_live(self) -> bool:
        """A front end is there that draws widgets, as far as one can know."""
        display = self.kimi.settings.display
        if display != "auto":
            return display == "live"
        served = jupyter_session(os.environ) is not None
        there = served or any(name.startswith("VOILA_") for name in os.environ)
        return (there or "__vsc_ipynb_file__" in self._names) and find_spec("anywidget") is not None

    def close(self) -> None:
        """Take the widget away; the saved conversation stays."""
        if self in self.kimi.audience:
            self.kimi.audience.remove(self)
            self._events.unregister("post_run_cell", self._cell_ended)
        self._confirming.close()
        if self._widget is not None:
            self._widget.close()
            self._widget = None

    def _saved(self) -> dict[str, Any]:
        conversation = self.kimi.conversation
        about = LIVE_ONLY if self._is_live else NOT_DRAWN
        return saved(conversation.name, [self._entry(turn) for turn in shown(conversation)], about)

    def _entry(self, turn: Turn) -> Entry:
        """The turn, rendered once: what ended does not change."""
        if turn.id not in self._entries:
            view = self._views.pop(turn.id, None) or view_of_turn(turn, self.kimi.session.records)
            if is_of_panel(turn):
                view = replace(view, failure=without_cell(view.failure))
            self._entries[turn.id] = Entry.of(turn, view)
        return self._entries[turn.id]

    def saw(self, ending: Ending) -> None:
        """A turn has ended before its eyes: it knows more of it than what is stored, as its cell does."""
        turn, ask = ending.stream.turn, ending.stream.plan.ask
        assert turn is not None
        if ask.once:
            return
        self._entries.pop(turn.id, None)
        self._views[turn.id] = view_of(ending, ending.stream.notes, raised=False)
        if self.kimi.session.conversation(ask.conversation).states()[turn.id] == "left":
            self._note("The conversation has gone on without the reply that came: it is a branch of its own.")

    # --- the audience ---------------------------------------------------------------------------

    def watch(self, stream: TurnStream) -> View | None:
        """The turn, as it comes."""
        with self._lock:
            self._running.append(stream)
        self._tell()
        return _Live(self, stream)

    def refresh(self) -> None:
        """Tell the front end what has changed, and keep it in the saved output."""
        self._tell()
        conversation = self.kimi.conversation
        now = (conversation.name, *(turn.id for turn in shown(conversation)))
        if now != self._kept:
            self._kept = now
            self._outputs.update(self._saved(), self._saved_id)

    def _cell_ended(self, result: object) -> None:
        """Tell the front end what a cell has changed that nobody else tells it."""
        if self._widget is not None and notebook(self.kimi, self._names) != self._notebook:
            self.refresh()

    def _tell(self) -> None:
        """Send the state, with the turns that the front end does not have."""
        with self._lock:
            self._running = [stream for stream in self._running if stream.turn is None]
            self._notebook = notebook(self.kimi, self._names)
            now = {**self._notebook, **state(self.kimi, self._running)}
            turns = self.kimi.conversation.turns
            new = [key for key in now["turns"] if key not in self._sent]
            self._sent |= set(new)
            items = [item(self._entry(turns[key]), self._files.get(turns[key].cell, ())) for key in new]
            self.send({"kind": "state", **now, "items": items})

    def send(self, message: dict[str, Any]) -> None:
        """To every place where the panel is shown. In any thread."""
        widget = self._widget
        if widget is not None:
            widget.send(message)

    # --- wishes ---------------------------------------------------------------------------------

    def hear(self, said: Said) -> None:
        """Do what the front end asks for, once; an error is told there in one line."""
        wish, number = str(said.get("do")), str(said.get("n", ""))
        self.send({"kind": "ack", "n": number})
        if wish not in self._wishes or number in self._heard:
            return
        self._heard[number] = None
        for old in list(self._heard)[:-REMEMBERED]:
            del self._heard[old]
        try:
            self._wishes[wish](said)
        except KimiError as error:
            self.send({"kind": "error", "n": number, "text": f"{type(error).__name__}: {error}"})

    def _hello(self, said: Said) -> None:
        with self._lock:
            self._sent = set()
            self.greetings += 1
            self._tell()
        self._confirming.repeat()

    def _ask(self, said: Said, cell: str | None = None) -> None:
        form = Form.of(said)
        plan = plan_of(self.kimi, self._names, form, cell)
        self._files[plan.ask.cell] = form.files
        self.send({"kind": "taken", "n": str(said.get("n", ""))})
        begun: list[Any] = []

        def confirm(tool: Tool, call: ToolUseBlock) -> bool | None:
            return self._confirming.ask(tool, call, lambda: begun[0].stream.turn is None)

        self.kimi.begin(plan, confirm=confirm, keep=begun.append)
        self._note(*self.kimi.session.take_warnings())

    def _note(self, *lines: str) -> None:
        """Something that the user is to be told, and that is no error."""
        if lines:
            self.send({"kind": "note", "text": " ".join(lines)})

    def _again(self, said: Said) -> None:
        """Ask a turn of the path anew, in its place."""
        turn = self.kimi.conversation.turns.get(str(said["turn"]))
        if turn is None:
            raise ConversationError("That turn is no longer there.")
        if turn.cell is not None:
            self._ask(said, turn.cell)
            return
        before = self.kimi.conversation
        self.kimi.session.change(before.use(turn.parent) if turn.parent else before.fresh())
        try:
            self._ask(said)
        except KimiError:  # nothing was asked, so the path stays
            self.kimi.session.change(before)
            raise

    def _stop(self, said: Said) -> None:
        for stream in list(self._running):
            if stream.id in said["keys"]:
                stream.stop()

    def _switch(self, said: Said) -> None:
        name = str(said["name"]).strip()
        if not name:
            raise ConversationError("A conversation needs a name.")
        self.kimi.session.conversation(name)
        self.kimi.session.current = name
        self.kimi.refresh()
        turns = counted(len(self.kimi.conversation.path()), "turn")
        self._note(f"Cells without -c are in conversation {name!r} now, too; it has {turns}.")

    def _system(self, said: Said) -> None:
        self._change(replace(self.kimi.conversation, system=str(said["text"]).strip() or None))

    def _change(self, conversation: Conversation) -> None:
        self.kimi.session.change(conversation)
        self.kimi.refresh()


class _Live:
    """The view of one running turn: its news go to the panel's front ends."""

    def __init__(self, panel: Panel, stream: TurnStream) -> None:
        self._panel = panel
        self._stream = stream
        self._deltas = Deltas()
        self._greetings = panel.greetings

    def update(self, progress: Progress) -> float:
        came = self._panel.greetings
        news, size = self._deltas.news(progress, whole=came != self._greetings)
        self._greetings = came
        if news:
            self._panel.send({"kind": "live", "key": self._stream.id, **news})
        return max(INTERVAL, size / BYTES_PER_SECOND)

    def finish(self, ending: Ending) -> None:
        self._panel.saw(ending)  # the turn is in the conversation now, and the audience is told
