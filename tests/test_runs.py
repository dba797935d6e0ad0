"""Long conversations: what went out with earlier requests costs nothing again, and changes no byte."""

from __future__ import annotations

import asyncio
import gc
import pickle
import sys
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from types import FrameType
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import Scripted, reply

from kimi_magic.conversation import Conversation, Turn
from kimi_magic.errors import RequestError
from kimi_magic.session import Ask, Session
from kimi_magic.wire import Request, Said, TextBlock, ToolUseBlock, assistant, fingerprint, grouped, user

BIG = "Ein großer Text, 一段很长的话。" * 10_000


def say(number: int, text: str = "so") -> Said:
    """The message of that number in a conversation: the user's and the model's take turns."""
    return assistant([TextBlock.of(f"{number} {text}")]) if number % 2 else user(f"{number} {text}")


def told(count: int, text: str = "so") -> list[Said]:
    return [say(number, text) for number in range(count)]


def sent(*messages: Any, **fields: Any) -> Request:
    """A request that has gone out, and been looked at on the way."""
    request = Request(messages=messages, **fields)
    request.check()
    request.pieces()
    request.fingerprint()
    request.check()
    return request


def lines(work: Callable[[], object]) -> int:
    """How many lines of Python run: what a time would say, the same on every machine."""
    count, before = 0, sys.gettrace()

    def note(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal count
        count += event == "line"
        return note

    gc.disable()  # what it calls would be counted
    sys.settrace(note)
    try:
        work()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


steps = st.lists(
    st.tuples(st.sampled_from(["grow", "back", "again", "plain", "big"]), st.integers(1, 150)), max_size=9
)


@given(steps)
@settings(deadline=None, max_examples=40)
def test_the_bytes_are_those_of_the_whole_request_whatever_went_out_before(
    ways: list[tuple[str, int]],
) -> None:
    messages: list[Any] = told(1)
    for way, count in ways:
        here = len(messages)
        if way == "grow":
            messages += [say(n) for n in range(here, here + count)]
        elif way == "big":
            messages += [say(n, BIG) for n in range(here, here + count % 4)]
        elif way == "back":
            messages = messages[:count]
        elif way == "again":  # equal, and not the same
            messages = [*messages[:count], *(Said(m) for m in messages[count:])]
        else:
            messages[-1] = dict(messages[-1])
        for effort in (None, "low"):
            request = Request(messages=tuple(messages), effort=effort)
            body = msgspec.json.encode(request.to_dict())
            assert request.encode() == b"".join(grouped(request.pieces())) == body
            assert request.fingerprint() == fingerprint(request.to_dict())


def test_what_is_equal_as_python_has_it_can_be_other_bytes() -> None:
    def asked(value: object) -> tuple[Any, ...]:
        return *told(101), say(101), Said({"role": "user", "content": [{"type": "x", "v": value}]}), say(103)

    first = sent(*asked(1), say(104))
    other = [*first.messages]
    other[102] = Said({"role": "user", "content": [{"type": "x", "v": True}]})
    assert tuple(other) == first.messages
    request = Request(messages=tuple(other))
    assert request.encode() == msgspec.json.encode(request.to_dict()) != first.encode()


def test_a_request_costs_the_same_however_much_went_out_before() -> None:
    def cost(count: int) -> int:
        messages = told(count, "a sentence of some words, " * 40)
        sent(*messages)
        sent(*messages, say(count))
        return lines(lambda: sent(*messages, say(count), say(count + 1)))

    assert cost(4_000) < cost(100) + 500  # some for each megabyte, none for each message


def long(count: int) -> Conversation:
    """A conversation of so many turns."""
    conversation = Conversation()
    for number in range(count):
        messages = (say(2 * number, "a sentence of some words, " * 20), say(2 * number + 1))
        turn = Turn(id=str(number), parent=conversation.head, messages=messages, cell=f"cell {number}")
        conversation = conversation.with_turn(turn)
    return conversation


def test_a_turn_costs_the_same_however_many_are_before_it() -> None:
    async def ask(chat: Session, cell: str) -> None:
        plan = chat.plan(Ask(content=(TextBlock.of("And?"),), cell=cell))
        async for _ in chat.start(plan).events():
            pass

    def cost(count: int) -> int:
        chat = Session(Scripted([reply()], judges=False).client())
        chat.change(long(count))
        for number in range(3):
            chat.conversation().states()  # as the notebook does after each turn
            asyncio.run(ask(chat, f"new {number}"))
        return lines(lambda: (asyncio.run(ask(chat, "last")), chat.conversation().states()))

    _, few, many = (cost(count) for count in (40, 40, 1_040))  # the first of all loads modules
    assert many < few + 2 * 1_000 + 100, "a look at the cell of each turn, and no more"


def test_short_messages_become_few_pieces_turn_by_turn() -> None:
    messages = told(1)
    for number in range(1, 1_001, 2):
        messages += [say(number), say(number + 1)]
        request = sent(*messages)
    assert max(map(len, request.pieces())) > 0.9 * len(request.encode())


def test_the_hash_of_a_long_request_is_the_same_each_time() -> None:
    messages = told(4_000, "x" * 1_000)
    for count in (3_001, 4_000, 3_001, 2_001):
        request = Request(messages=tuple(messages[:count]))
        assert request.fingerprint() == request.fingerprint() == fingerprint(request.to_dict())


def test_what_went_out_is_not_copied_and_is_kept_once() -> None:
    messages = told(2_000, "x" * 2_000)
    tracemalloc.start()
    try:
        first = sent(*messages).pieces()
        second = sent(*messages, say(2_000)).pieces()
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    size = sum(map(len, first))
    same = {id(piece) for piece in first} & {id(piece) for piece in grouped(second)}
    assert sum(len(piece) for piece in first if id(piece) in same) > 0.7 * size
    assert held < 1.6 * size


def test_a_run_is_checked_again_where_it_stands_behind_another() -> None:
    one, two = told(101), told(101)
    sent(*one, say(101))  # the last message is in no run: these end with the user
    sent(*one, say(101))
    sent(*two, say(101))
    sent(*two, say(101))
    with pytest.raises(RequestError, match=r"messages\[101\]\.role: roles alternate, and 'user'"):
        Request(messages=(*one, *two, say(101))).check()
    with pytest.raises(RequestError, match=r"messages\[0\]\.role: the first message is the user's"):
        Request(messages=tuple(one[1:])).check()


def test_a_call_at_the_end_of_a_run_needs_its_result_behind_it() -> None:
    call = assistant([ToolUseBlock({"type": "tool_use", "id": "t1", "name": "f", "input": {}})])
    result = Said({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "4"}]})
    before = [*told(101), call]
    sent(*before, result)
    sent(*before, result)
    with pytest.raises(RequestError, match=r"messages\[102\].content: tool_result blocks answer \[\]"):
        Request(messages=(*before, say(102))).check()
    with pytest.raises(RequestError, match=r"tool calls \['t1'\] have no tool_result"):
        Request(messages=tuple(before)).check()


def test_another_process_gets_the_messages_alone() -> None:
    request = sent(*told(101))
    data = pickle.dumps(request)
    assert len(data) < 2 * len(request.encode())
    assert pickle.loads(data).encode() == request.encode()


@given(st.lists(st.sampled_from([1, 1000, 2**15, 2**16 - 1, 2**16, 2**20, 2**21 + 1, 2**23]), max_size=8))
@settings(deadline=None, max_examples=40)
def test_groups_are_the_same_bytes_neither_tiny_nor_huge(sizes: list[int]) -> None:
    pieces = [bytes([n]) * size for n, size in enumerate(sizes)]
    groups = list(grouped(pieces))
    assert b"".join(groups) == b"".join(pieces)
    assert all(0 < len(group) <= 2**21 for group in groups)
    assert all(len(a) + len(b) > 2**16 for a, b in pairwise(groups))
