"""Turns that travel in the outputs of a notebook, beside what the reader sees.

A twin holds the turn and its usage as JSON *text* with the hash of it. A front end reads and writes
the notebook's JSON in its own way (JavaScript makes 1.0 a 1, and rounds whole numbers above 2⁵³); a
string comes back as it was, so the blocks stay verbatim and the hash tells when somebody edited it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..conversation import Conversation, Turn
from ..errors import ConversationError, StoreError
from ..usage import Record
from ..wire import Json
from .found import Found, check_turn, newest, rooted
from .sealed import digest, parse, seal

TWIN = "application/vnd.kimi-magic.turn+json"
"""MIME type of a twin."""
VERSION = 1
_Numbered = tuple[int, Any]
"""The number of a cell, from 1, and a twin in its outputs."""


def twin_of(turn: Turn, conversation: Conversation | None, records: Iterable[Record]) -> Json:
    """The twin of a turn. conversation: None for a turn that belongs to none."""
    whole: Json = {"turn": turn.to_json(), "usage": [r.to_json() for r in records], "conversation": None}
    if conversation is not None:
        whole |= {
            "conversation": conversation.name,
            "system": conversation.system,
            "undone": turn.id in conversation.undone,
        }
    text, sha256 = seal(whole)
    return {"version": VERSION, "id": turn.id, "turn": text, "sha256": sha256}


def read_twins(path: Path, walked: Callable[[list[_Numbered]], Iterable[_Numbered]] = iter) -> Found:
    """The turns in a notebook's outputs, with the active path as it can be told from them. Raises
    `StoreError` for a file that is no notebook.

    walked: shows how far it has come, and yields what it is given.
    """
    parts: dict[str, _Parts] = {}
    records: list[Record] = []
    turns: list[Turn] = []
    problems: list[str] = []
    for number, twin in walked(_twins_in(path)):
        try:
            whole, turn, used = _opened(twin)
        except ConversationError as error:
            problems.append(f"Cell {number}: {error}")
            continue
        records += used
        turns.append(turn)
        if whole["conversation"] is not None:
            parts.setdefault(whole["conversation"], _Parts()).add(turn, whole)
    found = {name: part.conversation(name, problems) for name, part in parts.items()}
    return Found(found, tuple(turns), tuple(records), tuple(problems))


class _Parts:
    """The turns of one conversation, in the order of their cells."""

    def __init__(self) -> None:
        self._turns: dict[str, Turn] = {}
        self._undone: set[str] = set()
        self._system: tuple[Any, str | None] = (None, None)  # the newest turn's, and its time

    def add(self, turn: Turn, whole: Json) -> None:
        self._turns[turn.id] = turn
        if whole.get("undone"):
            self._undone.add(turn.id)
        if self._system[0] is None or turn.time >= self._system[0]:
            self._system = turn.time, whole.get("system")

    def conversation(self, name: str, problems: list[str]) -> Conversation:
        """It goes on from the newest complete turn. Where the output of a turn before that is lost
        (cleared, edited, or replaced by a reply that failed), the next one follows the turn that was
        made last before it."""
        undone = frozenset(self._undone)
        last = newest(self._turns.values(), undone)
        turns = self._turns if last is None else self._joined_up(last, undone, name, problems)
        whole = rooted(turns)
        head = last.id if last is not None and last.id in whole else None
        return Conversation(name, whole, head, undone & set(whole), self._system[1])

    def _joined_up(
        self, last: Turn, undone: frozenset[str], name: str, problems: list[str]
    ) -> dict[str, Turn]:
        turns, here = dict(self._turns), last
        seen = {None, last.id}
        while here.parent not in seen:
            seen.add(here.parent)
            if here.parent in turns:
                here = turns[str(here.parent)]
                continue
            earlier = [t for t in turns.values() if t.time < here.time and not _is_behind(turns, t, here)]
            before = newest(earlier, undone)
            turns[here.id] = replace(here, parent=before.id if before else None)
            problems.append(
                f"Conversation {name!r}: the turn before {_said(here)} is not in the notebook;"
                f" it follows {_said(before) if before else 'nothing'} now."
            )
            here = turns[here.id]
        return turns


def _is_behind(turns: Mapping[str, Turn], turn: Turn, before: Turn) -> bool:
    """Whether the way back from `turn` leads over `before`."""
    seen: set[str] = set()
    here: Turn | None = turn
    while here is not None and here.id not in seen:
        if here.id == before.id:
            return True
        seen.add(here.id)
        here = turns.get(here.parent) if here.parent is not None else None
    return False


def _said(turn: Turn) -> str:
    prompt = " ".join(turn.prompt.split())
    return f"“{prompt[:40]}{'…' * (len(prompt) > 40)}”"


def _opened(twin: Any) -> tuple[Json, Turn, list[Record]]:
    """What a twin holds, its turn and its usage. Raises `ConversationError`."""
    if not isinstance(twin, dict) or not isinstance(twin.get("turn"), str):
        raise ConversationError("its turn cannot be read; it was left out.")
    if isinstance(twin.get("version"), int) and twin["version"] > VERSION:
        raise ConversationError("its turn was written by a newer kimi_magic; upgrade to restore it.")
    if digest(twin["turn"]) != twin.get("sha256"):
        raise ConversationError("its turn was changed after it was saved; it was left out.")
    try:
        whole = parse(twin["turn"])
        turn = Turn.from_json(whole["turn"])
        check_turn(turn)
        if not all(isinstance(whole.get(key), str | None) for key in ("conversation", "system")):
            raise TypeError("conversation")
        return {"conversation": None, **whole}, turn, [Record.from_json(r) for r in whole["usage"]]
    except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise ConversationError(f"its turn cannot be read ({error!r}); it was left out.") from None


def _twins_in(path: Path) -> list[_Numbered]:
    """Twins with the number of their cell, from 1."""
    try:
        notebook = json.loads(path.read_text(encoding="utf-8-sig"))
        return [
            (number, output["data"][TWIN])
            for number, cell in enumerate(notebook["cells"], 1)
            for output in cell.get("outputs", ())
            if TWIN in output.get("data", ())
        ]
    except OSError as error:
        raise StoreError(f"The notebook {path} cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StoreError(f"{path} is not a notebook.") from None
