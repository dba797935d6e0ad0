"""The session of a chat, with the client that its settings and its mode of replay need.

Both are made on first use. A changed `simulator` or `simulator_speed` takes hold with the next question;
`store` is read when the session is made, and holds as long as it does. A client that was given stays.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..client import AsyncClient
from ..config import KimiMagic
from ..errors import ConfigError, StoreError
from ..session import Session, Worker
from ..store import Store, store_path
from .connect import client_elsewhere, connect
from .moves import Arrival
from .replays import Replays

if TYPE_CHECKING:  # where there is a table to ask about, and not for each cell
    from ..batch import Elsewhere


class Access:
    """worker: runs the client. client: else as `connect` finds it. notebook: its path, where it is known."""

    def __init__(
        self, settings: KimiMagic, worker: Worker, client: AsyncClient | None, notebook: str | None
    ) -> None:
        self.notebook = notebook
        self.replays = Replays()
        self.is_given = client is not None
        """The client is its maker's."""
        self.simulated = False
        """Whether the embedded simulator answers; known once there is a session."""
        self.cassette: Path | None = None
        """What replies are written to, if anything."""
        self.made: Session | None = None
        """None before the first use."""
        self._settings = settings
        self._worker = worker
        self._client = client
        self._old: list[AsyncClient] = []  # something in the background may still read from them
        self._offline = False  # the client answers from recordings only
        self._chosen = self._choice()

    def session(self, replay: str) -> Session:
        """The session, with a client that can ask what this mode of replay lets it. Where nothing may be
        asked, no key is needed either. Raises `ConfigError`."""
        if self._client is None and replay == "only":
            self.simulated = False
            self._use(self.replays.client, offline=True)
        elif self._client is None or (replay != "only" and self._is_stale()):
            self._connect(self.cassette)
        return self.made or self._begun()

    def _is_stale(self) -> bool:
        """Whether another client is to answer than the one that does."""
        return not self.is_given and (self._offline or self._chosen != self._choice())

    def _choice(self) -> tuple[str, float]:
        """The settings that say who answers."""
        return self._settings.simulator, self._settings.simulator_speed if self.simulated else 0.0

    def _connect(self, cassette: Path | None) -> None:
        client, self.simulated = connect(self._settings, record=cassette, missed=self._missed)
        self.cassette, self._chosen = cassette, self._choice()
        self._use(client)

    def _use(self, client: AsyncClient, *, offline: bool = False) -> None:
        if self._client is not None and not self._offline:
            self._old.append(self._client)
        self._client, self._offline = client, offline
        if self.made is not None:
            self.made.connect(client, is_free=self.simulated)

    def _begun(self) -> Session:
        assert self._client is not None
        store = Store(store_path()) if self._settings.store == "on" else None
        arrival = Arrival(store, self.notebook)
        moved = arrival.follow()
        session = Session(
            self._client,
            notebook=self.notebook,
            store=store,
            library=self.replays.recordings,
            replayer=self.replays.client,
            ceiling=self._settings.ceiling,
        )
        session.purse.connect(is_free=self.simulated)
        self.made = session
        session.warnings += moved or arrival.settle(session)
        return session

    def record(self, cassette: Path | None) -> None:
        """Write the replies from now on to a cassette; None ends it. Raises `StoreError` where it cannot be
        written, and `ConfigError` where the client was given."""
        if self.is_given:
            raise ConfigError("This chat was made with a client of its own, which only its maker can tape.")
        self._connect(cassette)
        if self.made is None:
            self._begun()

    def _missed(self, error: StoreError) -> None:
        """A reply is there, and the cassette cannot take it."""
        line = f"{error} This reply is not recorded; %kimi record names another file."
        if self.made is not None and line not in self.made.warnings:
            self.made.warnings.append(line)

    def elsewhere(self) -> Elsewhere:
        """What another process needs to ask. Raises `ConfigError` where it cannot."""
        from ..batch import Elsewhere

        if self.is_given:
            raise ConfigError("This chat was made with a client of its own, which cannot go to an executor.")
        session = self.session(self._settings.replay)
        speed = self._settings.simulator_speed if self.simulated else None
        connect = partial(client_elsewhere, session.client.base_urls, speed)
        return Elsewhere(connect, session.price(self._settings.model), self.notebook)

    def close(self) -> None:
        """End the connections. A further question opens new ones."""
        clients, self._old = self._old, []
        if self._client is not None and not self.is_given and not self._offline:
            clients.append(self._client)
            self._client = None
        for client in clients:
            self._worker.run(client.aclose)  # its connections belong to the worker's loop
        self._worker.close()
        if self.made is not None:
            self.made.close()
