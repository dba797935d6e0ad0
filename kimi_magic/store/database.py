"""Conversations and the ledger in one SQLite file.

Rules:

- a turn, the new head and the turn's usage records are one transaction, flushed to disk before it
  is said to be kept: a kill at any moment leaves a turn whole or out;
- any number of kernels may write: each write waits its turn, and nothing is overwritten but the
  head. `keep` says when another kernel has moved the head meanwhile; the turns of both are there;
- a turn is stored as its JSON with the hash of it: `verify` finds what was changed behind our back.

Every failure is a `StoreError` of one line.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from ..conversation import Conversation, Turn
from ..counts import counted
from ..errors import ConversationError
from ..usage import Budget, PriceVersion, Record, Selection
from ..wire import Message
from . import money
from .connection import Connection
from .found import Found, newest, rooted
from .sealed import digest, parse, seal


class Store:
    """The file at `path`, made when it is first used. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._versions: dict[tuple[str, str], int] = {}  # as this kernel last saw or wrote them
        self._spent: dict[tuple[str, str | None, datetime | None], money.Spent] = {}
        self._connection = Connection(path)

    # --- conversations ---

    def load(self, notebook: str) -> Found:
        """The conversations of a notebook and its usage records, oldest first."""
        conversations: dict[str, Conversation] = {}
        problems: list[str] = []
        with self._connection.transaction("DEFERRED") as db:
            for number, name, head, undone, system, version in db.execute(
                "SELECT id, name, head, undone, system, version FROM conversations WHERE notebook = ?",
                (notebook,),
            ).fetchall():
                turns = _turns(db, number, problems)
                empty = Conversation(name, {}, None, frozenset(json.loads(undone)), system)
                conversations[name] = _walkable(empty, turns, head, problems)
                self._versions[notebook, name] = version
            rows = db.execute(
                "SELECT json FROM requests WHERE notebook = ? ORDER BY number", (notebook,)
            ).fetchall()
        records = money.read_records([text for (text,) in rows])
        if len(records) < len(rows):
            problems.append(f"{len(rows) - len(records)} usage records of the store cannot be read.")
        return Found(conversations, records=tuple(records), problems=tuple(problems))

    def keep(
        self,
        notebook: str,
        conversation: Conversation,
        turns: Iterable[Turn] = (),
        records: Iterable[Record] = (),
    ) -> bool:
        """Store new turns, the conversation's head and the records, all or nothing. True where
        another kernel has written to the conversation since this one last did."""
        name = conversation.name
        with self._connection.transaction("IMMEDIATE") as db:
            row = db.execute(
                "SELECT version FROM conversations WHERE notebook = ? AND name = ?", (notebook, name)
            ).fetchone()
            before = row[0] if row else 0
            number = _put_conversation(db, notebook, conversation, before + 1)
            for turn in turns:
                _put_turn(db, number, turn)
            money.put_records(db, notebook, records)
        foreign = before != self._versions.get((notebook, name), 0)
        self._versions[notebook, name] = before + 1
        return bool(foreign)

    def knows(self, notebook: str) -> bool:
        """Whether there is a conversation of this notebook."""
        with self._connection.transaction("DEFERRED") as db:
            found = db.execute("SELECT 1 FROM conversations WHERE notebook = ?", (notebook,)).fetchone()
        return found is not None

    def home(self, turns: Iterable[str]) -> str | None:
        """The notebook that has all these turns; the one that began last where several have."""
        wanted = sorted(set(turns))
        with self._connection.transaction("DEFERRED") as db:
            found = db.execute(
                "SELECT c.notebook FROM conversations c JOIN turns t ON t.conversation = c.id"
                " WHERE t.id IN (SELECT value FROM json_each(?)) GROUP BY c.notebook"
                " HAVING COUNT(DISTINCT t.id) = ? ORDER BY MAX(c.id) DESC",
                (json.dumps(wanted), len(wanted)),
            ).fetchone()
        return None if found is None else str(found[0])

    def rename(self, old: str, new: str) -> None:
        """Let all that a notebook has stand under another name, which has nothing yet."""
        self._spent = {}
        with self._connection.transaction("IMMEDIATE") as db:
            for change in (
                "UPDATE conversations SET notebook = :new WHERE notebook = :old",
                "UPDATE budgets SET notebook = :new WHERE notebook = :old",
                "UPDATE requests SET notebook = :new, json = json_set(json, '$.notebook', :new)"
                " WHERE notebook = :old",
            ):
                db.execute(change, {"new": new, "old": old})

    def keep_records(self, notebook: str, records: Iterable[Record]) -> None:
        """Store records of a notebook that belong to no conversation (`--once`)."""
        with self._connection.transaction("IMMEDIATE") as db:
            money.put_records(db, notebook, records)

    def unknown(self, records: Iterable[Record]) -> list[Record]:
        """Those of the records that no notebook has paid for here."""
        with self._connection.transaction("DEFERRED") as db:
            return money.unknown(db, records)

    def records(self, selection: Selection | None = None) -> tuple[Record, ...]:
        """The usage records of all notebooks, or of a selection, oldest first."""
        with self._connection.transaction("DEFERRED") as db:
            return tuple(money.find_records(db, selection or Selection()))

    # --- prices, budgets, batches ---

    def spent(self, budget: Budget, notebook: str | None, now: datetime) -> Decimal:
        """What counts against a budget so far, in all kernels; notebook: only there."""
        since = budget.since(now)
        key = (budget.currency, notebook, since)
        with self._connection.transaction("DEFERRED") as db:
            sums = {k: v for k, v in self._spent.items() if k[2] in (None, since)}  # of no day that is over
            sums[key] = money.spent(db, *key, sums.get(key, money.Spent()))
            self._spent = sums
        return sums[key].amount

    def prices(self) -> list[PriceVersion]:
        """All versions of the prices that were set."""
        with self._connection.transaction("DEFERRED") as db:
            return money.find_prices(db)

    def keep_price(self, version: PriceVersion) -> None:
        """Add a version of a price."""
        with self._connection.transaction("IMMEDIATE") as db:
            money.put_price(db, version)

    def drop_prices(self, model: str) -> None:
        """Forget the prices of a model that were set."""
        with self._connection.transaction("IMMEDIATE") as db:
            money.drop_prices(db, model)

    def budgets(self, notebook: str) -> list[Budget]:
        """The budgets that hold for a notebook."""
        with self._connection.transaction("DEFERRED") as db:
            return money.find_budgets(db, notebook)

    def keep_budget(self, notebook: str, budget: Budget | None, per: str) -> None:
        """Set the budget of a period for this notebook, or for all; None takes it away."""
        with self._connection.transaction("IMMEDIATE") as db:
            money.put_budget(db, notebook, budget, per)

    def batch(self, name: str) -> dict[str, Message]:
        """The replies of a batch, by the fingerprint of their requests."""
        with self._connection.transaction("DEFERRED") as db:
            return money.find_replies(db, name)

    def keep_batch(
        self, name: str, replies: Mapping[str, Message], notebook: str, records: Iterable[Record]
    ) -> None:
        """Store replies of a batch and the usage of its notebook, all or nothing."""
        with self._connection.transaction("IMMEDIATE") as db:
            money.put_replies(db, name, replies)
            money.put_records(db, notebook, records)

    # --- the file ---

    def verify(self) -> list[str]:
        """What is wrong with the file, a line each; empty where all is well."""
        problems: list[str] = []
        with self._connection.transaction("DEFERRED") as db:
            (state,) = db.execute("PRAGMA integrity_check").fetchone()
            if state != "ok":
                problems.append(f"The database is damaged: {state}.")
            for number, turn, text, sha256 in db.execute(
                "SELECT number, id, json, sha256 FROM turns ORDER BY number"
            ):
                if digest(text) != sha256:
                    problems.append(f"Turn {turn} (row {number}) is not as it was stored.")
            (requests,) = db.execute("SELECT COUNT(*) FROM requests").fetchone()
            unread = requests - len(money.find_records(db, Selection()))
            if unread:
                problems.append(
                    f"{unread} of {counted(requests, 'request')} cannot be read, and no sum has it."
                )
        return problems

    def close(self) -> None:
        """Close the file; a further use opens it again."""
        self._spent = {}
        self._connection.close()


def _turns(db: sqlite3.Connection, conversation: int, problems: list[str]) -> dict[str, Turn]:
    """The turns of a conversation by id, oldest first, without those that cannot be read."""
    turns: dict[str, Turn] = {}
    for name, text in db.execute(
        "SELECT id, json FROM turns WHERE conversation = ? ORDER BY number", (conversation,)
    ):
        try:
            turns[name] = Turn.from_json(parse(text))
        except (ConversationError, ValueError) as error:
            problems.append(f"Turn {name[:6]} of the store was left out: {error}")
    return turns


def _walkable(
    empty: Conversation, turns: dict[str, Turn], head: str | None, problems: list[str]
) -> Conversation:
    """The conversation with its turns, and a head whose way back is whole."""
    whole = rooted(turns)
    if head is not None and head not in whole:
        last = newest(whole.values(), empty.undone)
        head = last.id if last is not None else None
        problems.append(f"Conversation {empty.name!r} goes on from the last turn that is whole in the store.")
    return replace(empty, turns=whole, head=head)


def _put_conversation(db: sqlite3.Connection, notebook: str, conversation: Conversation, version: int) -> int:
    values: tuple[Any, ...] = (
        notebook,
        conversation.name,
        conversation.head,
        json.dumps(sorted(conversation.undone)),
        conversation.system,
        version,
    )
    (number,) = db.execute(
        "INSERT INTO conversations (notebook, name, head, undone, system, version)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (notebook, name) DO UPDATE SET head = excluded.head,"
        " undone = excluded.undone, system = excluded.system, version = excluded.version RETURNING id",
        values,
    ).fetchone()
    return int(number)


def _put_turn(db: sqlite3.Connection, conversation: int, turn: Turn) -> None:
    text, sha256 = seal(turn.to_json())
    db.execute(
        "INSERT INTO turns (id, conversation, json, sha256) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (conversation, id) DO NOTHING",
        (turn.id, conversation, text, sha256),
    )
