"""The widget's class, made on first use: anywidget and ipywidgets take a while to import."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from ..display import SCRIPT
from ..render import style

_HERE = Path(__file__).parent


@cache
def widget_class() -> Any:
    import anywidget
    import traitlets

    class KimiPanel(anywidget.AnyWidget):
        _esm = SCRIPT.read_text("utf-8") + (_HERE / "panel.js").read_text("utf-8")
        _css = (_HERE / "panel.css").read_text("utf-8") + style.rules()
        _panel = traitlets.Unicode().tag(sync=True)
        _saved = traitlets.Unicode().tag(sync=True)

    return KimiPanel
