"""One flat record a request, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Self

import msgspec

from ..wire import Usage
from .prices import MILLION, Price


class Record(msgspec.Struct, frozen=True, gc=False):
    """One request. Counts are tokens, times seconds.

    A struct, since a ledger has many of them: they are read and copied in a part of a dataclass's time, and
    the cyclic collector need not walk them (`gc=False`: no field can hold a cycle).
    """

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
    """Of the tokens, and of the searches where their price is known; 0 for what was replayed. It stays
    as it was when it was paid, whatever prices do later."""
    saved: Decimal | None = None
    """What a replayed reply would have cost; None for one that was asked for."""
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

    @property
    def paid(self) -> Decimal | None:
        """The cost where it was real money: neither simulated nor replayed."""
        return None if self.simulated or self.replayed else self.cost

    def replace(self, **changes: Any) -> Self:
        """This record with other values of these fields."""
        return msgspec.structs.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """A flat row of plain types for DataFrames: the money as floats, the time aware."""
        return {name: _plain(getattr(self, name)) for name in FIELDS}

    def to_json(self) -> dict[str, Any]:
        """A row for JSON: the money as exact text, the time in ISO format with zone and fraction."""
        return {name: _written(getattr(self, name)) for name in FIELDS}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Record:
        """The record of `to_json`; fields that this version does not know are left out."""
        values = {k: v for k, v in row.items() if k in _KNOWN}
        values["time"] = datetime.fromisoformat(row["time"])
        for name in MONEY:
            values[name] = None if row.get(name) is None else Decimal(row[name])
        return cls(**values)


FIELDS: tuple[str, ...] = Record.__struct_fields__
"""The columns, in their order."""
KINDS: dict[str, str] = {name: Record.__annotations__[name].split(" ")[0] for name in FIELDS}
"""Column → datetime, str, int, float, Decimal or bool."""
MONEY = ("cost", "saved")
_KNOWN = frozenset(FIELDS)


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


def _written(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    return str(value) if isinstance(value, Decimal) else value


def with_counts(record: Record, usage: Usage, price: Price | None, ttl: str = "5m") -> Record:
    """`record` with the counts that the server reported, and their cost.

    ttl: what the request asked for, for writes that the server did not split in 5m and 1h.
    """
    whole = record.status == "complete"
    short, long = _writes(usage, ttl)
    counted = record.replace(
        input=usage.input_tokens if type(usage.json.get("input_tokens")) is int else None,
        cache_read=usage.cache_read_input_tokens,
        cache_write_5m=short,
        cache_write_1h=long,
        output=usage.output_tokens if whole and type(usage.json.get("output_tokens")) is int else None,
        thinking=usage.thinking_tokens if whole else None,
        searches=usage.web_search_requests,
    )
    streaming = (record.seconds or 0) - (record.seconds_to_first or 0)
    if counted.output is not None and record.seconds_to_first is not None and streaming > 0:
        counted = counted.replace(tokens_per_second=round(counted.output / streaming, 1))
    if price is None:
        return counted
    return counted.replace(cost=cost_of(counted, price), currency=price.currency)


def _writes(usage: Usage, ttl: str) -> tuple[int | None, int | None]:
    """Tokens written for 5 minutes and for an hour. What the total has and the split does not is of the kind
    that the split leaves out, else of the one that was asked for."""
    total, short, long = (
        usage.cache_creation_input_tokens,
        usage.ephemeral_5m_input_tokens,
        usage.ephemeral_1h_input_tokens,
    )
    rest = (total or 0) - (short or 0) - (long or 0)
    if total is None or (rest <= 0 and (short, long) != (None, None)):
        return short, long
    is_long = ttl == "1h" if (short is None) == (long is None) else long is None
    return ((short or 0), (long or 0) + rest) if is_long else ((short or 0) + rest, (long or 0))


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


def cold_cost(record: Record, price: Price) -> Decimal | None:
    """What the request would have cost with nothing in the cache: all that was read would have been
    written, at the price of the writes beside it (5m where there are none)."""
    if record.input is None or record.output is None:
        return None
    read, short, long = record.cache_read or 0, record.cache_write_5m or 0, record.cache_write_1h or 0
    short, long = (short, long + read) if long else (short + read, long)
    return cost_of(record.replace(cache_read=0, cache_write_5m=short, cache_write_1h=long), price)


def has_unpriced_searches(record: Record, price: Price | None) -> bool:
    """Whether the record's cost leaves searches out, because nobody knows their price."""
    return bool(record.searches) and (price is None or price.search is None)
