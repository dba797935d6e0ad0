"""What came of one question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from ..conversation import Turn
from ..counts import counted
from ..display import Ending
from ..render import ReplyView, ShownUsage, bundle, call_records, sources
from ..session import TurnStream
from ..tools import Schema
from ..usage import Record, totals
from ..wire import Json, Message


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of one question; `-o NAME` puts it into a variable."""

    turn: Turn
    message: Message
    """The last message, as the API gave it."""
    records: tuple[Record, ...]
    view: ReplyView
    value: Any = None
    """What a reply by a schema holds, as the schema's type."""
    schema: Schema | None = None

    @property
    def text(self) -> str:
        return self.turn.text

    @property
    def stop_reason(self) -> str | None:
        """Why the last message ended: `end_turn`; `max_tokens` where its text ends in the middle …"""
        return self.message.stop_reason

    @property
    def thinking(self) -> str:
        return replace(self.message, content=tuple(self.turn.reply)).thinking

    @property
    def sources(self) -> list[Json]:
        """What the text cites: url and title each, in the order of their numbers."""
        return sources(self.turn.reply)

    @property
    def rows(self) -> list[Json]:
        """The value as records: `pd.DataFrame(reply.rows)`. None without a schema."""
        return self.schema.rows(self.value) if self.schema is not None else []

    @property
    def tool_calls(self) -> list[Json]:
        """The calls of tools, in order: id, name, input, result (its text), is_error and seconds each;
        what is not known is None."""
        return call_records(self.view.pieces())

    @property
    def usage(self) -> ShownUsage:
        """One row for each request that it took."""
        return ShownUsage(self.records)

    @property
    def cost(self) -> Decimal | None:
        """Of all its requests; None where a price is not known."""
        return totals(self.records).cost if all(r.cost is not None for r in self.records) else None

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Reply: {counted(len(self.text), 'character')}, {self.turn.status}>"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        return bundle(self.view)


def view_of(ending: Ending, notes: Sequence[str] = (), *, raised: bool = True) -> ReplyView:
    """What is to be shown of a turn that ended. raised: its error stands below, as the cell's own; that
    of an interrupt says less than the failure does."""
    turn = ending.stream.turn
    assert turn is not None
    return ReplyView(
        content=tuple(turn.content),
        records=tuple(ending.stream.records),
        price=ending.stream.price,
        notes=tuple(notes),
        failure=ending.failure,
        simulated=turn.simulated,
        thinking_seconds=turn.thinking_seconds,
        call_seconds=turn.call_seconds,
        structured=ending.stream.plan.ask.schema is not None,
        raised=raised and ending.stream.error is not None,
        images=tuple(turn.images),
        max_tokens=turn.settings.get("max_tokens"),
        seconds=ending.stream.seconds,
    )


def reply_of(stream: TurnStream) -> Reply:
    """The reply of a turn that ended."""
    assert stream.turn is not None
    view = view_of(Ending(stream, ""), stream.notes)
    return Reply(
        stream.turn, stream.message, tuple(stream.records), view, stream.value, stream.plan.ask.schema
    )
