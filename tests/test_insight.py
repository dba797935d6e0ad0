"""Why the cache had it, or had not: against the simulator's real cache, on a clock of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from notebook import Notebook

from kimi_magic.client import AsyncClient
from kimi_magic.conversation import Conversation
from kimi_magic.insight import Look, look_at
from kimi_magic.render import cache_table
from kimi_magic.session import Ask, Session, Worker
from kimi_magic.simulator import Simulator
from kimi_magic.transports import SimulatorTransport
from kimi_magic.usage import Price, Record, advise, expires
from kimi_magic.wire import TextBlock

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
LONG = "Data about the sites of the study. " * 60


class Talk:
    """A conversation on the simulator, both on one clock."""

    def __init__(self) -> None:
        self.time = NOON
        simulator = Simulator(speed=0, clock=lambda: self.time.timestamp())
        client = AsyncClient("k", "http://simulator.invalid", transport=SimulatorTransport(simulator))
        self.session = Session(client, utc=lambda: self.time)
        self.worker = Worker()

    def ask(self, prompt: str, after: float = 10, **more: Any) -> None:
        self.time += timedelta(seconds=after)
        ask = Ask(content=(TextBlock.of(prompt),), prompt=prompt, effort="low", **more)
        list(self.worker.iterate(self.session.start(self.session.plan(ask)).events))

    @property
    def last(self) -> Look:
        return look_at(self.session.conversation(), self.session.records)[-1]


@pytest.fixture
def talk() -> Iterator[Talk]:
    made = Talk()
    yield made
    made.worker.close()


def test_a_conversation_that_goes_on_reads_what_came_before(talk: Talk) -> None:
    talk.ask(LONG)
    assert not talk.last.missed
    assert "first request" in talk.last.reason
    talk.ask("And then?")
    assert not talk.last.missed
    assert talk.last.reason == "all of the request before was read"
    assert talk.last.sent.record.cache_hit_rate is not None
    assert talk.last.sent.record.cache_hit_rate > 0.5


def test_what_expired_says_by_how_much(talk: Talk) -> None:
    talk.ask(LONG)
    talk.ask("And then?", after=365)
    assert talk.last.missed
    assert talk.last.reason == "expired: 6 min 5 s after the request before, 1 min 5 s past its 5m"


def test_an_hour_holds_longer(talk: Talk) -> None:
    talk.ask(LONG, cache_ttl="1h")
    talk.ask("And then?", after=3000)
    assert not talk.last.missed
    talk.ask("And now?", after=2 * 3600 + 300)
    assert talk.last.missed  # the second question wrote its part for 5 minutes
    assert "past its 5m" in talk.last.reason


def test_what_expired_only_in_part_says_so(talk: Talk) -> None:
    talk.ask(LONG, cache_ttl="1h")
    talk.ask("And then?" + LONG)
    talk.ask("And now?", after=1000)
    read = talk.last.sent.record.cache_read
    assert talk.last.missed
    assert read
    assert talk.last.reason.endswith(f"past its 5m; {read:,} tokens with a longer life were read")


CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"system": "Be brief."}, "the system prompt changed"),
    ({"search": 2}, "the tools changed"),
    ({"model": "kimi-k3.1-pro-highspeed"}, "the model changed"),
]


@pytest.mark.parametrize(("change", "reason"), CHANGES)
def test_the_first_part_that_changed_is_named(talk: Talk, change: dict[str, Any], reason: str) -> None:
    talk.ask(LONG)
    talk.ask("And then?", **change)
    assert talk.last.missed
    assert talk.last.reason.startswith(reason)
    assert talk.last.sent.record.cache_read == 0


@pytest.mark.parametrize(("change", "reason"), CHANGES)
def test_what_changed_back_reads_what_an_earlier_request_had_left(
    talk: Talk, change: dict[str, Any], reason: str
) -> None:
    """Nothing is ahead of a model, tools or a system prompt."""
    talk.ask(LONG)
    talk.ask("And then?", **change)
    talk.ask("And now?")
    read = talk.last.sent.record.cache_read
    assert read
    assert talk.last.reason == f"{reason}; {read:,} tokens that an earlier request had left were read"


def test_a_cell_that_ran_again_changed_its_turn_and_the_part_ahead_was_read(talk: Talk) -> None:
    talk.ask(LONG, cell="a")
    talk.ask("Two? " + LONG, cell="b")
    talk.ask("Three?", cell="c")
    talk.ask("Two, but else? " + LONG, cell="b")
    assert talk.last.missed
    assert talk.last.reason.startswith("turn 2 changed; ")
    assert "tokens ahead of that were read" in talk.last.reason


def test_a_short_request_leaves_nothing_there(talk: Talk) -> None:
    talk.ask("One?")
    talk.ask("Two?")
    assert not talk.last.missed
    assert "too short to be cached" in talk.last.reason


def test_what_the_server_forgot_or_did_not_say() -> None:
    talk = Talk()
    talk.ask(LONG)
    talk.ask("Two?")
    conversation = talk.session.conversation()
    first, second = talk.session.records
    looks = look_at(conversation, [first, second.replace(cache_read=0)])
    assert (looks[-1].missed, "had it no more" in looks[-1].reason) == (True, True)
    looks = look_at(conversation, [first, second.replace(cache_read=None)])
    assert (looks[-1].missed, looks[-1].reason) == (False, "the server did not say")
    assert len(look_at(conversation, [first, second.replace(replayed=True)])) == 1
    assert look_at(Conversation(), [first]) == []
    talk.worker.close()


# --- the clock and the advice -------------------------------------------------------------------

PRICE = Price.of(2, 10, "0.2", 2, 4)


def row(minutes: float, tokens: int, turn: str) -> Record:
    return Record(NOON + timedelta(minutes=minutes), turn=turn, input=0, cache_write_5m=tokens, output=1)


def test_what_is_cached_expires_from_the_last_use_on() -> None:
    assert expires(row(0, 1000, "a"), "5m") == NOON + timedelta(minutes=5)
    assert expires(row(0, 1000, "a"), "1h") == NOON + timedelta(hours=1)
    assert expires(row(0, 0, "a"), "5m") is None


def test_quick_questions_want_5m_and_slow_ones_1h_with_the_arithmetic_shown() -> None:
    million = 1_000_000
    quick = advise([row(0, million, "a"), row(2, million, "b")], PRICE)
    assert quick is not None
    assert (quick.ttl, quick.cost_5m, quick.cost_1h) == ("5m", Decimal("2.2"), Decimal("4.2"))
    slow = advise([row(20 * n, million, str(n)) for n in range(4)], PRICE)
    assert slow is not None
    # 5m: written 4 times. 1h: written once at twice the price, and read 3 times.
    assert (slow.ttl, slow.cost_5m, slow.cost_1h) == ("1h", Decimal(8), Decimal("4.6"))
    assert (slow.within("5m"), slow.within("1h")) == (0, 3)
    assert advise([row(0, 1, "a"), row(1, 1, "a")], PRICE) is None  # one turn: no gap to judge by


def test_the_table_says_what_was_saved_and_when_it_expires(talk: Talk) -> None:
    talk.ask(LONG)
    talk.ask("Two?", after=60)
    looks = look_at(talk.session.conversation(), talk.session.records)
    rows, lines = cache_table(looks, talk.session.price, talk.time + timedelta(seconds=100))
    assert [r["turn"] for r in rows] == ["1", "2"]
    assert rows[1]["saved"].startswith("$0.00")
    assert "input tokens were read from cache. That saved $" in lines[0]
    assert "expires in 3 min 20 s" in lines[1]
    assert any("--cache 5m suits you" in line for line in lines)
    _, later = cache_table(looks, talk.session.price, talk.time + timedelta(seconds=400))
    assert "expired 1 min 40 s ago" in later[1] or "expired 100" in later[1]
    assert cache_table([], talk.session.price, talk.time) == ([], ["No requests yet in this conversation."])
    assert cache_table(looks, lambda model: None, talk.time)[0][1]["saved"] == ""


def test_the_command_shows_it() -> None:
    note = Notebook()
    note.ask("-e low", LONG)
    note.ask("-e low", "Two?")
    assert note.run("%kimi usage --cache") is None
    assert "all of the request before was read" in note.printed
    assert "You pause" in note.printed
    note.close()
