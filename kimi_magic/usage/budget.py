"""Budgets: how much may be spent, and what a request may cost before it is sent."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from .prices import MILLION, Price, amount

PERIODS = ("day", "notebook", "total")

_BUDGET = re.compile(
    r"\$?\s*([\d.,]+(?:e[+-]?\d+)?)\s*(USD|EUR|CNY)?\s*(?:(?:/|per)\s*(\w+))?", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Budget:
    """So much money, for a day (by this machine's clock), for a notebook, or for all time. What was
    simulated or replayed does not count, nor does what was paid in another currency."""

    amount: Decimal
    per: str = "total"
    currency: str = "USD"
    source: str = "%kimi budget"
    """Who set it, for messages."""

    @classmethod
    def parse(cls, text: str, source: str = "%kimi budget") -> Budget:
        """`2.00`, `$2/day`, `5 EUR per notebook`. Raises ValueError for anything else."""
        found = _BUDGET.fullmatch(text.strip())
        per = (found[3] or "total").lower() if found else ""
        if found is None or per not in PERIODS:
            raise ValueError(
                f"{text!r} is no budget; it looks like 2.00, or 2.00/day, per {', '.join(PERIODS)}"
            )
        return cls(amount(found[1]), per, (found[2] or "USD").upper(), source)

    def since(self, now: datetime) -> datetime | None:
        """When what counts began, UTC; None for all time."""
        if self.per != "day":
            return None
        return now.astimezone().replace(hour=0, minute=0, second=0, microsecond=0).astimezone(UTC)

    def __str__(self) -> str:
        return f"{self.amount} {self.currency} {'in all' if self.per == 'total' else f'a {self.per}'}"


def most(tokens: int, max_tokens: int, price: Price, ttl: str | None = None) -> Decimal:
    """The most that a request can cost without searches: all its input written to the cache, and
    `max_tokens` of output."""
    write = price.cache_write_1h if ttl == "1h" else price.cache_write_5m
    return (tokens * max(price.input, write) + max_tokens * price.output) / MILLION
