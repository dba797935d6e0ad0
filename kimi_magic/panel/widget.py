"""The widget's class, made on first use: anywidget and ipywidgets take a while to import."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from ..display import SCRIPT
from ..render import style

_HERE = Path(__file__).parent
_SCRIPTS = [_HERE / name for name in ("messages.js", "pieces.js", "panel.js")]
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
