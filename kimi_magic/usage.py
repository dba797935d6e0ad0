"""What was used and what it cost: one flat record a request, totals over them, and prices.

Rules:

- the four input counts exclude each other (`MessageUsage`): `input`, `cache_read`,
  `cache_write_5m`, `cache_write_1h`; `thinking` is a part of `output`;
- what the server did not say is None, never 0; a reply that was cut has no output count, since
  the one that came with its start is not a total;
- times are UTC and say so; costs are exact (`Decimal`), and None where no price is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, overload

from .wire import Usage

MILLION = Decimal(1_000_000)


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


_PUBLIC = "a relay's public price page, read in November 2026; no price for a search was found"
PRICES: Mapping[str, Price] = {
    "kimi-k3.1-pro": Price.of("2.00", "10.00", "0.20", "2.00", "4.00", source=_PUBLIC),
    "kimi-k3.1-pro-highspeed": Price.of("4.00", "20.00", "0.20", "4.00", "8.00", source=_PUBLIC),
}
"""The public prices. A user's own table replaces any of them."""


@dataclass(frozen=True, slots=True)
class Record:
    """One request. Counts are tokens, times seconds."""

    time: datetime
    """When the request was sent, UTC."""
    notebook: str | None = None
    conversation: str | None = None
    turn: str | None = None
    cell: str | None = None
    model: str = ""
    effort: str | None = None
    stop_reason: str | None = None
    status: str = "complete"
    """complete, interrupted or failed."""
    error: str | None = None
    """The type of the error, where it failed."""
    request_id: str | None = None
    input: int | None = None
    cache_read: int | None = None
    cache_write_5m: int | None = None
    cache_write_1h: int | None = None
    output: int | None = None
    thinking: int | None = None
    searches: int | None = None
    seconds_to_first: float | None = None
    """Until the first content arrived."""
    seconds: float | None = None
    tokens_per_second: float | None = None
    """Output tokens a second, from the first content on."""
    attempts: int = 1
    cost: Decimal | None = None
    """Of the tokens, and of the searches where their price is known."""
    currency: str = "USD"
    replayed: bool = False
    simulated: bool = False

    @property
    def prompt_tokens(self) -> int | None:
        """All input tokens, cached or not."""
        counts = (self.input, self.cache_read, self.cache_write_5m, self.cache_write_1h)
        return None if self.input is None else sum(c or 0 for c in counts)

    @property
    def cache_hit_rate(self) -> float | None:
        """The part of the input that was read from cache, 0…1."""
        total = self.prompt_tokens
        return (self.cache_read or 0) / total if total else None

    def to_dict(self) -> dict[str, Any]:
        """A flat row of plain types for DataFrames: the cost as a float, the time aware."""
        row = asdict(self)
        row["cost"] = None if self.cost is None else float(self.cost)
        return row

    def to_json(self) -> dict[str, Any]:
        """A row for JSON: the cost as exact text, the time in ISO format with zone and fraction."""
        row = asdict(self)
        row["cost"] = None if self.cost is None else str(self.cost)
        row["time"] = self.time.astimezone(UTC).isoformat(timespec="microseconds")
        return row

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Record:
        """The record of `to_json`; fields that this version does not know are left out."""
        known = {f.name for f in fields(cls)}
        values = {k: v for k, v in row.items() if k in known}
        values["time"] = datetime.fromisoformat(row["time"])
        values["cost"] = None if row.get("cost") is None else Decimal(row["cost"])
        return cls(**values)


def with_counts(record: Record, usage: Usage, price: Price | None, ttl: str = "5m") -> Record:
    """`record` with the counts that the server reported, and their cost.

    ttl: what the request asked for, for writes that the server did not split in 5m and 1h.
    """
    total, whole = usage.cache_creation_input_tokens, record.status == "complete"
    short, long = usage.ephemeral_5m_input_tokens, usage.ephemeral_1h_input_tokens
    if short is None and long is None and total is not None:
        short, long = (0, total) if ttl == "1h" else (total, 0)
    counted = replace(
        record,
        input=usage.input_tokens if usage.json.get("input_tokens") is not None else None,
        cache_read=usage.cache_read_input_tokens,
        cache_write_5m=short,
        cache_write_1h=long,
        output=usage.output_tokens if whole and usage.json.get("output_tokens") is not None else None,
        thinking=usage.thinking_tokens if whole else None,
        searches=usage.web_search_requests,
    )
    streaming = (record.seconds or 0) - (record.seconds_to_first or 0)
    if counted.output is not None and record.seconds_to_first is not None and streaming > 0:
        counted = replace(counted, tokens_per_second=round(counted.output / streaming, 1))
    if price is None:
        return counted
    return replace(counted, cost=cost_of(counted, price), currency=price.currency)


def cost_of(record: Record, price: Price) -> Decimal | None:
    """Exact cost of the counts; None where the reply's total is not known.

    Each input token is charged once, at the price of its kind. A search without a price adds
    nothing: `has_unpriced_searches` says so.
    """
    if record.input is None or record.output is None:
        return None
    parts = (
        (record.input, price.input),
        (record.cache_read, price.cache_read),
        (record.cache_write_5m, price.cache_write_5m),
        (record.cache_write_1h, price.cache_write_1h),
        (record.output, price.output),
    )
    tokens = sum(((count or 0) * each for count, each in parts), Decimal(0)) / MILLION
    return tokens + (record.searches or 0) * (price.search or 0)


def has_unpriced_searches(record: Record, price: Price | None) -> bool:
    """Whether the record's cost leaves searches out, because nobody knows their price."""
    return bool(record.searches) and (price is None or price.search is None)


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

    @property
    def cache_hit_rate(self) -> float | None:
        total = self.input + self.cache_read + self.cache_write
        return self.cache_read / total if total else None


def totals(records: Iterable[Record]) -> Totals:
    """The sums over `records`."""
    rows = list(records)

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
        cost=sum((row.cost for row in rows if row.cost is not None), Decimal(0)),
        unknown=sum(row.cost is None for row in rows),
        simulated=sum(row.simulated for row in rows),
        currency=rows[-1].currency if rows else "USD",
    )


class UsageTable(Sequence[dict[str, Any]]):
    """Records as a sequence of flat dicts: `pd.DataFrame(table)` and `pl.DataFrame(table)` work."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.records: tuple[Record, ...] = tuple(records)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> UsageTable: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | UsageTable:
        if isinstance(index, slice):
            return UsageTable(self.records[index])
        return self.records[index].to_dict()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (record.to_dict() for record in self.records)

    def __len__(self) -> int:
        return len(self.records)

    def summary(self) -> Totals:
        """The sums over all rows."""
        return totals(self.records)

    def df(self) -> Any:
        """A pandas DataFrame with the same columns and types whatever the rows (needs pandas)."""
        import pandas as pd

        frame = pd.DataFrame(list(self), columns=[f.name for f in fields(Record)])
        return frame.astype(_DTYPES)

    def __repr__(self) -> str:
        t = self.summary()
        return f"<usage of {t.requests} requests: {t.input:,} in, {t.output:,} out, {t.cost} {t.currency}>"


_DTYPE_OF = {
    "datetime": "datetime64[us, UTC]",
    "str": "string",
    "str | None": "string",
    "int": "Int64",
    "int | None": "Int64",
    "float | None": "float64",
    "Decimal | None": "float64",
    "bool": "bool",
}
_DTYPES = {f.name: _DTYPE_OF[str(f.type)] for f in fields(Record)}
