"""Tables in a prompt (markdown, CSV, TSV): their columns and what is true of their numbers."""

from __future__ import annotations

import csv
import math
import re
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

_RULE = re.compile(r"\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?")
_CELL = re.compile(r"(?<!\\)\|")
_NUMBER = re.compile(r"[-+−]?(\d{1,3}(,\d{3})+|\d+)?(\.\d+)?([eE][-+]?\d+)?%?")


@dataclass(frozen=True, slots=True)
class Table:
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def numbers(self, column: int) -> list[float]:
        """The column's numbers without its gaps; empty where it is no column of numbers."""
        cells = [row[column].strip() for row in self.rows]
        filled = [cell for cell in cells if cell.lower() not in _GAPS]
        values = [number(cell) for cell in filled]
        return [v for v in values if v is not None] if filled and None not in values else []

    def numeric(self) -> Iterator[tuple[int, str, list[float]]]:
        """(position, name, numbers) of each column of numbers that has a name."""
        for n, name in enumerate(self.columns):
            values = self.numbers(n)
            if values and name:
                yield n, name, values

    def label(self, row: int) -> str:
        """What names a row: its first cell that is text, else its first cell."""
        cells = self.rows[row]
        texts = [cell for n, cell in enumerate(cells) if not self.numbers(n) and cell.lower() not in _GAPS]
        return (texts or [*cells])[0]


_GAPS = {"", "nan", "na", "n/a", "none", "null", "<na>", "…", "..."}


def number(cell: str) -> float | None:
    if not _NUMBER.fullmatch(cell) or not any(char.isdigit() for char in cell):
        return None
    value = float(cell.replace(",", "").replace("−", "-").rstrip("%"))
    return value if math.isfinite(value) else None


@lru_cache(maxsize=2)  # several sections of a reply ask for the same one
def find(text: str) -> Table | None:
    """The first table of the text."""
    return _markdown(text.splitlines()) or _separated(text.splitlines())


def _markdown(lines: list[str]) -> Table | None:
    for n in range(1, len(lines)):
        if "|" in lines[n - 1] and "-" in lines[n] and _RULE.fullmatch(lines[n].strip()):
            head = _cells(lines[n - 1])
            rows = []
            for line in lines[n + 1 :]:
                if "|" not in line:
                    break
                cells = _cells(line)
                rows.append(tuple((cells + [""] * len(head))[: len(head)]))
            if len(head) == len(_cells(lines[n])) and rows:
                return Table(tuple(head), tuple(rows))
    return None


def _cells(line: str) -> list[str]:
    inner = re.sub(r"^\||(?<!\\)\|$", "", line.strip())
    return [cell.strip().replace("\\|", "|") for cell in _CELL.split(inner)]


def _separated(lines: list[str]) -> Table | None:
    """Lines in a row with the same number of separators: a head of short names, numbers below."""
    for mark in ("\t", ",", ";"):
        for has, group in groupby(lines, key=lambda line: mark in line):
            rows = csv.reader(group, delimiter=mark, skipinitialspace=mark != "\t") if has else ()
            for _, run in groupby(rows, key=len):
                head, *body = run
                table = Table(tuple(name.strip() for name in head), tuple(map(tuple, body)))
                if any(table.numeric()) and all(len(name) <= 40 and number(name) is None for name in head):
                    return table
    return None


def summary(table: Table) -> list[tuple[str, str, str, str]]:
    """(column, mean, least, greatest) of each column of numbers."""
    return [
        (name, shown(statistics.fmean(values)), shown(min(values)), shown(max(values)))
        for _, name, values in table.numeric()
    ]


def shown(value: float) -> str:
    """A number in the fewest digits, six at most after rounding."""
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:,.6g}"
