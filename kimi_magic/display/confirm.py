"""Whether a call may run: the user is asked in the cell, where somebody can answer."""

from __future__ import annotations

import json

from ..render.sanitise import clean
from ..tools import Tool
from ..wire import ToolUseBlock

_SHOWN = 300  # characters of the arguments; the tool's section shows all of them


def by_input(tool: Tool, call: ToolUseBlock) -> bool | None:
    """What the user says to the call; anything but yes is no. None where the front end cannot ask (a
    headless run, a pipe)."""
    given = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in call.input.items())
    if len(given) > _SHOWN:
        given = f"{given[:_SHOWN]} … ({len(given):,} characters in all)"
    try:
        answer = input(f"Run {tool.name}({clean(given)})? [y/N] ")
    except (EOFError, NotImplementedError, OSError):  # ipykernel's own error is the second
        return None
    return answer.strip().lower() in ("y", "yes")


def by_nobody(tool: Tool, call: ToolUseBlock) -> bool | None:
    """Beside the cells nobody is asked: a question there would wait for an answer unseen."""
    return None
