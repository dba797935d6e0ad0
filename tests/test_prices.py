"""Prices: exact, with their history, for each server; old rows keep what they cost."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from notebook import Notebook
from paid import Paid, chat

from kimi_magic.errors import ConfigError, OptionError, StoreError
from kimi_magic.render import footer
from kimi_magic.store import Store, store_path
from kimi_magic.usage import (
    PRICES,
    Price,
    PriceBook,
    PriceVersion,
    Record,
    amount,
    cold_cost,
    cost_of,
    saved_by_cache,
)

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
OLD, NEW, OWN = Price.of(1, 1, 1, 1, 1), Price.of(2, 2, 2, 2, 2), Price.of(3, 3, 3, 3, 3)
BOOK = PriceBook(
    [
        PriceVersion("m", NEW, since=NOON),
        PriceVersion("m", OLD),
        PriceVersion("m", OWN, "http://own", NOON + timedelta(hours=1)),
    ]
)


@pytest.mark.parametrize(
    ("server", "at", "price"),
    [
        ("http://else", None, NEW),
        ("http://else", NOON - timedelta(seconds=1), OLD),
        ("http://else", NOON, NEW),
        ("http://own", None, OWN),
        ("http://own", NOON, NEW),
    ],
)
def test_the_price_of_the_server_and_of_the_time(server: str, at: datetime | None, price: Price) -> None:
    assert BOOK.find("m", server, at) == price
    assert BOOK.find("other", server, at) is None


def test_a_price_survives_json_and_the_store_exactly(tmp_path: Path) -> None:
    price = Price.of("0.1", 2, 3, 4, 5, search=Decimal("0.01"), currency="CNY", source="the bill")
    assert all(getattr(price, f.name) != f.default for f in fields(Price))
    assert Price.from_json(price.to_json()) == price
    store = Store(tmp_path / "s.db")
    versions = [PriceVersion("m", price, "http://own", NOON), PriceVersion("m", PRICES["kimi-k3.1-pro"])]
    for version in versions:
        store.keep_price(version)
    assert store.prices() == versions
    store.close()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2.00", "2.00"),
        ("$2", "2"),
        ("1,000.50", "1000.50"),
        ("0", "0"),
        ("$ .5", "0.5"),
        ("1e-05", "0.00001"),
    ],
)
def test_amounts_are_read_exactly(text: str, value: str) -> None:
    assert amount(text) == Decimal(value)


@pytest.mark.parametrize("text", ["", "two", "-1", "NaN", "Infinity", "1e", "1,5", "1.000,50"])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no amount"):
        amount(text)


def test_a_cold_start_would_have_written_what_was_read() -> None:
    price = Price.of(2, 10, "0.2", 2, 4)
    warm = Record(NOON, input=4, cache_read=1_000_000, cache_write_5m=0, cache_write_1h=0, output=0)
    assert cost_of(warm, price) == Decimal("0.200008")
    assert cold_cost(warm, price) == Decimal("2.000008")
    long = Record(NOON, input=0, cache_read=1_000_000, cache_write_1h=10, output=0)
    assert cold_cost(long, price) == Decimal("4.00004")
    assert saved_by_cache([warm], price) == Decimal("1.8")
    assert saved_by_cache([warm], None) is None
    assert cold_cost(Record(NOON), price) is None


@pytest.fixture
def note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    monkeypatch.setenv("KIMI_MAGIC_HOME", str(tmp_path))
    made = Notebook()
    yield made
    made.close()


def test_the_command_shows_prices_with_their_source(note: Notebook) -> None:
    assert note.run("%kimi price") is None
    assert "kimi-k3.1-pro-highspeed" in note.printed
    assert "relay's public price page, read in November 2026" in note.printed
    assert "not known" in note.printed  # of a search


def test_a_price_holds_from_then_on_and_old_rows_keep_theirs(note: Notebook) -> None:
    note.ask("-e low", "One?")
    assert note.run("%kimi price kimi-k3.1-pro input=200 output=1000 source=my contract") is None
    assert "my contract" in note.printed
    note.ask("-e low --new", "One?")
    old, new = note.kimi.usage.records
    assert old.cost is not None
    assert new.cost == old.cost * 100
    again = note.kimi.usage.repriced(note.kimi.session.purse.prices)
    assert [r.cost for r in again.records] == [new.cost, new.cost]
    assert note.run("%kimi price") is None
    assert "1 earlier price" in note.printed
    assert note.run("%kimi price --all") is None
    assert "200" in note.printed
    assert note.printed.count("\nkimi-k3.1-pro ") == 2


def test_what_is_not_given_stays_and_a_search_gets_its_price(note: Notebook) -> None:
    assert note.run("%kimi price kimi-k3.1-pro search=0.01") is None
    price = note.kimi.session.price("kimi-k3.1-pro")
    assert price is not None
    assert (price.search, price.input) == (Decimal("0.01"), Decimal("2.00"))
    note.ask("-e low --search 2", "Who? [[simulate: searches 2]]")
    (record,) = note.kimi.usage.records
    assert record.searches == 2
    assert record.cost == cost_of(record, price)


def test_a_price_for_another_server_does_not_hold_here(note: Notebook) -> None:
    assert note.run("%kimi price kimi-k3.1-pro input=99 server=http://else.test") is None
    assert note.kimi.session.price("kimi-k3.1-pro") == PRICES["kimi-k3.1-pro"]
    assert note.run("%kimi price kimi-k3.1-pro input=99 server=http://server.test") is None
    assert note.kimi.session.price("kimi-k3.1-pro").input == 99  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "url", ["http://server.test/", "http://server.test/v1", "http://server.test/v1/messages"]
)
def test_a_server_is_found_however_it_is_written(note: Notebook, url: str) -> None:
    assert note.run(f"%kimi price kimi-k3.1-pro input=99 server={url}") is None
    assert note.kimi.session.price("kimi-k3.1-pro").input == 99  # type: ignore[union-attr]
    assert isinstance(note.run("%kimi price kimi-k3.1-pro input=98 server=server.test"), ConfigError)


def test_short_names_of_models_are_those_of_a_cell(note: Notebook) -> None:
    assert note.run("%kimi price highspeed input=99 currency=eur") is None
    price = note.kimi.session.price("kimi-k3.1-pro-highspeed")
    assert price is not None
    assert (price.input, price.currency) == (99, "EUR")
    assert note.run("%kimi price highspeed off") is None
    assert note.kimi.session.price("kimi-k3.1-pro-highspeed") == PRICES["kimi-k3.1-pro-highspeed"]


def test_a_price_holds_in_kernels_that_run_already(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIMI_MAGIC_HOME", str(tmp_path))
    ours, theirs = chat(Paid()), chat(Paid(), "another.ipynb")
    assert ours.session.price("kimi-k3.1-pro") == PRICES["kimi-k3.1-pro"]
    theirs.session.purse.set_price(PriceVersion("kimi-k3.1-pro", OWN, since=NOON))
    ours.ask("One?", effort="low", once=True)
    theirs.session.purse.drop_prices("kimi-k3.1-pro")
    ours.ask("One?", effort="low", once=True)
    one, two = ours.usage.records
    assert (one.cost, two.cost) == (cost_of(one, OWN), cost_of(two, PRICES["kimi-k3.1-pro"]))
    ours.close()
    theirs.close()


def test_a_price_that_could_not_be_kept_holds_in_this_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KIMI_MAGIC_HOME", str(tmp_path))
    kimi = chat(Paid())
    assert kimi.session.price("kimi-k3.1-pro") == PRICES["kimi-k3.1-pro"]
    db = sqlite3.connect(store_path())
    db.execute("CREATE TRIGGER full BEFORE INSERT ON prices BEGIN SELECT RAISE(ABORT, 'full'); END")
    db.commit()
    db.close()
    with pytest.raises(StoreError):
        kimi.session.purse.set_price(PriceVersion("kimi-k3.1-pro", OWN, since=NOON))
    kimi.ask("One?", effort="low")
    assert kimi.usage.records[0].cost == cost_of(kimi.usage.records[0], OWN)
    kimi.close()


def test_what_was_not_given_is_said(note: Notebook) -> None:
    assert note.run("%kimi price kimi-k3.1-pro input=1") is None
    assert (
        "Not given, so as before: output 10.00, cache_read 0.20, cache_write_5m 2.00, cache_write_1h 4.00."
        in note.printed
    )
    assert note.run("%kimi price mine input=1 output=2") is None
    assert "as before" not in note.printed


def test_a_price_can_be_taken_back_for_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIMI_MAGIC_HOME", str(tmp_path))
    note = Notebook(store="on")
    for line in (
        "kimi-k3.1-pro input=99",
        "kimi-k3.1-pro input=98 server=http://x.test",
        "mine input=1 output=2",
    ):
        assert note.run(f"%kimi price {line}") is None
    assert "%kimi price mine off takes it back" in note.printed
    assert note.run("%kimi price kimi-k3.1-pro off") is None
    assert "costs again what the public table says" in note.printed
    assert note.run("%kimi price mine off") is None
    assert note.kimi.session.price("kimi-k3.1-pro") == PRICES["kimi-k3.1-pro"]
    assert note.kimi.session.price("mine") is None
    assert Store(store_path()).prices() == []
    assert isinstance(note.run("%kimi price mine off"), OptionError)
    note.close()


@pytest.mark.parametrize(
    "line",
    ["of tea", "kimi-k3.1-pro", "input=2", "m input=2", "m input=two output=1", "kimi-k3.1-pro inptu=2"],
)
def test_a_slip_is_one_line_and_changes_nothing(note: Notebook, line: str) -> None:
    before = note.kimi.session.purse.prices.versions
    assert isinstance(note.run(f"%kimi price {line}"), OptionError)
    assert note.kimi.session.purse.prices.versions == before


def test_a_price_outlives_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIMI_MAGIC_HOME", str(tmp_path))
    first = chat(Paid())
    first.session.purse.set_price(PriceVersion("kimi-k3.1-pro", OWN, since=NOON))
    first.close()
    second = chat(Paid(), "another.ipynb")
    assert second.session.price("kimi-k3.1-pro") == OWN
    assert Store(store_path()).prices()[0].price == OWN
    second.close()


def test_a_model_without_a_price_costs_nobody_knows_what_and_it_is_said(note: Notebook) -> None:
    assert note.kimi.session.price("mine") is None
    line = footer((Record(NOON, model="mine", input=1, output=1),), None)
    assert "cost unknown" in line
