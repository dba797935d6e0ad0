"""The ledger: every request of every notebook, found again by time, notebook, conversation and model."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from notebook import Notebook
from paid import Paid, chat

from kimi_magic.errors import OptionError, StoreError
from kimi_magic.render import ShownUsage, summary
from kimi_magic.store import Store, store_path
from kimi_magic.usage import FIELDS, Price, Record, Selection, UsageTable, grouped, moment, totals
from kimi_magic.usage.records import KINDS
from kimi_magic.usage.table import column_of

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
ROWS = [
    Record(
        NOON, notebook="a.ipynb", conversation="main", model="kimi-k3.1-pro", input=1, cost=Decimal("0.1")
    ),
    Record(NOON + timedelta(hours=1), notebook="a.ipynb", conversation="x", model="kimi-k3.1-pro-highspeed"),
    Record(NOON + timedelta(days=1), notebook="b.ipynb", conversation="main", model="mine"),
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KIMI_MAGIC_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    made = Store(store_path())
    for row in ROWS:
        made.keep_records(row.notebook or "", [row])
    yield made
    made.close()


SELECTIONS: list[tuple[dict[str, Any], list[int]]] = [
    ({}, [0, 1, 2]),
    ({"since": NOON + timedelta(hours=1)}, [1, 2]),
    ({"until": NOON + timedelta(hours=1)}, [0]),
    ({"since": NOON, "until": NOON + timedelta(days=1)}, [0, 1]),
    ({"notebook": "a.ipynb"}, [0, 1]),
    ({"conversation": "main"}, [0, 2]),
    ({"model": "kimi-k3.1-pro"}, [0]),
    ({"model": "k3.1-pro"}, [0]),
    ({"model": "mine", "notebook": "a.ipynb"}, []),
]


@pytest.mark.parametrize(("chosen", "found"), SELECTIONS)
def test_store_and_table_select_the_same(store: Store, chosen: dict[str, Any], found: list[int]) -> None:
    expected = [ROWS[n] for n in found]
    assert list(store.records(Selection(**chosen))) == expected
    assert list(UsageTable(ROWS).where(**chosen).records) == expected
    assert list(UsageTable((), store.records).all(**chosen).records) == expected


def test_a_notebook_is_found_by_its_path_from_here(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    here = store.path.parent
    monkeypatch.chdir(here)
    row = Record(NOON, notebook=str(here / "notes" / "c.ipynb"))
    store.keep_records(row.notebook or "", [row])
    for name in ("notes/c.ipynb", "./notes/../notes/c.ipynb", str(here / "notes" / "c.ipynb")):
        assert store.records(Selection(notebook=name)) == (row,)
        assert UsageTable([*ROWS, row]).where(notebook=name).records == (row,)


def test_the_queries_use_an_index(store: Store, home: Path) -> None:
    import sqlite3

    with sqlite3.connect(home / "kimi_magic.db") as db:
        for where in ("notebook = 'a' AND time >= '2026'", "time >= '2026'"):
            (plan,) = db.execute(f"EXPLAIN QUERY PLAN SELECT json FROM requests WHERE {where}").fetchall()
            assert "USING INDEX" in plan[3]
    db.close()


def test_a_damaged_row_is_left_out_of_the_whole_ledger(store: Store, home: Path) -> None:
    import sqlite3

    db = sqlite3.connect(home / "kimi_magic.db")
    db.execute("UPDATE requests SET json = '{\"time\": 5}' WHERE number = 2")
    db.commit()
    db.close()
    assert list(store.records()) == [ROWS[0], ROWS[2]]


TIMES = [
    (NOON, NOON),
    (timedelta(hours=2), NOON - timedelta(hours=2)),
    ("90min", NOON - timedelta(minutes=90)),
    ("1.5h", NOON - timedelta(minutes=90)),
    ("7d", NOON - timedelta(days=7)),
    ("2w", NOON - timedelta(days=14)),
    ("2026-11-30T10:00:00+08:00", datetime(2026, 11, 30, 2, tzinfo=UTC)),
    (date(2026, 11, 30), datetime(2026, 11, 30).astimezone(UTC)),
    ("2026-11-30", datetime(2026, 11, 30).astimezone(UTC)),
    ("2026-11-30 08:00", datetime(2026, 11, 30, 8).astimezone(UTC)),
]


def test_pandas_moments_are_moments() -> None:
    pd = pytest.importorskip("pandas")
    local = datetime(2026, 11, 30, 8).astimezone(UTC)
    assert moment(pd.Timestamp("2026-11-30 08:00"), NOON) == local
    assert moment(pd.Timestamp(local), NOON) == local
    assert moment(pd.Timedelta("2h"), NOON) == NOON - timedelta(hours=2)
    with pytest.raises(ValueError, match="NaT"):
        moment(pd.NaT, NOON)


@pytest.mark.parametrize(("text", "time"), TIMES)
def test_times_are_read_as_people_write_them(text: Any, time: datetime) -> None:
    assert moment(text, NOON) == time


def test_today_began_at_midnight_on_this_machine() -> None:
    begun = moment("today", NOON).astimezone()
    assert (begun.hour, begun.minute, begun.date()) == (0, 0, datetime.now().astimezone().date())


def test_what_is_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match="soon"):
        UsageTable(ROWS).where(since="soon")
    with pytest.raises(TypeError):
        UsageTable(ROWS).where(colour="red")


# --- files --------------------------------------------------------------------------------------

texts = st.none() | st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
numbers = st.none() | st.integers(0, 10**12)
amounts = st.none() | st.decimals(0, 10**6, allow_nan=False, places=9)
records = st.builds(
    Record,
    time=st.datetimes(timezones=st.just(UTC), min_value=datetime(2000, 1, 1)),
    notebook=texts,
    request_id=texts,
    model=st.text(st.characters(exclude_categories=["Cs"])),
    input=numbers,
    output=numbers,
    seconds=st.none() | st.floats(0, 1e9),
    attempts=st.integers(1, 9),
    cost=amounts,
    saved=amounts,
    replayed=st.booleans(),
)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
@given(rows=st.lists(records, max_size=4))
@settings(deadline=None, max_examples=40)
def test_files_give_back_the_very_records(tmp_path_factory: Any, suffix: str, rows: list[Record]) -> None:
    path = tmp_path_factory.mktemp("usage") / f"usage{suffix}"
    UsageTable(rows).save(path)
    assert list(UsageTable.read(path).records) == rows


@pytest.mark.parametrize(("suffix", "label"), [(".csv", "a\\udcff.ipynb"), (".jsonl", "a\udcff.ipynb")])
def test_a_name_that_no_file_can_hold_stops_no_export(tmp_path: Path, suffix: str, label: str) -> None:
    path = UsageTable([Record(NOON, notebook="a\udcff.ipynb")]).save(tmp_path / f"u{suffix}")
    assert UsageTable.read(path)[0]["notebook"] == label


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_types_survive_a_file(tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("pandas")
    rows = [ROWS[0].replace(request_id="00123", turn="1e5", cell="NaN", time=NOON), Record(NOON, error="NA")]
    read = UsageTable.read(UsageTable(rows).save(tmp_path / f"u{suffix}"))
    frame = read.df()
    assert frame.request_id[0] == "00123"
    assert (frame.turn[0], frame.cell[0], frame.error[1]) == ("1e5", "NaN", "NA")
    assert str(frame.dtypes["time"]) == "datetime64[us, UTC]"
    assert frame.input.tolist()[0] == 1
    assert frame.input.isna().tolist() == [False, True]
    assert dict(frame.dtypes) == dict(UsageTable([]).df().dtypes)


def test_pandas_reads_the_times_of_both_files_without_options(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    rows = [Record(NOON), Record(NOON + timedelta(microseconds=123456))]
    UsageTable(rows).save(tmp_path / "u.csv")
    UsageTable(rows).save(tmp_path / "u.jsonl")
    for frame in (pd.read_csv(tmp_path / "u.csv"), pd.read_json(tmp_path / "u.jsonl", lines=True)):
        times = pd.to_datetime(frame["time"])
        assert str(times.dt.tz) == "UTC"
        assert (times[1] - times[0]).total_seconds() == 0.123456


@pytest.mark.parametrize("name", ["usage.xlsx", "no/such/folder/u.csv"])
def test_a_file_that_cannot_be_written_is_one_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError):
        UsageTable(ROWS).save(tmp_path / name)


@pytest.mark.parametrize(
    "text", ["", "a,b\n1,2\n", "time,cost\nsoon,1\n", "time,replayed\n2026-01-01,perhaps\n"]
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "u.csv"
    path.write_text(text)
    if not text:
        assert len(UsageTable.read(path)) == 0
    else:
        with pytest.raises(StoreError, match="no usage records"):
            UsageTable.read(path)


# --- frames -------------------------------------------------------------------------------------


def test_polars_frames_have_the_same_types_whatever_the_rows() -> None:
    pytest.importorskip("polars")
    schemas = [UsageTable(rows).polars().schema for rows in ([], ROWS[:1], ROWS)]
    assert schemas[0] == schemas[1] == schemas[2]
    assert UsageTable(ROWS).polars()["input"].to_list() == [1, None, None]


def test_arrow_tables_have_the_same_types_whatever_the_rows() -> None:
    pytest.importorskip("pyarrow")
    schemas = [UsageTable(rows).arrow().schema for rows in ([], ROWS[:1], ROWS)]
    assert schemas[0] == schemas[1] == schemas[2]
    assert UsageTable(ROWS).arrow()["input"].to_pylist() == [1, None, None]


def test_a_frame_takes_times_of_any_zone_as_utc() -> None:
    pytest.importorskip("pandas")
    from datetime import timezone

    local = Record(datetime(2026, 11, 30, 20, tzinfo=timezone(timedelta(hours=8))))
    assert UsageTable([local]).df().time[0] == NOON


def test_a_frame_has_the_types_of_all_rows_however_late_they_come() -> None:
    """polars looks at the first hundred rows of a list."""
    pl = pytest.importorskip("polars")
    late = Record(NOON, error="RateLimitError", input=5, seconds=1.5, cost=Decimal("0.5"))
    table = UsageTable([*[Record(NOON)] * 150, late])
    frame = pl.DataFrame(table)
    assert frame.schema == table.polars().schema == pl.DataFrame(UsageTable([])).schema
    assert frame["error"].to_list() == [None] * 150 + ["RateLimitError"]
    pa = pytest.importorskip("pyarrow")
    assert pa.table(table).schema == table.arrow().schema


def test_pandas_gets_the_same_frame_with_and_without_pyarrow() -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    for rows in ([], ROWS[:1], ROWS, [Record(NOON)]):
        table = UsageTable(rows)
        columns = {name: column_of(pd, values, KINDS[name]) for name, values in table.columns().items()}
        pd.testing.assert_frame_equal(table.df(), pd.DataFrame(columns))
    changed = table.df()
    changed.loc[0, "cost"] = 5.0
    assert changed.cost.tolist() == [5.0]


# --- what is shown ------------------------------------------------------------------------------


def test_groups_are_days_models_conversations_and_notebooks() -> None:
    assert list(grouped(ROWS, "model")) == ["kimi-k3.1-pro", "kimi-k3.1-pro-highspeed", "mine"]
    assert [len(rows) for rows in grouped(ROWS, "notebook").values()] == [2, 1]
    assert list(grouped(reversed(ROWS), "day")) == sorted(grouped(ROWS, "day"))
    (once,) = grouped([Record(NOON)], "conversation")
    assert once == "(once)"


def test_money_of_two_currencies_is_not_added_up() -> None:
    rows = [
        Record(NOON, cost=Decimal(1), currency="CNY"),
        Record(NOON, cost=Decimal(2), currency="USD"),
    ]
    t = totals(rows)
    assert (t.cost, t.currency, t.others) == (Decimal(2), "USD", 1)
    assert "1 in another currency" in summary(t)


def test_searches_without_a_price_are_said_to_be_in_no_sum() -> None:
    searched = Record(NOON, model="kimi-k3.1-pro", input=1, output=1, searches=3, cost=Decimal("0.5"))
    plain = searched.replace(searches=None)
    replayed = searched.replace(replayed=True, cost=Decimal(0), saved=Decimal("0.5"))
    shown = ShownUsage([searched, plain, replayed])
    assert [row["cost"] for row in shown.rows()] == ["$0.5000 + ?", "$0.5000", "saved $0.5000"]
    assert "; 3 searches not included (no price known)" in shown._repr_mimebundle_()["text/plain"]
    (sums,) = ShownUsage([searched, plain], by="model").rows()
    assert sums["cost"] == "$1.00 + ?"
    assert "1 search not included" in summary(totals([searched.replace(searches=1)]))

    known = Price(Decimal(1), Decimal(1), Decimal(1), Decimal(1), Decimal(1), search=Decimal("0.01"))
    priced = ShownUsage([searched], price_of=lambda model: known)
    assert priced.rows()[0]["cost"] == "$0.5000"
    assert "not included" not in priced._repr_mimebundle_()["text/plain"]


def test_a_long_ledger_shows_its_last_requests_and_sums_all() -> None:
    shown = ShownUsage(Record(NOON, input=1, output=1, cost=Decimal("0.01")) for _ in range(120))
    assert len(shown.rows()) == 50
    text = shown._repr_mimebundle_()["text/plain"]
    assert text.startswith("120 requests: 120 tokens in")
    assert "$1.20" in text.splitlines()[0]


def test_a_table_in_html_is_escaped() -> None:
    shown = ShownUsage([Record(NOON, conversation="<script>alert(1)</script>")])
    assert "<script>" not in shown._repr_mimebundle_()["text/html"]


def test_percentages_and_unknown_costs_are_said() -> None:
    rows = [Record(NOON, input=10, cache_read=30, output=5), Record(NOON, input=0, output=5, cost=Decimal(1))]
    line = summary(totals(rows))
    assert "75% of it from cache" in line
    assert "1 without a known cost" in line
    assert summary(totals(rows[:1])) == "1 request: 40 tokens in, 75% of it from cache, 5 out; cost not known"


@pytest.fixture
def note(home: Path) -> Iterator[Notebook]:
    made = Notebook()
    made.ask("-e low", "One?")
    made.ask("-c other -m highspeed -e low", "Two?")
    yield made
    made.close()


def test_the_command_returns_the_records_however_they_are_shown(note: Notebook) -> None:
    for line in ("", " --by model", " --by day", " --since 1h"):
        assert note.run(f"found = %kimi usage{line}") is None
        assert len(note.shell.user_ns["found"]) == 2
    assert note.run("found = %kimi usage --by model") is None
    rows = note.shell.user_ns["found"].rows()
    assert [row["model"] for row in rows] == ["kimi-k3.1-pro", "kimi-k3.1-pro-highspeed"]


def test_the_command_saves_a_file(note: Notebook, tmp_path: Path) -> None:
    path = tmp_path / "u.csv"
    assert note.run(f"found = %kimi usage --save {path}") is None
    assert note.shell.user_ns["found"] is None
    assert "2 records are in" in note.printed
    assert len(UsageTable.read(path)) == 2


def test_a_plot_is_drawn_without_touching_pyplot(note: Notebook) -> None:
    pytest.importorskip("matplotlib")
    from kimi_magic.render.plot import usage_figure, usage_plot

    assert usage_plot(note.kimi.usage.records).startswith(b"\x89PNG")
    assert usage_plot([]).startswith(b"\x89PNG")
    for count in (1, 2, 3):  # a request is a whole one
        _, lower = usage_figure((note.kimi.usage.records * 3)[:count]).axes
        assert [tick for tick in lower.get_xticks() if tick != round(tick)] == []
    assert note.run("found = %kimi usage --plot") is None
    assert note.shell.user_ns["found"] is None
    code = "import sys; from kimi_magic.render.plot import usage_plot; usage_plot([])\n"
    code += "print('matplotlib.pyplot' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"


@pytest.mark.parametrize(
    "line", ["--by colour", "--since soon", "--bye day", "--by", "of the memory", "--plot now"]
)
def test_a_slip_is_one_line_and_asks_nothing(note: Notebook, line: str) -> None:
    asked = len(note.server.bodies)
    assert isinstance(note.run(f"%kimi usage {line}"), OptionError)
    assert len(note.server.bodies) == asked


def test_all_notebooks_are_in_the_ledger_of_each(home: Path) -> None:
    chats = [chat(Paid(), name) for name in ("a.ipynb", "b.ipynb")]
    for kimi in chats:
        kimi.ask("Why?", effort="low")
    a, b = chats
    assert [r["notebook"] for r in a.usage] == ["a.ipynb"]
    assert [r["notebook"] for r in a.usage.all()] == ["a.ipynb", "b.ipynb"]
    assert [r["notebook"] for r in b.usage.all(notebook="a.ipynb")] == ["a.ipynb"]
    assert len(b.usage.all(since="1h", model="pro")) == 0
    assert len(a.usage[:1].all()) == 2
    for kimi in chats:
        kimi.close()


def test_the_terminal_command_shows_and_saves(home: Path, store: Store, tmp_path: Path) -> None:
    def run(*words: str) -> str:
        ran = subprocess.run(
            [sys.executable, "-m", "kimi_magic.cli", "usage", *words],
            capture_output=True,
            text=True,
            check=False,
        )
        return ran.stdout + ran.stderr

    out = run("--by", "notebook")
    assert out.startswith("3 requests")
    assert "a.ipynb" in out
    assert run("--notebook", "b.ipynb", "--by", "model").startswith("1 request:")
    assert "1 record is in" in run("--notebook", "b.ipynb", "--save", str(tmp_path / "one.csv"))
    assert "3 records are in" in run("--save", str(tmp_path / "all.jsonl"))
    assert len(UsageTable.read(tmp_path / "all.jsonl")) == 3
    assert "--since takes a time" in run("--since", "soon")


def test_every_field_has_a_kind() -> None:
    assert set(KINDS.values()) == {"datetime", "str", "int", "float", "Decimal", "bool"}
    assert tuple(KINDS) == FIELDS
