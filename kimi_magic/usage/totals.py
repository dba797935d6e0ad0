"""Sums over records, whole or in groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from .records import Record


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over records; `unknown` requests have no cost and are in no sum of it."""

    requests: int = 0
    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    thinking: int = 0
    searches: int = 0
    cost: Decimal = Decimal(0)
    unknown: int = 0
    simulated: int = 0
    currency: str = "USD"
    replayed: int = 0
    saved: Decimal = Decimal(0)
    """What the replayed ones would have cost."""
    others: int = 0
    """Requests whose cost is in another currency than the last one's, and in no sum of it."""

    @property
    def prompt_tokens(self) -> int:
        """All input, cached or not."""
        return self.input + self.cache_read + self.cache_write

    @property
    def cache_hit_rate(self) -> float | None:
        """The part of all input that was read from cache, 0…1."""
        return self.cache_read / self.prompt_tokens if self.prompt_tokens else None


def totals(records: Iterable[Record]) -> Totals:
    """The sums over `records`. Money of different currencies is not added up: that of the last record
    with a cost counts."""
    rows = list(records)
    currency = next((r.currency for r in reversed(rows) if r.cost is not None), "USD")
    same = [row for row in rows if row.currency == currency]

    def added(*names: str) -> int:
        return sum(getattr(row, name) or 0 for row in rows for name in names)

    return Totals(
        requests=len(rows),
        input=added("input"),
        cache_read=added("cache_read"),
        cache_write=added("cache_write_5m", "cache_write_1h"),
        output=added("output"),
        thinking=added("thinking"),
        searches=added("searches"),
        cost=sum((row.cost for row in same if row.cost is not None), Decimal(0)),
        unknown=sum(row.cost is None for row in rows),
        simulated=sum(row.simulated for row in rows),
        currency=currency,
        replayed=sum(row.replayed for row in rows),
        saved=sum((row.saved for row in same if row.saved is not None), Decimal(0)),
        others=sum(row.cost is not None and row.currency != currency for row in rows),
    )


GROUPS: Mapping[str, Callable[[Record], str]] = {
    "day": lambda r: r.time.astimezone().strftime("%Y-%m-%d"),
    "model": lambda r: r.model,
    "conversation": lambda r: r.conversation or "(once)",
    "notebook": lambda r: r.notebook or "(not known)",
}
"""What records can be grouped by: the name → the group of a record. Days are those of this machine."""


def grouped(records: Iterable[Record], by: str) -> dict[str, list[Record]]:
    """The records by group; days in their order, other groups in that of their first request."""
    group = GROUPS[by]
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(group(record), []).append(record)
    return dict(sorted(found.items())) if by == "day" else found
