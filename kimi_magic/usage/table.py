"""Records as a sequence of flat dicts, and as the frames of pandas, polars and Arrow.

A frame has the same columns and types whatever the rows: times in UTC, counts that may be missing,
money as floats (exact in `records`, and in files).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from copy import copy
from datetime import UTC
from pathlib import Path
from typing import Any, Self, overload

from msgspec.structs import astuple

from ..counts import counted
from .files import read_records, write_records
from .prices import PriceBook
from .records import FIELDS, KINDS, MONEY, Record, cost_of
from .selection import Moment, Selection
from .totals import Totals, totals

_TOGETHER = 256
"""Records whose columns are gathered at once: they stay in the processor's cache meanwhile."""


class UsageTable:
    """Records as a sequence of flat dicts: `pd.DataFrame(table)` and `pl.DataFrame(table)` work.

    It is no `collections.abc.Sequence`, of which polars guesses the types from the first hundred rows, and
    raises where a later one has the first error: polars, pyarrow and others ask `__arrow_c_stream__`.

    ledger: gives the records of every notebook (`all`); without one these are all there are.
    """

    def __init__(
        self,
        records: Iterable[Record],
        ledger: Callable[[Selection], Iterable[Record]] | None = None,
    ) -> None:
        self.records: tuple[Record, ...] = tuple(records)
        self._ledger = ledger

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """The table of a file that `save` wrote. Raises `StoreError` for anything else."""
        return cls(read_records(path))

    def save(self, path: str | Path) -> Path:
        """Write the records into a `.csv` or `.jsonl` file; where it is. Raises `StoreError`."""
        return write_records(self.records, path)

    def where(self, *, since: Moment | None = None, until: Moment | None = None, **names: Any) -> Self:
        """Those of the rows that were asked for in that time.

        since, until: see `selection.Moment`. names: notebook, conversation, model. Raises ValueError for
        what is no time.
        """
        return self._with(Selection.of(since=since, until=until, **names).of_all(self.records))

    def all(self, *, since: Moment | None = None, until: Moment | None = None, **names: Any) -> Self:
        """The requests of every notebook and kernel that keeps its usage here, filtered as by `where`.
        Raises `StoreError` where they cannot be read."""
        selection = Selection.of(since=since, until=until, **names)
        if self._ledger is None:
            return self._with(selection.of_all(self.records))
        return self._with(self._ledger(selection))

    def _with(self, records: Iterable[Record]) -> Self:
        """The same table over other records."""
        other = copy(self)
        other.records = tuple(records)
        return other

    def repriced(self, prices: PriceBook) -> Self:
        """The same requests at other prices, by their model; what was replayed still costs nothing."""
        return self._with(_repriced(record, prices) for record in self.records)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | Self:
        if isinstance(index, slice):
            return self._with(self.records[index])
        return self.records[index].to_dict()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (record.to_dict() for record in self.records)

    def __len__(self) -> int:
        return len(self.records)

    def summary(self) -> Totals:
        """The sums over all rows."""
        return totals(self.records)

    def columns(self) -> dict[str, list[Any]]:
        """The values of each column, money as floats, times in UTC."""
        columns: dict[str, list[Any]] = {name: [] for name in FIELDS}
        for start in range(0, len(self), _TOGETHER):
            rows = map(astuple, self.records[start : start + _TOGETHER])
            for column, values in zip(columns.values(), zip(*rows, strict=True), strict=True):
                column.extend(values)
        for name in MONEY:
            columns[name] = [None if value is None else float(value) for value in columns[name]]
        if any(value.tzinfo is not UTC for value in columns["time"]):
            columns["time"] = [value.astimezone(UTC) for value in columns["time"]]
        return columns

    def df(self) -> Any:
        """A pandas DataFrame with the same columns and types whatever the rows (needs pandas)."""
        import pandas as pd

        with suppress(ImportError):  # by way of pyarrow it takes half the time
            table = self.arrow()
            kinds = {"int64": pd.Int64Dtype(), "string": pd.StringDtype()}
            return table.to_pandas(types_mapper=lambda kind: kinds.get(str(kind)))
        columns = {name: column_of(pd, values, KINDS[name]) for name, values in self.columns().items()}
        return pd.DataFrame(columns, copy=False)

    def arrow(self) -> Any:
        """A pyarrow Table with the same columns and types whatever the rows (needs pyarrow)."""
        import pyarrow as pa  # type: ignore[import-not-found,import-untyped,unused-ignore]  # optional

        types = {
            "datetime": pa.timestamp("us", tz="UTC"),
            "str": pa.string(),
            "int": pa.int64(),
            "float": pa.float64(),
            "Decimal": pa.float64(),
            "bool": pa.bool_(),
        }
        schema = pa.schema([(name, types[kind]) for name, kind in KINDS.items()])
        return pa.table(self.columns(), schema=schema)

    def polars(self) -> Any:
        """A polars DataFrame with the same columns and types whatever the rows (needs polars)."""
        import polars as pl

        types = {
            "datetime": pl.Datetime("us", "UTC"),
            "str": pl.String(),
            "int": pl.Int64(),
            "float": pl.Float64(),
            "Decimal": pl.Float64(),
            "bool": pl.Boolean(),
        }
        return pl.DataFrame(self.columns(), schema={name: types[kind] for name, kind in KINDS.items()})

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The table for whatever reads Arrow (needs pyarrow or polars)."""
        try:
            table = self.arrow()
        except ImportError:
            table = self.polars()
        return table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        t = self.summary()
        tokens = f"{t.prompt_tokens:,} in, {t.output:,} out"
        return f"<usage of {counted(t.requests, 'request')}: {tokens}, {t.cost} {t.currency}>"


def column_of(pd: Any, values: list[Any], kind: str) -> Any:
    """Values of a kind as a Series, where there is no pyarrow."""
    if kind == "datetime":
        return pd.Series(values, dtype="datetime64[us, UTC]")
    if kind == "int":
        counts = pd.Series([value or 0 for value in values], dtype="int64").astype("Int64")
        return counts.mask(pd.Series([value is None for value in values])) if None in values else counts
    names = {"str": "string", "float": "float64", "Decimal": "float64", "bool": "bool"}
    return pd.Series(values, dtype=names[kind])


def _repriced(record: Record, prices: PriceBook) -> Record:
    price = prices.find(record.model)
    cost = None if price is None else cost_of(record, price)
    currency = record.currency if price is None else price.currency
    if record.replayed:
        return record.replace(saved=cost, currency=currency)
    return record.replace(cost=cost, currency=currency)
