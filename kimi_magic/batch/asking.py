"""One request of a batch, asked here or in another process. What comes back is a value either way."""

from __future__ import annotations

import atexit
import pickle
import threading
import time
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from ..client import AsyncClient
from ..conversation import REFUSED
from ..errors import KimiError, OverloadedError, QuotaError, RateLimitError, RefusedReplyError
from ..retry import Attempt
from ..session import Lanes, Plan, Surroundings, ToolCalls, TurnStream, Worker
from ..usage import Price, Record
from ..wire import Message, content_blocks


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one request."""

    message: Message | None = None
    """The whole reply, where there is one."""
    records: tuple[Record, ...] = ()
    error: KimiError | None = None
    slowed: float = 0.0
    """The longest wait, in seconds, that the server asked for because there were too many requests."""


SIMULATED = "kimi_simulated"
"""The mark of a message that a simulator made, which is stored with it."""


def is_too_many(error: KimiError | None) -> bool:
    """The server would take the request later, with fewer beside it."""
    return isinstance(error, (RateLimitError, OverloadedError)) and not isinstance(error, QuotaError)


async def _no_tools(calls: ToolCalls, stream: TurnStream) -> None:
    raise AssertionError("no function was offered")


async def follow(
    stream: TurnStream,
    slow: Callable[[float], None],
    call: Callable[[ToolCalls, TurnStream], Awaitable[None]] = _no_tools,
) -> Outcome:
    """Run a turn to its end. slow: told when the server asks to wait. call: answers the calls of tools, or
    raises what ends the turn."""
    slowed = 0.0
    error: KimiError | None = None
    try:
        async with aclosing(stream.events()) as events:
            async for event in events:
                if isinstance(event, Attempt) and is_too_many(event.cause):
                    slowed = max(slowed, event.wait)
                    slow(event.wait)
                elif isinstance(event, ToolCalls):
                    await call(event, stream)
    except KimiError as failure:
        error = failure
    turn = stream.turn
    assert turn is not None
    if error is None and turn.status == REFUSED:
        error = RefusedReplyError("The model refused to answer.")
    message = None if error is not None else _whole(stream)
    return Outcome(message, tuple(stream.records), error, slowed)


def _whole(stream: TurnStream) -> Message:
    """The reply with all its content, also where the server had paused it; after calls, the last one."""
    assert stream.turn is not None
    content = tuple(content_blocks(stream.turn.messages[-1]["content"]))
    extra = {**stream.message.extra, SIMULATED: True} if stream.turn.simulated else stream.message.extra
    return replace(stream.message, content=content, extra=extra)


# --- in another process -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What another process needs to ask. All of it can be pickled, and none of it is a key: each process
    finds its own, as the first one did."""

    connect: Callable[[], AsyncClient]
    price: Price | None
    notebook: str | None


@dataclass(frozen=True, slots=True)
class Item:
    """A request for another process."""

    plan: Plan
    where: Elsewhere

    def ask(self) -> Outcome:
        """Ask, and wait for what comes of it. The client stays open for the next item, until the batch ends
        (`held`) or the process does."""
        desk = _desk(self.where)
        (outcome,) = [one for one in desk.worker.iterate(lambda: desk.answer(self)) if one is not None]
        return outcome


@dataclass(slots=True)
class _Desk:
    """The client of this process, in a loop of its own."""

    client: AsyncClient
    worker: Worker = field(default_factory=Worker)

    def close(self) -> None:
        self.worker.run(self.client.aclose)
        self.worker.close()

    async def answer(self, item: Item) -> AsyncGenerator[Outcome, None]:
        around = Surroundings(
            client_for=lambda request, mode: self.client,
            replayer=None,
            notebook=item.where.notebook,
            price=lambda model: item.where.price,
            note=lambda record: None,
            plan=lambda ask: item.plan,
            utc=lambda: datetime.now(UTC),
            clock=time.monotonic,
        )
        stream = TurnStream(item.plan, uuid.uuid4().hex[:16], around, lambda ended: None, Lanes().enter(None))
        yield await follow(stream, lambda seconds: None)


_DESKS: dict[bytes, _Desk] = {}
_HELD: Counter[bytes] = Counter()
"""How many batches of this process ask through a desk, wherever it is."""
_LOCK = threading.Lock()


def _desk(where: Elsewhere) -> _Desk:
    key = pickle.dumps(where.connect)
    with _LOCK:
        if key not in _DESKS:
            _DESKS[key] = _Desk(where.connect())
        return _DESKS[key]


@contextmanager
def held(where: Elsewhere | None) -> Iterator[None]:
    """While a batch asks there. When the last one ends, the client closes if it is in this process, as on
    threads; in another one it stays for the next batch, as long as that process does."""
    if where is None:
        yield
        return
    key = pickle.dumps(where.connect)
    with _LOCK:
        _HELD[key] += 1
    try:
        yield
    finally:
        with _LOCK:
            _HELD[key] -= 1
            desk = None if _HELD[key] else _DESKS.pop(key, None)
        if desk is not None:
            desk.close()


def _close_all() -> None:
    for desk in _DESKS.values():
        desk.close()


atexit.register(_close_all)
