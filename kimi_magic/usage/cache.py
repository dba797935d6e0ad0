"""What the server's cache did, from the records alone: what it saved, when it expires, whether it
should be kept for five minutes or an hour.

The arithmetic of the advice: in each request, what stood in the one before is read where the gap
between them is within the time to live, and written anew where it is not; what is new is written in
either case. A write for an hour costs more and expires later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise

from .prices import MILLION, Price
from .records import Record, cold_cost, cost_of

LIFE = {"5m": timedelta(minutes=5), "1h": timedelta(hours=1)}
"""How long a prefix stays in the cache after it was last read or written."""


def saved_by_cache(records: Iterable[Record], price: Price | None) -> Decimal | None:
    """What the same requests would have cost more with nothing in the cache; None without a price.
    Below 0 where the writes cost more than the reads have saved."""
    if price is None:
        return None
    pairs = [(cold_cost(record, price), cost_of(record, price)) for record in records]
    return sum((cold - paid for cold, paid in pairs if cold is not None and paid is not None), Decimal(0))


def expires(record: Record, ttl: str) -> datetime | None:
    """When what this request left in the cache is gone, if nothing reads it before; None where it left
    nothing there."""
    cached = (record.cache_read or 0) + (record.cache_write_5m or 0) + (record.cache_write_1h or 0)
    return record.time + LIFE[ttl] if cached else None


@dataclass(frozen=True, slots=True)
class Advice:
    """Which time to live would have been cheaper for these requests."""

    gaps: tuple[timedelta, ...]
    """Between one turn's last request and the next turn's first."""
    cost_5m: Decimal
    """Of the input alone, had all of it been cached for 5 minutes."""
    cost_1h: Decimal
    currency: str

    @property
    def ttl(self) -> str:
        """5m, or 1h where it is cheaper."""
        return "1h" if self.cost_1h < self.cost_5m else "5m"

    def within(self, ttl: str) -> int:
        """How many gaps a prefix with this time to live outlives."""
        return sum(gap <= LIFE[ttl] for gap in self.gaps)


def advise(records: Sequence[Record], price: Price) -> Advice | None:
    """The advice for one conversation's requests, oldest first; None where there is no gap between
    turns to judge by, or the counts are not known."""
    known = [r for r in records if r.prompt_tokens is not None]
    gaps = tuple(b.time - a.time for a, b in pairwise(known) if a.turn != b.turn)
    if not gaps:
        return None
    costs = {ttl: _input_cost(known, ttl, price) for ttl in LIFE}
    return Advice(gaps, costs["5m"], costs["1h"], price.currency)


def _input_cost(records: Sequence[Record], ttl: str, price: Price) -> Decimal:
    write = price.cache_write_1h if ttl == "1h" else price.cache_write_5m
    whole, before = Decimal(0), None
    for record in records:
        total = record.prompt_tokens or 0
        shared = min(total, before.prompt_tokens or 0) if before is not None else 0
        alive = before is not None and record.time - before.time <= LIFE[ttl]
        whole += shared * (price.cache_read if alive else write) + (total - shared) * write
        before = record
    return whole / MILLION
