"""Data frames and series as text for a model: pandas, polars and pyarrow, none of them imported.

A frame is looked at through `Frame`, a plain view of its cells, so display options of the libraries
play no part. The rule:

- up to `MARKDOWN_CELLS` cells: a markdown table, if no cell holds a bar or a line end;
- else CSV, every row and column and long cell whole, if that stays within the budget;
- else a stated sample in CSV: shape, types, first and last rows, and how much was left out. Only a
  frame too wide for the budget loses columns, and only a cell longer than a quarter of the budget
  is cut; both are said.

A missing value of pandas is `NaN` (None, NaT and NA too), of polars and pyarrow `null`. The index
of pandas is shown unless it is the plain 0, 1, 2 … without a name. Levels of column names are
joined by ` / `.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..counts import counted
from .fit import CUT, cut, fit, shown
from .images import origins

MARKDOWN_CELLS = 600


@dataclass(frozen=True, slots=True)
class Frame:
    """A table seen from outside."""

    kind: str
    """`DataFrame`, `Series` …, as the user knows it."""
    rows: int
    width: int
    """Columns, the index not counted."""
    names: Sequence[str]
    """Column titles, those of the index first."""
    dtypes: Sequence[str]
    cell: Callable[[int, int], str]
    """row, position in `names` → text"""

    def row(self, n: int) -> list[str]:
        return [self.cell(n, k) for k in range(len(self.names))]


def frame_text(frame: Frame, budget: int) -> tuple[str, str]:
    """The table's text, and a note of what was left out ("" for nothing).

    The lines that say what was left out are not counted in the budget.
    """
    table, notes = _narrow(_bounded(frame, budget), budget)
    header = _csv(table.names)
    types = ", ".join(f"{name} ({dtype})" for name, dtype in zip(table.names, table.dtypes, strict=True))
    room = budget - len(header) - (len(types) if notes else 0)
    head, tail = fit(table.rows, lambda n: _csv(table.row(n)), room)
    if any(CUT in line for line in (*head, *tail)):
        notes.append("long cells are cut where marked")
    missing = table.rows - len(head) - len(tail)
    if missing:
        left_out = f"{counted(missing, 'row')} left out"
        notes.append(f"{left_out}, {shown(len(head), len(tail))} shown")
        head.append(f"[{left_out} here]")
    elif table.rows and not notes:
        return _markdown(table, budget) or "\n".join([header, *head]), ""
    title = f"{frame.kind} of {counted(frame.rows, 'row')} × {counted(frame.width, 'column')}"
    text = "\n".join(["; ".join([title, *notes]), f"Columns: {types}", header, *head, *tail])
    return text, "; ".join(notes)


def _bounded(frame: Frame, budget: int) -> Frame:
    """The frame with each cell cut to a quarter of the budget."""
    return replace(frame, cell=lambda n, k: cut(frame.cell(n, k), max(budget // 4, 1))[0])


def _narrow(frame: Frame, budget: int) -> tuple[Frame, list[str]]:
    """The frame with the first and last columns only, where titles, types and a row would not fit, and
    what there is to say about that."""

    def column(k: int) -> str:
        return f"{frame.names[k]} {frame.dtypes[k]} {frame.names[k]} {frame.cell(0, k) if frame.rows else ''}"

    head, tail = fit(len(frame.names), column, budget * 3 // 4)
    missing = len(frame.names) - len(head) - len(tail)
    if not missing or not head:
        return frame, []
    keep = [*range(len(head)), *range(len(frame.names) - len(tail), len(frame.names))]
    narrow = replace(
        frame,
        names=[frame.names[k] for k in keep],
        dtypes=[frame.dtypes[k] for k in keep],
        cell=lambda n, k: frame.cell(n, keep[k]),
    )
    return narrow, [f"{counted(missing, 'column')} left out, {shown(len(head), len(tail))} shown"]


def _markdown(frame: Frame, budget: int) -> str:
    """A markdown table, or "" where the frame is too large for one or a cell would have to be escaped."""
    if frame.rows * len(frame.names) > MARKDOWN_CELLS:
        return ""
    lines = [list(frame.names), *(frame.row(n) for n in range(frame.rows))]
    if any(re.search(r"[|\r\n]", text) for line in lines for text in line):
        return ""
    lines.insert(1, ["---:" if re.match(r"u?int|float|decimal", d, re.I) else "---" for d in frame.dtypes])
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return text if len(text) <= budget else ""


def _csv(cells: Sequence[str]) -> str:
    """One line of CSV (RFC 4180: quoted where a comma, quote or line end stands inside)."""
    if list(cells) == [""]:
        return '""'  # else the line would be empty, and no row
    return ",".join('"' + c.replace('"', '""') + '"' if re.search(r'[,"\r\n]', c) else c for c in cells)


# --- the libraries ------------------------------------------------------------------------------


def as_frame(value: object) -> Frame | None:
    """The value as a table, or None where it is none."""
    libraries: dict[tuple[str, str], Callable[[Any], Frame]] = {
        ("pandas", "DataFrame"): pandas_frame,
        ("pandas", "Series"): pandas_frame,
        ("pandas", "Index"): pandas_frame,
        ("polars", "DataFrame"): polars_frame,
        ("polars", "Series"): polars_frame,
        ("pyarrow", "Table"): arrow_frame,
        ("pyarrow", "RecordBatch"): arrow_frame,
    }
    return next((libraries[name](value) for name in origins(value) if name in libraries), None)


def pandas_frame(value: Any) -> Frame:
    """A DataFrame, Series or Index of pandas, or of a subclass (GeoDataFrame …)."""
    kind = type(value).__name__
    if value.ndim == 1:
        value = value.to_frame(name=value.name if value.name is not None else "value")
        if kind.endswith("Index"):
            value = value.reset_index(drop=True)
    index = value.index
    plain = type(index).__name__ == "RangeIndex" and (index.start, index.step, index.name) == (0, 1, None)
    levels = [] if plain else [index.get_level_values(n) for n in range(index.nlevels)]
    columns = [*levels, *(value.iloc[:, n] for n in range(value.shape[1]))]
    names = [
        _title(level.name, "index" if len(levels) == 1 else f"level_{n}") for n, level in enumerate(levels)
    ]
    arrays = [column.array for column in columns]
    return Frame(
        kind=kind,
        rows=len(value),
        width=value.shape[1],
        names=[*names, *(_title(name, "") for name in value.columns)],
        dtypes=[str(column.dtype) for column in columns],
        cell=lambda n, k: _cell(arrays[k][n], missing="NaN"),
    )


def polars_frame(value: Any) -> Frame:
    """A DataFrame or Series of polars."""
    kind = type(value).__name__
    frame = value.to_frame() if kind == "Series" else value
    columns = frame.get_columns()
    return Frame(
        kind=kind,
        rows=frame.height,
        width=frame.width,
        names=[name or "value" for name in frame.columns],
        dtypes=[str(dtype) for dtype in frame.dtypes],
        cell=lambda n, k: _cell(columns[k][n], missing="null"),
    )


def arrow_frame(value: Any) -> Frame:
    """A Table or RecordBatch of pyarrow."""
    columns = value.columns
    return Frame(
        kind=type(value).__name__,
        rows=value.num_rows,
        width=value.num_columns,
        names=list(value.schema.names),
        dtypes=[str(dtype) for dtype in value.schema.types],
        cell=lambda n, k: _cell(columns[k][n].as_py(), missing="null"),
    )


def _title(name: Any, default: str) -> str:
    """A column's title; the levels of a MultiIndex in one."""
    if isinstance(name, tuple):
        return " / ".join(str(level) for level in name if level != "")
    return default if name is None else str(name)


def _cell(value: Any, *, missing: str) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return missing
    for listed in ("to_list", "tolist"):  # a series or an array in a cell, whose str may be shortened
        if hasattr(value, listed) and getattr(value, "shape", None):
            return str(getattr(value, listed)())
    text = str(value)
    return "NaN" if text in ("nan", "NaT", "<NA>") else text
