"""One turn while it runs. Whatever happens (an error, a cut, an interrupt at any stage), it ends as
a `Turn` that holds what arrived, and one usage record for each request that it took."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from ..client import AsyncClient, AsyncMessageStream
from ..conversation import COMPLETE, CUT, FAILED, INTERRUPTED, REFUSED, Exchange, Turn
from ..errors import KimiError
from ..retry import Attempt
from ..stream import ContentBlockStart, Event
from ..usage import Price, Record, with_counts
from ..wire import Block, Json, Message, Request, TextBlock, content_blocks
from .asking import Plan
from .steps import steps


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a turn needs of its session."""

    client_for: Callable[[Request, str], AsyncClient]
    """Where a request goes in a mode of replay."""
    replayer: AsyncClient | None
    """The client whose replies are recordings."""
    notebook: str | None
    prices: dict[str, Price]
    utc: Callable[[], datetime]
    clock: Callable[[], float]
    """Seconds, monotonic."""


class TurnStream:
    """Iterate `events()` once; then `turn`, `records` and `error` say what came of it.

    Events are those of the client's stream: the API's, and a `retry.Attempt` before a further try.
    ended: told when the turn is there, before `events` ends or raises.
    """

    def __init__(
        self, plan: Plan, turn_id: str, around: Surroundings, ended: Callable[[TurnStream], None]
    ) -> None:
        self.plan = plan
        self.turn: Turn | None = None
        self.records: list[Record] = []
        self.error: KimiError | None = None
        self._id = turn_id
        self._around = around
        self._ended = ended
        self._time = around.utc()
        self._stream: AsyncMessageStream | None = None
        self._before: list[Json] = []  # content of the replies before the one under way
        self._exchanges: list[Exchange] = []

    @property
    def message(self) -> Message:
        """The reply to the request under way, or to the last one, as far as it has come."""
        return self._stream.message if self._stream is not None else Message()

    def so_far(self) -> tuple[tuple[Block, ...], bool]:
        """All content of the turn as far as it has come, and whether a simulator sends it. To be
        called in the thread that iterates `events`."""
        content = (*content_blocks(self._before), *self.message.content)
        return content, self._stream is not None and self._stream.simulated

    @property
    def price(self) -> Price | None:
        return self._around.prices.get(self.plan.request.model)

    async def events(self) -> AsyncGenerator[Event | Attempt, None]:
        """Ask, and yield what comes. Raises the `KimiError` that ended it, after the turn is kept."""
        status, replies = INTERRUPTED, None
        loop = steps(self.plan.request)
        request: Request | None = next(loop)
        try:
            while request is not None:
                async with aclosing(self._one(request)) as events:
                    async for event in events:
                        yield event
                self._exchanges.append(_exchange(request, self.message))
                try:
                    request = loop.send(self.message)
                    self._before += [b.json for b in self.message.content]
                except StopIteration as end:
                    request, replies = None, end.value
                    status = _status_of(self.message, end.value)
        except KimiError as error:
            status, self.error = FAILED, error
            raise
        finally:
            self.turn = self._as_turn(status, self._partial() if replies is None else replies)
            self._ended(self)

    async def _one(self, request: Request) -> AsyncGenerator[Event | Attempt, None]:
        """One request of the turn, and its record."""
        record = self._blank(request)
        began, first = self._around.clock(), None
        self._stream = None  # what came before it is in `_before`
        client = self._around.client_for(request, self.plan.ask.replay)
        record = replace(record, replayed=client is self._around.replayer)
        stream = self._stream = client.stream(request)
        try:
            async with stream:
                async for event in stream:
                    if first is None and isinstance(event, ContentBlockStart):
                        first = self._around.clock() - began
                    yield event
            record = replace(record, status=COMPLETE)
        except KimiError as failure:
            record = replace(record, status=FAILED, error=type(failure).__name__)
            raise
        finally:
            record = replace(record, seconds=self._around.clock() - began, seconds_to_first=first)
            self.records.append(self._counted(record, stream))

    def _blank(self, request: Request) -> Record:
        ask = self.plan.ask
        return Record(
            time=self._around.utc(),
            notebook=self._around.notebook,
            conversation=None if ask.once else ask.conversation,
            turn=self._id,
            cell=ask.cell,
            model=request.model,
            effort=request.effort,
            status=INTERRUPTED,
        )

    def _counted(self, record: Record, stream: AsyncMessageStream) -> Record:
        message = stream.message
        record = replace(
            record,
            stop_reason=message.stop_reason,
            request_id=message.request_id,
            attempts=stream.attempts,
            simulated=stream.simulated,
        )
        ttl = self.plan.request.cache_ttl or "5m"
        counted = with_counts(record, message.usage, self.price, ttl)
        return replace(counted, cost=Decimal(0)) if record.replayed else counted

    def _partial(self) -> tuple[Json, ...]:
        content = self._before + [b.json for b in self.message.content]
        return ({"role": "assistant", "content": content},) if content else ()

    def _as_turn(self, status: str, replies: tuple[Json, ...]) -> Turn:
        ask, request = self.plan.ask, self.plan.request
        return Turn(
            id=self._id,
            parent=self.plan.place.parent,
            messages=(request.messages[-1], *replies),
            status=status,
            cell=ask.cell,
            prompt=ask.prompt,
            model=request.model,
            effort=request.effort,
            stop_reason=self.message.stop_reason,
            error=str(self.error) if self.error is not None else None,
            time=self._time,
            simulated=any(record.simulated for record in self.records),
            settings={k: v for k, v in request.to_dict().items() if k != "messages"},
            exchanges=tuple(self._exchanges),
        )


def _exchange(request: Request, message: Message) -> Exchange:
    whole = message.to_dict()
    content = whole.pop("content")
    return Exchange(request.fingerprint(), len(content), whole)


def _status_of(message: Message, replies: tuple[Json, ...]) -> str:
    """Whether a reply that ended by itself can be sent back: it has text, and no call of ours is
    left without a result."""
    if message.stop_reason == "refusal":
        return REFUSED
    blocks = [b for reply in replies for b in content_blocks(reply["content"])]
    answered = any(isinstance(b, TextBlock) and b.text.strip() for b in blocks)
    return COMPLETE if answered and not message.tool_uses and message.stop_reason != "pause_turn" else CUT
