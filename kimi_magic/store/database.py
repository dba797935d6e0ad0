"""Conversations and the ledger in one SQLite file.

Rules:

- a turn, the new head and the turn's usage records are one transaction, flushed to disk before it
  is said to be kept (WAL with `synchronous=FULL`): a kill at any moment leaves a turn whole or out;
- any number of kernels may write: each write waits its turn, and nothing is overwritten but the
  head. `keep` says when another kernel has moved the head meanwhile; the turns of both are there;
- a turn is stored as its JSON with the hash of it: `verify` finds what was changed behind our back;
- the file and its folder are the user's alone (modes 0600 and 0700).

Every failure is a `StoreError` of one line.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from ..conversation import Conversation, Turn
from ..errors import StoreError
from ..usage import Record
from .migrations import MIGRATIONS

BUSY = 10.0  # seconds to wait for another kernel's write
_ELSEWHERE = "The notebook goes on in memory; set KIMI_MAGIC_HOME to a folder that can be written."


class Store:
    """One open file. Thread-safe. Raises `StoreError` when it cannot be opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._versions: dict[tuple[str, str], int] = {}  # as this kernel last saw or wrote them
        with self._explained():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.touch(mode=0o600)
            self._db = sqlite3.connect(path, timeout=BUSY, isolation_level=None, check_same_thread=False)
            try:
                self._db.execute("PRAGMA journal_mode=WAL")
                self._db.execute("PRAGMA synchronous=FULL")
                self._migrate()
            except BaseException:
                self._db.close()
                raise

    # --- conversations ---

    def load(self, notebook: str) -> dict[str, Conversation]:
        """The conversations of a notebook by name."""
        with self._lock, self._explained(), self._transaction("DEFERRED"):
            rows = self._db.execute(
                "SELECT id, name, head, undone, system, version FROM conversations WHERE notebook = ?",
                (notebook,),
            ).fetchall()
            found = {}
            for number, name, head, undone, system, version in rows:
                texts = self._db.execute(
                    "SELECT json FROM turns WHERE conversation = ? ORDER BY number", (number,)
                )
                turns = [Turn.from_json(msgspec.json.decode(text)) for (text,) in texts]
                self._versions[notebook, name] = version
                found[name] = Conversation(
                    name, {turn.id: turn for turn in turns}, head, frozenset(json.loads(undone)), system
                )
            return found

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
        with self._lock, self._explained(), self._transaction("IMMEDIATE"):
            row = self._db.execute(
                "SELECT id, version FROM conversations WHERE notebook = ? AND name = ?", (notebook, name)
            ).fetchone()
            before = row[1] if row else 0
            number = self._put_conversation(notebook, conversation, before + 1)
            for turn in turns:
                self._put_turn(number, turn)
            self._put_records(records)
        foreign = before != self._versions.get((notebook, name), 0)
        self._versions[notebook, name] = before + 1
        return foreign

    def _put_conversation(self, notebook: str, conversation: Conversation, version: int) -> int:
        values = (
            notebook,
            conversation.name,
            conversation.head,
            json.dumps(sorted(conversation.undone)),
            conversation.system,
            version,
        )
        (number,) = self._db.execute(
            "INSERT INTO conversations (notebook, name, head, undone, system, version)"
            " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (notebook, name) DO UPDATE SET head = excluded.head,"
            " undone = excluded.undone, system = excluded.system, version = excluded.version RETURNING id",
            values,
        ).fetchone()
        return int(number)

    def _put_turn(self, conversation: int, turn: Turn) -> None:
        text = msgspec.json.encode(turn.to_json()).decode()
        self._db.execute(
            "INSERT INTO turns (id, conversation, json, sha256) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (conversation, id) DO NOTHING",
            (turn.id, conversation, text, _sha256(text)),
        )

    # --- the ledger ---

    def records(self, notebook: str | None = None) -> list[Record]:
        """The usage records of a notebook, or all, oldest first."""
        where = "WHERE notebook = ?" if notebook is not None else ""
        with self._lock, self._explained():
            rows = self._db.execute(
                f"SELECT json FROM requests {where} ORDER BY number",  # noqa: S608 - no outside text
                (notebook,) if notebook is not None else (),
            ).fetchall()
        return [Record.from_json(msgspec.json.decode(text)) for (text,) in rows]

    def keep_records(self, records: Iterable[Record]) -> None:
        """Store records that belong to no conversation (`--once`)."""
        with self._lock, self._explained(), self._transaction("IMMEDIATE"):
            self._put_records(records)

    def _put_records(self, records: Iterable[Record]) -> None:
        for record in records:
            row = record.to_json()
            self._db.execute(
                "INSERT INTO requests (time, notebook, conversation, model, json) VALUES (?, ?, ?, ?, ?)",
                (
                    row["time"],
                    record.notebook,
                    record.conversation,
                    record.model,
                    msgspec.json.encode(row).decode(),
                ),
            )

    # --- the file ---

    def verify(self) -> list[str]:
        """What is wrong with the file, a line each; empty where all is well."""
        problems: list[str] = []
        with self._lock, self._explained():
            (state,) = self._db.execute("PRAGMA integrity_check").fetchone()
            if state != "ok":
                problems.append(f"The database is damaged: {state}.")
            for number, turn, text, digest in self._db.execute(
                "SELECT number, id, json, sha256 FROM turns ORDER BY number"
            ):
                if _sha256(text) != digest:
                    problems.append(f"Turn {turn} (row {number}) is not as it was stored.")
        return problems

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def _migrate(self) -> None:
        self._db.execute("CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY)")
        if self._applied() >= set(MIGRATIONS):
            self._refuse_newer()
            return
        with self._transaction("IMMEDIATE"):  # another kernel may be doing the same
            self._refuse_newer()
            for name in [n for n in MIGRATIONS if n not in self._applied()]:
                for statement in filter(str.strip, MIGRATIONS[name].split(";")):
                    self._db.execute(statement)
                self._db.execute("INSERT INTO migrations VALUES (?)", (name,))

    def _applied(self) -> set[str]:
        return {name for (name,) in self._db.execute("SELECT name FROM migrations")}

    def _refuse_newer(self) -> None:
        newer = sorted(self._applied() - set(MIGRATIONS))
        if newer:
            raise StoreError(
                f"{self.path} was written by a newer kimi_magic ({newer[-1]}).",
                hint="Upgrade kimi_magic; until then the notebook goes on in memory.",
            )

    @contextmanager
    def _transaction(self, kind: str) -> Iterator[None]:
        self._db.execute(f"BEGIN {kind}")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:  # a full disk rolls back by itself
                self._db.execute("ROLLBACK")
            raise

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, ValueError, msgspec.DecodeError) as error:
            raise StoreError(f"Nothing can be kept in {self.path}: {error}.", hint=_ELSEWHERE) from None


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
