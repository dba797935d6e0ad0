"""A tool call as a section of a reply: what was called, with what, what came of it, and how long it took.

Its height is bounded, however long the result; a result with an image stands open.
"""

from __future__ import annotations

import json
from html import escape
from typing import Any

from ..tools import BROKEN_OFF, DECLINED
from ..wire import Block, ImageBlock, TextBlock
from . import style
from .footer import seconds
from .images import image_html
from .pieces import Call
from .sanitise import clean

GIVEN = 80
"""Characters of a call's arguments that stand in its summary."""


def call_html(call: Call, *, runs: bool = False) -> str:
    """runs: the turn is under way, so a call without a result is too."""
    faulty = " (the arguments are not valid JSON)" if call.raw_input is not None else ""
    arguments = call.raw_input
    if arguments is None:
        arguments = _written(call.input, indent=2) if call.input else ""
    body = f'<pre style="{style.PRE}">{escape(clean(arguments))}</pre>' if arguments else ""
    results = call.result or ()
    body += "".join(_result_html(block, is_error=call.is_error) for block in results)
    is_open = " open" if any(isinstance(block, ImageBlock) for block in results) else ""
    return (
        f'<details{is_open} class="kimi-tool" style="{style.BOX}">'
        f'<summary style="{style.SUMMARY}">Tool · <code>{escape(clean(_signature(call)))}</code>{faulty}'
        f" · {escape(call_state(call, runs=runs))}</summary>{body}</details>"
    )


def call_line(call: Call) -> str:
    """The call and what became of it, in a line of plain text."""
    return clean(f"{_signature(call)} · {call_state(call)}")


def call_state(call: Call, *, runs: bool = False) -> str:
    """In a word or two: whether it ran, and how long."""
    if call.result is None:
        return "not run" if not runs else "waiting" if call.waits else "running …"
    state = [_trouble(call.result)] if call.is_error else []
    took = [seconds(call.seconds)] if call.seconds is not None else []
    return " · ".join(state + took) or "done"


_TROUBLES = {BROKEN_OFF: "interrupted", DECLINED: "declined"}
"""How a result begins that tells the model why the function did not run to its end."""


def _trouble(result: tuple[Block, ...]) -> str:
    said = next((block.text for block in result if isinstance(block, TextBlock)), "")
    return next((word for begin, word in _TROUBLES.items() if said.startswith(begin)), "failed")


def _signature(call: Call) -> str:
    """`name(a=1, b="x")`, shortened."""
    given = ", ".join(f"{name}={_written(value)}" for name, value in call.input.items())
    return f"{call.name}({given if len(given) <= GIVEN else f'{given[:GIVEN]} …'})"


def _written(value: Any, indent: int | None = None) -> str:
    """As JSON, where it can be."""
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent)
    except RecursionError:
        return "(nested too deeply to be shown)"


def _result_html(block: Block, *, is_error: bool) -> str:
    """A part of a result: text in a box that scrolls, or an image."""
    if isinstance(block, TextBlock):
        look = style.RESULT_ERROR if is_error else style.RESULT
        return f'<pre style="{look}">{escape(clean(block.text))}</pre>'
    image = image_html(block, "image that the tool returned")
    return image or f'<p style="{style.QUIET}">[{escape(clean(block.type or "block"))}]</p>'
