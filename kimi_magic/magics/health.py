"""The subcommand `doctor`: the findings of `doctor`, with what only the magics know of the front end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..api import Kimi
from ..doctor import Finding, examine, lines, verdict
from ..errors import OptionError
from .stage import Stage

_MORE = {
    "anywidget is not installed beside this kernel": "pip install anywidget, then restart the kernel.",
    "the front end has started no widget": (
        "For replies in a widget, pip install anywidget where the Jupyter server runs, and reload the page."
    ),
}
"""Why replies are not live → what would change it."""


def doctor(kimi: Kimi, stage: Stage, words: Sequence[str]) -> None:
    """Show what was found. Raises `OptionError` for any word but `--online`."""
    if [word for word in words if word != "--online"]:
        raise OptionError("%kimi doctor takes --online or nothing.")
    found = examine(kimi.settings, online=bool(words), front_end=list(_front_end(kimi, stage)))
    rows = [{"": f.about, "is": f.mark, "found": " → ".join(filter(None, (f.says, f.remedy)))} for f in found]
    stage.table(rows, verdict(found), lines(found))


def _front_end(kimi: Kimi, stage: Stage) -> Iterator[Finding]:
    mode, why = stage.display
    yield Finding("display", f"{mode}: {why}", _MORE.get(why, ""))
    if kimi.notebook is not None:
        yield Finding("notebook", kimi.notebook)
    elif not stage.is_terminal:
        yield Finding(
            "notebook",
            "not known, so its conversation ends with this kernel.",
            "KIMI_MAGIC_NOTEBOOK names it; its outputs carry the turns in any case (%kimi restore).",
        )
