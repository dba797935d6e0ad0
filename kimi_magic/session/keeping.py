"""What a session puts into the store, and what happens when it cannot.

A turn that could not be kept stays in memory and is written with the next one; the user hears of it
once, in a line, and the notebook goes on.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..conversation import Conversation, Turn
from ..errors import StoreError
from ..store import Store
from ..usage import Record

ANOTHER_KERNEL = (
    "Another kernel has written to this conversation meanwhile; its turns are kept beside these"
    " (%kimi restore shows them)."
)


class Keeping:
    """The store of a session, or none. notebook: the key that its conversations stand under."""

    def __init__(self, store: Store | None, notebook: str) -> None:
        self.store = store
        self._notebook = notebook
        self._waiting: dict[str, list[Turn]] = {}  # by conversation
        self._records: list[Record] = []
        self._said: set[str] = set()

    def load(self) -> tuple[dict[str, Conversation], list[Record], list[str]]:
        """Conversations, usage records and warnings."""
        if self.store is None:
            return {}, [], []
        try:
            return self.store.load(self._notebook), self.store.records(self._notebook), []
        except StoreError as error:
            return {}, [], self._once(str(error))

    def keep(
        self, conversation: Conversation | None, turns: Iterable[Turn] = (), records: Iterable[Record] = ()
    ) -> list[str]:
        """Store what is new, and what waits; warnings for the user."""
        self._records += records
        if conversation is not None:
            self._waiting.setdefault(conversation.name, []).extend(turns)
        if self.store is None:
            return []
        try:
            if conversation is None:
                self.store.keep_records(self._records)
                foreign = False
            else:
                waiting = self._waiting[conversation.name]
                foreign = self.store.keep(self._notebook, conversation, waiting, self._records)
                self._waiting[conversation.name] = []
            self._records = []
        except StoreError as error:
            return self._once(f"{error} Nothing is lost while this kernel runs.")
        return self._once(ANOTHER_KERNEL) if foreign else []

    def _once(self, warning: str) -> list[str]:
        new = [warning] if warning not in self._said else []
        self._said.add(warning)
        return new
