"""Hundreds of turns under fire, checked against the simulator's own books: nothing is lost, nothing doubled.

`KIMI_SOAK=2000 pytest tests/reliability/test_soak.py` makes it longer.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from interrupting import InterruptAt
from paid import Paid, chat

from kimi_magic.api import Kimi
from kimi_magic.conversation import COMPLETE, Conversation
from kimi_magic.errors import Interrupted, KimiError
from kimi_magic.store import Store, store_path
from kimi_magic.usage import totals

TURNS = int(os.environ.get("KIMI_SOAK", "300"))
NAMES = ("main", "beside", "第三")
FAULTS = (
    "cut", "broken", "garbled", "stream-error", "early-error", "early-error x1", "unknown", "refusal",
    "rate-limited 0", "rate-limited 0 x1", "server-error", "server-error x2", "overloaded x1", "html x1",
    "drop", "drop x1", "slow 0.005", "bad-request", "quota",
)  # fmt: skip
COUNTS = ("requests", "input", "cache_read", "cache_write", "output", "thinking")


class Soak:
    """One notebook that is asked and restarted, and what it must have kept."""

    def __init__(self, dice: random.Random) -> None:
        self.dice, self.server = dice, Paid()
        self.kimi = self._start()
        self.asked: dict[str, str] = {}
        """Prompt → how it ended for the one who asked: complete, or the name of the error."""
        self.costs = 0

    def _start(self) -> Kimi:
        return chat(self.server, tries=3)

    def step(self, number: int) -> None:
        if self.dice.random() < 0.02:
            self.kimi.close()
            self.kimi = self._start()
        fault = self.dice.choice(FAULTS) if self.dice.random() < 0.4 else ""
        prompt = f"Question {number} of the soak." + (f" [[simulate: {fault}]]" if fault else "")
        options: dict[str, Any] = {"conversation": self.dice.choice(NAMES), "effort": "low"}
        options["new"] = self.dice.random() < 0.08 or None
        options["cell"] = self.dice.choice([None, f"cell {self.dice.randint(0, 9)}"])
        if self.dice.random() < 0.05:
            options["view"] = InterruptAt(self.dice.randint(0, 3))
        self.asked[prompt] = "begun"
        try:
            reply = self.kimi.ask(prompt, **options)
        except (KimiError, Interrupted) as error:
            self.asked[prompt] = type(error).__name__
        else:
            self.asked[prompt] = reply.turn.status
            assert f"Question {number} of" in reply.text or "refusal" in fault


def test_a_soak_with_random_faults_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KIMI_MAGIC_HOME", str(tmp_path))
    soak = Soak(random.Random(TURNS))
    try:
        for number in range(TURNS):
            soak.step(number)
    finally:
        soak.kimi.close()
    assert len(set(soak.asked.values())) > 6, "the faults were of many kinds"
    store = Store(store_path())
    try:
        assert store.verify() == []
        (notebook,) = {record.notebook for record in store.records()}
        found = store.load(str(notebook))
    finally:
        store.close()
    assert found.problems == ()
    _turns_are_those_that_were_asked(soak, found.conversations)
    _ledger_is_that_of_the_server(soak, found.records)
    _requests_are_whole(soak)


def _turns_are_those_that_were_asked(soak: Soak, conversations: dict[str, Conversation]) -> None:
    turns = [turn for conversation in conversations.values() for turn in conversation.turns.values()]
    prompts = Counter(turn.prompt for turn in turns)
    assert prompts == Counter(list(soak.asked)), "each question has one turn, however it ended"
    for turn in turns:
        heard = soak.asked[turn.prompt]
        late = heard == "Interrupted"  # an interrupt may come when the reply is whole already
        assert late or (turn.status == COMPLETE) == (heard == COMPLETE), turn.prompt
    for conversation in conversations.values():
        assert all(turn.status == COMPLETE for turn in conversation.path())


def _ledger_is_that_of_the_server(soak: Soak, records: tuple[Any, ...]) -> None:
    assert Counter(r.turn for r in records).most_common(1)[0][1] == 1, "no request is in it twice"
    assert len(records) == len(soak.asked)
    known = [r.request_id for r in records if r.request_id is not None]
    assert len(set(known)) == len(known)
    whole = totals([r for r in records if r.status == COMPLETE])
    assert {name: getattr(whole, name) for name in COUNTS} == {n: soak.server.books[n] for n in COUNTS}
    assert sum(r.attempts for r in records) == len(soak.server.bodies)


def _requests_are_whole(soak: Soak) -> None:
    for body in soak.server.bodies:
        roles = [message["role"] for message in body["messages"]]
        assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
        said = [str(m["content"]) for m in body["messages"] if m["role"] == "user"]
        assert len(set(said)) == len(said), "no question is sent twice in one request"
        with suppress(IndexError):
            assert "[[simulate: cut]]" not in said[-2], "what was cut is never sent again"
