"""The SQLite file: opened when it is used, of the newest schema, changed in whole transactions.

Rules:

- a transaction is on disk when its block ends (WAL with `synchronous=FULL`);
- the file and its folder are the user's alone (modes 0600 and 0700);
- a file that is there is opened by SQLite alone: whoever closes it otherwise releases the locks of all of
  this process, and the next kernel to end takes itself for the last one and removes the log of the others;
- the file is opened at each use until that succeeds: a folder that cannot be written now may be
  writable later, and until then what it has is read. A forked process opens it anew.

Every failure is a `StoreError` of one line.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from ..errors import StoreError
from .migrations import MIGRATIONS

BUSY = 10.0  # seconds to wait for another kernel's write
_ELSEWHERE = "The notebook goes on in memory and writes it when it can; KIMI_MAGIC_HOME names another folder."
_DAMAGED = (
    "The notebook goes on in memory. Move the file away, and a new one is made; %kimi restore takes up what"
    " a notebook's outputs carry."
)
_LOST: list[sqlite3.Connection | None] = []
"""Connections of a parent process: to close one here would release its locks there."""


class Connection:
    """A connection to the file at `path`, which is made when it is first used. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._process = os.getpid()

    @contextmanager
    def transaction(self, kind: str) -> Iterator[sqlite3.Connection]:
        """All that is done in the block, or nothing. kind: DEFERRED to read; IMMEDIATE to write, which waits
        its turn first."""
        if self._process != os.getpid():
            self._forget()
        with self._lock, self._explained(), self._opened_for(kind) as db, _in_transaction(db, kind):
            yield db

    def close(self) -> None:
        """Close the file; a further use opens it again."""
        if self._process != os.getpid():
            self._forget()
            return
        with self._lock:
            if self._db is not None:
                self._db.close()
            self._db = None

    def __del__(self) -> None:
        """Nobody holds it any more: the file is closed, and not left to be found open."""
        self.close()

    def _forget(self) -> None:
        """In a forked process the connection is the parent's, and the lock may be held for ever."""
        _LOST.append(self._db)
        self._begin()

    @contextmanager
    def _opened_for(self, kind: str) -> Iterator[sqlite3.Connection]:
        """The file, which may be one that can only be read as long as nothing is to be written."""
        try:
            db = self._opened()
        except (OSError, sqlite3.OperationalError) as error:
            if kind != "DEFERRED":
                raise
            with closing(self._read_only(error)) as db:
                yield db
            return
        yield db

    def _read_only(self, trouble: Exception) -> sqlite3.Connection:
        """The file of a folder that cannot be written, or of a full disk. Raises `trouble` where it cannot
        be read as it is."""
        log = self.path.with_name(f"{self.path.name}-wal")
        ways = ["mode=ro"]
        if not log.is_file() or log.stat().st_size == 0:
            ways.append("immutable=1")  # needs no file beside it, and would not see what is in one
        for way in ways if self.path.is_file() else []:
            address = f"{self.path.absolute().as_uri()}?{way}"
            db = sqlite3.connect(address, uri=True, timeout=BUSY, isolation_level=None)
            with suppress(sqlite3.Error):
                if _applied(db) == set(MIGRATIONS):
                    return db
            db.close()
        raise trouble

    def _opened(self) -> sqlite3.Connection:
        if self._db is None:
            with suppress(FileExistsError):  # what is there and no folder fails in the next line
                self.path.parent.mkdir(mode=0o700, parents=True)
            with suppress(FileExistsError):  # SQLite's other files get its mode
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            db = sqlite3.connect(self.path, timeout=BUSY, isolation_level=None, check_same_thread=False)
            try:
                _to_wal(db)
                db.execute("PRAGMA synchronous=FULL")
                self._migrate(db)
            except BaseException:
                db.close()
                raise
            self._db = db
        return self._db

    def _migrate(self, db: sqlite3.Connection) -> None:
        if _applied(db) != set(MIGRATIONS):
            with _in_transaction(db, "IMMEDIATE"):  # another kernel may be doing the same
                db.execute("CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY)")
                applied = _applied(db)
                newer = sorted(applied - set(MIGRATIONS))
                if newer:
                    raise StoreError(
                        f"{self.path} was written by a newer kimi_magic ({newer[-1]}).",
                        hint="Upgrade kimi_magic; until then the notebook goes on in memory.",
                    )
                for name in [n for n in MIGRATIONS if n not in applied]:
                    for statement in filter(str.strip, MIGRATIONS[name].split(";")):
                        db.execute(statement)
                    db.execute("INSERT INTO migrations VALUES (?)", (name,))

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, ValueError) as error:
            cause = getattr(error, "strerror", None) or error
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            hint = _DAMAGED if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) else _ELSEWHERE
            raise StoreError(f"Nothing can be kept in {self.path}: {cause}.", hint=hint) from None


def _to_wal(db: sqlite3.Connection) -> None:
    """Kernels that make the same file at once: SQLite does not wait for the one that is switching it."""
    end = time.monotonic() + BUSY
    while True:
        try:
            db.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(0.01)


@contextmanager
def _in_transaction(db: sqlite3.Connection, kind: str) -> Iterator[None]:
    try:
        db.execute(f"BEGIN {kind}")
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # a full disk rolls back by itself
            db.execute("ROLLBACK")
        raise


def _applied(db: sqlite3.Connection) -> set[str]:
    there = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'migrations'").fetchone()
    return {name for (name,) in db.execute("SELECT name FROM migrations")} if there else set()
