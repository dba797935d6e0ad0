"""Columns of a batch: whatever values a schema gives, a batch that is paid for ends with its table."""

from __future__ import annotations

import datetime
import enum
import json
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, create_model
from scripted import Scripted, reply

from kimi_magic.api import Kimi
from kimi_magic.config import KimiMagic

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIMI_MAGIC_HOME", str(tmp_path))


class Grade(enum.Enum):
    ONE = 1
    TWO = 2


class Mixed(enum.Enum):
    ONE = 1
    TWO = "two"


class Inner(BaseModel):
    a: int


DAY, HOUR = datetime.date(2026, 1, 2), datetime.timedelta(hours=1)
AWARE = datetime.datetime(2026, 1, 2, 10, tzinfo=datetime.UTC)
ONE = uuid.UUID(int=1)

CASES: list[tuple[Any, list[Any], str, list[Any], str, list[Any]]] = [
    # type, what the model writes; how pandas' and polars' types begin in all versions, and the values
    (str, ["", "NaN"], "string", ["", "NaN"], "String", ["", "NaN"]),
    (int | None, [1, None], "Int64", [1, None], "Int64", [1, None]),
    (int, [2**70, 1], "object", [2**70, 1], "", [2**70, 1]),
    (float, [1, 2.5], "float64", [1.0, 2.5], "Float64", [1.0, 2.5]),
    (int | str, [1, "b"], "object", [1, "b"], "Object", [1, "b"]),
    (Literal[1, "a"], ["a", 1], "object", ["a", 1], "Object", ["a", 1]),
    (Grade, [1, 2], "Int64", [1, 2], "Int64", [1, 2]),
    (Mixed, [1, "two"], "object", list(Mixed), "Object", [1, "two"]),
    (datetime.date, ["2026-01-02"] * 2, "object", [DAY] * 2, "Date", [DAY] * 2),
    (datetime.date | None, ["2026-01-02", None], "object", [DAY, None], "Date", [DAY, None]),
    (
        datetime.datetime,
        ["2026-01-02T10:00:00Z"] * 2,
        "datetime64[",
        [pd.Timestamp(AWARE)] * 2,
        "Datetime",
        [AWARE] * 2,
    ),
    (datetime.timedelta, ["PT1H"] * 2, "timedelta64[", [HOUR] * 2, "Duration", [HOUR] * 2),
    (uuid.UUID, [str(ONE)] * 2, "object", [ONE] * 2, "Object", [ONE] * 2),
    (Decimal, ["1.10", 2.5], "object", [Decimal("1.10"), Decimal("2.5")], "Decimal",
     [Decimal("1.10"), Decimal("2.50")]),
    (list[Inner], [[{"a": 1}], []], "object", [[Inner(a=1)], []], "List", [[{"a": 1}], []]),
    (dict[str, int], [{"a": 1}, {"b": 2}], "object", [{"a": 1}, {"b": 2}], "Object", [{"a": 1}, {"b": 2}]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case[0]))
def test_values_of_every_type_stand_in_the_frame_that_they_came_for(case: Any) -> None:
    kind, written, *expected = case
    schema = create_model("Model", v=(kind, ...))
    for number, rows in enumerate((pd.DataFrame({"x": ["a", "b"]}), pl.DataFrame({"x": ["a", "b"]}))):
        server = Scripted([reply(json.dumps({"v": value})) for value in written], judges=False)
        kimi = Kimi(KimiMagic(), server.client(), f"{number}.ipynb")
        found = kimi.map("Make {{ x }}", rows, schema=schema, effort="low", progress=False, concurrency=1)
        kimi.close()
        dtype, values = expected[2 * number : 2 * number + 2]
        assert str(found["v"].dtype).startswith(dtype)
        assert [None if value is pd.NA else value for value in found["v"].to_list()] == values
