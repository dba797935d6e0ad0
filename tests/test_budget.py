"""Budgets: warned before, stopped between requests, safe with two kernels, deaf to what costs nothing."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from notebook import Notebook
from paid import Paid, chat
from test_store import files_no_larger_than
from traitlets.config import Config

from kimi_magic.api import Kimi
from kimi_magic.client import AsyncClient
from kimi_magic.config import KimiMagic
from kimi_magic.errors import BudgetError, ConfigError, OptionError
from kimi_magic.session import Session
from kimi_magic.simulator import Simulator
from kimi_magic.store import Store, store_path
from kimi_magic.store.migrations import MIGRATIONS
from kimi_magic.transports import SimulatorTransport
from kimi_magic.usage import Budget, Price, Record, most
from kimi_magic.wire import TextBlock

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


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


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("2.00", Budget(Decimal("2.00"))),
        ("$2/day", Budget(Decimal(2), "day")),
        ("5 EUR per notebook", Budget(Decimal(5), "notebook", "EUR")),
        ("1,000 / total", Budget(Decimal(1000))),
    ],
)
def test_budgets_are_read_as_people_write_them(text: str, budget: Budget) -> None:
    assert Budget.parse(text) == budget


@pytest.mark.parametrize(
    "text", ["", "much", "2/week", "-1", "2 per", "1..2", "1,50", "1.000,50", "1,0,0/day"]
)
def test_what_is_no_budget_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no (budget|amount)"):
        Budget.parse(text)


def test_the_most_that_a_request_can_cost() -> None:
    price = Price.of(2, 10, "0.2", 2, 4)
    assert most(1_000_000, 100_000, price) == Decimal(3)
    assert most(1_000_000, 0, price, "1h") == Decimal(4)


def test_a_spent_budget_stops_before_anything_is_sent(kimi: Kimi, server: Paid) -> None:
    cost = kimi.ask("One?", effort="low").cost
    assert cost is not None
    kimi.session.purse.set_budget(Budget(cost * 2))
    kimi.ask("Two?", effort="low", new=True)
    with pytest.raises(BudgetError, match="spent"):
        kimi.ask("Three?", effort="low")
    assert len(server.bodies) == 2
    assert [r["status"] for r in kimi.usage] == ["complete"] * 2
    kimi.session.purse.drop_budgets()
    kimi.ask("Three?", effort="low")


def test_it_stops_between_the_steps_of_a_tool_loop(kimi: Kimi, server: Paid) -> None:
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    kimi.session.purse.set_budget(Budget(Decimal("0.000001")))
    with pytest.raises(BudgetError):
        kimi.ask("Use the tool add.", tools=[add], effort="low")
    assert len(server.bodies) == 1  # its call was answered, and then there was no money for the reply
    assert kimi.session.last is not None
    assert kimi.session.last.status == "failed"


def test_another_kernel_spends_the_same_money(kimi: Kimi, server: Paid) -> None:
    kimi.session.purse.set_budget(Budget(Decimal("0.0001"), "day"))
    other = chat(server, "other.ipynb")
    other.ask("One?", effort="low")
    with pytest.raises(BudgetError):
        kimi.ask("Two?", effort="low")
    with pytest.raises(BudgetError):
        other.ask("Two?", effort="low")
    other.close()


def test_a_budget_of_a_notebook_is_its_own(kimi: Kimi, server: Paid) -> None:
    kimi.session.purse.set_budget(Budget(Decimal("0.0001"), "notebook"))
    other = chat(server, "other.ipynb")
    other.ask("One?", effort="low")
    other.ask("Two?", effort="low")
    kimi.ask("One?", effort="low")
    with pytest.raises(BudgetError, match="a notebook"):
        kimi.ask("Two?", effort="low")
    other.close()


def test_a_budget_outlives_the_kernel(kimi: Kimi, server: Paid) -> None:
    kimi.session.purse.set_budget(Budget(Decimal("0.0001"), "day"))
    kimi.ask("One?", effort="low")
    kimi.close()
    again = chat(server)
    with pytest.raises(BudgetError):
        again.ask("Two?", effort="low")
    again.close()


def test_a_day_begins_at_midnight_here(server: Paid) -> None:
    store = Store(store_path())
    today = NOON.astimezone().replace(hour=0, minute=0)
    for time in (today - timedelta(seconds=1), today, today + timedelta(hours=3)):
        store.keep_records("a", [Record(time, cost=Decimal(1))])
    session = Session(server.client(), store=store, utc=lambda: NOON)
    assert session.purse.spent(Budget(Decimal(9), "day")) == 2
    assert session.purse.spent(Budget(Decimal(9))) == 3
    assert session.purse.spent(Budget(Decimal(9), currency="EUR")) == 0
    store.close()


@pytest.mark.parametrize("free", [{"simulated": True}, {"replayed": True}, {"cost": None}])
def test_what_cost_nothing_does_not_count(server: Paid, free: dict[str, Any]) -> None:
    store = Store(store_path())
    store.keep_records("a", [Record(NOON, **{"cost": Decimal(1), **free})])
    assert store.spent(Budget(Decimal(9)), None, NOON) == 0
    store.close()


def test_what_is_spent_is_summed_up_as_it_grows() -> None:
    """Exactly, by whichever kernel; and no row is read twice for the same sum."""
    ours, theirs = Store(store_path()), Store(store_path())
    budgets = [Budget(Decimal(9)), Budget(Decimal(9), "day"), Budget(Decimal(9), currency="EUR")]
    whole = [Decimal(0)] * 3
    for number in range(30):
        cost = Decimal(1 + number) / 10**9
        old = NOON - timedelta(days=number % 3)
        (ours, theirs)[number % 2].keep_records(
            "a.ipynb" if number % 5 else "b.ipynb",
            [Record(old, cost=cost, currency="USD" if number % 7 else "EUR"), Record(NOON, cost=None)],
        )
        is_euro = number % 7 == 0
        for at, counts in enumerate((not is_euro, not is_euro and number % 3 == 0, is_euro)):
            whole[at] += cost * counts
        assert [ours.spent(budget, None, NOON) for budget in budgets] == whole
    assert ours.spent(budgets[0], "a.ipynb", NOON) + ours.spent(budgets[0], "b.ipynb", NOON) == whole[0]
    assert ours.spent(budgets[1], None, NOON + timedelta(days=1)) == 0
    assert ours.spent(budgets[1], None, NOON) == whole[1]
    before = ours.spent(budgets[0], "a.ipynb", NOON)
    assert ours.spent(budgets[0], "c.ipynb", NOON) == 0
    ours.rename("a.ipynb", "c.ipynb")
    assert ours.spent(budgets[0], "c.ipynb", NOON) == before
    _change("UPDATE requests SET paid = '1000'")
    assert ours.spent(budgets[0], None, NOON) > 1000
    assert theirs.spent(budgets[0], None, NOON) > 1000
    _change("UPDATE requests SET paid = '0'")
    assert ours.spent(budgets[0], None, NOON) > 1000
    ours.close()
    theirs.close()


def _change(sql: str) -> None:
    """Behind the store's back."""
    db = sqlite3.connect(store_path())
    db.execute(sql)
    db.commit()
    db.close()


FULL = "CREATE TRIGGER full BEFORE INSERT ON requests BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"


def test_what_could_not_be_kept_counts_all_the_same(kimi: Kimi, server: Paid) -> None:
    kimi.ask("One?", effort="low")
    cost = kimi.usage.summary().cost
    _change(FULL)
    kimi.session.purse.set_budget(Budget(cost * 5 / 2, "notebook"))
    (budget,) = kimi.session.purse.budgets()
    kimi.ask("Two?", effort="low", new=True)
    assert any("disk is full" in line for line in kimi.session.take_warnings())
    assert kimi.session.purse.spent(budget) == kimi.usage.summary().cost > cost
    kimi.map("Three {{ n }}?", [3], effort="low", progress=False)
    assert kimi.session.purse.spent(budget) == kimi.usage.summary().cost
    with pytest.raises(BudgetError):
        kimi.ask("Four?", effort="low")
    _change("DROP TRIGGER full")
    kimi.session.purse.set_budget(Budget(Decimal(9), "notebook"))
    kimi.ask("Four?", effort="low")
    assert kimi.session.purse.spent(budget) == kimi.usage.summary().cost
    assert len(kimi.usage.all()) == len(kimi.usage) == 4


def test_rows_that_could_not_be_kept_are_kept_with_later_ones_and_paid_once(kimi: Kimi, server: Paid) -> None:
    rows, options = ["a", "b"], {"effort": "low", "progress": False}
    kimi.map("Say {{ x }}", ["c"], **options)
    _change(FULL)
    kimi.map("Say {{ x }}", rows, **options)
    assert [row["kimi_status"] for row in kimi.map("Say {{ x }}", rows, **options)] == ["stored"] * 2
    _change("DROP TRIGGER full")
    kimi.map("Say {{ x }}", ["d"], **options)
    kimi.close()
    again = chat(server)
    found = again.map("Say {{ x }}", [*rows, "c", "d"], **options)
    assert [row["kimi_status"] for row in found] == ["stored"] * 4
    assert len(server.bodies) == len(again.usage) == len(again.usage.all()) == 4
    again.close()


def test_a_file_of_an_earlier_version_counts_too() -> None:
    path = store_path()
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE migrations (name TEXT PRIMARY KEY)")
    first = next(iter(MIGRATIONS))
    db.executescript(MIGRATIONS[first])
    db.execute("INSERT INTO migrations VALUES (?)", (first,))
    for record in (Record(NOON, cost=Decimal("0.5")), Record(NOON, cost=Decimal(7), simulated=True)):
        text = json.dumps(record.to_json())
        db.execute(
            "INSERT INTO requests (time, notebook, conversation, model, json) VALUES (?, ?, ?, ?, ?)",
            (record.to_json()["time"], "a", None, "m", text),
        )
    db.commit()
    db.close()
    store = Store(path)
    assert store.spent(Budget(Decimal(9)), None, NOON) == Decimal("0.5")
    store.close()


def test_what_could_not_be_written_counts_too(kimi: Kimi, server: Paid, tmp_path: Path) -> None:
    cost = kimi.ask("One?", effort="low").cost
    assert cost is not None
    kimi.session.purse.set_budget(Budget(cost * 3, "day"))
    with files_no_larger_than(0):
        kimi.ask("Two?", effort="low", new=True)
        kimi.ask("Three?", effort="low", new=True)
        with pytest.raises(BudgetError, match="spent"):
            kimi.ask("Four?", effort="low")
    assert len(server.bodies) == 3


def test_without_a_store_it_holds_in_this_kernel(server: Paid) -> None:
    kimi = chat(server, store="off")
    kimi.session.purse.set_budget(Budget(Decimal("0.0001")))
    kimi.ask("One?", effort="low")
    with pytest.raises(BudgetError):
        kimi.ask("Two?", effort="low")
    kimi.close()


def test_the_simulator_is_free() -> None:
    kimi = Kimi(KimiMagic(simulator="always", simulator_speed=0.0, budget="0"))
    kimi.ask("One?", effort="low")
    kimi.ask("Two?", effort="low")
    kimi.close()


def test_a_request_that_could_go_over_it_warns(kimi: Kimi) -> None:
    kimi.session.purse.set_budget(Budget(Decimal("0.5")))
    kimi.ask("One?", effort="max")
    (warning,) = kimi.session.take_warnings()
    assert warning.startswith(
        "At worst (all of max_tokens, 65,536) this costs $0.6554, and $0.5000 of the budget of 0.5 USD in all"
    )
    kimi.ask("One?", effort="low", max_tokens=1000)
    assert kimi.session.take_warnings() == ()


def test_a_model_without_a_price_is_said(kimi: Kimi) -> None:
    kimi.session.purse.set_budget(Budget(Decimal("0.5")))
    plan = kimi.plan([TextBlock.of("x")], model="mine")
    assert "No price of mine is known, so no budget holds for it" in plan.warning


def test_the_environment_sets_one_that_no_command_takes_away(
    server: Paid, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KIMI_MAGIC_BUDGET", "0.0001/day")
    kimi = Kimi(None, server.client(), "class.ipynb")
    kimi.ask("One?", effort="low")
    kimi.session.purse.set_budget(Budget(Decimal(100)))
    kimi.session.purse.drop_budgets()
    with pytest.raises(BudgetError, match="KIMI_MAGIC_BUDGET"):
        kimi.ask("Two?", effort="low")
    kimi.close()


def test_no_warning_where_nothing_is_sent_or_nothing_is_paid(kimi: Kimi) -> None:
    kimi.session.purse.set_budget(Budget(Decimal(0)))
    with pytest.raises(BudgetError):
        kimi.ask("One?", effort="low")
    assert kimi.session.take_warnings() == ()
    marked = SimulatorTransport(Simulator(speed=0))
    there = Kimi(KimiMagic(store="off"), AsyncClient("sk-key", "http://there.test", transport=marked))
    there.session.purse.set_budget(Budget(Decimal("0.0001")))
    there.ask("One?", effort="low")
    assert len(there.session.take_warnings()) == 1  # it is known by its reply that it is a simulator
    there.ask("Two?", effort="low")
    assert there.session.take_warnings() == ()
    there.close()


def test_a_budget_of_the_settings_holds_from_when_it_is_set(server: Paid) -> None:
    kimi = chat(server)
    kimi.ask("One?", effort="low")
    kimi.settings.budget = "0.000001"
    with pytest.raises(BudgetError, match="KIMI_MAGIC_BUDGET"):
        kimi.ask("Two?", effort="low")
    kimi.settings.budget = ""
    kimi.ask("Two?", effort="low")
    assert len(server.bodies) == 2
    kimi.close()


def test_a_budget_of_the_settings_that_is_none_is_one_line() -> None:
    note = Notebook()
    note.ask("-e low", "One?")
    assert note.run("%config KimiMagic.budget = '0.001'") is None
    assert note.run("%kimi budget") is None
    assert "0.001 USD in all" in note.printed
    with pytest.raises(ConfigError, match=r"KimiMagic.budget='a lot' is not usable: it has to be an amount"):
        note.kimi.settings.update_config(Config({"KimiMagic": {"budget": "a lot"}}))
    assert note.kimi.settings.budget == "0.001"
    note.close()


def test_the_command_sets_shows_and_ends_it() -> None:
    note = Notebook()
    assert note.run("%kimi budget") is None
    assert "No budget is set" in note.printed
    assert note.run("%kimi budget 2.00 --per day") is None
    assert "2.00 USD a day" in note.printed
    note.ask("-e low", "One?")
    assert note.run("%kimi budget 5") is None
    assert [b.per for b in note.kimi.session.purse.budgets()] == ["day", "total"]
    assert note.run("%kimi budget off") is None
    assert note.kimi.session.purse.budgets() == ()
    for line, shown in (
        ("2 EUR", "2 EUR in all"),
        ("3 per notebook", "3 USD a notebook"),
        ("4 USD --per day", "4 USD a day"),
    ):
        assert note.run(f"%kimi budget {line}") is None
        assert shown in note.printed
    assert note.run("%kimi budget off") is None
    for slip in (
        "for my trip",
        "2 --per week",
        "2 --pre day",
        "2 --per",
        "--per day",
        "1,50",
        "2/day --per day",
    ):
        assert isinstance(note.run(f"%kimi budget {slip}"), OptionError)
    note.close()
