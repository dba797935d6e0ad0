"""Columns of a batch's table in pandas and polars.

A column has the type that its schema says. Where values are of another (a date, which is a text in JSON; a
whole number beyond 64 bits), the library finds the type, and what it has none for stays as it is: a batch
that is paid for never ends without its table.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

Columns = Mapping[str, tuple[list[Any], str]]
"""Name → values and the pandas type of their column; `object` for any values."""

_HELD = {"string": str, "Int64": int, "float64": int | float, "boolean": bool}
"""Pandas type → what a column of it can hold."""


def in_pandas(frame: Any, columns: Columns) -> Any:
    """A copy of the frame with these columns beside or in place of its own."""
    import pandas as pd

    def series(values: list[Any], kind: str) -> Any:
        if _holds(kind, values):
            return pd.Series(values, index=frame.index, dtype=kind)
        try:
            return pd.Series(values, index=frame.index)
        except (TypeError, ValueError, OverflowError):
            return pd.Series(values, index=frame.index, dtype=object)

    new = {name: series(_members(values, kind), kind) for name, (values, kind) in columns.items()}
    return frame.assign(**new)


def in_polars(frame: Any, columns: Columns) -> Any:
    """The frame with these columns beside or in place of its own."""
    import polars as pl

    types = {"string": pl.String(), "Int64": pl.Int64(), "float64": pl.Float64(), "boolean": pl.Boolean()}

    def series(name: str, values: list[Any], kind: str) -> Any:
        if kind != "object" and _holds(kind, values):
            return pl.Series(name, values, dtype=types[kind])
        values = [_bare(value) for value in values]
        try:
            found = pl.Series(name, values, strict=False)
            if found.to_list() == values:  # else it made texts of numbers, or left keys of a dict out
                return found
        except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
            pass
        return pl.Series(name, values, dtype=pl.Object())

    return frame.with_columns(
        [series(name, _members(values, kind), kind) for name, (values, kind) in columns.items()]
    )


def _holds(kind: str, values: list[Any]) -> bool:
    """Whether a column of this type can hold them."""
    if kind == "object":
        return True
    known = [value for value in values if value is not None]
    return all(isinstance(value, _HELD[kind]) for value in known) and not (
        kind == "Int64" and any(not -(2**63) <= value < 2**63 for value in known)
    )


def _members(values: list[Any], kind: str) -> list[Any]:
    """An enum of scalars is its values in a column of theirs."""
    if kind == "object":
        return values
    return [value.value if isinstance(value, enum.Enum) else value for value in values]


def _bare(value: Any) -> Any:
    """Without the classes that polars has no type for."""
    if isinstance(value, enum.Enum):
        return value.value
    if hasattr(value, "model_dump"):
        return value.model_dump()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return {key: _bare(item) for key, item in value.items()}
    return [_bare(item) for item in value] if isinstance(value, list | tuple) else value
