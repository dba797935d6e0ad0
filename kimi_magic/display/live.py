"""A reply in a widget that receives only what is new: the smoothest way, where a front end can do it.

Measured against one growing output (200 KB in 8,000 deltas): a twentieth of the bytes, an eighth of the
browser's time, and what a reader opened or selected stays as it is. The rules:

- `live.js` keeps what came and shows it (`deltas`);
- the widget never stays in the notebook: the finished, static output takes its place under the same id,
  whatever ends the reply;
- whether the front end can show it is known only when the widget says that it has started, and that
  message waits in the kernel's queue while cells run. So `LiveFrontEnd` gives it up only when the kernel
  has been idle for a second without having heard of any;
- a closed widget is not heard: until one is, the first that is done stays open, out of sight.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..render import running, style
from .deltas import SCRIPT, Deltas
from .outputs import Outputs
from .show import Ending, Progress
from .waiting import waiting

MIN_INTERVAL = 0.1
BYTES_PER_SECOND = 150_000
IDLE = 1.0  # seconds of an idle kernel after which a widget would have been heard of

_SCRIPT = Path(__file__).with_name("live.js")
_ENDED = (
    f'<div class="kimi-failure" role="status" style="{style.FAILURE}">The kernel has ended, and this reply '
    "with it. What had arrived stands here until the page is loaded again.</div>"
)


class LiveFrontEnd:
    """Whether live replies work in the front end of this kernel: until proven otherwise, yes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heard = False
        self._sent = False
        self._idle_since: float | None = None
        self._failed = False
        self._held: Any = None  # the widget that is done and still to be heard of
        self._lock = threading.Lock()  # some kernels hear widgets in a thread of their own

    @property
    def works(self) -> bool:
        return not self._failed

    def cell_ended(self) -> None:
        """A cell has ended: the kernel is idle, and hears what widgets say."""
        self._idle_since = self._clock()

    def cell_began(self) -> None:
        """A cell begins; what a widget said in the pause before it is known by now."""
        idle = self._idle_since is not None and self._clock() - self._idle_since >= IDLE
        self._idle_since = None
        if self._sent and not self._heard and idle:
            self._failed = True
            self.close()

    def sent(self) -> None:
        """A widget was sent to the front end."""
        self._sent = True

    def done(self, widget: Any) -> None:
        """A widget's output has been replaced: close it, now or once one has been heard of."""
        with self._lock:
            if not self._heard and self._held is None:
                self._held = widget
                return
        widget.close()

    def heard(self) -> None:
        """One has said that it has started."""
        with self._lock:
            self._heard = True
            self._failed = False
        self.close()

    def close(self) -> None:
        """Close what is still open."""
        with self._lock:
            held, self._held = self._held, None
        if held is not None:
            held.close()


class LiveView:
    """Shows one reply in a widget, and then as a static output.

    final: makes the saved mimebundle. make: makes the widget from its state; by default a `LiveReply`.
    """

    def __init__(
        self,
        outputs: Outputs,
        front_end: LiveFrontEnd,
        final: Callable[[Ending], dict[str, Any]],
        *,
        clock: Callable[[], float] = time.monotonic,
        make: Callable[..., Any] | None = None,
    ) -> None:
        self._outputs = outputs
        self._front_end = front_end
        self._final = final
        self._clock = clock
        self._make = make
        self.display_id = uuid.uuid4().hex
        self._widget: Any = None
        self._deltas = Deltas()

    def update(self, progress: Progress) -> float:
        began = self._clock()
        if self._widget is None:
            self._open(progress)
        elif self._outputs.cleared():
            self._show()
        news, sent = self._deltas.news(progress)
        if news:
            self._widget.send(news)
        took = self._clock() - began
        return max(MIN_INTERVAL, sent / BYTES_PER_SECOND, 3 * took)

    def finish(self, ending: Ending) -> None:
        data = self._final(ending)
        gone = self._widget is None or self._outputs.cleared()
        try:
            (self._outputs.publish if gone else self._outputs.update)(data, self.display_id)
        finally:
            if self._widget is not None:
                self._front_end.done(self._widget)

    def _open(self, progress: Progress) -> None:
        make = self._make or widget_class()
        self._widget = make(
            _reply=self.display_id,
            _opening=running.segment("", simulated=progress.simulated),
            _waiting=waiting(progress),
            _ended=_ENDED,
        )
        self._widget.on_msg(lambda widget, content, buffers: self._front_end.heard())
        self._front_end.sent()
        self._show()

    def _show(self) -> None:
        view = {"version_major": 2, "version_minor": 1, "model_id": self._widget.model_id}
        self._outputs.publish(
            {"text/plain": "…", "application/vnd.jupyter.widget-view+json": view}, self.display_id
        )


_made: list[Any] = []


def widget_class() -> Any:
    """The widget's class, made on first use: anywidget and ipywidgets take a while to import."""
    if not _made:
        import anywidget
        import traitlets

        class LiveReply(anywidget.AnyWidget):
            _esm = SCRIPT.read_text("utf-8") + _SCRIPT.read_text("utf-8")
            _reply = traitlets.Unicode().tag(sync=True)
            _opening = traitlets.Unicode().tag(sync=True)
            _waiting = traitlets.Unicode().tag(sync=True)
            _ended = traitlets.Unicode().tag(sync=True)

            def close(self) -> None:
                """With its layout, a widget that nothing else closes."""
                layout = self.layout
                super().close()
                layout.close()

        _made.append(LiveReply)
    return _made[0]
