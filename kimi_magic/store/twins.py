"""Turns that travel in the outputs of a notebook, beside what the reader sees.

A twin holds the turn and its usage as JSON *text* with the hash of it. A front end reads and writes
the notebook's JSON in its own way (JavaScript makes 1.0 a 1, and rounds whole numbers above 2⁵³); a
string comes back as it was, so the blocks stay verbatim and the hash tells when somebody edited it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from ..conversation import Conversation, Turn
from ..errors import ConversationError, StoreError
from ..usage import Record
from ..wire import Json

TWIN = "application/vnd.kimi-magic.turn+json"
"""MIME type of a twin."""
VERSION = 1


@dataclass(frozen=True, slots=True)
class Twins:
    """What was found in a notebook."""

    conversations: dict[str, Conversation] = field(default_factory=dict)
    """By name, the active path as it can be told from the turns."""
    records: tuple[Record, ...] = ()
    problems: tuple[str, ...] = ()
    """Twins that were left out, and why; a line each."""


def twin_of(turn: Turn, conversation: str | None, records: Iterable[Record]) -> Json:
    """The twin of a turn. conversation: its name, None for a turn that belongs to none."""
    whole = {"conversation": conversation, "turn": turn.to_json(), "usage": [r.to_json() for r in records]}
    text = msgspec.json.encode(whole).decode()
    return {"version": VERSION, "id": turn.id, "turn": text, "sha256": _sha256(text)}


def read_twins(path: Path) -> Twins:
    """The turns in a notebook's outputs. Raises `StoreError` for a file that is no notebook."""
    turns: dict[str, list[Turn]] = {}
    records: list[Record] = []
    problems: list[str] = []
    for number, twin in _twins_in(path):
        try:
            name, turn, used = _opened(twin)
        except ConversationError as error:
            problems.append(f"Cell {number}: {error}")
            continue
        records += used
        if name is not None:
            turns.setdefault(name, []).append(turn)
    return Twins({n: conversation_of(n, t) for n, t in turns.items()}, tuple(records), tuple(problems))


def conversation_of(name: str, turns: Iterable[Turn]) -> Conversation:
    """A conversation of turns in the order of their cells.

    Its head is the newest complete turn whose whole way back is there. Where an earlier output is
    lost (cleared, or replaced by a reply that failed), the turns that have no way back follow each
    other as their cells do.
    """
    found = {turn.id: turn for turn in turns}
    complete = [turn for turn in found.values() if turn.status == "complete"]
    rooted = [turn for turn in complete if _is_rooted(turn, found)]
    if rooted:
        head = max(rooted, key=lambda turn: turn.time)
        found = {k: t for k, t in found.items() if t.parent is None or t.parent in found}
        return Conversation(name, found, head.id)
    return _chained(name, found, complete)


def _chained(name: str, found: dict[str, Turn], complete: list[Turn]) -> Conversation:
    parent = None
    for turn in complete:
        found[turn.id] = replace(turn, parent=parent)
        parent = turn.id
    kept = {k: t for k, t in found.items() if t.parent is None or t.parent in found}
    return Conversation(name, kept, parent)


def _is_rooted(turn: Turn, found: Mapping[str, Turn]) -> bool:
    while turn.parent is not None:
        if turn.parent not in found:
            return False
        turn = found[turn.parent]
    return True


def _opened(twin: Any) -> tuple[str | None, Turn, list[Record]]:
    if not isinstance(twin, dict) or not isinstance(twin.get("turn"), str):
        raise ConversationError("its turn cannot be read; it was left out.")
    if twin.get("version", 0) > VERSION:
        raise ConversationError("its turn was written by a newer kimi_magic; upgrade to restore it.")
    if _sha256(twin["turn"]) != twin.get("sha256"):
        raise ConversationError("its turn was changed after it was saved; it was left out.")
    try:
        whole = json.loads(twin["turn"])
        return (
            whole["conversation"],
            Turn.from_json(whole["turn"]),
            [Record.from_json(r) for r in whole["usage"]],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ConversationError(f"its turn cannot be read ({error!r}); it was left out.") from None


def _twins_in(path: Path) -> list[tuple[int, Any]]:
    """Twins with the number of their cell, from 1."""
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        cells = notebook["cells"]
        return [
            (number, output["data"][TWIN])
            for number, cell in enumerate(cells, 1)
            for output in cell.get("outputs", ())
            if TWIN in output.get("data", ())
        ]
    except OSError as error:
        raise StoreError(f"The notebook {path} cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StoreError(f"{path} is not a notebook.") from None


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
