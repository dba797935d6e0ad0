"""Turns and the active path: whatever happens to a conversation, what it would send next is valid."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kimi_magic.conversation import (
    COMPLETE,
    CUT,
    FAILED,
    INTERRUPTED,
    REFUSED,
    Conversation,
    Exchange,
    Turn,
)
from kimi_magic.errors import ConversationError
from kimi_magic.simulator import Simulator
from kimi_magic.wire import Request, user

SIMULATOR = Simulator(speed=0)
HEADERS = {"authorization": "Bearer key", "content-type": "application/json"}


def said(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


THOUGHT = {"type": "thinking", "thinking": "hm"}
CALL = {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1}}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "3"}]}

COMPLETE_REPLIES = [
    (said(text("yes")),),
    (said(THOUGHT, text(""), text("after an empty block")),),
    (said(THOUGHT, CALL), RESULT, said(text("three"))),
]
BROKEN_REPLIES: list[tuple[str, tuple[dict[str, Any], ...]]] = [
    (INTERRUPTED, ()),
    (INTERRUPTED, (said(THOUGHT),)),
    (FAILED, ()),
    (FAILED, (said(text("half a"), CALL),)),
    (CUT, (said(THOUGHT, CALL),)),
    (REFUSED, (said(text("no")),)),
]


def turn(name: str, parent: str | None = None, cell: str | None = None, **more: Any) -> Turn:
    messages = (user(name), *more.pop("replies", COMPLETE_REPLIES[0]))
    return Turn(id=name, parent=parent, messages=messages, cell=cell, prompt=name, **more)


def run(conversation: Conversation, name: str, cell: str | None, **more: Any) -> Conversation:
    """The cell is run: its turn goes where it belongs."""
    append = more.pop("append", False)
    place = conversation.place(cell, append=append)
    return conversation.with_turn(turn(name, place.parent, cell, **more))


def names(conversation: Conversation) -> list[str]:
    return [t.id for t in conversation.path()]


def three() -> Conversation:
    conversation = Conversation()
    for name in "abc":
        conversation = run(conversation, name, f"cell {name}")
    return conversation


# --- the cell rule ------------------------------------------------------------------------------


def test_cells_that_run_one_after_the_other_follow_each_other() -> None:
    assert names(three()) == ["a", "b", "c"]


def test_a_cell_that_runs_again_takes_its_old_place_and_what_came_after_is_stale() -> None:
    place = three().place("cell b")
    assert (place.parent, place.replaces and place.replaces.id) == ("a", "b")
    assert [t.id for t in place.stale] == ["c"]
    again = run(three(), "b2", "cell b")
    assert names(again) == ["a", "b2"]
    assert {t.id: again.state(t) for t in again.turns.values()} == {
        "a": "active",
        "b": "replaced",
        "c": "stale",
        "b2": "active",
    }


def test_a_stale_cell_that_runs_again_joins_at_the_end() -> None:
    again = run(run(three(), "b2", "cell b"), "c2", "cell c")
    assert names(again) == ["a", "b2", "c2"]
    assert again.state(again.turns["c"]) == "replaced"


def test_a_first_cell_that_runs_again_begins_the_conversation_anew() -> None:
    again = run(three(), "a2", "cell a")
    assert names(again) == ["a2"]
    assert again.turns["a2"].parent is None


@pytest.mark.parametrize(
    "how", [{"cell": None}, {"cell": "cell a", "append": True}], ids=["no cell", "append"]
)
def test_without_a_cell_and_with_append_a_turn_goes_to_the_end(how: dict[str, Any]) -> None:
    assert names(run(run(three(), "d", **how), "e", **how)) == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize(("status", "replies"), BROKEN_REPLIES)
def test_a_turn_that_is_not_complete_is_kept_and_never_sent(status: str, replies: Any) -> None:
    after = run(three(), "bad", "cell b", status=status, replies=replies)
    assert names(after) == ["a", "b", "c"]
    assert after.state(after.turns["bad"]) == status
    assert list(after.turns) == ["a", "b", "c", "bad"]
    with pytest.raises(ConversationError, match=f"bad is {status}"):
        after.use("bad")


# --- walking ------------------------------------------------------------------------------------


def test_undo_takes_the_last_turn_off_and_use_brings_it_back() -> None:
    undone = three().undo()
    assert names(undone) == ["a", "b"]
    assert undone.state(undone.turns["c"]) == "left"
    back = undone.use("c")
    assert names(back) == ["a", "b", "c"]
    assert back.state(back.turns["c"]) == "active"
    assert names(back.undo().undo().undo()) == []


def test_undone_turns_that_come_back_are_not_undone_any_more() -> None:
    conversation = three().undo().undo().use("c")
    replaced = run(conversation, "a2", "cell a")
    assert replaced.state(replaced.turns["c"]) == "stale"


def test_use_goes_on_from_a_replaced_turn_with_its_own_context() -> None:
    conversation = run(three(), "b2", "cell b").use("c")
    assert names(conversation) == ["a", "b", "c"]
    assert names(run(conversation, "d", "cell d")) == ["a", "b", "c", "d"]


def test_new_empties_the_path_and_keeps_the_turns() -> None:
    fresh = three().fresh()
    assert names(fresh) == []
    assert {fresh.state(t) for t in fresh.turns.values()} == {"left"}
    assert names(fresh.use("b")) == ["a", "b"]


def test_a_turn_that_ends_when_the_path_has_left_its_place_stands_beside_it() -> None:
    asked = turn("c", "b", "3")
    before = run(run(Conversation(), "a", "1"), "b", "2")
    assert names(before.with_ended(asked)) == ["a", "b", "c"]
    for left in (before.fresh(), before.undo(), before.use("a")):
        ended = left.with_ended(asked)
        assert names(ended) == names(left)
        assert ended.states()["c"] == "left"
        assert names(ended.use("c")) == ["a", "b", "c"]
    assert names(before.with_ended(turn("d", "a", "2"))) == ["a", "d"]
    assert names(before.with_ended(turn("e", None, "1"))) == ["e"]
    summary = turn("s", None, compacts="b")
    assert names(before.with_ended(summary)) == ["s"]
    assert names(before.undo().with_ended(summary)) == ["a"]


def test_turns_that_use_or_a_join_leave_behind_have_left_and_are_not_stale() -> None:
    used = three().use("a")
    assert used.states() == {"a": "active", "b": "left", "c": "left"}
    joined = three().joined(Conversation("main", {"x": turn("x", None, "cell x")}, "x"))
    assert joined.states() == {"a": "left", "b": "left", "c": "left", "x": "active"}
    again = run(joined, "b2", "cell b")  # what stood behind the old one waits for its cell now
    assert again.states() == {"a": "left", "b": "replaced", "c": "stale", "x": "active", "b2": "active"}


def test_a_cell_that_was_summed_up_keeps_its_place_ahead_of_the_summary() -> None:
    summed = three().with_turn(turn("sum", None, "cell sum", compacts="c"))
    summed = run(summed, "d", "cell d")
    place = summed.place("cell b")
    assert (place.parent, [t.id for t in place.stale]) == ("a", ["c", "sum", "d"])
    again = run(summed, "b2", "cell b")
    assert names(again) == ["a", "b2"]
    assert again.states() | {"a": "active"} == {
        "a": "active", "b": "replaced", "c": "stale", "sum": "stale", "d": "stale", "b2": "active"
    }  # fmt: skip
    assert summed.place("cell sum").parent == "c", "a question in the cell of the summary has its context"
    later = run(summed, "b3", "cell b", append=True)
    assert later.place("cell b").parent == "d", "what is sent now goes before what is summed up"


def test_a_repr_is_a_line_without_signatures_and_hashes() -> None:
    long = turn("a", settings={"system": "s" * 999}, exchanges=())
    long = replace(long, id="0123456789abcdef", prompt="Why?\n" * 40)
    assert repr(long) == "<Turn 012345: 'Why? Why? Why? Why? Why? Why? Why? Why?…', complete>"
    assert repr(three().undo()) == "<Conversation main: 2 of 3 turns are sent along, no system prompt>"


def test_undo_of_nothing_and_use_of_nothing_say_so() -> None:
    with pytest.raises(ConversationError, match="Nothing to undo: conversation 'main' has no turns"):
        Conversation().undo()
    with pytest.raises(ConversationError, match="has no turn 'zz'"):
        three().use("zz")


def test_branches_are_the_ends_of_all_ways_newest_first() -> None:
    conversation = run(three(), "b2", "cell b")
    assert [t.id for t in conversation.branches()] == ["b2", "c"]
    with_failure = run(conversation, "bad", "cell x", status=FAILED, replies=())
    assert [t.id for t in with_failure.branches()] == ["b2", "c"]


def test_a_change_leaves_the_value_before_it_alone() -> None:
    before = three()
    for change in (before.undo(), before.fresh(), run(before, "d", "cell a"), before.use("a")):
        assert change != before
        assert names(before) == ["a", "b", "c"]


# --- what is sent -------------------------------------------------------------------------------


def test_a_reply_goes_back_verbatim_but_for_empty_text_blocks() -> None:
    blocks = [
        {"type": "thinking", "thinking": "先 \u200b🙂", "signature": "c2ln+/=="},
        {"type": "redacted_thinking", "data": "QUJD"},
        text(""),
        {"type": "future_block", "x": None},
        text("yes"),
    ]
    conversation = run(Conversation(), "a", None, replies=(said(*blocks),))
    assert conversation.messages("a") == (user("a"), said(*[b for b in blocks if b != text("")]))
    assert conversation.turns["a"].messages[1] == said(*blocks)
    assert json.dumps(conversation.messages("a")[1]["content"][0]) == json.dumps(blocks[0])


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    runs = st.tuples(
        st.just("run"),
        st.sampled_from([None, "1", "2", "3"]),
        st.booleans(),
        st.one_of(
            st.sampled_from([(COMPLETE, reply) for reply in COMPLETE_REPLIES]),
            st.sampled_from(BROKEN_REPLIES),
        ),
    )
    others = st.sampled_from([("undo",), ("new",), ("compact",)])
    uses = st.tuples(st.just("use"), st.integers(0, 9))
    return draw(st.lists(st.one_of(runs, runs, runs, others, uses), max_size=14))


def play(history: list[tuple[Any, ...]]) -> Conversation:
    conversation = Conversation()
    for n, step in enumerate(history):
        match step:
            case ("run", cell, append, (status, replies)):
                before = conversation
                conversation = run(
                    conversation, f"turn {n}", cell, append=append, status=status, replies=replies
                )
                assert conversation.path() == before.path() or conversation.path()[-1].id == f"turn {n}"
            case ("undo",) if conversation.path():
                conversation = conversation.undo()
            case ("new",):
                conversation = conversation.fresh()
            case ("compact",) if len(conversation.path()) > 1:
                place = conversation.compaction()
                conversation = conversation.with_turn(turn(f"sum {n}", compacts=place.compacts))
            case ("use", place):
                usable = [t for t in conversation.turns.values() if t.status == COMPLETE]
                if usable:
                    conversation = conversation.use(usable[place % len(usable)].id)
        check(conversation)
    return conversation


def check(conversation: Conversation) -> None:
    path = conversation.path()
    assert all(t.status == COMPLETE for t in path)
    assert all(after.parent == before.id for before, after in pairwise(path))
    states = {t.id: conversation.state(t) for t in conversation.turns.values()}
    assert [name for name, state in states.items() if state == "active"] == sorted(
        names(conversation), key=list(states).index
    )
    messages, anew = conversation.messages(conversation.head), replace(conversation)
    assert (path, messages) == (anew.path(), anew.messages(anew.head)), "what was handed on"
    assert conversation.states() == anew.states()
    asked = Request(messages=(*messages, user("next?")), max_tokens=32)
    asked.check()
    assert SIMULATOR.reply(asked.encode(), HEADERS).status == 200


@given(histories())
@settings(deadline=None, max_examples=100)
def test_whatever_happened_the_next_request_is_valid(history: list[tuple[Any, ...]]) -> None:
    conversation = play(history)
    runs = sum(step[0] == "run" for step in history)
    kept = [t for t in conversation.turns.values() if t.compacts is None]
    assert len(kept) == runs  # nothing is ever overwritten


def test_the_simulator_would_refuse_what_a_broken_turn_holds() -> None:
    """So the property above means something."""
    for _, replies in BROKEN_REPLIES[1:5]:
        if replies:
            request = Request(messages=(user("a"), *replies, user("next?")), max_tokens=32)
            assert SIMULATOR.reply(request.encode(), HEADERS).status == 400


# --- as JSON ------------------------------------------------------------------------------------


def full_turn() -> Turn:
    return turn(
        "a" * 16,
        "p" * 16,
        "cell",
        replies=COMPLETE_REPLIES[2],
        status=FAILED,
        model="kimi-k3.1-pro",
        effort="low",
        stop_reason="end_turn",
        error="one line",
        time=datetime(2026, 11, 30, 10, 0, 0, 0, timezone(timedelta(hours=8))),
        simulated=True,
        settings={"model": "kimi-k3.1-pro"},
        exchanges=(Exchange("f00", 2, {"id": "m1", "stop_reason": "tool_use"}),),
        compacts="c" * 16,
        thinking_seconds=1.25,
        call_seconds=(0.5, 2.0),
    )


def test_a_turn_survives_json_whole() -> None:
    before = full_turn()
    defaults = Turn(id="a", parent=None, messages=())
    assert all(getattr(before, f) != getattr(defaults, f) for f in Turn.__dataclass_fields__)
    json_text = json.dumps(before.to_json())
    assert Turn.from_json(json.loads(json_text)) == before
    assert json.loads(json_text)["time"] == "2026-11-30T02:00:00.000000+00:00"


def test_a_newer_version_and_what_is_no_turn_are_told_apart() -> None:
    with pytest.raises(ConversationError, match=r"newer kimi_magic .*Upgrade"):
        Turn.from_json({**full_turn().to_json(), "version": 99})
    good = full_turn().to_json()
    for bad in ({}, {**good, "messages": None}, {**good, "time": "yesterday"}, {**good, "version": "x"}):
        with pytest.raises(ConversationError, match="not a turn"):
            Turn.from_json(bad)
    for bad in (math.inf, math.nan, -1.0, "soon"):
        with pytest.raises(ConversationError, match="not a turn"):
            Turn.from_json({**good, "thinking_seconds": bad})
        with pytest.raises(ConversationError, match="not a turn"):
            Turn.from_json({**good, "call_seconds": [bad]})


def test_a_turn_that_was_kept_before_times_were_has_none() -> None:
    old = {k: v for k, v in full_turn().to_json().items() if not k.endswith("_seconds")}
    assert Turn.from_json(old) == replace(full_turn(), thinking_seconds=None, call_seconds=())


def test_text_and_reply_are_what_the_assistant_said() -> None:
    tools = turn("a", replies=COMPLETE_REPLIES[2])
    assert tools.text == "three"
    assert [b.type for b in tools.reply] == ["thinking", "tool_use", "text"]
    assert replace(tools, messages=(user("a"),)).text == ""
    assert tools.time == datetime.fromtimestamp(0, UTC)
