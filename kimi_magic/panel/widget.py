"""The widget's class, made on first use: anywidget and ipywidgets take a while to import."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from ..display import SCRIPT
from ..render import style

_HERE = Path(__file__).parent
_SCRIPTS = [_HERE / name for name in ("messages.js", "pieces.js", "log.js", "strip.js", "panel.js")]
"""Put one after the other, behind what shows a running reply."""


@cache
def widget_class() -> Any:
    import anywidget
    import traitlets

    class KimiPanel(anywidget.AnyWidget):
        _esm = "\n".join(file.read_text("utf-8") for file in (SCRIPT, *_SCRIPTS))
        _css = (_HERE / "panel.css").read_text("utf-8") + style.rules()
        _panel = traitlets.Unicode().tag(sync=True)
        _saved = traitlets.Unicode().tag(sync=True)

    return KimiPanel


def made(**state: str) -> Any:
    """A new widget with this state.

    ipykernel 7.4 takes a message for the answer to what its widget has sent last, and lets it wait where
    that was sent: after a cell's news, behind the cell that runs now. Ours answer nothing, so each goes
    where the front end sends it.
    """
    widget = widget_class()(**state)
    if hasattr(widget.comm, "_reply_subshell_for"):
        widget.comm._reply_subshell_for = lambda data, sent_to: sent_to
    return widget


def is_open(widget: Any) -> bool:
    """Whether it can be heard: neither `Widget.close_all()` nor the front end has closed it."""
    return widget.comm is not None and not getattr(widget.comm, "_closed", False)
