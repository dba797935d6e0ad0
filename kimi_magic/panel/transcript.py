"""A conversation as a reader sees it: the turns of the active path, and those after it that failed.

It is also what a saved notebook keeps of the panel, complete in each MIME type, without a script.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from ..conversation import COMPLETE, CUT, INTERRUPTED, REFUSED, Conversation, Turn
from ..counts import counted
from ..render import ReplyView, plain_text, safe_markdown, style
from ..render import reply as rendered
from ..render.sanitise import clean
from ..usage import Record

MOST = 400_000  # characters of HTML that a notebook keeps; earlier turns are left out
NO_WIDGET = (
    ".jp-OutputArea-child:has(+ .jp-OutputArea-child .kimi-panel-saved)"
    " > .jp-OutputArea-output.lm-Panel:not(:has(*)) { display: none }"
)
"""The front end's own line for a widget whose kernel is gone ("model not found"), right above a transcript
that stands for it: a widget's output in which nothing is drawn."""
LIVE_ONLY = "The panel itself lives as long as its kernel: run %kimi panel again to go on here."
NOT_DRAWN = (
    "The panel itself is not drawn, since no front end that draws widgets is known here;"
    " %config KimiMagic.display = 'live' and %kimi panel draw it all the same."
)

_BECAUSE = {
    INTERRUPTED: "Interrupted: what had arrived is kept here, and will not be sent again.",
    CUT: "The reply ended before it said anything that a conversation can go on from.",
    REFUSED: "The model refused.",
}


def shown(conversation: Conversation) -> list[Turn]:
    """The active path; each turn that did not become a part of it stands where it was asked, as long as
    no other has taken the place of it, and the conversation did not begin afresh since."""
    path = {turn.id for turn in conversation.path()}
    states = conversation.states()
    answered = {turn.cell for turn in conversation.path() if turn.cell is not None}
    return [
        turn
        for turn in conversation.turns.values()
        if turn.id in path
        or (
            turn.status != COMPLETE
            and states[turn.id] == turn.status
            and (turn.parent is None or turn.parent in path)
            and turn.cell not in answered
            and turn.id not in conversation.undone
        )
    ]


def is_of_panel(turn: Turn) -> bool:
    """Whether it was asked in the panel, and belongs to no cell of the notebook."""
    return (turn.cell or "").startswith("panel ")


def without_cell(failure: str) -> str:
    """The next step of an error, for a turn that has no cell to run again."""
    return failure.replace("Run the cell again", "Ask again").replace("run the cell again", "ask again")


def view_of_turn(turn: Turn, records: Iterable[Record]) -> ReplyView:
    """What is shown of a turn that ended, from what is stored of it."""
    failure = "" if turn.status == COMPLETE else turn.error or _BECAUSE.get(turn.status, "")
    return ReplyView(
        content=tuple(turn.content),
        records=tuple(record for record in records if record.turn == turn.id),
        failure=failure,
        simulated=turn.simulated,
        thinking_seconds=turn.thinking_seconds,
        call_seconds=turn.call_seconds,
        structured="output_config" in turn.settings and "format" in turn.settings["output_config"],
        raised=False,
        images=tuple(turn.images),
        max_tokens=turn.settings.get("max_tokens"),
    )


@dataclass(frozen=True, slots=True)
class Entry:
    """One turn, rendered. html: its reply, sanitised, without the style sheet."""

    turn: Turn
    html: str
    markdown: str
    text: str

    @classmethod
    def of(cls, turn: Turn, view: ReplyView) -> Entry:
        return cls(
            turn,
            rendered.html(view, sheet=False),
            f"**You:** {safe_markdown(turn.prompt)}\n\n{rendered.markdown(view)}",
            f"You: {plain_text(turn.prompt)}\n\n{rendered.text(view)}",
        )


def saved(name: str, entries: Sequence[Entry], about: str = LIVE_ONLY) -> dict[str, Any]:
    """The mimebundle of a transcript: the last turns, up to a size. about: where the panel itself is."""
    size, first = 0, len(entries)
    while first > 0 and (size == 0 or size + len(entries[first - 1].html) <= MOST):
        first -= 1
        size += len(entries[first].html)
    whole = sum(entry.turn.status == COMPLETE for entry in entries)
    broken = f" and {len(entries) - whole:,} that did not end well" if whole < len(entries) else ""
    title = f"Conversation {name}: {counted(whole, 'turn')}{broken}."
    left_out = f" The first {first} are not shown." if first else ""
    opening = f'<p style="{style.QUIET}">{escape(clean(f"{title}{left_out} {about}"))}</p>'
    body = "".join(_section(entry) for entry in entries[first:])
    return {
        "text/html": f'<div class="kimi-panel-saved"><style>{NO_WIDGET}</style>'
        f"{rendered.wrapped(opening + body)}</div>",
        "text/markdown": "\n\n".join([safe_markdown(title), *(entry.markdown for entry in entries[first:])]),
        "text/plain": "\n\n".join([plain_text(title), *(entry.text for entry in entries[first:])]),
    }


def _section(entry: Entry) -> str:
    prompt = f'<div style="{style.BOX};{style.RUNNING};opacity:1">{escape(clean(entry.turn.prompt))}</div>'
    return f"<section>{prompt}{entry.html}</section>"
