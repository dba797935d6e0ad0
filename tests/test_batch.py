"""Batches: a question for each row, in order, once, as fast as the server lets it, and never paid twice."""

from __future__ import annotations

import asyncio
import enum
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from paid import Paid, chat
from pydantic import BaseModel

from kimi_magic.api import Kimi
from kimi_magic.batch import Gate
from kimi_magic.batch.progress import Bar, walked
from kimi_magic.batch.run import Progress
from kimi_magic.config import KimiMagic
from kimi_magic.errors import (
    AuthenticationError,
    BudgetError,
    ConfigError,
    Interrupted,
    OptionError,
    PromptError,
    RequestError,
    SchemaError,
)
from kimi_magic.simulator import Simulator
from kimi_magic.transports import serve
from kimi_magic.usage import Budget

pd = pytest.importorskip("pandas")
ASK: dict[str, Any] = {"effort": "low", "progress": False}
WORDS = [f"word {n}" for n in range(20)]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIMI_MAGIC_HOME", str(tmp_path))


@pytest.fixture
def server() -> Paid:
    return Paid()


@pytest.fixture
def kimi(server: Paid) -> Iterator[Kimi]:
    made = chat(server)
    yield made
    made.close()


def error(status: int, kind: str = "api_error", **headers: str) -> httpx.Response:
    return httpx.Response(
        status, json={"type": "error", "error": {"type": kind, "message": "no"}}, headers=headers
    )


# --- rows and columns ---------------------------------------------------------------------------


def test_each_row_has_its_reply_in_order_beside_its_columns(kimi: Kimi, server: Paid) -> None:
    frame = pd.DataFrame({"text": WORDS, "n": range(20)}, index=range(100, 120))
    before = frame.copy()
    found = kimi.map("Say {{ text }} ({{ n }})", frame, **ASK)
    assert list(found.index) == list(frame.index)
    assert list(found.columns[:2]) == ["text", "n"]
    assert all(f"Say word {n} ({n})" in reply for n, reply in enumerate(found.reply))
    assert set(found.kimi_status) == {"asked"}
    pd.testing.assert_frame_equal(frame, before)
    assert sorted(server.texts) == sorted(f"Say word {n} ({n})" for n in range(20))


def test_the_columns_of_usage_are_the_ledger_s(kimi: Kimi, server: Paid) -> None:
    found = kimi.map("Say {{ text }}", pd.DataFrame({"text": WORDS}), **ASK)
    sums = kimi.usage.summary()
    assert sums.requests == 20
    for name in ("input", "output", "thinking", "cache_read", "cache_write", "searches"):
        assert int(found[f"kimi_{name}"].sum()) == getattr(sums, name) == server.books[name]
    assert found.kimi_cost.sum() == pytest.approx(float(sums.cost))
    assert kimi.conversation.turns == {}
    assert kimi.usage.all().records == kimi.usage.records


ITERABLES: list[tuple[str, Any, list[str]]] = [
    ("Say {{ x }}", ["a", "b"], ["Say a", "Say b"]),
    ("Say {{ x }} {{ y }}", [{"x": 1, "y": 2}], ["Say 1 2"]),
    ('Say {{ row["my column"] }}', [{"my column": "a"}], ["Say a"]),
    ("Say {{ x.y }}", iter([SimpleNamespace(y=3)]), ["Say 3"]),
    ("Say {{ x }} {{ greeting }}", ["a"], ["Say a hello"]),
    ("Say {{ item }} to {{ other }}", [5], ["Say 5 to you"]),
    ("Say {{ row[1] }}", [{1: "a"}], ["Say a"]),
]


@pytest.mark.parametrize(("template", "rows", "sent"), ITERABLES)
def test_rows_come_as_values_or_dicts(kimi: Kimi, server: Paid, template: str, rows: Any, sent: Any) -> None:
    values = {"greeting": "hello", "other": "you"}
    found = kimi.map(template, rows, values=values, concurrency=1, **ASK)
    assert server.texts == sent
    assert isinstance(found, list)
    assert all(isinstance(row, dict) and row["reply"] for row in found)


def test_a_series_is_a_column_of_its_name(kimi: Kimi, server: Paid) -> None:
    kimi.map("Say {{ city }}", pd.Series(["Rome"], name="city"), **ASK)
    pl = pytest.importorskip("polars")
    for column in (pd.Series(["Oslo"]), pd.Index(["Oslo"], name=5), pl.Series(["Oslo"])):
        found = kimi.map("Say {{ town }}", column, **ASK)
        assert list(found.columns)[:2] == ["town", "reply"]
    assert server.texts == ["Say Rome", "Say Oslo"]


def test_polars_frames_come_back_as_they_came(kimi: Kimi) -> None:
    pl = pytest.importorskip("polars")
    found = kimi.map("Say {{ x }}", pl.DataFrame({"x": ["a", "b"]}), **ASK)
    assert isinstance(found, pl.DataFrame)
    assert found["kimi_status"].to_list() == ["asked"] * 2
    assert found["kimi_output"].dtype == pl.Int64()


class Mood(enum.Enum):
    GOOD = "good"
    BAD = "bad"


@dataclass
class City:
    name: str
    people: int
    capital: bool
    area: float
    mood: Mood
    rivers: list[str]
    mayor: str | None = None


class Model(BaseModel):
    name: str
    age: int


def test_a_schema_gives_typed_columns(kimi: Kimi) -> None:
    found = kimi.map("Describe {{ x }}.", pd.DataFrame({"x": ["Rome"], "name": ["?"]}), schema=City, **ASK)
    types = {name: str(found.dtypes[name]) for name in ("people", "capital", "area", "rivers", "mood")}
    assert types["people"] == "Int64"
    assert types["capital"] == "boolean"
    assert types["area"] == "float64"
    assert types["rivers"] == "object"
    assert found.name.tolist() == ["?"]
    assert isinstance(found.kimi_name[0], str)
    assert found.mayor.dtype == found.kimi_name.dtype


def test_a_table_can_be_mapped_again_and_loses_nothing(kimi: Kimi) -> None:
    draft = kimi.map("Write about {{ x }}.", pd.DataFrame({"x": ["Rome"], "cost": [5]}), **ASK)
    critique = kimi.map("Judge this: {{ reply }}", draft, **ASK)
    last = kimi.map("Mend {{ reply }} by {{ kimi_reply }}", critique, **ASK)
    assert list(last.columns[:3]) == ["x", "cost", "reply"]
    assert last.reply.tolist() == draft.reply.tolist()
    assert last.kimi_reply.tolist() == critique.kimi_reply.tolist()
    assert last.kimi_kimi_reply[0] not in (*last.reply, *last.kimi_reply)
    priced = kimi.map(
        "{{ x }}",
        draft[["x", "cost"]],
        schema={
            "type": "object",
            "properties": {"cost": {"type": "integer"}},
            "required": ["cost"],
            "additionalProperties": False,
        },
        **ASK,
    )
    assert str(priced.kimi_kimi_cost.dtype) == "Int64"
    assert priced.kimi_cost[0] < 1
    assert priced.cost.tolist() == [5]


@pytest.mark.parametrize(
    ("schema", "column", "kind"),
    [(Model, "name", str), (list[Model], "value", list), (int, "value", int), (Mood, "value", Mood)],
)
def test_values_are_of_the_schema_s_type(kimi: Kimi, schema: Any, column: str, kind: type) -> None:
    (row,) = kimi.map("Describe {{ x }}.", ["Rome"], schema=schema, **ASK)
    assert row["kimi_error"] is None
    assert isinstance(row[column], kind)


def test_a_reply_that_does_not_fill_the_schema_is_a_failure_and_asked_again(kimi: Kimi, server: Paid) -> None:
    rows = ["Rome [[simulate: refusal]]"]
    for _ in range(2):
        (row,) = kimi.map("{{ x }}", rows, schema=City, **ASK)
        assert row["kimi_status"] == "failed"
        assert row["kimi_error"].startswith("RefusedReplyError")
        assert row["name"] is None
        assert row["kimi_output"] > 0
    assert len(server.bodies) == 2


def test_equal_rows_are_asked_once(kimi: Kimi, server: Paid) -> None:
    found = kimi.map("Say {{ x }}", pd.DataFrame({"x": ["a", "b", "a", "a"]}), **ASK)
    assert len(server.bodies) == 2
    assert found.kimi_status.tolist() == ["asked", "asked", "same", "same"]
    assert found.reply[0] == found.reply[2]
    assert found.kimi_cost.isna().tolist() == [False, False, True, True]


@pytest.mark.parametrize("rows", [5, "text", {"a": 1}, None])
def test_what_has_no_rows_is_refused(kimi: Kimi, rows: Any) -> None:
    with pytest.raises(PromptError, match="has no rows"):
        kimi.map("{{ x }}", rows, **ASK)


def test_no_rows_give_no_rows(kimi: Kimi, server: Paid) -> None:
    empty = kimi.map("{{ x }}", pd.DataFrame({"x": []}), **ASK)
    assert len(empty) == 0
    assert "reply" in empty.columns
    assert kimi.map("{{ x }}", [], **ASK) == []
    assert server.bodies == []


def test_columns_without_a_name_are_found_by_their_numbers(kimi: Kimi, server: Paid) -> None:
    frame = pd.DataFrame([["a", 1], ["b", 2]])
    found = kimi.map("Say {{ row[0] }} {{ row[1] }}", frame, concurrency=1, **ASK)
    assert server.texts == ["Say a 1", "Say b 2"]
    assert list(found.columns[:3]) == [0, 1, "reply"]
    with pytest.raises(PromptError, match="there is no 2 in this Row"):
        kimi.map("Say {{ row[2] }}", frame, **ASK)


@pytest.mark.parametrize("rows", [["", "a"], ["a", ""]])
def test_a_row_without_any_text_fails_alone_wherever_it_stands(kimi: Kimi, server: Paid, rows: Any) -> None:
    found = {row["x"]: row for row in kimi.map("{{ x }}", rows, **ASK)}
    assert found["a"]["kimi_status"] == "asked"
    assert found[""]["kimi_error"].endswith("is empty.")
    with pytest.raises(RequestError, match="is empty"):
        kimi.map("{{ x }}", ["", ""], **ASK)


def test_a_template_that_is_none_is_said(kimi: Kimi) -> None:
    with pytest.raises(PromptError, match="of type DataFrame is no template"):
        kimi.map(pd.DataFrame({"x": ["a"]}), "Say {{ x }}", **ASK)


def test_numpy_s_numbers_are_numbers(kimi: Kimi) -> None:
    np = pytest.importorskip("numpy")
    assert len(kimi.map("Say {{ x }}", ["a"], concurrency=np.int64(4), budget=np.float64(2), **ASK)) == 1


SLIPS: list[tuple[dict[str, Any], type[Exception]]] = [
    ({"concurrency": 0}, OptionError),
    ({"budget": "lots"}, OptionError),
    ({"schema": 5}, SchemaError),
    ({"max_tokens": 0.5}, RequestError),
]


@pytest.mark.parametrize(("options", "kind"), SLIPS)
def test_a_slip_is_said_before_anything_is_sent(
    kimi: Kimi, server: Paid, options: dict[str, Any], kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        kimi.map("{{ x }}", ["a"], **ASK, **options)
    assert server.bodies == []


def test_a_row_that_cannot_be_written_fails_alone(kimi: Kimi) -> None:
    rows = [{"x": "a"}, {"y": "no x"}, {"x": "c"}]
    found = kimi.map("Say {{ x }}", rows, **ASK)
    assert [row["kimi_status"] for row in found] == ["asked", "failed", "asked"]
    assert "no variable 'x'" in found[1]["kimi_error"]


def test_what_no_row_can_be_written_with_is_raised_before_anything_is_sent(kimi: Kimi, server: Paid) -> None:
    frame = pd.DataFrame({"text": WORDS})
    for template, said in (
        ("Bad {{ txt }}", r"there is no variable 'txt'\. Did you mean text\?"),
        ("Bad {{ text.uper }}", "no attribute 'uper'"),
        ("Bad {{ text() }}", "a prompt runs no code"),
    ):
        with pytest.raises(PromptError, match=said):
            kimi.map(template, frame, **ASK)
    with pytest.raises(PromptError, match="no variable 'txt'"):
        kimi.map("{{ text }} {{ txt }}", [{"text": None}, {"text": "a"}], **ASK)
    assert server.bodies == []


MISSING: list[Any] = [None, float("nan"), pd.NA, pd.NaT, Decimal("NaN")]


@pytest.mark.parametrize("value", MISSING)
def test_a_row_that_lacks_a_value_fails_without_a_request(kimi: Kimi, server: Paid, value: Any) -> None:
    frame = pd.DataFrame({"text": pd.Series(["a", value, ""], dtype=object), "other": value})
    found = kimi.map("Say {{ text }}!", frame, **ASK)
    assert found.kimi_status.tolist() == ["asked", "failed", "asked"]
    assert found.kimi_error[1] == "PromptError: {{ text }} is missing in this row."
    assert sorted(server.texts) == ["Say !", "Say a!"]
    found = kimi.map('Say {{ row["text"] }}', [{"text": value}], **ASK)
    assert found[0]["kimi_error"] == 'PromptError: {{ row["text"] }} is missing in this row.'
    assert len(server.bodies) == 2


def test_columns_of_every_kind_can_lack_a_value(kimi: Kimi, server: Paid) -> None:
    pl, np = pytest.importorskip("polars"), pytest.importorskip("numpy")
    frames = [
        pd.DataFrame({"x": pd.array([1, None], dtype="Int64")}),
        pd.DataFrame({"x": pd.to_datetime(["2026-01-01", None])}),
        pd.DataFrame({"x": np.array([1, np.nan], dtype="float32")}),
        pd.DataFrame({"x": pd.Series(["a", None], dtype="string")}),
        pl.DataFrame({"x": ["a", None]}),
        pl.DataFrame({"x": [1.0, float("nan")]}),
    ]
    for frame in frames:
        assert list(kimi.map("Say {{ x }}", frame, **ASK)["kimi_status"])[1] == "failed"
    assert not any("nan" in text.lower() or "none" in text.lower() for text in server.texts)


def test_what_is_no_value_of_the_row_may_be_none_and_arrays_are_values(kimi: Kimi, server: Paid) -> None:
    np = pytest.importorskip("numpy")
    rows = [{"x": np.array([np.nan, 1.0])}, {"x": [None]}]
    found = kimi.map("Say {{ x }} {{ y }}", rows, values={"y": None}, **ASK)
    assert [row["kimi_error"] for row in found] == [None, None]


# --- failures and rates -------------------------------------------------------------------------


def test_failed_rows_carry_their_error_and_are_asked_again(tmp_path: Path) -> None:
    broken = [True]

    def refuse(number: int, body: dict[str, Any]) -> httpx.Response | None:
        return error(400) if broken[0] and "word 3" in json.dumps(body) else None

    server = Paid(refuse)
    kimi = chat(server)
    found = kimi.map("Say {{ x }}", WORDS[:6], **ASK)
    assert [row["kimi_status"] for row in found] == ["asked"] * 3 + ["failed"] + ["asked"] * 2
    assert found[3]["kimi_error"].startswith("BadRequestError: ")
    broken[0] = False
    found = kimi.map("Say {{ x }}", WORDS[:6], **ASK)
    assert [row["kimi_status"] for row in found] == ["stored"] * 3 + ["asked"] + ["stored"] * 2
    assert len(server.bodies) == 7
    assert found[0]["kimi_cost"] == 0
    kimi.close()


def test_what_fails_for_all_rows_alike_ends_the_batch(tmp_path: Path) -> None:
    server = Paid(lambda n, body: error(401, "authentication_error"))
    kimi = chat(server)
    with pytest.raises(AuthenticationError):
        kimi.map("Say {{ x }}", WORDS, concurrency=2, **ASK)
    assert len(server.bodies) == 2
    kimi.close()


def test_too_many_requests_slow_all_rows_and_none_fails(tmp_path: Path) -> None:
    """The server takes four at once for a while; a client that only waits row by row would fail."""
    refused: list[float] = []

    def refuse(number: int, body: dict[str, Any]) -> httpx.Response | None:
        if 8 <= number < 16:
            refused.append(time.monotonic())
            return error(429, "rate_limit_error", **{"retry-after": "0.2"})
        times.append(time.monotonic())
        return None

    times: list[float] = []
    server = Paid(refuse, wait=0.005)
    kimi = chat(server)
    found = kimi.map("Say {{ x }}", WORDS, concurrency=8, **ASK)
    assert {row["kimi_status"] for row in found} == {"asked"}
    # Nothing began while the server had asked to wait (those that were under way may end).
    assert [t for t in times if refused[0] + 0.05 < t < refused[0] + 0.19] == []
    kimi.close()


def test_a_gate_halves_once_for_what_all_hear_and_opens_again() -> None:
    now = [0.0]
    gate = Gate(16, lambda: now[0])
    for _ in range(16):
        gate.slow(2)
    assert (gate.limit, gate.wait()) == (8, 2)
    gate.slow(5)
    assert (gate.limit, gate.wait()) == (8, 5)
    now[0] = 6
    gate.slow(1)
    assert gate.limit == 4
    for _ in range(200):
        gate.answered()
    assert gate.limit == 16
    for _ in range(9):
        now[0] += 100
        gate.slow(1)
    assert gate.limit == 1


def test_as_many_run_at_once_as_was_asked_for(tmp_path: Path) -> None:
    server = Paid(wait=0.01)
    kimi = chat(server)
    kimi.map("Say {{ x }}", WORDS, concurrency=5, **ASK)
    assert server.most == 5
    kimi.close()


def test_the_first_goes_alone_where_the_beginning_is_long_and_the_others_read_it(tmp_path: Path) -> None:
    server = Paid(wait=0.01)
    kimi = chat(server)
    codebook = "Rules of the codebook. " * 300
    found = kimi.map(f"{codebook}\n\nCode this: {{{{ x }}}}", WORDS[:6], **ASK)
    reads = [row["kimi_cache_read"] for row in found]
    assert reads[0] == 0
    assert all(read > 1_000 for read in reads[1:])
    system = kimi.map("Code this: {{ x }}", WORDS[:6], system=codebook, **ASK)
    assert [row["kimi_cache_read"] > 1_000 for row in system] == [False] + [True] * 5
    short = kimi.map("Code: {{ x }}", WORDS[:6], **ASK)
    assert [row["kimi_cache_read"] for row in short] == [0] * 6
    kimi.close()


# --- tools ---------------------------------------------------------------------------------------


def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word} is a city"


def test_a_row_calls_tools_and_its_columns_have_all_its_requests(kimi: Kimi, server: Paid) -> None:
    words = pd.DataFrame({"x": ["Rome", "Oslo"]})
    found = kimi.map('Use look_up for "{{ x }}".', words, tools=[look_up], **ASK)
    assert len(server.bodies) == 4
    assert all(f"{word} is a city" in reply for word, reply in zip(words.x, found.reply, strict=True))
    sums = kimi.usage.summary()
    for name in ("input", "output", "thinking", "cache_read", "cache_write"):
        assert int(found[f"kimi_{name}"].sum()) == getattr(sums, name) == server.books[name]
    one = kimi.ask('Use look_up for "Rome".', tools=[look_up], effort="low", once=True)
    assert found.reply[0] == one.message.text
    again = kimi.map('Use look_up for "{{ x }}".', words, tools=[look_up], **ASK)
    assert again.kimi_status.tolist() == ["stored"] * 2
    assert again.reply.tolist() == found.reply.tolist()
    assert len(server.bodies) == 6


def test_a_schema_is_filled_after_the_calls(kimi: Kimi) -> None:
    (row,) = kimi.map('Use look_up for "{{ x }}".', ["Rome"], tools=[look_up], schema=Model, **ASK)
    assert (row["kimi_error"], type(row["age"])) == (None, int)


def test_functions_of_several_rows_run_at_once(kimi: Kimi) -> None:
    all_there = threading.Barrier(8, timeout=20)

    def meet(word: str) -> int:
        return all_there.wait()

    found = kimi.map('Use meet for "{{ x }}".', WORDS[:8], tools=[meet], **ASK)
    assert [row["kimi_error"] for row in found] == [None] * 8
    assert not all_there.broken


def test_a_budget_of_the_batch_stops_before_the_next_step(kimi: Kimi, server: Paid) -> None:
    def never() -> None:
        raise AssertionError

    with pytest.raises(BudgetError, match="The batch's budget"):
        kimi.map("Use never for {{ x }}.", WORDS, tools=[never], budget="0.000001", **ASK)
    assert len(server.bodies) == 1
    states = [row["kimi_status"] for row in kimi.last_map]
    assert states == ["failed"] + ["open"] * 19
    assert kimi.last_map[0]["kimi_output"] == server.books["output"] > 0


def test_a_row_that_has_called_is_not_begun_again_by_itself() -> None:
    server = Paid(lambda n, body: error(429, "rate_limit_error") if n == 1 else None)
    kimi = chat(server)
    (row,) = kimi.map('Use look_up for "{{ x }}".', ["Rome"], tools=[look_up], **ASK)
    assert row["kimi_error"].startswith("RateLimitError")
    assert row["kimi_input"] == server.books["input"] > 0
    assert len(server.bodies) == 2
    kimi.close()


def test_what_cancels_a_map_does_not_wait_for_its_functions(kimi: Kimi, server: Paid) -> None:
    called, over = threading.Event(), threading.Event()

    def wait(word: str) -> None:
        called.set()
        over.wait()

    async def main() -> None:
        task = asyncio.create_task(kimi.amap('Use wait for "{{ x }}".', ["a"], tools=[wait], **ASK))
        await asyncio.to_thread(called.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        over.set()

    asyncio.run(main())
    assert [row["status"] for row in kimi.usage] == ["complete"]
    assert kimi.usage.all().records == kimi.usage.records


def test_tools_stay_in_this_kernel(kimi: Kimi, server: Paid) -> None:
    with ThreadPoolExecutor(1) as executor, pytest.raises(OptionError, match="functions are in this kernel"):
        kimi.map("{{ x }}", ["a"], tools=[look_up], executor=executor, **ASK)
    assert server.bodies == []


def test_an_estimate_says_that_tools_may_take_more(kimi: Kimi) -> None:
    guess = kimi.estimate("{{ x }}", ["a"], tools=[look_up], max_steps=3, effort="low")
    assert (guess.requests, guess.rounds) == (1, 3)
    assert guess.input > 10 > kimi.estimate("{{ x }}", ["a"], effort="low").input  # tools are sent, too
    assert str(guess).endswith("the tools of a row may take up to 3 more.")
    assert "tools" not in str(kimi.estimate("{{ x }}", ["a"], effort="low"))


# --- money --------------------------------------------------------------------------------------


def test_a_budget_of_the_batch_leaves_rows_open(kimi: Kimi, server: Paid) -> None:
    cost = kimi.ask("Say word 0", effort="low", once=True).cost
    assert cost is not None
    asked = len(server.bodies)
    found = kimi.map("Say {{ x }}", WORDS, budget=cost * 11 / 2, **ASK)
    states = [row["kimi_status"] for row in found]
    done = len(server.bodies) - asked
    assert 3 <= done <= 5
    assert states == ["asked"] * done + ["open"] * (20 - done)
    assert found[-1]["kimi_error"].startswith("BudgetError: The next row would go over the batch's budget of")
    assert re.search(r"\(\$0\.\d+ left, and a row costs about \$0\.\d+\)", found[-1]["kimi_error"])
    more = kimi.map("Say {{ x }}", WORDS, budget=cost * 5, **ASK)
    assert [row["kimi_status"] for row in more][:done] == ["stored"] * done


def test_the_notebook_s_budget_ends_a_batch_too(kimi: Kimi, server: Paid) -> None:
    kimi.session.purse.set_budget(Budget.parse("0.000001"))
    found = kimi.map("Say {{ x }}", WORDS, concurrency=1, **ASK)
    assert [row["kimi_status"] for row in found] == ["asked"] + ["open"] * 19
    with pytest.raises(BudgetError):
        kimi.map("Tell {{ x }}", WORDS, **ASK)
    assert len(server.bodies) == 1


@pytest.mark.parametrize("store", ["on", "off"])
def test_a_batch_stops_where_its_next_row_would_go_over_what_is_left_for_the_notebook(
    server: Paid, store: str
) -> None:
    kimi = chat(server, store=store)
    cost = kimi.ask("Say word 0", effort="low", once=True).cost
    assert cost is not None
    kimi.settings.budget = f"{cost * 11 / 2}/notebook"
    found = kimi.map("Say {{ x }}", WORDS, concurrency=8, **ASK)
    spent = kimi.usage.summary().cost
    assert cost * 9 / 2 < spent <= cost * 11 / 2  # no row too many, and none counted twice
    error = found[-1]["kimi_error"]
    assert "The next row would go over the budget of" in error
    assert "USD a notebook" in error
    assert "KIMI_MAGIC_BUDGET" in error
    kimi.close()


def test_a_budget_of_another_currency_does_not_end_a_batch(kimi: Kimi) -> None:
    kimi.session.purse.set_budget(Budget.parse("0.000001 EUR"))
    assert {row["kimi_status"] for row in kimi.map("Say {{ x }}", WORDS, **ASK)} == {"asked"}


def test_a_batch_on_the_simulator_says_that_no_budget_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    kimi = Kimi(KimiMagic(simulator="always", simulator_speed=0.0, store="off"))
    for more, said in (({"budget": "0.000001"}, 1), ({}, 0), ({"budget": 1, "progress": False}, 0)):
        kimi.map("Say {{ x }}", WORDS, effort="low", **more)
        assert capsys.readouterr().out.count("Simulated rows cost nothing, so no budget ends them.\n") == said
    kimi.close()


def test_an_estimate_without_earlier_replies_says_how_to_get_some(kimi: Kimi) -> None:
    said = "; no earlier replies to go by: try rows.head(5) first."
    assert str(kimi.estimate("Say {{ x }}", WORDS, effort="low")).endswith(said)
    kimi.map("Say {{ x }}", WORDS[:2], **ASK)
    assert re.search(
        r"at most \$\d+\.\d+, about \$0\.\d+ as", str(kimi.estimate("Say {{ x }}", WORDS, effort="low"))
    )
    assert str(kimi.estimate("Say {{ x }}", WORDS[:2], effort="low")).endswith("nothing is to be asked.")


def test_an_estimate_sends_nothing(kimi: Kimi, server: Paid) -> None:
    guess = kimi.estimate("Say {{ x }}", [*WORDS, *WORDS], effort="low", max_tokens=1000)
    assert (guess.rows, guess.requests, guess.stored, guess.max_output) == (40, 20, 0, 20_000)
    assert guess.typical is None
    assert server.bodies == []
    assert guess.most is not None
    kimi.map("Say {{ x }}", WORDS[:5], max_tokens=1000, **ASK)
    again = kimi.estimate("Say {{ x }}", [*WORDS, *WORDS], effort="low", max_tokens=1000)
    assert (again.requests, again.stored) == (15, 10)
    assert again.typical is not None
    assert again.typical < again.most < guess.most
    assert "at most" in str(again)


# --- going on -----------------------------------------------------------------------------------


def test_an_interrupt_keeps_what_is_done_and_the_next_run_goes_on(tmp_path: Path) -> None:
    server = Paid(hold=6)
    kimi = chat(server)

    def interrupt() -> None:
        server.held.wait()
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(Interrupted, match="of 20 rows are done"):
        kimi.map("Say {{ x }}", WORDS, concurrency=2, **ASK)
    partial = [row["kimi_status"] for row in kimi.last_map]
    done = partial.count("asked")
    assert 0 < done < 20
    assert "interrupted" in [row["status"] for row in kimi.usage]
    assert kimi.usage.all().records == kimi.usage.records
    sent, server.hold = len(server.bodies), None
    found = kimi.map("Say {{ x }}", WORDS, concurrency=2, **ASK)
    states = [row["kimi_status"] for row in found]
    assert states.count("stored") == done
    assert len(server.bodies) - sent == 20 - done
    kimi.close()


KILLED = """
import os, sys
from kimi_magic.api import Kimi
from kimi_magic.config import KimiMagic
kimi = Kimi(KimiMagic(), notebook="book.ipynb")
kimi.map("Say {{ x }}", [f"word {n}" for n in range(200)], concurrency=4, effort="low", progress=False)
"""


def test_a_batch_that_was_killed_goes_on_and_pays_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulator = Simulator(speed=1_000)  # all of it would take 9 s
    with serve(simulator) as server:
        monkeypatch.setenv("KIMI_API_KEY", "sk-key")
        monkeypatch.setenv("KIMI_BASE_URL", server.url)
        process = subprocess.Popen([sys.executable, "-c", KILLED])
        kimi = Kimi(KimiMagic(), notebook="book.ipynb")
        while len(kimi.usage.all()) < 20:
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
        process.wait()
        simulator.speed = 0
        before = len(kimi.usage.all())
        assert before < 200
        rows = [f"word {n}" for n in range(200)]
        found = kimi.map("Say {{ x }}", rows, concurrency=4, **ASK)
        states = [row["kimi_status"] for row in found]
        assert states.count("stored") == before
        assert states.count("asked") == 200 - before
        assert len(kimi.usage.all()) == 200
        kimi.close()


def test_names_part_batches_and_resume_can_be_refused(kimi: Kimi, server: Paid) -> None:
    def asked(**options: Any) -> int:
        before = len(server.bodies)
        kimi.map("Say {{ x }}", ["a"], **ASK, **options)
        return len(server.bodies) - before

    assert [asked(), asked(), asked(name="b"), asked(name="b"), asked(resume=False)] == [1, 0, 1, 0, 1]


def test_a_simulated_reply_is_not_taken_for_a_paid_one(server: Paid) -> None:
    pretend = Kimi(KimiMagic(simulator="always", simulator_speed=0.0), notebook="book.ipynb")
    (row,) = pretend.map("Say {{ x }}", ["a"], **ASK)
    assert row["kimi_simulated"] is True
    (again,) = pretend.map("Say {{ x }}", ["a"], **ASK)
    assert (again["kimi_status"], again["kimi_simulated"]) == ("stored", True)
    real = chat(server)
    (row,) = real.map("Say {{ x }}", ["a"], **ASK)
    assert (row["kimi_status"], row["kimi_simulated"]) == ("asked", False)
    pretend.close()
    real.close()


def test_without_a_store_a_batch_runs_all_the_same(server: Paid) -> None:
    kimi = chat(server, store="off")
    kimi.map("Say {{ x }}", ["a"], **ASK)
    (row,) = kimi.map("Say {{ x }}", ["a"], **ASK)
    assert row["kimi_status"] == "asked"
    assert len(kimi.usage) == 2
    kimi.close()


# --- elsewhere ----------------------------------------------------------------------------------


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kimi]:
    """A chat on a server that processes can reach."""
    with serve(Simulator(speed=0)) as server:
        monkeypatch.setenv("KIMI_API_KEY", "sk-key")
        monkeypatch.setenv("KIMI_BASE_URL", server.url)
        kimi = Kimi(KimiMagic(), notebook="book.ipynb")
        yield kimi
        kimi.close()


def _spread(kimi: Kimi, executor: Any) -> None:
    """The same results, order, resume and ledger as without the executor."""
    rows = pd.DataFrame({"x": ["a", "b", "a", "no [[simulate: bad-request]]"]})
    here = kimi.map("Say {{ x }}", rows, name="here", **ASK)
    there = kimi.map("Say {{ x }}", rows, name="there", executor=executor, **ASK)
    plain = ["kimi_seconds", "kimi_error"]
    pd.testing.assert_frame_equal(here.drop(columns=plain), there.drop(columns=plain))
    assert there.kimi_status.tolist() == ["asked", "asked", "same", "failed"]
    assert there.kimi_error[3].startswith("BadRequestError")
    ours, theirs = kimi.usage.records[:3], kimi.usage.records[3:]
    assert sorted(r.output or 0 for r in ours) == sorted(r.output or 0 for r in theirs)
    assert {r.notebook for r in theirs} == {"book.ipynb"}
    again = kimi.map("Say {{ x }}", rows, name="there", executor=executor, **ASK)
    assert again.kimi_status.tolist() == ["stored", "stored", "same", "failed"]
    assert kimi.usage.all().records == kimi.usage.records


def test_a_batch_on_threads(away: Kimi) -> None:
    with ThreadPoolExecutor(3) as executor:
        _spread(away, executor)


def test_what_a_batch_on_threads_opened_is_closed_at_its_end(away: Kimi) -> None:
    def open_threads() -> int:
        return sum(thread.name == "kimi-magic" for thread in threading.enumerate())

    away.map("Say {{ x }}", ["a"], **ASK)
    before = open_threads()
    with ThreadPoolExecutor(2) as executor:
        for name in ("one", "two"):
            away.map("Say {{ x }}", WORDS[:4], name=name, executor=executor, **ASK)
            assert open_threads() == before


def test_batches_at_once_share_a_client_until_the_last_one_ends(away: Kimi) -> None:
    with ThreadPoolExecutor(4) as executor:

        async def both() -> Any:
            return await asyncio.gather(
                away.amap("Say {{ x }}", ["a"], name="one", executor=executor, **ASK),
                away.amap("Say {{ x }}", WORDS, name="two", executor=executor, concurrency=1, **ASK),
            )

        one, two = asyncio.run(both())
    assert {row["kimi_status"] for row in [*one, *two]} == {"asked"}


def test_a_batch_on_processes(away: Kimi) -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        _spread(away, executor)


def test_a_batch_on_dask(away: Kimi) -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
        ) as c,
        distributed.Client(c) as client,
    ):
        _spread(away, client.get_executor())


def test_a_batch_on_ipyparallel(away: Kimi) -> None:
    ipp = pytest.importorskip("ipyparallel")
    with ipp.Cluster(n=1, log_level=40) as client:
        _spread(away, client.executor())


def test_a_worker_that_dies_fails_its_row_alone(away: Kimi) -> None:
    class Mortal(ThreadPoolExecutor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
            if "word 2" not in str(args[0].plan.request.messages):
                return super().submit(fn, *args, **kwargs)
            lost: Future[Any] = Future()
            lost.set_exception(OSError("worker 7 is gone"))
            return lost

    with Mortal(2) as executor:
        found = away.map("Say {{ x }}", WORDS[:5], executor=executor, **ASK)
    assert [row["kimi_status"] for row in found] == ["asked", "asked", "failed", "asked", "asked"]
    assert (
        found[2]["kimi_error"] == "TransportError: The executor's worker failed: OSError: worker 7 is gone."
    )
    again = away.map("Say {{ x }}", WORDS[:5], **ASK)
    assert [row["kimi_status"] for row in again] == ["stored", "stored", "asked", "stored", "stored"]


def test_what_a_worker_had_begun_when_the_batch_was_cancelled_is_kept(away: Kimi) -> None:
    begun, go = threading.Event(), threading.Event()

    class Slow(ThreadPoolExecutor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
            def wait_and_run() -> Any:
                begun.set()
                go.wait()
                return fn(*args, **kwargs)

            return super().submit(wait_and_run)

    async def main(executor: Slow) -> None:
        task = asyncio.create_task(away.amap("Say {{ x }}", WORDS[:3], executor=executor, **ASK))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go.set()

    with Slow(1) as executor:
        asyncio.run(main(executor))
    assert away.usage.all().records == away.usage.records
    again = away.map("Say {{ x }}", WORDS[:3], **ASK)
    assert [row["kimi_status"] for row in again] == ["stored", "asked", "asked"]
    assert len(away.usage) == 3


def test_an_executor_that_takes_nothing_ends_the_batch(away: Kimi) -> None:
    with ThreadPoolExecutor(1) as executor:
        pass
    with pytest.raises(ConfigError, match="takes no rows any more: cannot schedule new futures"):
        away.map("Say {{ x }}", WORDS, executor=executor, **ASK)
    assert [row["kimi_status"] for row in away.last_map].count("open") > 10
    with pytest.raises(OptionError, match=r"executor: must be a concurrent\.futures\.Executor, not 4"):
        away.map("Say {{ x }}", WORDS, executor=4, **ASK)


def test_too_many_requests_elsewhere_slow_all(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(Simulator(speed=0)) as server:
        monkeypatch.setenv("KIMI_API_KEY", "sk-key")
        monkeypatch.setenv("KIMI_BASE_URL", server.url)
        kimi = Kimi(KimiMagic(), notebook="book.ipynb")
        with ThreadPoolExecutor(2) as executor:
            rows = ["a [[simulate: rate-limited 0.05 x1]]", "b"]
            found = kimi.map("Say {{ x }}", rows, executor=executor, **ASK)
        assert [row["kimi_status"] for row in found] == ["asked", "asked"]
        kimi.close()


def test_a_chat_with_a_client_of_its_own_cannot_be_spread(kimi: Kimi) -> None:
    with ThreadPoolExecutor(1) as executor, pytest.raises(ConfigError, match="client of its own"):
        kimi.map("Say {{ x }}", ["a"], executor=executor, **ASK)


# --- progress -----------------------------------------------------------------------------------


def test_a_line_is_written_again_and_ends_with_all() -> None:
    out = io.StringIO()
    bar = Bar(stream=out)
    for done in range(4):
        bar.show(Progress(3, done, 0, Decimal(done), "USD", 0.0))
    bar.close()
    assert out.getvalue().startswith("\r0 of 3 rows, $0.00")
    assert out.getvalue().endswith("\r3 of 3 rows, $3.00\n")


def test_the_bar_says_what_it_cost_and_what_failed(kimi: Kimi, capsys: pytest.CaptureFixture[str]) -> None:
    kimi.map("Say {{ x }}", ["a", "b [[simulate: bad-request]]"], effort="low")
    out = "".join(capsys.readouterr())
    assert "1 failed" in out
    assert "$0.00" in out


def test_what_takes_a_while_is_walked_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(walked(["a", "b"], "turn")) == ["a", "b"]
    assert capsys.readouterr().err == "", "no bar for what takes no time"
