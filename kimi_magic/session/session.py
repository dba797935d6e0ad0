"""The conversations and the ledger of one notebook."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial

from ..client import AsyncClient
from ..conversation import COMPLETE, Conversation, Place, Turn
from ..errors import RequestError
from ..recordings import Library
from ..store import Store
from ..usage import PRICES, Budget, Price, PriceBook, Record, Selection
from ..wire import Json, Message, Request, user
from . import window
from .asking import Ask, Plan
from .keeping import Keeping
from .lanes import Lanes
from .purse import Purse
from .turns import Surroundings, TurnStream
from .window import Window


def _utc_now() -> datetime:
    return datetime.now(UTC)


def _new_id() -> str:
    return uuid.uuid4().hex[:16]


class Session:
    """One notebook's chat. `plan` what to ask, `start` it, iterate the stream. Turns of one
    conversation run one after the other, in the order of `start`.

    client: where requests go. notebook: its path where it is known; conversations are found again
    under it, and without one they are this session's alone. store: where they outlive it.
    library, replayer: recordings, and the client that answers from them.
    prices: per model, the public ones by default. ceiling: gives the budget of the settings.
    utc, clock, new_id: for tests.
    """

    def __init__(
        self,
        client: AsyncClient,
        *,
        notebook: str | None = None,
        store: Store | None = None,
        library: Library | None = None,
        replayer: AsyncClient | None = None,
        prices: Mapping[str, Price] = PRICES,
        ceiling: Callable[[], Budget | None] = lambda: None,
        utc: Callable[[], datetime] = _utc_now,
        clock: Callable[[], float] = time.monotonic,
        new_id: Callable[[], str] = _new_id,
    ) -> None:
        self.client = client
        self.notebook = notebook
        """Its path, where it is known."""
        self.key = notebook or f"kernel {_new_id()}"
        """What the store has this notebook under."""
        self._keeping = Keeping(store, self.key)
        found = self._keeping.load()
        self.warnings: list[str] = list(found.problems)
        """Lines that the user has not been told yet."""
        self.conversations: dict[str, Conversation] = {"main": Conversation("main"), **found.conversations}
        self.current = "main"
        """Name of the conversation that cells without `-c` are in."""
        self.records: list[Record] = list(found.records)
        """The ledger: one record a request, oldest first."""
        self.last: Turn | None = None
        """The turn that ended last, however it ended."""
        self._library = library if library is not None else Library()
        self._replayer = replayer
        self._indexed: set[str] = set()  # turns that the library has
        self._lock = threading.RLock()  # turns end in threads of their own
        self._window = Window()
        self._lanes = Lanes()
        self.purse = Purse(store, self.key, PriceBook.of(prices), ceiling, self.records, utc)
        """Prices and budgets."""
        self._around = Surroundings(
            self._client_for, replayer, notebook, self.price, self.purse.note, self.plan, utc, clock
        )
        self._new_id = new_id

    def connect(self, client: AsyncClient, *, is_free: bool) -> None:
        """Send requests through this client from now on. is_free: a simulator, so nothing is paid."""
        self.client = client
        self.purse.connect(is_free=is_free)

    def close(self) -> None:
        """Write what still waits for the store, and let go of it; it opens again when something is to be
        kept."""
        if self._keeping.is_waiting:
            with self._lock:
                self._keep(None)
        self._keeping.close()

    def now(self) -> datetime:
        """The time on the session's clock, UTC."""
        return self._around.utc()

    def price(self, model: str) -> Price | None:
        """What the model costs where requests go."""
        return self.purse.prices.find(model, self.client.base_urls[0])

    def ledger(self, selection: Selection) -> Iterable[Record]:
        """The requests of all notebooks, from the store; of this one where there is none. Raises
        `StoreError`."""
        store = self._keeping.store
        return selection.of_all(self.records) if store is None else store.records(selection)

    def conversation(self, name: str | None = None) -> Conversation:
        """The conversation of that name, the current one by default; made if it is not there."""
        name = name or self.current
        return self.conversations.setdefault(name, Conversation(name))

    def change(self, conversation: Conversation) -> None:
        """Put a changed conversation in the place of the one of its name, and keep it. A turn that has
        come meanwhile, from the background, stays."""
        with self._lock:
            known = self.conversation(conversation.name).turns
            new = [turn for key, turn in conversation.turns.items() if key not in known]
            if not known.keys() <= conversation.turns.keys():
                conversation = conversation.with_others(known)
            self.conversations[conversation.name] = conversation
            self._keep(conversation, new)

    def add_records(self, records: Iterable[Record]) -> None:
        """Put records that came with a notebook into the ledger, those that it does not have: neither for
        this notebook, nor, in the store, for another."""
        known = {(r.turn, r.time) for r in self.records}
        new = [r for r in records if (r.turn, r.time) not in known]
        with self._lock:
            self.records += new
            self._keep(None, records=self._keeping.unknown(new))

    def _keep(
        self, conversation: Conversation | None, turns: Iterable[Turn] = (), records: Iterable[Record] = ()
    ) -> None:
        """Store what is new here, and take in what is new there."""
        records = tuple(records)
        with self.purse.settling(records, lambda: self._keeping.waiting):
            news = self._keeping.keep(conversation, turns, records)
        for name, found in news.conversations.items():
            here = self.conversations.get(name)
            is_used = here is not None and bool(here.turns)
            self.conversations[name] = here.with_others(found.turns) if here and is_used else found
        self.records[:0] = news.records
        self.warnings += news.problems

    def plan(self, ask: Ask) -> Plan:
        """The request that `ask` makes. Raises `RequestError` for what the API page rules out."""
        conversation = self.conversation(ask.conversation)
        if ask.new and not ask.once:
            conversation = conversation.fresh()
        place = _place(ask, conversation)
        before = place.parent or place.compacts
        request = Request(
            messages=(*conversation.messages(before), user(ask.content)),
            model=ask.model,
            max_tokens=ask.limit(),
            system=ask.system if ask.system is not None else (None if ask.once else conversation.system),
            effort=ask.effort,
            cache_ttl=ask.cache_ttl,
            stop_sequences=ask.stop_sequences,
            tools=ask.tool_list(),
            tool_choice=ask.tool_choice,
            schema=ask.schema.json if ask.schema is not None else None,
        )
        if ask.max_steps < 1:
            raise RequestError(f"max_steps: must be at least 1, not {ask.max_steps}.")
        if ask.tool_choice is not None and not request.tools:
            raise RequestError(
                f"tool_choice: {ask.tool_choice}, and there are no tools.", hint="Name one with -t."
            )
        self.client.check(request)
        self.purse.refresh()
        used = self._window.tokens(request, conversation.path_to(before))
        window.check(used)
        warnings = [window.warning(used), self.purse.warning(request, used, self.price(request.model))]
        return Plan(ask, request, place, " ".join(filter(None, warnings)), used)

    def start(self, plan: Plan) -> TurnStream:
        """The turn, about to run: iterate its `events()`."""
        self.warnings += [plan.warning] * bool(plan.warning)
        ticket = self._lanes.enter(None if plan.ask.once else plan.ask.conversation)
        return TurnStream(plan, self._new_id(), self._around, self._end, ticket)

    # --- batches ---

    def aside(self, plan: Plan) -> TurnStream:
        """A turn beside the conversations, about to run. Whoever asks keeps what comes of it."""
        return TurnStream(plan, self._new_id(), self._around, lambda stream: None, self._lanes.enter(None))

    def kept_replies(self, batch: str) -> dict[str, Message]:
        """The replies of a batch by the fingerprint of their requests; what cannot be read is left out."""
        return self._keeping.replies(batch)

    def keep_replies(self, batch: str, replies: Mapping[str, Message], records: Iterable[Record]) -> None:
        """Store replies of a batch, and the usage that is in `records` here already. From any thread."""
        with self.purse.settling(records, lambda: self._keeping.waiting):
            self.warnings += self._keeping.keep_replies(batch, replies, records)

    def _end(self, stream: TurnStream) -> None:
        turn = stream.turn
        assert turn is not None
        with self._lock:
            self.records += stream.records
            self.last = turn
            conversation = None
            if not stream.plan.ask.once:
                conversation = self.conversation(stream.plan.ask.conversation)
                if stream.plan.ask.new and turn.status == COMPLETE:
                    conversation = conversation.fresh()
                conversation = conversation.with_ended(turn)
                self.conversations[conversation.name] = conversation
            self._keep(conversation, [turn], stream.records)

    def _client_for(self, request: Request, mode: str) -> AsyncClient:
        """Where a request goes: to the recordings where they have it, else to the server, if asking
        is allowed. Raises `ReplayError` where it is not, and `BudgetError` where the money is spent."""
        if mode != "off" and self._replayer is not None:
            self._index()
            if request.fingerprint() in self._library:
                return self._replayer
            if mode == "only":
                raise self._library.miss(request.to_dict())
        self.purse.check()
        return self.client

    def _index(self) -> None:
        """Let the library have the turns of this session's conversations."""
        for name, conversation in self.conversations.items():
            for key, turn in conversation.turns.items():
                if key not in self._indexed:
                    self._indexed.add(key)
                    before = partial(self._before, name, turn)
                    self._library.add_turn(turn, "the notebook's conversation", before)

    def _before(self, name: str, turn: Turn) -> tuple[Json, ...]:
        """The messages that were sent ahead of a turn."""
        return self.conversation(name).messages(turn.parent or turn.compacts)

    def take_warnings(self) -> tuple[str, ...]:
        """What the user is to be told, once."""
        warnings, self.warnings = tuple(self.warnings), []
        return warnings


def _place(ask: Ask, conversation: Conversation) -> Place:
    if ask.compact:
        return conversation.compaction()
    return Place(None) if ask.once else conversation.place(ask.cell, append=ask.append)
