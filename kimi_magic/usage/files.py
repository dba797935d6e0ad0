"""Records as CSV and as JSON Lines, and back, the same to the last digit.

Money is exact text, times are ISO with zone and fraction, ids stay text, what is missing is an empty
field of CSV and null in JSON. A later version's columns are left out.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import StoreError
from ..paths import user_path
from .records import FIELDS, KINDS, Record

FORMATS = (".csv", ".jsonl")


def to_csv(records: Iterable[Record]) -> str:
    """A header and a line a record."""
    out = io.StringIO(newline="")
    writer = csv.writer(out)  # RFC 4180: lines end with CR LF, and fields with either are quoted
    writer.writerow(FIELDS)
    for record in records:
        row = record.to_json()
        writer.writerow(["" if row[name] is None else row[name] for name in FIELDS])
    return out.getvalue()


def from_csv(text: str) -> list[Record]:
    """The records of `to_csv`. Raises ValueError or KeyError for anything else."""
    rows = csv.DictReader(io.StringIO(text, newline=""))
    return [Record.from_json(dict(_typed(row))) for row in rows]


def _typed(row: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    for name, kind in KINDS.items():
        text = row.get(name)
        if text:
            yield name, _READ[kind](text)


def _flag(text: str) -> bool:
    return {"True": True, "False": False}[text]


_READ: dict[str, Callable[[str], Any]] = {
    "datetime": str,  # `Record.from_json` reads these two
    "Decimal": str,
    "str": str,
    "int": int,
    "float": float,
    "bool": _flag,
}


def to_jsonl(records: Iterable[Record]) -> str:
    """A JSON object a line."""
    return "".join(json.dumps(record.to_json(), ensure_ascii=False) + "\n" for record in records)


def from_jsonl(text: str) -> list[Record]:
    """The records of `to_jsonl`. Raises ValueError or KeyError for anything else."""
    return [Record.from_json(json.loads(line)) for line in text.split("\n") if line.strip()]


def write_records(records: Iterable[Record], path: str | Path) -> Path:
    """Write a `.csv` or `.jsonl` file. Raises `StoreError` where that cannot be."""
    path = _checked(path)
    text = to_csv(records) if path.suffix == ".csv" else to_jsonl(records)
    try:
        path.write_text(text, "utf-8", "backslashreplace", newline="")  # half a pair, as JSON escapes it
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}.") from None
    return path


def read_records(path: str | Path) -> list[Record]:
    """The records of a file that `write_records` wrote. Raises `StoreError` for anything else."""
    path = _checked(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
        return from_csv(text) if path.suffix == ".csv" else from_jsonl(text)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, ArithmeticError) as error:
        raise StoreError(f"{path} holds no usage records ({error!r}).") from None


def _checked(path: str | Path) -> Path:
    path = user_path(path)
    if path.suffix not in FORMATS:
        raise StoreError(f"{path}: usage goes into .csv or .jsonl files.", hint="Name one of the two.")
    return path
