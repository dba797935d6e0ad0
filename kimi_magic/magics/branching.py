"""Subcommands that choose what the conversation goes on from: new, undo, use; branches lists it.

Nothing is lost: every turn that leaves the conversation stays in `%kimi history`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from ..api import Kimi
from ..conversation import Conversation, Turn
from ..counts import counted
from ..errors import OptionError
from .stage import Stage, shortened
from .words import quote, read_word


def new(kimi: Kimi, stage: Stage, words: Sequence[str]) -> None:
    conversation = kimi.conversation
    kimi.session.change(conversation.fresh())
    stage.say(
        f"Conversation {conversation.name!r} begins afresh; its turns so far"
        f" ({len(conversation.path()):,}) stay in %kimi history."
    )


def undo(kimi: Kimi, stage: Stage, words: Sequence[str]) -> None:
    conversation = kimi.conversation
    kimi.session.change(conversation.undo())
    gone = conversation.path()[-1]
    line = (
        f"Turn {gone.id[:6]} left the conversation: {shortened(gone.prompt)!r}."
        f" %kimi use {gone.id[:6]} undoes this."
    )
    aside = _put_aside(conversation, gone)
    if aside:
        line += (
            f" What it had put off when its cell ran again ({counted(len(aside), 'turn')}) stays off;"
            f" %kimi use {aside[-1].id[:6]} goes back to that."
        )
    stage.say(line)


def _put_aside(conversation: Conversation, turn: Turn) -> Sequence[Turn]:
    """The turns that left the conversation when this one took the place of the first of them."""
    ways = [conversation.path_to(last.id) for last in conversation.branches()]
    behind = [
        way[n:]
        for way in ways
        for n, other in enumerate(way)
        if (other.cell, other.parent) == (turn.cell, turn.parent) and other.time < turn.time
    ]
    return max(behind, key=lambda turns: turns[0].time, default=()) if turn.cell else ()


def use(kimi: Kimi, stage: Stage, words: Sequence[str]) -> None:
    """A turn, by its number or the first letters of its id, or a conversation by its name, written as
    behind -c."""
    text = " ".join(words)
    word = read_word(text, 0)
    name = word.text if word is not None and word.end == len(text) else ""
    if not name:
        raise OptionError(
            "%kimi use needs one thing, a turn or a conversation.", hint="%kimi history lists the turns."
        )
    turn = turn_named(kimi.conversation, name)
    if turn is not None and name not in kimi.conversations:
        kimi.session.change(kimi.conversation.use(turn.id))
        stage.say(f"The conversation goes on from turn {turn.id[:6]}: {shortened(turn.prompt)!r}.")
        return
    is_new = _check_name(kimi, name)
    kimi.session.conversation(name)
    kimi.session.current = name
    turns = "it is new" if is_new else f"it has {counted(len(kimi.conversation.path()), 'turn')}"
    stage.say(
        f"Cells without -c are in conversation {name!r} until the kernel restarts; {turns}."
        f" -c {quote(name)} in a cell stays with the cell."
    )


def turn_named(conversation: Conversation, word: str) -> Turn | None:
    """The turn of that number in `%kimi history`, or the one whose id begins with the word, of four letters
    at least."""
    found = [turn for turn in conversation.turns.values() if turn.id.startswith(word)]
    if len(word) >= 4 and len(found) == 1:
        return found[0]
    path = conversation.path()
    is_number = re.fullmatch("[0-9]{1,9}", word) is not None
    return path[int(word) - 1] if is_number and 0 < int(word) <= len(path) else None


def _check_name(kimi: Kimi, name: str) -> bool:
    """Whether no conversation has the name yet. Raises `OptionError` for one that is nearly something."""
    if name in kimi.conversations:
        return False
    is_id = re.fullmatch(r"[0-9]+|[0-9a-f]{4,16}", name) is not None
    turns = [turn.id[: max(6, len(name))] for turn in kimi.conversation.turns.values()] if is_id else []
    near = difflib.get_close_matches(name, [*turns, *kimi.conversations], n=1, cutoff=0.75)
    if near or is_id:
        meant = f"Did you mean {near[0]}? " if near else ""
        raise OptionError(
            f"There is no turn and no conversation {name!r}.",
            hint=f"{meant}%kimi history lists the turns; -c {quote(name)} begins a conversation.",
        )
    return True


def branches(kimi: Kimi, stage: Stage, words: Sequence[str]) -> None:
    """The ways that the conversation went, each by its last turn."""
    conversation = kimi.conversation
    rows = [
        {
            "turn": turn.id[:6],
            "active": "yes" if turn.id == conversation.head else "",
            "turns": str(len(conversation.path_to(turn.id))),
            "last prompt": shortened(turn.prompt),
            "time": turn.time.astimezone().strftime("%Y-%m-%d %H:%M"),
        }
        for turn in conversation.branches()
    ]
    stage.table(rows, f"Conversation {conversation.name}: %kimi use TURN goes on from another branch.")
