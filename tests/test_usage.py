"""What was used and what it cost, from the counts of the wire to the columns of a DataFrame."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kimi_magic.usage import (
    FIELDS,
    PRICES,
    Price,
    Record,
    UsageTable,
    cost_of,
    has_unpriced_searches,
    totals,
    with_counts,
)
from kimi_magic.wire import Usage

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
THREE = Price.of(3, 15, 0.30, 3.75, 6)


def counted(usage: dict[str, Any], price: Price | None = THREE, ttl: str = "5m", **more: Any) -> Record:
    return with_counts(Record(NOON, **more), Usage(usage), price, ttl)


# --- counts and costs ---------------------------------------------------------------------------


def test_u03_cached_tokens_are_charged_once_at_the_price_of_their_kind() -> None:
    record = counted(
        {
            "input_tokens": 120,
            "cache_read_input_tokens": 9000,
            "cache_creation_input_tokens": 600,
            "cache_creation": {"ephemeral_5m_input_tokens": 600, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 50,
        }
    )
    assert record.cost == Decimal("0.00606")
    assert record.prompt_tokens == 9720
    assert record.cache_hit_rate == pytest.approx(9000 / 9720)


@pytest.mark.parametrize(
    ("split", "ttl", "counts", "cost"),
    [
        ({"ephemeral_5m_input_tokens": 200, "ephemeral_1h_input_tokens": 800}, "5m", (200, 800), "0.00555"),
        ({"ephemeral_1h_input_tokens": 1000}, "5m", (None, 1000), "0.006"),
        ({"ephemeral_1h_input_tokens": 800}, "1h", (200, 800), "0.00555"),
        ({"ephemeral_5m_input_tokens": 200, "ephemeral_1h_input_tokens": None}, "5m", (200, 800), "0.00555"),
        ({"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}, "5m", (1000, 0), "0.00375"),
        ({"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}, "1h", (0, 1000), "0.006"),
        ({"ephemeral_5m_input_tokens": 200, "ephemeral_1h_input_tokens": 700}, "1h", (200, 800), "0.00555"),
        (None, "5m", (1000, 0), "0.00375"),
        (None, "1h", (0, 1000), "0.006"),
    ],
)
def test_u04_writes_cost_by_their_time_to_live(split: Any, ttl: str, counts: Any, cost: str) -> None:
    usage = {"input_tokens": 0, "cache_creation_input_tokens": 1000, "output_tokens": 0}
    record = counted({**usage, "cache_creation": split} if split else usage, ttl=ttl)
    assert (record.cache_write_5m, record.cache_write_1h) == counts
    assert record.cost == Decimal(cost)
    assert record.prompt_tokens == 1000


@pytest.mark.parametrize("count", ["12", 5.0, True, [3]])
def test_what_is_no_count_is_not_known(count: Any) -> None:
    record = counted({"input_tokens": count, "output_tokens": count})
    assert (record.input, record.output, record.cost) == (None, None, None)


@pytest.mark.parametrize("usage", [{}, {"input_tokens": None}, {"input_tokens": 5}, {"output_tokens": 5}])
def test_what_the_server_did_not_say_is_none_and_has_no_cost(usage: dict[str, Any]) -> None:
    record = counted(usage)
    assert (record.input, record.output) == (usage.get("input_tokens"), usage.get("output_tokens"))
    names = ("cache_read", "cache_write_5m", "cache_write_1h", "thinking", "searches", "cost")
    assert [getattr(record, name) for name in names] == [None] * 6


def test_zero_is_a_count_and_costs_nothing() -> None:
    record = counted({"input_tokens": 0, "output_tokens": 0, "cache_read_input_tokens": 0})
    assert (record.input, record.output, record.cache_read, record.cost) == (0, 0, 0, 0)
    assert record.cache_hit_rate is None


@pytest.mark.parametrize("status", ["failed", "interrupted"])
def test_the_output_count_of_a_reply_that_was_cut_is_no_total(status: str) -> None:
    usage = {"input_tokens": 30, "output_tokens": 2, "output_tokens_details": {"thinking_tokens": 1}}
    record = counted(usage, status=status)
    assert (record.input, record.output, record.thinking, record.cost) == (30, None, None, None)


def test_thinking_is_a_part_of_the_output_and_not_charged_again() -> None:
    usage = {"input_tokens": 0, "output_tokens": 100, "output_tokens_details": {"thinking_tokens": 60}}
    record = counted(usage)
    assert (record.output, record.thinking, record.cost) == (100, 60, Decimal("0.0015"))


def test_without_a_price_there_is_no_cost_and_with_one_its_currency() -> None:
    usage = {"input_tokens": 1, "output_tokens": 1}
    assert counted(usage, None).cost is None
    assert counted(usage, Price.of(1, 1, 1, 1, 1, currency="CNY")).currency == "CNY"


def test_searches_are_charged_where_their_price_is_known_and_said_where_not() -> None:
    usage = {"input_tokens": 0, "output_tokens": 0, "server_tool_use": {"web_search_requests": 3}}
    priced = Price.of(3, 15, 0.3, 3.75, 6, search=Decimal("0.01"))
    assert counted(usage, priced).cost == Decimal("0.03")
    assert counted(usage).cost == 0
    assert has_unpriced_searches(counted(usage), THREE)
    assert has_unpriced_searches(counted(usage), None)
    assert not has_unpriced_searches(counted(usage, priced), priced)
    assert not has_unpriced_searches(counted({"input_tokens": 0, "output_tokens": 0}), None)


def test_costs_are_exact_decimals() -> None:
    usage = {"input_tokens": 1, "output_tokens": 0, "cache_read_input_tokens": 3}
    assert counted(usage).cost == Decimal("0.0000039")
    assert Price.of(0.1, 0.2, 0.3, 0.4, 0.5).input == Decimal("0.1")


def test_speed_counts_from_the_first_content_on() -> None:
    usage = {"input_tokens": 0, "output_tokens": 100}
    assert counted(usage, seconds=12.0, seconds_to_first=2.0).tokens_per_second == 10.0
    assert counted(usage, seconds=12.0).tokens_per_second is None
    assert counted(usage, seconds=2.0, seconds_to_first=2.0).tokens_per_second is None


def test_the_public_prices_know_both_models() -> None:
    assert set(PRICES) == {"kimi-k3.1-pro", "kimi-k3.1-pro-highspeed"}
    assert all(price.source and price.currency == "USD" for price in PRICES.values())


counts = st.none() | st.integers(0, 10**9)


@given(st.lists(st.tuples(counts, counts, counts, counts, counts), max_size=6))
@settings(deadline=None)
def test_the_whole_costs_what_its_parts_cost(rows: list[tuple[int | None, ...]]) -> None:
    keys = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output")
    records = [Record(NOON, **dict(zip(keys, row, strict=True))) for row in rows]
    costs = [cost_of(record, THREE) for record in records]
    sums = totals(
        Record(NOON, **dict(zip(keys, row, strict=True)), cost=cost)
        for row, cost in zip(rows, costs, strict=True)
    )
    known = [cost for cost in costs if cost is not None]
    assert (sums.cost, sums.unknown) == (sum(known, Decimal(0)), len(rows) - len(known))
    assert sums.input == sum(row[0] or 0 for row in rows)
    assert sums.cache_write == sum((row[2] or 0) + (row[3] or 0) for row in rows)


def test_totals_add_up_and_say_what_is_simulated() -> None:
    rows = [
        Record(NOON, input=10, cache_read=30, output=5, thinking=2, searches=1, cost=Decimal("0.5")),
        Record(NOON, input=20, cache_write_1h=40, simulated=True),
    ]
    t = totals(rows)
    assert (t.requests, t.input, t.cache_read, t.cache_write, t.output) == (2, 30, 30, 40, 5)
    assert (t.thinking, t.searches, t.cost, t.unknown) == (2, 1, Decimal("0.5"), 1)
    assert (t.simulated, t.currency, t.cache_hit_rate) == (1, "USD", 0.3)
    assert totals([]).cache_hit_rate is None


# --- rows ---------------------------------------------------------------------------------------

FULL = Record(
    time=NOON,
    notebook="a.ipynb",
    conversation="main",
    turn="t",
    cell="c",
    model="kimi-k3.1-pro",
    effort="low",
    stop_reason="end_turn",
    status="failed",
    error="RateLimitError",
    request_id="req",
    input=1,
    cache_read=2,
    cache_write_5m=3,
    cache_write_1h=4,
    output=5,
    thinking=6,
    searches=7,
    seconds_to_first=0.5,
    seconds=1.5,
    tokens_per_second=5.0,
    attempts=2,
    cost=Decimal("0.0000001"),
    saved=Decimal("0.0000002"),
    currency="EUR",
    replayed=True,
    simulated=True,
)


def test_a_record_survives_json_exactly() -> None:
    assert all(getattr(FULL, name) != getattr(Record(datetime.max), name) for name in FIELDS)
    assert Record.from_json(json.loads(json.dumps(FULL.to_json()))) == FULL
    bare = Record(NOON)
    assert Record.from_json(json.loads(json.dumps(bare.to_json()))) == bare


def test_fields_of_a_later_version_are_left_out() -> None:
    assert Record.from_json({**FULL.to_json(), "carbon": 3}) == FULL


def test_u06_times_have_their_zone_and_fraction_whatever_the_kernel_s_zone() -> None:
    pd = pytest.importorskip("pandas")
    shanghai = timezone(timedelta(hours=8))
    records = [
        Record(datetime(2026, 11, 30, 18, 0, 0, 0, shanghai)),
        Record(datetime(2026, 11, 30, 10, 0, 0, 123456, UTC)),
    ]
    written = [json.loads(json.dumps(record.to_json())) for record in records]
    times = pd.to_datetime(pd.DataFrame(written)["time"])
    assert str(times.dt.tz) == "UTC"
    assert (times.iloc[1] - times.iloc[0]).total_seconds() == 0.123456
    assert [row["time"] for row in written] == [
        "2026-11-30T10:00:00.000000+00:00",
        "2026-11-30T10:00:00.123456+00:00",
    ]


def test_the_clock_s_own_zone_does_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    try:
        assert FULL.to_json()["time"] == "2026-11-30T12:00:00.000000+00:00"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_table_is_a_sequence_of_flat_dicts() -> None:
    table = UsageTable([FULL, Record(NOON)])
    assert len(table) == 2
    assert list(table) == [table[0], table[1]]
    assert table[-1] == table[1]
    assert [r.model for r in table[:1].records] == ["kimi-k3.1-pro"]
    assert all(isinstance(v, (str, int, float, bool, datetime, type(None))) for v in table[0].values())
    assert table[0]["cost"] == 1e-7
    assert "2 requests" in repr(table)


def test_a_pandas_frame_of_the_table_has_its_rows_and_columns() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(UsageTable([FULL, Record(NOON)]))
    assert list(frame.columns) == list(FIELDS)
    assert frame["input"].sum() == 1
    assert str(frame["time"].dt.tz) == "UTC"


def test_the_frame_has_the_same_types_whatever_the_rows() -> None:
    pytest.importorskip("pandas")
    tables = ([], [Record(NOON)], [FULL], [FULL, Record(NOON)], [Record(NOON), FULL])
    frames = [UsageTable(table).df() for table in tables]
    types = [dict(frame.dtypes.astype(str)) for frame in frames]
    assert all(t == types[0] for t in types)
    assert types[0]["input"] == "Int64"
    assert types[0]["time"] == "datetime64[us, UTC]"
    assert types[0]["cost"] == "float64"
    assert types[0]["simulated"] == "bool"
    assert frames[1]["input"].isna().all()  # missing, not 0
    assert frames[2]["input"].tolist() == [1]


def test_a_polars_frame_of_the_table_works_as_it_is() -> None:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(UsageTable([Record(NOON), FULL]))
    assert frame.columns == list(FIELDS)
    assert frame["input"].to_list() == [None, 1]
    assert frame["time"].dtype == pl.Datetime("us", "UTC")
    assert frame["cost"].to_list() == [None, 1e-7]
