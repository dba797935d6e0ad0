"""What a session puts into the store, and what happens when it cannot.

A turn that could not be kept stays in memory and is written with the next one that can be, and so does the
reply of a batch; the user hears of it once, in a line, and the notebook goes on. The end of the process is
the last time to try.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from ..conversation import Conversation, Turn
from ..errors import StoreError
from ..store import Found, Store
from ..usage import Record
from ..wire import Message

ANOTHER_KERNEL = (
    "Another kernel has written to this conversation meanwhile; its turns stand beside these"
    " (%kimi branches shows them)."
)
WRITTEN = "The store can be written again: what had waited is kept now."


class Keeping:
    """The store of a session, or none. notebook: the key that its conversations stand under."""

    def __init__(self, store: Store | None, notebook: str) -> None:
        self.store = store
        self._notebook = notebook
        self._loaded = False
        self._waiting: dict[str, tuple[Conversation, list[Turn]]] = {}  # by the conversation's name
        self._records: list[Record] = []
        self._replies: dict[str, dict[str, Message]] = {}  # by batch, and the fingerprint of the request
        self._said: set[str] = set()

    @property
    def waiting(self) -> tuple[Record, ...]:
        """The records that are not in the store yet."""
        return tuple(self._records)

    def load(self) -> Found:
        """What the store has of this notebook; its problems are lines for the user."""
        if self.store is None:
            return Found()
        try:
            found = self.store.load(self._notebook)
        except StoreError as error:
            return Found(problems=self._once(str(error)))
        self._loaded = True
        return found

    def keep(
        self, conversation: Conversation | None, turns: Iterable[Turn] = (), records: Iterable[Record] = ()
    ) -> Found:
        """Store what is new, and what waits. What comes back is news for the session: what others have
        written meanwhile, or all that is there where it could not be read before; and lines for the user."""
        if self.store is None:
            return Found()
        self._records += records
        if conversation is not None:
            waiting = self._waiting.get(conversation.name, (conversation, []))[1]
            self._waiting[conversation.name] = (conversation, [*waiting, *turns])
        news = Found()
        try:
            if not self._loaded:
                news, self._loaded = self.store.load(self._notebook), True
            foreign = self._write(self.store)
        except StoreError as error:
            self._await()
            return replace(news, problems=(*news.problems, *self._once(str(error))))
        problems = self._once(WRITTEN) if self._said - {ANOTHER_KERNEL, WRITTEN} else ()
        self._said &= {ANOTHER_KERNEL}
        if foreign:
            problems += self._once(ANOTHER_KERNEL)
        return replace(
            news, conversations={**news.conversations, **foreign}, problems=(*news.problems, *problems)
        )

    def unknown(self, records: Iterable[Record]) -> list[Record]:
        """Those that the store's ledger does not have: a copy of a notebook carries what was paid in the
        other one."""
        if self.store is None:
            return list(records)
        try:
            return self.store.unknown(records)
        except StoreError:
            return []  # to have paid twice is worse than a row that is missing

    def replies(self, batch: str) -> dict[str, Message]:
        """The replies of a batch that are there, by fingerprint."""
        waiting = self._replies.get(batch, {})
        if self.store is None:
            return waiting
        try:
            return {**self.store.batch(batch), **waiting}
        except StoreError:
            return waiting  # the others are asked for again

    def keep_replies(
        self, batch: str, replies: Mapping[str, Message], records: Iterable[Record]
    ) -> tuple[str, ...]:
        """Store replies of a batch and their usage, with what waits of both; lines for the user."""
        if self.store is None:
            return ()
        self._records += records
        self._replies[batch] = {**self._replies.get(batch, {}), **replies}
        try:
            self._write_replies(self.store)
        except StoreError as error:
            self._await()
            return self._once(str(error))
        return ()

    @property
    def is_waiting(self) -> bool:
        """Whether anything is not in the store yet."""
        return self.store is not None and bool(self._waiting or self._records or self._replies)

    def _await(self) -> None:
        atexit.unregister(self._at_exit)
        atexit.register(self._at_exit)

    def _at_exit(self) -> None:
        with suppress(StoreError):  # it has been told
            if self.store is not None:
                self._write(self.store)

    def close(self) -> None:
        if self.store is not None:
            self.store.close()

    def _write(self, store: Store) -> dict[str, Conversation]:
        """Write all that waits; conversations, as stored, that another kernel has written to."""
        changed = []
        for name, (conversation, turns) in list(self._waiting.items()):
            if store.keep(self._notebook, conversation, turns, self._records):
                changed.append(name)
            del self._waiting[name]
            self._records = []
        if self._records:
            store.keep_records(self._notebook, self._records)
            self._records = []
        self._write_replies(store)
        atexit.unregister(self._at_exit)
        stored = store.load(self._notebook).conversations if changed else {}
        return {name: stored[name] for name in changed}

    def _write_replies(self, store: Store) -> None:
        """Write the replies of batches, and with them the records that wait."""
        for batch, replies in list(self._replies.items()):
            store.keep_batch(batch, replies, self._notebook, self._records)
            del self._replies[batch]
            self._records = []

    def _once(self, warning: str) -> tuple[str, ...]:
        new = () if warning in self._said else (warning,)
        self._said.add(warning)
        return new
