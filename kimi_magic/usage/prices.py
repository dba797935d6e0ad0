"""Prices: what a token of each kind costs, where and when that was read, and what it was before."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

MILLION = Decimal(1_000_000)
KINDS = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h", "search")
"""The kinds that have a price, in the order of the fields."""


@dataclass(frozen=True, slots=True)
class Price:
    """Prices of one model, in `currency` per million tokens; `search` per search, None where it is
    not known."""

    input: Decimal
    output: Decimal
    cache_read: Decimal
    cache_write_5m: Decimal
    cache_write_1h: Decimal
    search: Decimal | None = None
    currency: str = "USD"
    source: str = ""
    """Where and when the numbers were read."""

    @classmethod
    def of(cls, *numbers: str | float | Decimal, **more: Any) -> Price:
        """The five token prices in the order of the fields; floats are taken as they print."""
        exact = [Decimal(str(n)) for n in numbers]
        return cls(exact[0], exact[1], exact[2], exact[3], exact[4], **more)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, the numbers as exact text."""
        return {k: str(v) if isinstance(v, Decimal) else v for k, v in asdict(self).items()}

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> Price:
        """The price of `to_json`."""
        numbers = {k: None if json.get(k) is None else Decimal(json[k]) for k in KINDS}
        return cls(**{**json, **numbers})


PRICES_READ = date(2026, 11, 1)
"""When the public prices were read."""
_PUBLIC = f"a relay's public price page, read in {PRICES_READ:%B %Y}; no price for a search was found"
PRICES: Mapping[str, Price] = {
    "kimi-k3.1-pro": Price.of("2.00", "10.00", "0.20", "2.00", "4.00", source=_PUBLIC),
    "kimi-k3.1-pro-highspeed": Price.of("4.00", "20.00", "0.20", "4.00", "8.00", source=_PUBLIC),
}
"""The public prices. A user's own table replaces any of them."""

ANY = ""
"""As a base URL: all of them."""
ALWAYS = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class PriceVersion:
    """What a model costs at a base URL from a time on."""

    model: str
    price: Price
    base_url: str = ANY
    since: datetime = ALWAYS


class PriceBook:
    """All versions of all prices. The one of the very base URL goes before that for all of them, and of
    those that had begun by then the latest counts."""

    def __init__(self, versions: Iterable[PriceVersion]) -> None:
        self.versions: tuple[PriceVersion, ...] = tuple(sorted(versions, key=lambda v: v.since))

    @classmethod
    def of(cls, prices: Mapping[str, Price]) -> PriceBook:
        """One price for each model, since ever and everywhere."""
        return cls(PriceVersion(model, price) for model, price in prices.items())

    def find(self, model: str, base_url: str = ANY, at: datetime | None = None) -> Price | None:
        """The price of a model, now or at another time; None where none is known."""
        found = [v for v in self.versions if v.model == model and (at is None or v.since <= at)]
        own = [v for v in found if v.base_url == base_url]
        chosen = own or [v for v in found if v.base_url == ANY]
        return chosen[-1].price if chosen else None

    def added(self, versions: Iterable[PriceVersion]) -> PriceBook:
        """The book with more versions in it."""
        return PriceBook([*self.versions, *versions])

    def reset(self, model: str, book: PriceBook) -> PriceBook:
        """The book with the versions of a model that another one has."""
        others = (v for v in self.versions if v.model != model)
        return PriceBook([*others, *(v for v in book.versions if v.model == model)])


_AMOUNT = re.compile(r"\$?\s*((?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d*)?|\.\d+)((?:[eE][+-]?\d{1,3})?)")


def amount(text: str) -> Decimal:
    """A sum of money, exact: `2.00`, `$2`, `1,000.50`, `1e-05`. Raises ValueError for anything else: below 0,
    and `1,5`, which means one and a half to many people."""
    found = _AMOUNT.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no amount; it looks like 2.00 or 1,000.50")
    return Decimal(found[1].replace(",", "") + found[2])


def money(amount: Decimal, currency: str) -> str:
    """An amount with at least two and at most as many digits as show something."""
    digits = 2 if amount >= 1 or amount == 0 else 4 if amount >= Decimal("0.001") else 6
    sign = {"USD": "$", "EUR": "€", "CNY": "¥"}.get(currency)
    return f"{sign}{amount:.{digits}f}" if sign else f"{amount:.{digits}f} {currency}"
