"""One turn while it runs. Whatever happens (an error, a cut, an interrupt at any stage), it ends as
a `Turn` that holds what arrived, and one usage record for each request that it took."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from ..client import AsyncClient, AsyncMessageStream
from ..conversation import COMPLETE, CUT, FAILED, INTERRUPTED, Exchange, Turn
from ..errors import KimiError
from ..retry import Attempt
from ..stream import ContentBlockStart, Event
from ..tools import Outcome
from ..usage import Price, Record, with_counts
from ..wire import Block, Json, Message, Request, TextBlock
from .asking import Ask, Plan
from .calls import ToolCalls, Waiting
from .ending import BY_ERROR, no_answer, status_of
from .lanes import Ticket
from .steps import Said, Step, steps


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a turn needs of its session."""

    client_for: Callable[[Request, str], AsyncClient]
    """Where a request goes in a mode of replay."""
    replayer: AsyncClient | None
    """The client whose replies are recordings."""
    notebook: str | None
    price: Callable[[str], Price | None]
    """Of a model."""
    note: Callable[[Record], None]
    """Told of each request that has ended."""
    plan: Callable[[Ask], Plan]
    """The request that is asked for, as things stand."""
    utc: Callable[[], datetime]
    clock: Callable[[], float]
    """Seconds, monotonic."""


class TurnStream:
    """Iterate `events()` once; then `turn`, `records` and `error` say what came of it.

    Events are those of the client's stream: the API's, and a `retry.Attempt` before a further try; and
    `ToolCalls`, after which the turn waits for each to be answered (`answer`).
    ended: told when the turn is there, before `events` ends or raises.
    """

    def __init__(
        self,
        plan: Plan,
        turn_id: str,
        around: Surroundings,
        ended: Callable[[TurnStream], None],
        ticket: Ticket,
    ) -> None:
        self.plan = plan
        """As it was asked; made anew where the turn had to wait for others of its conversation."""
        self.turn: Turn | None = None
        self.records: list[Record] = []
        self.error: KimiError | None = None
        self.value: Any = None
        """What a structured reply holds, as its schema's type."""
        self.notes: list[str] = []
        """Lines for the user about the tools."""
        self.call_seconds: list[float] = []
        """How long each call took, in order."""
        self.seconds = 0.0
        """How long the turn took since its first request, calls of tools included."""
        self.id = turn_id
        """Of the turn that it will be."""
        self._around = around
        self._ended = ended
        self._ticket = ticket
        self._running: asyncio.Task[Any] | None = None
        self._stopped = False
        self._time = around.utc()
        self._stream: AsyncMessageStream | None = None
        self._said: list[Said] = []  # the messages that are whole
        self._is_open = False  # a reply is under way, and not in `_said` yet
        self._waiting = Waiting()
        self._exchanges: list[Exchange] = []
        self._thinking: list[float] = []  # when it began to think, and when it said something

    @property
    def message(self) -> Message:
        """The reply to the request under way, or to the last one, as far as it has come."""
        return self._stream.message if self._stream is not None else Message()

    def so_far(self) -> tuple[tuple[Block, ...], bool]:
        """All content of the turn as far as it has come, and whether a simulator sends it. To be
        called in the thread that iterates `events`."""
        content = [block for message in self._messages(self._waiting.done) for block in message.content]
        return tuple(content), self._stream is not None and self._stream.simulated

    def answer(self, outcome: Outcome, seconds: float) -> None:
        """What came of the next of the calls. From any thread."""
        self._waiting.tell(lambda: self._take(outcome, seconds))

    def _take(self, outcome: Outcome, seconds: float) -> None:
        call = self._waiting.take(outcome)
        self.call_seconds.append(seconds)
        if outcome.note:
            self.notes.append(f"Tool {call.name}: {outcome.note}.")

    @property
    def is_queued(self) -> bool:
        """Others of its conversation are ahead of it."""
        return self.turn is None and not self._ticket.is_first

    def stop(self) -> None:
        """End it as an interrupt does, from any thread; what arrived is kept."""
        self._stopped = True
        running = self._running
        if running is None:
            self._ticket.leave()  # it may never begin; those behind it need not wait
        else:
            with contextlib.suppress(RuntimeError):  # its loop has ended, and the turn with it
                running.get_loop().call_soon_threadsafe(running.cancel)

    @property
    def price(self) -> Price | None:
        return self._around.price(self.plan.request.model)

    @property
    def thinking_seconds(self) -> float | None:
        """How long it has thought so far, before it says anything; None where it does not. From any
        thread."""
        if not self._thinking:
            return None
        return [*self._thinking, self._around.clock()][1] - self._thinking[0]

    def _see(self, event: Event | Attempt) -> None:
        """Take the time of its thinking."""
        if isinstance(event, ContentBlockStart) and len(self._thinking) < 2:
            thinks = "thinking" in str(event.content_block.get("type"))
            if thinks != bool(self._thinking):
                self._thinking.append(self._around.clock())

    async def events(self) -> AsyncGenerator[Event | Attempt | ToolCalls, None]:
        """Ask, and yield what comes. Raises the `KimiError` that ended it, after the turn is kept."""
        status = INTERRUPTED
        self._running = asyncio.current_task()
        began = self._around.clock()
        try:
            await self._begin()
            began = self._around.clock()  # it waited for others until now
            loop = steps(self.plan.request, self._said, self.plan.ask.max_steps)
            step: Step | None = next(loop)
            while step is not None:
                async with aclosing(self._taken(step)) as events:
                    async for event in events:
                        yield event
                answer = self.message if isinstance(step, Request) else self._waiting.results()
                self._is_open, self._waiting = False, Waiting()
                try:
                    step = loop.send(answer)
                except StopIteration:
                    step = None
            status = status_of(self.message, self._said)
            self._read_value()
            if status == CUT:
                raise no_answer(self.message, self.plan.request.max_tokens)
        except KimiError as error:
            status, self.error = BY_ERROR.get(type(error), FAILED), error
            raise
        finally:
            self.seconds = self._around.clock() - began
            self.turn = self._as_turn(
                status, tuple(m.to_json() for m in self._messages(self._waiting.results()))
            )
            self._ended(self)
            self._ticket.leave()

    async def _begin(self) -> None:
        """Wait for the turns ahead; then it is decided where this one stands, and what is sent."""
        if self._stopped:
            raise asyncio.CancelledError
        if await self._ticket.come():
            self.plan = self._around.plan(self.plan.ask)
            self._time = self._around.utc()

    async def _taken(self, step: Step) -> AsyncGenerator[Event | Attempt | ToolCalls, None]:
        """One step of the turn: a request, or calls that somebody runs."""
        if isinstance(step, Request):
            async with aclosing(self._one(step)) as events:
                async for event in events:
                    yield event
            self._exchanges.append(_exchange(step, self.message))
            return
        self._waiting = Waiting(step, asyncio.get_running_loop())
        yield ToolCalls(step, self.plan.ask.tools, self.plan.ask.conversation)
        await self._waiting.answered.wait()
        rounds, limit = sum(message.role == "assistant" for message in self._said), self.plan.ask.max_steps
        if rounds == limit:
            self.notes.append(
                f"The limit of tool rounds (--max-steps {limit}) was reached; then it had to answer."
            )

    def _read_value(self) -> None:
        """The value of a structured reply. Raises `SchemaError`."""
        if self.plan.ask.schema is not None:
            last = self._said[-1].content if self._said else []
            text = "".join(b.text for b in last if isinstance(b, TextBlock))
            self.value = self.plan.ask.schema.read(text, replace(self.message, content=tuple(last)))

    def _messages(self, results: Sequence[Block]) -> list[Said]:
        """What was said after the user's message, so far. results: of the calls that run."""
        messages = list(self._said)
        if self._is_open and self.message.content:
            begun = messages.pop().content if messages and messages[-1].role == "assistant" else []
            messages.append(Said("assistant", [*begun, *self.message.content]))  # begun: before a pause
        if results:
            messages.append(Said("user", list(results)))
        return messages

    async def _one(self, request: Request) -> AsyncGenerator[Event | Attempt, None]:
        """One request of the turn, and its record."""
        record = self._blank(request)
        began, first = self._around.clock(), None
        self._stream, self._is_open = None, True  # what came before it is in `_said`
        client = self._around.client_for(request, self.plan.ask.replay)
        record = record.replace(replayed=client is self._around.replayer)
        stream = self._stream = client.stream(request)
        try:
            async with stream:
                async for event in stream:
                    if first is None and isinstance(event, ContentBlockStart):
                        first = self._around.clock() - began
                    self._see(event)
                    yield event
            record = record.replace(status=COMPLETE)
        except KimiError as failure:
            record = record.replace(status=FAILED, error=type(failure).__name__)
            raise
        finally:
            record = record.replace(seconds=self._around.clock() - began, seconds_to_first=first)
            self.records.append(self._counted(record, stream))
            self._around.note(self.records[-1])

    def _blank(self, request: Request) -> Record:
        ask = self.plan.ask
        return Record(
            time=self._around.utc(),
            notebook=self._around.notebook,
            conversation=None if ask.once else ask.conversation,
            turn=self.id,
            cell=ask.cell,
            model=request.model,
            effort=request.effort,
            status=INTERRUPTED,
        )

    def _counted(self, record: Record, stream: AsyncMessageStream) -> Record:
        message = stream.message
        record = record.replace(
            stop_reason=message.stop_reason,
            request_id=message.request_id,
            attempts=stream.attempts,
            simulated=stream.simulated,
        )
        ttl = self.plan.request.cache_ttl or "5m"
        counted = with_counts(record, message.usage, self.price, ttl)
        return counted.replace(cost=Decimal(0), saved=counted.cost) if record.replayed else counted

    def _as_turn(self, status: str, replies: tuple[Json, ...]) -> Turn:
        ask, request, thought = self.plan.ask, self.plan.request, self.thinking_seconds
        return Turn(
            id=self.id,
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
            compacts=self.plan.place.compacts,
            thinking_seconds=None if thought is None else round(thought, 3),
            call_seconds=tuple(round(seconds, 3) for seconds in self.call_seconds),
        )


def _exchange(request: Request, message: Message) -> Exchange:
    whole = message.to_dict()
    content = whole.pop("content")
    return Exchange(request.fingerprint(), len(content), whole)
