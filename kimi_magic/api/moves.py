"""A notebook's file and the label that the store knows it by, where they have parted.

The label is the path that the kernel was told, and a path is no identity: notebooks are renamed, copied and
mailed, and a new `Untitled.ipynb` has the path of the one before. What the file holds tells them apart.

    renamed   the label is new, the outputs carry turns that the store has under another one, and no file
              is there any more: what the store has takes the new label
    copied    the same, and the other file is there: the turns are in both from now on, and what they cost
              stays where it was paid
    mailed    the store does not have the turns: they are offered (`%kimi restore`), and never taken by itself
    replaced  the file was saved after the last turn, and has none of the cells that asked: those were
              another notebook's. The conversations begin afresh, and what was there is left beside them

Whatever cannot be read here is left as it is: the session itself says what is wrong with the store.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from ..conversation import Conversation, Turn
from ..errors import StoreError
from ..session import Session
from ..store import Found, Store, read_twins
from .replays import MAX_NOTEBOOK, carries_turns

OFFER = "The outputs of this notebook hold a conversation: %kimi restore goes on from it."
RENAMED = "This notebook was {} before; its conversation goes on."
COPIED = "This notebook is a copy of {}; it goes on from the turns that its outputs hold."
REPLACED = (
    "Another notebook was asked under this path before: the conversation begins afresh here."
    " %kimi branches has the old one."
)

_MINOR = re.compile(r'"nbformat_minor":\s*(\d+)')
_CELL = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""A cell's id as it stands in a file (nbformat 4.5). What VS Code sends is none, nor a question's number."""


def file_of(label: str | None) -> Path | None:
    """The notebook's file, where it is there."""
    named = [] if label is None else [Path(label), Path(Path(label).name)]
    return next((path for path in named if path.is_file()), None)  # a server may name it from its root


class Arrival:
    """A kernel comes to its notebook: `follow` before the session begins, `settle` when it has. Both give
    lines for the user. label: the notebook's."""

    def __init__(self, store: Store | None, label: str | None) -> None:
        self._store = store
        self._label = label

    def follow(self) -> list[str]:
        """Let the store follow a notebook that was renamed."""
        if self._store is None or self._label is None:
            return []
        try:
            home = None if self._store.knows(self._label) else self._home
            if home is None or file_of(home) is not None:
                return []
            self._store.rename(home, self._label)
        except StoreError:
            return []
        return [RENAMED.format(Path(home).name)]

    def settle(self, session: Session) -> list[str]:
        """Put turns of another notebook aside, and take those of a copy in."""
        if any(conversation.turns for conversation in session.conversations.values()):
            return _without_another_s(session)
        if not _turns(self._carried):
            return []
        try:
            home = self._home
        except StoreError:
            home = None
        if home is None:
            return [OFFER]
        for name, found in self._carried.conversations.items():
            session.change(session.conversation(name).joined(found))
        return [COPIED.format(Path(home).name)]

    @cached_property
    def _carried(self) -> Found:
        """What the outputs of the notebook carry."""
        path = file_of(self._label)
        if path is None or not carries_turns(path):
            return Found()
        try:
            return read_twins(path)
        except StoreError:
            return Found()

    @cached_property
    def _home(self) -> str | None:
        """The label under which the store has all the very turns that were found. Raises `StoreError`."""
        turns = _turns(self._carried)
        home = self._store.home(turns) if self._store is not None and turns else None
        if self._store is None or home is None:
            return None
        stored = _turns(self._store.load(home))
        return home if all(stored.get(key) == turn for key, turn in turns.items()) else None


def _turns(found: Found) -> dict[str, Turn]:
    return {key: turn for c in found.conversations.values() for key, turn in c.turns.items()}


def _without_another_s(session: Session) -> list[str]:
    path = file_of(session.notebook)
    if path is None or not _is_another_s(path, session.conversations.values()):
        return []
    for conversation in list(session.conversations.values()):
        session.change(conversation.fresh())
    return [REPLACED]


def _is_another_s(path: Path, conversations: Iterable[Conversation]) -> bool:
    """Whether the file of a notebook shows that the turns are not its own."""
    turns = [turn for conversation in conversations for turn in conversation.turns.values()]
    cells = {(turn.cell or "").partition(" #")[0] for turn in turns}
    if not all(map(_CELL.fullmatch, cells)):
        return False
    try:
        about = path.stat()
        text = path.read_text("utf-8", errors="replace") if about.st_size < MAX_NOTEBOOK else ""
    except OSError:
        return False
    minor = _MINOR.search(text)
    saved = datetime.fromtimestamp(about.st_mtime, UTC)
    has_ids = minor is not None and int(minor[1]) >= 5
    return has_ids and saved > max(t.time for t in turns) and not any(f'"{cell}"' in text for cell in cells)
