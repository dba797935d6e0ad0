"""What came of a batch, as columns beside those of its rows.

A text reply is the column `reply`; a schema's object gives a column for each of its properties, anything
else by a schema the column `value`. What the requests took stands in columns that begin with `kimi_`; so
does a column whose name is taken, so that a table can be mapped again. A request that several rows share is
counted in the first of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import KimiError
from ..tools import Schema
from ..usage import totals
from .asking import SIMULATED, Outcome
from .columns import in_pandas, in_polars
from .rows import Rows
from .run import Run

USAGE: Mapping[str, str] = {
    "kimi_status": "string",
    "kimi_error": "string",
    "kimi_input": "Int64",
    "kimi_cache_read": "Int64",
    "kimi_cache_write": "Int64",
    "kimi_output": "Int64",
    "kimi_thinking": "Int64",
    "kimi_searches": "Int64",
    "kimi_seconds": "float64",
    "kimi_cost": "float64",
    "kimi_simulated": "boolean",
}
"""Column → its pandas type. kimi_status is asked, stored (by an earlier run), same (as a row before),
failed, or open (not asked)."""

_TYPES = {"string": "string", "integer": "Int64", "number": "float64", "boolean": "boolean"}


def result(rows: Rows, run: Run, schema: Schema | None) -> Any:
    """The rows with what came of them: a DataFrame where they came in one, else a list of dicts."""
    values, usage = _values(rows, run, schema)
    taken = _names(rows) | USAGE.keys()
    columns: dict[str, tuple[list[Any], str]] = {}
    for name, kind in _columns(schema).items():
        free = name
        while free in taken:
            free = f"kimi_{free}"
        taken.add(free)
        columns[free] = ([value.get(name) for value in values], kind)
    columns |= {name: ([row[name] for row in usage], kind) for name, kind in USAGE.items()}
    if rows.frame is None:
        return [
            {**record, **{name: column[n] for name, (column, _) in columns.items()}}
            for n, record in enumerate(rows.records)
        ]
    return in_polars(rows.frame, columns) if rows.is_polars else in_pandas(rows.frame, columns)


def _names(rows: Rows) -> set[str]:
    if rows.frame is not None:
        return {str(name) for name in rows.frame.columns}
    return {name for record in rows.records for name in record}


def _columns(schema: Schema | None) -> dict[str, str]:
    """The columns of a value, and their pandas types."""
    if schema is None:
        return {"reply": "string"}
    properties = schema.json["properties"]
    return {name: _TYPES.get(_plain_type(value), "object") for name, value in properties.items()}


def _plain_type(schema: Mapping[str, Any]) -> str:
    """The type of a scalar, whether it may be null or not; else `any`."""
    real = _kinds(schema) - {"null"}
    return real.pop() if len(real) == 1 else "any"


def _kinds(schema: Mapping[str, Any]) -> set[str]:
    if "anyOf" in schema:
        return {kind for one in schema["anyOf"] for kind in _kinds(one)}
    kinds = schema.get("type", "any")
    return set(kinds) if isinstance(kinds, list) else {kinds}


def _values(rows: Rows, run: Run, schema: Schema | None) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    values: list[dict[str, Any]] = [{} for _ in rows.records]
    usage = [_blank("open", run.ended) for _ in rows.records]
    for number, failure in run.jobs.failures.items():
        usage[number] = _blank("failed", failure)
    for job in run.jobs.jobs:
        outcome = run.outcomes.get(job.fingerprint)
        if outcome is None:
            continue
        value, error = _read(outcome, schema)
        first = "failed" if error else "stored" if job.fingerprint in run.stored else "asked"
        for place, number in enumerate(job.rows):
            values[number] = value
            if place:
                same = _blank("same" if error is None else first, error)
                usage[number] = same | {"kimi_simulated": usage[job.rows[0]]["kimi_simulated"]}
            else:
                usage[number] = _used(outcome, first, error)
    return values, usage


def _read(outcome: Outcome, schema: Schema | None) -> tuple[dict[str, Any], KimiError | None]:
    """The reply's columns, or why there are none."""
    if outcome.message is None:
        return {}, outcome.error
    if schema is None:
        return {"reply": outcome.message.text}, None
    try:
        value = schema.read(outcome.message.text, outcome.message)
    except KimiError as error:
        return {}, error
    if schema.is_wrapped:
        return {"value": value}, None
    return {name: _property(value, name) for name in schema.json["properties"]}, None


def _property(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(name)
    if hasattr(value, name):
        return getattr(value, name)
    dump = value.model_dump(by_alias=True) if hasattr(value, "model_dump") else {}
    return dump.get(name)


def _blank(status: str, error: KimiError | None) -> dict[str, Any]:
    line = None if error is None else f"{type(error).__name__}: {error}"
    return dict.fromkeys(USAGE) | {"kimi_status": status, "kimi_error": line}


def _used(outcome: Outcome, status: str, error: KimiError | None) -> dict[str, Any]:
    row = _blank(status, error)
    if outcome.message is not None:
        row |= {"kimi_simulated": SIMULATED in outcome.message.extra}
    if not outcome.records:
        return row | ({"kimi_cost": 0.0} if status == "stored" else {})
    sums, records = totals(outcome.records), outcome.records
    if any(record.input is not None for record in records):
        row |= {
            "kimi_input": sums.input,
            "kimi_cache_read": sums.cache_read,
            "kimi_cache_write": sums.cache_write,
            "kimi_searches": sums.searches,
        }
    if any(record.output is not None for record in records):
        row |= {"kimi_output": sums.output, "kimi_thinking": sums.thinking}
    cost = float(sums.cost) if sums.unknown < sums.requests else None
    return row | {"kimi_seconds": sum(record.seconds or 0.0 for record in records), "kimi_cost": cost}
