"""Which cell a magic runs in: the identity that a turn belongs to."""

from __future__ import annotations

from typing import Any


class Cells:
    """`current()` gives the id of the running cell. Where the front end sends none there are two cases.
    Nobody sits there (nbclient, nbconvert, nbval: no input can be asked for), and the notebook runs
    from its top: then it is the number of the question, so that each replaces its forerunner when all
    of it runs again. Else (a terminal) there is no id, and each question is a turn of its own.

    Several questions in one run of a cell (a loop, two calls) are told apart by their number, so
    each has its own turn, and running the cell again replaces each by its own successor.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._run = ""
        self._count = 0  # of the questions in this run
        self._headless = 0
        self.alone = False
        """The cell is nothing but its first question, as `current` found it: no other outputs are in it."""

    def current(self) -> str | None:
        get_parent = getattr(self._shell, "get_parent", None)
        parent = get_parent() if get_parent is not None else {}
        run = parent.get("header", {}).get("msg_id", "")
        self._count = self._count + 1 if run == self._run else 1
        self._run = run
        self.alone = self._count == 1 and _is_question(parent.get("content", {}).get("code", ""))
        cell = parent.get("metadata", {}).get("cellId")
        if not cell:
            if parent.get("content", {}).get("allow_stdin", True):
                return None
            self._headless += 1
            return f"question {self._headless}"
        return str(cell) if self._count == 1 else f"{cell} #{self._count}"


def _is_question(code: str) -> bool:
    lines = code.strip().splitlines()
    return bool(lines) and (
        lines[0].startswith("%%kimi") or (len(lines) == 1 and lines[0].startswith("%kimi"))
    )
