"""The rows of a batch as namespaces for its template.

A row gives its columns by their names, and itself as `row` (`{{ row["my column"] }}`, `{{ row[0] }}`). A row
that is a plain value has the one name that the template uses. A row in which a value of the template is
missing (None, NaN, NaT, NA) is not asked about: it would be asked about the word "nan".
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from ..errors import PromptError
from ..prompt.lookup import resolve
from ..prompt.template import Placeholder, placeholders

PLAIN = "item"
"""The name of a plain value, where the template has none for it."""


@dataclass(frozen=True, slots=True)
class Rows:
    """What a batch asks about."""

    records: tuple[Mapping[str, Any], ...]
    """A row each: its columns by name."""
    frame: Any = None
    """The DataFrame that they came in, or None."""

    @property
    def is_polars(self) -> bool:
        return self.frame is not None and _library(self.frame) == "polars"

    def namespaces(self, values: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
        """The names of each row. values: names that all rows have; a column goes before them."""
        return ({**values, "row": record, **record} for record in self.records)


class Lacks:
    """Finds the value of a template that a row does not have."""

    def __init__(self, template: str) -> None:
        self._used = [(found, _roots(found)) for found in placeholders(template) if found.tree is not None]

    def first(self, record: Mapping[str, Any], names: Mapping[str, Any]) -> str | None:
        """The first expression of the row's own values whose value is missing; None where all are there.
        names: those of the row, and of all rows."""
        for found, roots in self._used:
            if all(root in record or root == "row" for root in roots):
                with suppress(PromptError):  # no such value: that is said when the row is written
                    if _is_missing(resolve(found, names)):
                        return found.source
        return None


def _roots(found: Placeholder) -> set[str]:
    """The variables in an expression."""
    tree = found.tree
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} if tree is not None else set()


def _is_missing(value: Any) -> bool:
    """Whether a value stands for none: None, NaN, NaT, pandas' NA. An empty text is a text."""
    if value is None or type(value).__name__ == "NAType":
        return True
    is_scalar = isinstance(value, float | Decimal | datetime) or getattr(value, "ndim", 1) == 0
    return is_scalar and bool(value != value)


def read_rows(rows: Any, template: str, values: Mapping[str, Any]) -> Rows:
    """The rows of a DataFrame, Series or Index of pandas or polars, or of an iterable of mappings or plain
    values. Raises `PromptError` for anything else."""
    if (
        _library(rows) in ("pandas", "polars")
        and hasattr(rows, "to_frame")
        and getattr(rows, "nlevels", 1) == 1
    ):
        named = isinstance(rows.name, str) and rows.name
        rows = rows.to_frame(name=rows.name if named else _one_name(template, values))
    if _library(rows) == "pandas" and hasattr(rows, "columns"):
        if not rows.columns.is_unique:
            raise PromptError("The DataFrame has two columns of the same name.", hint="Rename one of them.")
        return Rows(tuple(_texts(record) for record in rows.to_dict("records")), rows)
    if _library(rows) == "polars" and hasattr(rows, "iter_rows"):
        return Rows(tuple(rows.iter_rows(named=True)), rows)
    if isinstance(rows, (str, bytes, Mapping)) or not isinstance(rows, Iterable):
        raise PromptError(
            f"A value of type {type(rows).__name__} has no rows.",
            hint="Give a DataFrame, or a list of values or of dicts.",
        )
    name = _one_name(template, values)
    return Rows(tuple(_texts(row) if isinstance(row, Mapping) else {name: row} for row in rows))


def _library(value: Any) -> str:
    return type(value).__module__.partition(".")[0]


class Row(dict[str, Any]):
    """The columns of a row by their names as text; a number finds the column of that number."""

    def __missing__(self, key: Any) -> Any:
        if str(key) in self:
            return self[str(key)]
        raise KeyError(key)


def _texts(record: Mapping[Any, Any]) -> Row:
    return Row((str(name), value) for name, value in record.items())


def _one_name(template: str, values: Mapping[str, Any]) -> str:
    """The name in the template that `values` does not have, where it is the only one."""
    names = {name for found in placeholders(template) for name in _roots(found)}
    open_names = sorted(names - {*values, "row"})
    return open_names[0] if len(open_names) == 1 else PLAIN
