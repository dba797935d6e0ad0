"""What a batch may cost, before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from statistics import mean

from ..counts import counted
from ..usage import Price, Record, money, most
from .jobs import Job


@dataclass(frozen=True, slots=True)
class Estimate:
    """Token counts are estimates: the server names no tokenizer."""

    rows: int
    requests: int
    """That would be sent: equal ones once, and none that is stored."""
    stored: int
    """Rows whose reply is there already."""
    input: int
    max_output: int
    """Were each reply as long as `max_tokens` allows."""
    typical_output: int | None
    """Were they as long as earlier ones of this model and effort; None where there are none."""
    most: Decimal | None
    """The cost at `max_output`, nothing read from cache; None where no price is known."""
    typical: Decimal | None
    """The cost at `typical_output`."""
    currency: str
    rounds: int = 0
    """Further requests that the tools of a row may take. They are in no count: what they send depends on
    what is called."""

    def __str__(self) -> str:
        stored = f"{counted(self.stored, 'row')} {'is' if self.stored == 1 else 'are'} stored already"
        line = f"{counted(self.rows, 'row')}, {counted(self.requests, 'request')} ({stored}):"
        if not self.requests:
            return f"{line} nothing is to be asked."
        if self.most is None:
            return f"{line} about {counted(self.input, 'token')} in; no price is known."
        usual = "; no earlier replies to go by: try rows.head(5) first"
        if self.typical is not None:
            usual = f", about {money(self.typical, self.currency)} as earlier replies were"
        more = f"; the tools of a row may take up to {self.rounds} more" if self.rounds else ""
        most = f"at most {money(self.most, self.currency)}{usual}{more}."
        return f"{line} about {counted(self.input, 'token')} in, {most}"

    def __repr__(self) -> str:
        return f"<{self}>"


def estimate(
    rows: int, waiting: Sequence[Job], stored: int, price: Price | None, before: Iterable[Record], rounds: int
) -> Estimate:
    """waiting: what would be sent. stored: rows that are not among them. before: earlier requests, for the
    length of replies. rounds: of tools, at most."""
    inputs = [job.tokens for job in waiting]
    first = waiting[0].request if waiting else None
    usual = [
        record.output
        for record in before
        if first is not None
        and record.output is not None
        and (record.model, record.effort) == (first.model, first.effort)
    ]
    each = round(mean(usual)) if usual else None
    longest = sum(job.request.max_tokens for job in waiting)
    ttl = first.cache_ttl if first is not None else None
    return Estimate(
        rows=rows,
        requests=len(waiting),
        stored=stored,
        input=sum(inputs),
        max_output=longest,
        typical_output=None if each is None else each * len(waiting),
        most=None if price is None else most(sum(inputs), longest, price, ttl),
        typical=None if price is None or each is None else most(sum(inputs), each * len(waiting), price, ttl),
        currency="USD" if price is None else price.currency,
        rounds=rounds,
    )
