"""The segments of a reply that still streams: the same pieces as in `reply`, not finished yet."""

from __future__ import annotations

from html import escape

from ..counts import counted
from . import style
from .calls import call_html
from .footer import seconds
from .pieces import Call, Piece, Search, Thinking
from .reply import ReplyView, badge_html, piece_html, search_html, wrapped
from .sanitise import clean

FOLLOWED = 20_000
"""Characters of running thinking that are sent, counted from its end: it is sent again as it grows."""


def waiting(model: str, elapsed: float, trouble: str = "", *, queued: bool = False) -> str:
    """Before anything came. The count moves once a second. queued: other replies come first."""
    awaited = "the reply before this one" if queued else model
    line = f"Waiting for {awaited}" + (f" · {int(elapsed)} s" if elapsed >= 1 else " …")
    note = f'<div style="{style.NOTE}">{escape(clean(trouble))}</div>' if trouble else ""
    body = f'<div class="kimi-waiting" style="{style.QUIET}">{escape(clean(line))}</div>{note}'
    return wrapped(body, sheet=False)


def segment(body: str, *, simulated: bool | None = None) -> str:
    """One segment. simulated: known for the first one, which brings the style sheet and the badge."""
    opening = badge_html() if simulated else ""
    return wrapped(opening + body, sheet=simulated is not None)


def piece(part: Piece, thought_for: float | None, tokens: int = 0) -> str:
    """A piece that may still grow (texts grow elsewhere: they are rendered bit by bit). tokens: as for
    `thinking_label`."""
    if isinstance(part, Thinking) and not part.redacted:
        return thinking(part.text, thinking_label(thought_for, tokens))
    if isinstance(part, Call):
        return call_html(part, runs=True)
    if isinstance(part, Search):
        return search_html(part, runs=True)
    return piece_html(part, ReplyView((), thinking_seconds=thought_for))


def thinking_label(thought_for: float | None, tokens: int) -> str:
    """What stands above running thinking. tokens: an estimate; the server tells the number at the end."""
    time = [] if thought_for is None else [seconds(thought_for)]
    return " · ".join(["Thinking", *time, *[f"about {counted(tokens, 'token')}"] * bool(tokens)])


def thinking(thought: str, label: str) -> str:
    """Thinking while the reply runs: open, in a low box that stands at what was thought last. Once
    the text begins it is not sent again, so a reader can scroll in it and fold it."""
    last = thought[-FOLLOWED:]
    if len(last) < len(thought):
        last = "… " + last.partition(" ")[2]
    return thinking_box(label, last)


def thinking_box(label: str = "", thought: str = "") -> str:
    """The open section of running thinking; without words, for a widget that fills it."""
    return (
        f'<details open class="kimi-thinking" style="{style.BOX}">'
        f'<summary style="{style.SUMMARY}">{escape(label)}</summary>'
        f'<div style="{style.FOLLOW}"><div class="kimi-thought" style="{style.RUNNING}">'
        f"{escape(clean(thought))}</div></div></details>"
    )
