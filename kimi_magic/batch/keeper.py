"""What is done, in the store: each reply as soon as it is there, with its usage."""

from __future__ import annotations

import asyncio
import contextlib

from ..session import Session
from ..wire import Message
from .asking import Outcome
from .jobs import Job


def batch_key(session: Session, name: str | None) -> str:
    """What the store has a batch under: replies of another server, or of the simulator, are others."""
    return f"{session.client.base_urls[0]} {name if name is not None else session.notebook or ''}"


class Keeper:
    """Stores what is done, in a thread of its own, one transaction at a time."""

    def __init__(self, session: Session, batch: str) -> None:
        self._session = session
        self._batch = batch
        self._new: list[tuple[Job | None, Outcome]] = []
        self._writing: asyncio.Task[None] | None = None

    def found(self) -> dict[str, Message]:
        """The replies that are stored, by the fingerprint of their requests."""
        return self._session.kept_replies(self._batch)

    def add(self, job: Job | None, outcome: Outcome) -> None:
        """job: None where there is nothing to keep but the usage."""
        self._session.records += outcome.records
        self._new.append((job, outcome))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())

    def keep(self, job: Job, outcome: Outcome) -> None:
        """Store it at once, where no loop runs any more."""
        self._session.records += outcome.records
        self._store([(job, outcome)])

    async def _write(self) -> None:
        while self._new:
            new, self._new = self._new, []
            await asyncio.to_thread(self._store, new)

    def _store(self, new: list[tuple[Job | None, Outcome]]) -> None:
        replies = {j.fingerprint: o.message for j, o in new if j is not None and o.message is not None}
        records = [record for _, outcome in new for record in outcome.records]
        self._session.keep_replies(self._batch, replies, records)

    async def close(self) -> None:
        """Return when all is stored, also where that is cancelled."""
        writing = self._writing
        while writing is not None and not writing.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(writing)
