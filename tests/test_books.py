"""Everybody's books agree: the server's, the ledger's, the DataFrame's, the table's and the footers'."""

from __future__ import annotations

import random
import re
from decimal import Decimal
from pathlib import Path

import pytest
from paid import Paid, chat

from kimi_magic.conversation import COMPLETE
from kimi_magic.render import footer
from kimi_magic.simulator import Simulator
from kimi_magic.usage import PRICES
from kimi_magic.wire import MODELS

COUNTS = ("requests", "input", "cache_read", "cache_write", "output", "thinking", "searches")


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def _questions(dice: random.Random, name: str) -> list[dict[str, object]]:
    """A conversation: some turns, long and short, with tools, searches, other models and efforts."""
    system = dice.choice([None, "Be brief. " * 200])
    made: list[dict[str, object]] = []
    for n in range(dice.randint(1, 4)):
        prompt = f"{name} {n} " + dice.choice(["Why?", "words " * dice.randint(1, 900), "解释一下"])
        ask: dict[str, object] = {
            "prompt": prompt,
            "conversation": name,
            "effort": dice.choice(["low", "high"]),
        }
        ask["model"] = MODELS[dice.random() < 0.2]
        ask["cache_ttl"] = dice.choice([None, "5m", "1h"])
        ask["system"] = system
        if dice.random() < 0.15:
            ask |= {"search": 2, "prompt": f"{prompt} [[simulate: searches 2]]"}
        elif dice.random() < 0.15:
            ask |= {"tools": [add], "prompt": f"{prompt} Use the tool add."}
        elif dice.random() < 0.1:
            ask |= {"once": True}
        made.append(ask)
    return made


def test_the_books_of_200_random_conversations_agree_to_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pd = pytest.importorskip("pandas")
    monkeypatch.setenv("KIMI_MAGIC_HOME", str(tmp_path))
    dice, now = random.Random(8), [0.0]
    server = Paid(simulator=Simulator(speed=0, clock=lambda: now[0]))
    kimi = chat(server)
    lines: list[str] = []
    cost = Decimal(0)
    try:
        for n in range(200):
            for question in _questions(dice, f"talk {n}"):
                now[0] += dice.choice([1, 200, 1000])
                reply = kimi.ask(str(question.pop("prompt")), **question)
                assert reply.turn.status == COMPLETE
                assert reply.cost is not None
                cost += reply.cost
                lines.append(footer(reply.records, PRICES[reply.records[-1].model]))
        ledger, everywhere = kimi.usage, kimi.usage.all()
        assert ledger.records == everywhere.records
        sums = ledger.summary()
        assert {name: getattr(sums, name) for name in COUNTS} == dict(server.books)
        assert server.books["cache_read"] > 10_000
        assert server.books["searches"] > 0
        assert server.books["requests"] > len({r.turn for r in ledger.records})  # tools took further ones
        assert sums.cost == cost == sum((r.cost for r in ledger.records if r.cost is not None), Decimal(0))
        assert sums.unknown == 0
        _check_frame(pd.DataFrame(ledger), sums)
        _check_frame(everywhere.df(), sums)
        _check_footers(lines, server)
        caption = ledger._repr_mimebundle_()["text/plain"].splitlines()[0]
        total = server.books["input"] + server.books["cache_read"] + server.books["cache_write"]
        assert f"{server.books['requests']:,} requests: {total:,} tokens in" in caption
        assert f"{server.books['output']:,} out; ${cost:.2f}" in caption
        for by in ("day", "model", "conversation", "notebook"):
            rows = type(ledger)(ledger.records, by=by).rows()
            outs = sum(int(row["out"].replace(",", "")) for row in rows)
            assert outs == server.books["output"]
    finally:
        kimi.close()


def _check_frame(frame: object, sums: object) -> None:
    assert len(frame) == sums.requests
    for name in ("input", "cache_read", "output", "thinking", "searches"):
        assert int(frame[name].sum()) == getattr(sums, name)
    assert int(frame["cache_write_5m"].sum() + frame["cache_write_1h"].sum()) == sums.cache_write
    assert float(frame["cost"].sum()) == pytest.approx(float(sums.cost))


def _check_footers(lines: list[str], server: Paid) -> None:
    def number(pattern: str) -> int:
        return sum(int(n.replace(",", "")) for line in lines for n in re.findall(pattern, line))

    books = server.books
    assert number(r"([\d,]+) in\b") == books["input"] + books["cache_read"] + books["cache_write"]
    assert number(r"([\d,]+) from cache") == books["cache_read"]
    assert number(r"([\d,]+) to cache") == books["cache_write"]
    assert number(r"([\d,]+) out\b") == books["output"]
    assert number(r"([\d,]+) search") == books["searches"]


def test_a_replayed_turn_costs_nothing_and_says_what_it_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KIMI_MAGIC_HOME", str(tmp_path))
    server = Paid()
    kimi = chat(server, replay_speed=0)
    try:
        first = kimi.ask("Why?", cell="a", effort="low")
        second = kimi.ask("Why?", cell="a", effort="low", replay="only")
        (record,) = second.records
        assert (record.replayed, record.cost, record.saved) == (True, Decimal(0), first.cost)
        assert first.records[0].saved is None
        assert "saved $" in footer(second.records, PRICES[record.model])
        assert kimi.usage.summary().saved == first.cost
        assert server.books["requests"] == 1
    finally:
        kimi.close()
