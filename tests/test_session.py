"""One chat: questions become requests, replies become turns and records, whatever goes wrong."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import Answer, Scripted, end, failing, reply, stopping, text, thinking, whole

from kimi_magic.client import AsyncClient
from kimi_magic.conversation import COMPLETE, CUT, FAILED, INTERRUPTED, REFUSED
from kimi_magic.errors import (
    IncompleteStreamError,
    KimiError,
    NoAnswerError,
    OverloadedError,
    RequestError,
    ServerError,
)
from kimi_magic.retry import Policy
from kimi_magic.session import Ask, Session, TurnStream
from kimi_magic.simulator import Simulator
from kimi_magic.transports import SimulatorTransport
from kimi_magic.usage import Price
from kimi_magic.wire import TextBlock

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def session(client: AsyncClient, **more: Any) -> Session:
    """One whose clocks tick a second with each look, and whose ids are numbers."""
    ticks, times, ids = itertools.count(), itertools.count(), itertools.count(1)
    return Session(
        client,
        clock=lambda: float(next(ticks)),
        utc=lambda: NOON + timedelta(seconds=next(times)),
        new_id=lambda: f"turn{next(ids)}",
        **more,
    )


def words(prompt: str, **more: Any) -> Ask:
    return Ask(content=(TextBlock({"type": "text", "text": prompt}),), prompt=prompt, **more)


def run(
    chat: Session, prompt: str = "?", *, until: Callable[[Any], bool] = lambda event: False, **more: Any
) -> TurnStream:
    """Ask, and stop at the first event that `until` is true of, as an interrupt does."""
    stream = chat.start(chat.plan(words(prompt, **more)))

    async def follow() -> None:
        async with aclosing(stream.events()) as events:
            async for event in events:
                if until(event):
                    return

    asyncio.run(follow())
    return stream


def fail(chat: Session, prompt: str = "?", **more: Any) -> KimiError:
    with pytest.raises(KimiError) as caught:
        run(chat, prompt, **more)
    return caught.value


def simulated() -> AsyncClient:
    return AsyncClient("key", "http://sim.test", transport=SimulatorTransport(Simulator(speed=0)))


def prompts(request: dict[str, Any]) -> list[str]:
    return [m["content"][0]["text"] for m in request["messages"] if m["role"] == "user"]


# --- what is sent -------------------------------------------------------------------------------


def test_an_ask_becomes_a_request_with_all_that_it_says() -> None:
    server = Scripted([reply()])
    run(
        session(server.client()),
        "Hello",
        model="kimi-k3.1-pro-highspeed",
        effort="low",
        max_tokens=77,
        system="Be brief.",
        cache_ttl="1h",
        stop_sequences=("END",),
    )
    assert server.requests == [
        {
            "model": "kimi-k3.1-pro-highspeed",
            "max_tokens": 77,
            "output_config": {"effort": "low"},
            "cache_control": {"type": "ephemeral", "ttl": "1h"},
            "stop_sequences": ["END"],
            "stream": True,
            "system": "Be brief.",
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
        }
    ]


@pytest.mark.parametrize(
    ("effort", "limit"),
    [("low", 16_384), ("high", 32_768), ("max", 65_536), (None, 65_536), ("medium", 32_768)],
)
def test_the_room_for_a_reply_suits_the_effort(effort: str | None, limit: int) -> None:
    chat = session(Scripted([reply()]).client())
    request = chat.plan(words("?", effort=effort)).request
    assert (request.max_tokens, request.effort) == (limit, effort)


def test_the_system_prompt_of_a_conversation_stays_and_that_of_an_ask_goes_before_it() -> None:
    chat = session(Scripted([reply()]).client())
    chat.change(replace(chat.conversation(), system="Stay."))
    assert chat.plan(words("?")).request.system == "Stay."
    assert chat.plan(words("?", system="Once.")).request.system == "Once."
    assert chat.plan(words("?", system="")).request.to_dict().get("system") is None
    assert chat.plan(words("?", once=True)).request.system is None


def test_a_request_against_the_rules_is_not_sent() -> None:
    server = Scripted([reply()])
    chat = session(server.client())
    with pytest.raises(RequestError, match="effort"):
        chat.plan(words("?", effort="huge"))
    assert server.bodies == []
    assert chat.records == []


def test_a_longer_conversation_repeats_the_bytes_before_it() -> None:
    server = Scripted([reply("One."), reply("Two."), reply("Three.")])
    chat = session(server.client())
    for prompt in ("a", "b", "c"):
        run(chat, prompt, system="Stable.")
    for shorter, longer in itertools.pairwise(server.bodies):
        head = shorter.removesuffix(b"]}")
        assert len(head) > 100
        assert longer.startswith(head + b",")


def test_the_same_conversation_gives_the_same_bytes_in_another_session() -> None:
    servers = [Scripted([reply("One."), reply("Two.")]) for _ in range(2)]
    for server in servers:
        chat = session(server.client())
        for prompt in ("a", "b"):
            run(chat, prompt)
    assert servers[0].bodies == servers[1].bodies


def test_blocks_go_back_as_they_came() -> None:
    unknown = {"type": "future_block", "x": 1}
    redacted = {"type": "redacted_thinking", "data": "QUJD"}
    first = stopping(
        thinking(0, "先查天气 ", "\u200b🙂", signature="c2ln+/=="),
        whole(1, redacted),
        whole(2, unknown),
        text(3, "Yes", "."),
        end(),
    )
    server = Scripted([first, reply()])
    chat = session(server.client())
    run(chat, "a")
    run(chat, "b")
    assert server.requests[1]["messages"][1] == {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "先查天气 \u200b🙂", "signature": "c2ln+/=="},
            redacted,
            unknown,
            {"type": "text", "text": "Yes."},
        ],
    }


def test_an_empty_text_block_does_not_spoil_the_next_request() -> None:
    server = Scripted([stopping(text(0), thinking(1, "hm"), text(2, "Yes."), end()), reply()])
    chat = session(server.client())
    run(chat, "a")
    run(chat, "b")
    assert [b["type"] for b in server.requests[1]["messages"][1]["content"]] == ["thinking", "text"]


# --- conversations ------------------------------------------------------------------------------


def test_once_neither_reads_nor_writes_history() -> None:
    server = Scripted([reply()])
    chat = session(server.client())
    run(chat, "a")
    stream = run(chat, "b", once=True)
    run(chat, "c")
    assert [prompts(r) for r in server.requests] == [["a"], ["b"], ["a", "c"]]
    assert stream.records[0].conversation is None
    assert len(chat.records) == 3


def test_new_begins_afresh_when_its_reply_is_there() -> None:
    server = Scripted([reply(), failing(400), reply(), reply()])
    chat = session(server.client())
    run(chat, "a")
    fail(chat, "b", new=True)
    assert [t.prompt for t in chat.conversation().path()] == ["a"]
    run(chat, "c", new=True)
    run(chat, "d")
    assert [prompts(r) for r in server.requests] == [["a"], ["b"], ["c"], ["c", "d"]]
    first = next(iter(chat.conversation().turns.values()))
    assert chat.conversation().state(first) == "left"


def test_conversations_do_not_mix() -> None:
    server = Scripted([reply()])
    chat = session(server.client())
    run(chat, "a")
    run(chat, "b", conversation="other")
    run(chat, "c")
    assert [prompts(r) for r in server.requests] == [["a"], ["b"], ["a", "c"]]
    assert [r.conversation for r in chat.records] == ["main", "other", "main"]


def test_a_cell_that_runs_again_sends_the_context_that_it_had() -> None:
    server = Scripted([reply()])
    chat = session(server.client())
    for prompt, cell in (("a", "1"), ("b", "2"), ("c", "3"), ("b again", "2"), ("more", "2")):
        run(chat, prompt, cell=cell, append=prompt == "more")
    assert [prompts(r) for r in server.requests[2:]] == [
        ["a", "b", "c"],
        ["a", "b again"],
        ["a", "b again", "more"],
    ]


# --- how a turn ends ----------------------------------------------------------------------------


def test_a_reply_that_ends_well_is_a_complete_turn() -> None:
    chat = session(Scripted([reply("Yes.", thought="hm")]).client(), notebook="/n.ipynb")
    stream = run(chat, "Hello", cell="c1", effort="low")
    turn = stream.turn
    assert turn is not None
    assert turn is chat.last
    assert chat.conversation().path() == (turn,)
    assert (turn.id, turn.parent, turn.cell, turn.prompt) == ("turn1", None, "c1", "Hello")
    assert (turn.status, turn.stop_reason, turn.error, turn.text) == (COMPLETE, "end_turn", None, "Yes.")
    assert (turn.model, turn.effort, turn.simulated, turn.time) == ("kimi-k3.1-pro", "low", False, NOON)


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (stopping(thinking(0, "hm"), end("max_tokens")), CUT),
        (stopping(thinking(0, "hm"), text(1, " \n"), end()), CUT),
        (stopping(text(0, "No."), end("refusal")), REFUSED),
        (stopping(text(0, "A"), end("max_tokens")), COMPLETE),
        (stopping(text(0, "A"), end("some_new_reason")), COMPLETE),
    ],
)
def test_only_what_can_go_back_joins_the_conversation(answer: Answer, status: str) -> None:
    server = Scripted([answer, reply()])
    chat = session(server.client())
    if status == CUT:
        error = fail(chat, "a")
        assert isinstance(error, NoAnswerError)
        assert error.partial.content[0].type == "thinking"
    else:
        run(chat, "a")
    assert chat.last is not None
    assert chat.last.status == status
    assert chat.records[0].status == "complete"
    run(chat, "b")
    assert prompts(server.requests[1]) == (["a", "b"] if status == COMPLETE else ["b"])


FAULTS = {
    "before headers": (failing(500), ServerError, []),
    "error event at the start": (
        stopping({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}),
        OverloadedError,
        [],
    ),
    "W05 cut after the start": (stopping(), IncompleteStreamError, []),
    "cut while it thinks": (stopping(thinking(0, "hm")[:2]), IncompleteStreamError, ["thinking"]),
    "broken while it thinks": (
        stopping(thinking(0, "hm")[:2], then="break"),
        IncompleteStreamError,
        ["thinking"],
    ),
    "W05 cut in the text": (
        stopping(thinking(0, "hm"), text(1, "答案是")[:2]),
        IncompleteStreamError,
        ["thinking", "text"],
    ),
    "broken in the text": (stopping(text(0, "答案是")[:2], then="break"), IncompleteStreamError, ["text"]),
    "W04 error event in the text": (
        stopping(
            text(0, "前半句")[:2], {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
        ),
        OverloadedError,
        ["text"],
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_reply_that_fails_leaves_its_turn_its_record_and_a_valid_next_request(name: str) -> None:
    answer, kind, blocks = FAULTS[name]
    server = Scripted([answer, reply(), reply()])
    chat = session(server.client())
    error = fail(chat, "a")
    assert type(error) is kind
    turn, record = chat.last, chat.records[0]
    assert turn is not None
    assert (turn.status, turn.error, turn.stop_reason) == (FAILED, str(error), None)
    assert [b.type for b in turn.reply] == blocks
    assert (record.status, record.error, record.stop_reason) == ("failed", kind.__name__, None)
    assert (record.output, record.cost) == (None, None)
    assert record.request_id == "req_1"
    assert record.turn == turn.id
    assert chat.conversation().turns == {turn.id: turn}
    assert chat.conversation().path() == ()
    run(chat, "b")
    run(chat, "c")
    assert [prompts(r) for r in server.requests[1:]] == [["b"], ["b", "c"]]


@pytest.mark.parametrize("tries", [1, 3])
def test_s10_a_request_that_failed_is_no_turn_of_the_next(tries: int) -> None:
    server = Scripted([*[failing(500)] * tries, reply("B."), reply("C.")])
    chat = session(server.client(tries))
    fail(chat, "a")
    assert chat.records[0].attempts == tries
    run(chat, "b")
    run(chat, "c")
    first, second = server.requests[-2:]
    assert [m["role"] for m in second["messages"]] == ["user", "assistant", "user"]
    assert second["messages"][:1] == first["messages"]
    assert second["messages"][1]["content"][-1]["text"] == "B."


STAGES = {
    "before any answer": (Answer(then="hang before"), None, []),
    "at the start": (stopping(then="hang"), 30, []),
    "while it thinks": (stopping(thinking(0, "a", "b")[:3], then="hang"), 30, ["thinking"]),
    "in the text": (stopping(thinking(0, "a"), text(1, "答")[:2], then="hang"), 30, ["thinking", "text"]),
}


@pytest.mark.parametrize("stage", STAGES)
def test_s01_an_interrupt_keeps_what_arrived_and_the_next_request_is_valid(stage: str) -> None:
    answer, tokens, blocks = STAGES[stage]
    server = Scripted([answer, reply()])
    chat = session(server.client())
    interrupt(chat, server, "a")
    turn, record = chat.last, chat.records[0]
    assert turn is not None
    assert (turn.status, turn.error) == (INTERRUPTED, None)
    assert [b.type for b in turn.reply] == blocks
    assert (record.status, record.error, record.output, record.cost) == ("interrupted", None, None, None)
    assert record.input == tokens
    run(chat, "继续")
    assert prompts(server.requests[1]) == ["继续"]


def interrupt(chat: Session, server: Scripted, prompt: str) -> None:
    """Ask, and cancel when the answer hangs."""
    stream = chat.start(chat.plan(words(prompt)))

    async def follow() -> None:
        async with aclosing(stream.events()) as events:
            async for _ in events:
                pass

    async def cancelled() -> None:
        task = asyncio.create_task(follow())
        while not server.hangs.acquire(blocking=False):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())


# --- pause_turn ---------------------------------------------------------------------------------

CALL = {"type": "server_tool_use", "id": "srv1", "name": "web_search", "input": {"query": "q"}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srv1",
    "content": [
        {"type": "web_search_result", "url": "https://a.org", "title": "A", "encrypted_content": "RU5D"}
    ],
}
PAUSED = stopping(text(0, "Let me look. "), whole(1, CALL), end("pause_turn"))


def test_t10_a_paused_reply_is_continued_unchanged_as_the_last_message() -> None:
    server = Scripted([PAUSED, stopping(whole(0, FOUND), text(1, "Found."), end()), reply()])
    chat = session(server.client())
    stream = run(chat, "Search.")
    first, second = server.requests
    said = {"role": "assistant", "content": [{"type": "text", "text": "Let me look. "}, CALL]}
    assert second == {**first, "messages": [*first["messages"], said]}
    assert stream.turn is not None
    assert stream.turn.status == COMPLETE
    assert [b.type for b in stream.turn.reply] == [
        "text",
        "server_tool_use",
        "web_search_tool_result",
        "text",
    ]
    assert stream.turn.text == "Let me look. Found."
    assert [(r.turn, r.stop_reason) for r in chat.records] == [("turn1", "pause_turn"), ("turn1", "end_turn")]
    run(chat, "b")
    assert server.requests[2]["messages"][1]["content"] == [
        *said["content"],
        FOUND,
        {"type": "text", "text": "Found."},
    ]


def test_what_is_shown_of_a_continued_reply_never_loses_its_beginning() -> None:
    server = Scripted([PAUSED, stopping(whole(0, FOUND), text(1, "Found."), end())])
    chat = session(server.client())
    stream = chat.start(chat.plan(words("Search.")))
    lengths = []

    async def follow() -> None:
        async for _ in stream.events():
            lengths.append(sum(len(json.dumps(b.json)) for b in stream.so_far()[0]))

    asyncio.run(follow())
    assert lengths == sorted(lengths)
    assert [b.type for b in stream.so_far()[0]][-1] == "text"


def test_t10_a_reply_that_pauses_for_ever_ends_after_a_bounded_number_of_requests() -> None:
    server = Scripted([PAUSED])
    chat = session(server.client())
    assert isinstance(fail(chat, "Search."), NoAnswerError)
    assert len(server.bodies) == 9
    assert chat.last is not None
    assert (chat.last.status, chat.last.stop_reason) == (CUT, "pause_turn")
    assert len(chat.records) == 9


def test_a_continuation_that_fails_keeps_what_came_before_once() -> None:
    server = Scripted([PAUSED, failing(500)])
    chat = session(server.client())
    fail(chat, "Search.")
    assert chat.last is not None
    assert [b.type for b in chat.last.reply] == ["text", "server_tool_use"]
    assert [r.status for r in chat.records] == ["complete", "failed"]


# --- records ------------------------------------------------------------------------------------


def test_a_record_says_all_that_is_known() -> None:
    answer = stopping(thinking(0, "hm"), text(1, "A"), end("end_turn", 40, 95))
    price = Price.of(1, 10, 0.1, 1, 2)
    chat = session(Scripted([answer]).client(), notebook="/n.ipynb", prices={"kimi-k3.1-pro": price})
    run(chat, "a", cell="c1", effort="low")
    (record,) = chat.records
    assert record.output == 95  # U01: running totals
    assert record.cost == (30 * 1 + 10 * Decimal("0.1") + 95 * 10) / Decimal(1_000_000)
    assert (record.notebook, record.conversation, record.cell) == ("/n.ipynb", "main", "c1")
    assert (record.model, record.effort, record.stop_reason) == ("kimi-k3.1-pro", "low", "end_turn")
    assert (record.status, record.request_id, record.attempts) == ("complete", "req_1", 1)
    assert record.time.tzinfo is not None
    assert record.seconds is not None
    assert record.seconds_to_first is not None
    assert 0 < record.seconds_to_first < record.seconds
    assert (record.simulated, record.replayed) == (False, False)


def test_a_retry_is_told_and_counted_and_costs_one_record() -> None:
    server = Scripted([failing(500), reply()])
    chat = session(server.client(tries=2))
    seen: list[str] = []
    stream = run(chat, "a", until=lambda event: seen.append(event.type) or False)
    assert seen[0] == "retry"
    assert [r.attempts for r in stream.records] == [2]


def test_the_simulator_is_known_by_its_header() -> None:
    chat = session(simulated())
    stream = run(chat, "Hello")
    assert stream.turn is not None
    assert (stream.turn.simulated, chat.records[0].simulated) == (True, True)
    assert stream.so_far()[1] is True


# --- anything, in any order ---------------------------------------------------------------------

MISHAPS = ["", "", "", "cut", "broken", "stream-error", "early-error", "empty", "refusal", "bad-request"]
MISHAPS += ["pause x2", "redacted", "unsigned", "unknown", "stop-reason max_tokens", "server-error"]

steps = st.one_of(
    st.tuples(
        st.just("ask"),
        st.sampled_from(MISHAPS),
        st.sampled_from([None, "1", "2", "3"]),
        st.sampled_from(["", "new", "once", "append", "stop early", "stop late"]),
    ),
    st.sampled_from([("undo",), ("fresh",)]),
    st.tuples(st.just("use"), st.integers(0, 9)),
)


@given(st.lists(steps, max_size=8))
@settings(deadline=None, max_examples=60)
def test_whatever_happens_the_strict_simulator_takes_the_next_request(history: list[tuple[Any, ...]]) -> None:
    client = AsyncClient(
        "key",
        "http://sim.test",
        transport=SimulatorTransport(Simulator(speed=0)),
        policy=Policy(tries=1),
    )
    chat = session(client)
    asked = 0
    for step in history:
        asked += step[0] == "ask"
        play(chat, step)
    turns = chat.conversation().turns
    assert len({r.turn for r in chat.records}) == asked
    assert len(turns) == sum(s[0] == "ask" and s[3] != "once" for s in history)
    before = len(chat.records)
    run(chat, "And now?")  # raises where the simulator refuses it
    assert chat.last is not None
    assert chat.last.status == COMPLETE
    assert len(chat.records) == before + 1


def play(chat: Session, step: tuple[Any, ...]) -> None:
    conversation = chat.conversation()
    match step:
        case ("ask", mishap, cell, how):
            prompt = f"Say it. [[simulate: {mishap}]]" if mishap else "Say it."
            number = itertools.count()
            stop = {"stop early": 3, "stop late": 40}.get(how)
            flags = {how: True} if how in ("new", "once", "append") else {}
            try:
                run(chat, prompt, until=lambda _: next(number) == stop, cell=cell, max_tokens=2000, **flags)
            except RequestError:
                raise
            except KimiError:
                assert chat.last is not None
                assert chat.last.status == FAILED
        case ("undo",) if conversation.path():
            chat.change(conversation.undo())
        case ("fresh",):
            chat.change(conversation.fresh())
        case ("use", place):
            usable = [t for t in conversation.turns.values() if t.status == COMPLETE]
            if usable:
                chat.change(conversation.use(usable[place % len(usable)].id))
