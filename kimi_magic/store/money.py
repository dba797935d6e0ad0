"""What the store keeps about money: the ledger's queries, prices, budgets, replies of batches.

Functions over an open database; `Store` gives them their transactions.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import islice

import msgspec

from ..usage import Budget, Price, PriceVersion, Record, Selection
from ..wire import Message
from .sealed import parse, seal

_RECORDS = msgspec.json.Decoder(list[Record])
_TOGETHER = 256
"""Rows that are decoded at once: far faster than each for itself, and they stay in the processor's cache."""


def put_records(db: sqlite3.Connection, notebook: str, records: Iterable[Record]) -> None:
    """Add rows to the ledger of a notebook."""
    db.executemany(
        "INSERT INTO requests (time, notebook, conversation, model, paid, currency, json)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (
                _text(record.time),
                notebook,
                record.conversation,
                record.model,
                None if record.paid is None else str(record.paid),
                record.currency,
                seal(record.to_json())[0],
            )
            for record in records
        ],
    )


def unknown(db: sqlite3.Connection, records: Iterable[Record]) -> list[Record]:
    """Those that are in the ledger of no notebook."""
    there = "SELECT 1 FROM requests WHERE time = ? AND json ->> '$.turn' IS ?"
    return [r for r in records if db.execute(there, (_text(r.time), r.turn)).fetchone() is None]


def find_records(db: sqlite3.Connection, selection: Selection) -> list[Record]:
    """The rows of a selection, oldest first."""
    where: list[str] = []
    values: list[str] = []
    for condition, value in (
        ("time >= ?", _text(selection.since) if selection.since else None),
        ("time < ?", _text(selection.until) if selection.until else None),
        ("conversation = ?", selection.conversation),
    ):
        if value is not None:
            where.append(condition)
            values.append(value)
    for name, meant in (("notebook", selection.notebooks()), ("model", selection.models())):
        if meant:
            where.append(f"{name} IN (?, ?)")
            values += meant
    conditions = f"WHERE {' AND '.join(where)}" if where else ""
    rows = db.execute(f"SELECT json FROM requests {conditions} ORDER BY number", values)  # noqa: S608 - ours
    return read_records(text for (text,) in rows)


def read_records(texts: Iterable[str]) -> list[Record]:
    """The records of rows, without those that cannot be read."""
    records: list[Record] = []
    rest = iter(texts)
    while some := list(islice(rest, _TOGETHER)):
        try:
            records += _RECORDS.decode(f"[{','.join(some)}]")
        except msgspec.DecodeError:  # one of them was damaged, or written by somebody else
            records += (record for text in some for record in _readable(text))
    return records


def _readable(text: str) -> list[Record]:
    try:
        return [Record.from_json(parse(text))]
    except (ValueError, KeyError, TypeError, ArithmeticError):
        return []


@dataclass(frozen=True, slots=True)
class Spent:
    """A sum, and the last row of the ledger that is in it: rows are never changed, so that later ones are all
    that has to be added."""

    amount: Decimal = Decimal(0)
    last: int = 0


def spent(
    db: sqlite3.Connection, currency: str, notebook: str | None, since: datetime | None, before: Spent
) -> Spent:
    """What was paid, by all kernels. notebook: only there. since: from then on. before: an earlier answer to
    the same question."""
    (last,) = db.execute("SELECT COALESCE(MAX(number), 0) FROM requests").fetchone()
    rows = db.execute(
        f"SELECT paid FROM requests {'NOT INDEXED' if before.last else 'INDEXED BY requests_paid'}"  # noqa: S608 - ours
        " WHERE paid IS NOT NULL AND currency = ? AND time >= ? AND (? IS NULL OR notebook = ?)"
        " AND number > ?",
        (currency, _text(since) if since else "", notebook, notebook, before.last),
    )
    return Spent(sum((Decimal(paid) for (paid,) in rows), before.amount), last)


def put_price(db: sqlite3.Connection, version: PriceVersion) -> None:
    """Keep a version of a price; those before it stay."""
    db.execute(
        "INSERT INTO prices (base_url, model, since, json) VALUES (?, ?, ?, ?)",
        (
            version.base_url,
            version.model,
            _text(version.since),
            seal(version.price.to_json())[0],
        ),
    )


def drop_prices(db: sqlite3.Connection, model: str) -> None:
    """Forget all versions of a model's price."""
    db.execute("DELETE FROM prices WHERE model = ?", (model,))


def find_prices(db: sqlite3.Connection) -> list[PriceVersion]:
    """All versions that were ever set, in the order in which they were."""
    rows = db.execute("SELECT model, json, base_url, since FROM prices ORDER BY number")
    return [
        PriceVersion(model, Price.from_json(parse(text)), base_url, datetime.fromisoformat(since))
        for model, text, base_url, since in rows
    ]


def put_budget(db: sqlite3.Connection, notebook: str, budget: Budget | None, per: str) -> None:
    """Keep a budget in the place of the one for the same period; None takes it away."""
    key = (per, notebook if per == "notebook" else "")
    db.execute("DELETE FROM budgets WHERE per = ? AND notebook = ?", key)
    if budget is not None:
        db.execute("INSERT INTO budgets VALUES (?, ?, ?, ?)", (*key, str(budget.amount), budget.currency))


def find_budgets(db: sqlite3.Connection, notebook: str) -> list[Budget]:
    """Those that hold for a notebook."""
    rows = db.execute(
        "SELECT amount, per, currency FROM budgets WHERE notebook IN ('', ?) ORDER BY per", (notebook,)
    )
    return [Budget(Decimal(amount), per, currency) for amount, per, currency in rows]


def put_replies(db: sqlite3.Connection, batch: str, replies: Mapping[str, Message]) -> None:
    """Keep replies of a batch by the fingerprint of their requests."""
    db.executemany(
        "INSERT INTO batches VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET json = excluded.json",
        [(batch, fingerprint, seal(message.to_dict())[0]) for fingerprint, message in replies.items()],
    )


def find_replies(db: sqlite3.Connection, batch: str) -> dict[str, Message]:
    """The replies of a batch by the fingerprint of their requests; a damaged one is left out."""
    found: dict[str, Message] = {}
    for fingerprint, text in db.execute("SELECT fingerprint, json FROM batches WHERE batch = ?", (batch,)):
        with suppress(ValueError, TypeError, AttributeError):
            found[fingerprint] = Message.from_dict(parse(text))
    return found


def _text(time: datetime) -> str:
    """As times stand in the table, where they are compared as text."""
    return time.astimezone(UTC).isoformat(timespec="microseconds")
