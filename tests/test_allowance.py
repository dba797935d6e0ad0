"""What further rows of a batch may cost: uneven rows keep within a budget, and ample ones do not wait."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal
from typing import Any

import httpx
import pytest
from scripted import START, end, text

from kimi_magic.api import Kimi
from kimi_magic.client import AsyncClient
from kimi_magic.config import KimiMagic
from kimi_magic.errors import OptionError
from kimi_magic.usage import Budget

ROWS = 200
PRICE = Decimal("0.00001")  # of a token of output
UNEVEN = {
    "rising": [10 * n + 10 for n in range(ROWS)],
    "rare": [5000 if n % 23 == 7 else 50 for n in range(ROWS)],
    "falling": [10 * (ROWS - n) for n in range(ROWS)],
}


class Counted(httpx.AsyncBaseTransport):
    """Bills the row `… n` for so many tokens of output as the n-th number says. hold: for how many passes of
    the loop each reply is held back."""

    def __init__(self, outputs: list[int], hold: int = 0) -> None:
        self.outputs, self.hold = outputs, hold
        self.open = self.most = self.asked = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(await request.aread())
        self.asked += 1
        self.open += 1
        self.most = max(self.most, self.open)
        for _ in range(self.hold):
            await asyncio.sleep(0)
        self.open -= 1
        number = int(body["messages"][-1]["content"][-1]["text"].split()[-1])
        events = [START, *text(0, "Yes"), *end("end_turn", self.outputs[number])]
        lines = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, text=lines)

    def chat(self, **settings: Any) -> Kimi:
        client = AsyncClient("sk-key", "http://paid.test", transport=self)
        return Kimi(KimiMagic(store="off", **settings), client)


def asked(server: Counted, rows: int = ROWS, **options: Any) -> tuple[list[str], Decimal]:
    """The states of the rows, and what they cost."""
    kimi = server.chat()
    options = {"effort": "low", "progress": False, "max_tokens": 8000, **options}
    found = kimi.map("Row {{ n }}", range(rows), **options)
    kimi.close()
    return [row["kimi_status"] for row in found], kimi.usage.summary().cost


@pytest.mark.parametrize("outputs", UNEVEN)
@pytest.mark.parametrize("concurrency", [1, 8])
def test_uneven_rows_keep_within_the_budget_and_use_most_of_it(outputs: str, concurrency: int) -> None:
    server = Counted(UNEVEN[outputs])
    whole = sum(server.outputs) * PRICE
    for part in ("0.3", "0.6"):
        budget = whole * Decimal(part)
        states, cost = asked(server, concurrency=concurrency, budget=budget)
        assert budget - 2 * max(server.outputs) * PRICE < cost <= budget
        assert set(states) == {"asked", "open"}


def test_a_row_far_dearer_than_those_before_goes_over_alone() -> None:
    """Even with 64 at once no more rows are under way than the answered ones have shown the cost of."""
    server = Counted([5000] * ROWS)
    _, cost = asked(server, concurrency=64, budget=Decimal("0.0001"))
    assert server.asked == 1
    assert cost > Decimal("0.05")


def test_where_no_reply_could_go_over_it_none_waits() -> None:
    server = Counted([50] * ROWS, hold=300)
    states, _ = asked(server, 16, concurrency=16, budget=2, max_tokens=1000)
    assert set(states) == {"asked"}
    assert server.most == 16


def test_where_one_could_no_more_run_than_have_been_answered() -> None:
    server = Counted([50] * ROWS, hold=300)
    states, _ = asked(server, 16, concurrency=16, budget=2, max_tokens=100_000)
    assert set(states) == {"asked"}
    assert server.most < 16


def test_the_size_of_a_row_counts() -> None:
    """A row whose input alone costs more than is left stays open."""
    server = Counted([50] * ROWS)
    kimi = server.chat()
    rows = [{"n": 1, "text": "short"}, {"n": 2, "text": "long " * 40_000}]
    found = kimi.map("{{ text }}: {{ n }}", rows, budget="0.05", effort="low", progress=False, concurrency=1)
    assert [row["kimi_status"] for row in found] == ["asked", "open"]
    assert "a row costs about $0.1" in found[1]["kimi_error"]
    kimi.close()


def test_a_beginning_that_is_in_the_cache_is_not_held_at_its_full_price() -> None:
    server = Counted([50] * ROWS)
    kimi = server.chat()
    rules = "Rules of the codebook. " * 2_000  # 11,500 tokens: 0.023 to write, 0.0023 to read
    found = kimi.map(
        f"{rules}\n\nRow {{{{ n }}}}", range(9), budget="0.0245", effort="low", progress=False, concurrency=4
    )
    assert {row["kimi_status"] for row in found} == {"asked"}
    kimi.close()


@pytest.mark.parametrize(
    "budget", [float("nan"), float("inf"), -1, "-1", "1,5", True, "2 EUR", Budget(Decimal(1), currency="CNY")]
)
def test_what_cannot_be_a_budget_is_said_before_anything_is_sent(budget: Any) -> None:
    server = Counted([50])
    with pytest.raises(OptionError, match="budget: must be"):
        asked(server, 1, budget=budget)
    assert server.asked == 0


def test_a_budget_that_no_price_could_end_is_said_before_anything_is_sent() -> None:
    server = Counted([50])
    with pytest.raises(OptionError, match="budget: no price of mine is known"):
        asked(server, 1, budget=2, model="mine")
    assert server.asked == 0
    assert asked(server, 1, model="mine")[0] == ["asked"]


@pytest.mark.parametrize("budget", [1e-05, Decimal("1E-7"), "$0.00001", 1])
def test_budgets_of_every_size_are_read(budget: Any) -> None:
    assert asked(Counted([50]), 1, budget=budget)[0] == ["asked"]
