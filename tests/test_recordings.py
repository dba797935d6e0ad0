"""Recordings: a reply is found by all of its request, comes back the same, and a miss says what differs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_twins import BLOCKS, IMAGE, turn

from kimi_magic.conversation import Exchange
from kimi_magic.errors import ReplayError
from kimi_magic.recordings import Library, Recording, difference, from_lines, from_message, to_line
from kimi_magic.stream import Reply
from kimi_magic.wire import Message, Request, Usage, user

REQUEST: dict[str, Any] = {
    "model": "kimi-k3.1-pro",
    "max_tokens": 100,
    "output_config": {"effort": "low"},
    "system": "Be brief.",
    "messages": [user("Why is the sky blue?")],
}


def request(**more: Any) -> dict[str, Any]:
    return {**REQUEST, **more}


def recording(
    asked: dict[str, Any] | None = None, words: str = "Because.", source: str = "a.jsonl"
) -> Recording:
    message = Message("m1", "kimi-k3.1-pro", Message.from_dict({"content": words}).content, "end_turn")
    return replace(from_message(message, source), request=asked or REQUEST)


def replayed(made: Recording) -> Message:
    """What a client makes of a recording's bytes."""
    reply = Reply(made.status, made.headers, now=0.0, progress_limit=60.0)
    for _, data in made.chunks:
        for _ in reply.feed(data, 0.0):
            pass
    for _ in reply.close(0.0):
        pass
    return reply.message


# --- a message as a stream ----------------------------------------------------------------------


def test_a_recorded_message_streams_as_the_same_message() -> None:
    usage = Usage({"input_tokens": 3, "output_tokens": 9, "cache_creation": {"ephemeral_5m_input_tokens": 2}})
    said = [*BLOCKS, {"type": "tool_use", "id": "t", "name": "f", "input": {"a": [1, None]}}]
    before = Message.from_dict(
        {
            "id": "msg_1",
            "model": "kimi-k3.1-pro",
            "content": said,
            "stop_reason": "stop_sequence",
            "stop_sequence": "END",
            "usage": usage.json,
            "service_tier": "standard",
        }
    )
    after = replayed(from_message(before, "store"))
    assert json.dumps(after.to_dict()) == json.dumps(before.to_dict())
    assert after.usage == usage


@given(st.text(max_size=200), st.text(max_size=100))
@settings(deadline=None, max_examples=60)
def test_any_text_streams_as_it_was(words: str, thought: str) -> None:
    content = [
        {"type": "thinking", "thinking": thought, "signature": "s"},
        {"type": "text", "text": words or "x"},
    ]
    before = Message.from_dict({"content": content, "stop_reason": "end_turn"})
    assert [b.json for b in replayed(from_message(before, "")).content] == content


def test_a_recording_comes_in_pieces_with_a_pace() -> None:
    made = recording(words="深圳🚀 " * 100)
    assert len(made.chunks) > 15
    assert all(seconds > 0 for seconds, _ in made.chunks[1:])
    assert made.chunks[0][0] == 0


# --- finding ------------------------------------------------------------------------------------


def test_the_latest_recording_of_the_same_request_counts() -> None:
    library = Library([recording(), recording(words="Rayleigh."), recording(request(system="Sing."))])
    asked = Request(
        messages=(user("Why is the sky blue?"),),
        max_tokens=100,
        effort="low",
        system="Be brief.",
        stream=True,
    )
    found = library.find(asked.fingerprint())
    assert found is not None
    assert replayed(found).text == "Rayleigh."
    assert asked.fingerprint() in library
    assert len(library) == 2
    assert library.find(replace(asked, max_tokens=101).fingerprint()) is None


def test_a_turn_answers_each_of_its_requests() -> None:
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "1"}]}
    made = turn(
        "a",
        messages=(
            user("a"),
            {"role": "assistant", "content": [BLOCKS[0], call]},
            result,
            {"role": "assistant", "content": [{"type": "text", "text": "one"}]},
        ),
        exchanges=(
            Exchange("f1", 2, {"id": "m1", "stop_reason": "tool_use"}),
            Exchange("f2", 1, {"id": "m2", "stop_reason": "end_turn"}),
        ),
        simulated=True,
    )
    library = Library()
    library.add_turn(made, "store")
    first, second = library.find("f1"), library.find("f2")
    assert first is not None
    assert second is not None
    assert [b.json for b in replayed(first).content] == [BLOCKS[0], call]
    assert (replayed(first).stop_reason, replayed(second).text) == ("tool_use", "one")
    assert first.headers["x-kimi-simulator"] == "1"
    library.add_turn(made, "store", lambda: ())
    other = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "2"}]}
    miss = str(library.miss({"messages": [*made.messages[:2], other]}))
    assert 'message 3 of 3: block 1, tool_result: {"content": "2"} here, {"content": "1"} there' in miss


# --- misses -------------------------------------------------------------------------------------

DIFFERENCES: list[tuple[dict[str, Any], str]] = [
    (
        request(model="kimi-k3.1-pro-highspeed"),
        "model: 'kimi-k3.1-pro-highspeed' here, 'kimi-k3.1-pro' there",
    ),
    (request(max_tokens=99), "max_tokens (-n), the most that the reply may have: 99 here, 100 there"),
    (request(output_config={"effort": "high"}, max_tokens=32_768), "effort: 'high' here, 'low' there"),
    (request(output_config=None, system="Sing."), "effort: 'max by default' here, 'low' there"),
    (
        request(output_config={"effort": "low", "format": {"type": "json_schema"}}),
        'schema: {"type": "json_schema"} here, none there',
    ),
    (request(system=None), "the system prompt: none here, 'Be brief.' there"),
    (
        request(system="Be brief. " * 40 + "Sing.", max_tokens=99),
        "the system prompt: 'Be brief. Be brief. Be brief. Be brief. Be brief.' … here, 'Be brief.' there",
    ),
    (request(tools=[{"name": "f"}], max_tokens=9), 'tools: [{"name": "f"}] here, none there'),
    (request(stop_sequences=["x"]), '--stop: ["x"] here, none there'),
    (
        request(messages=[user([]), {"role": "assistant", "content": "x"}, user("Why is the sky blue?")]),
        "message 1 of 3: '' here, 'Why is the sky blue?' there",
    ),
]


@pytest.mark.parametrize(
    ("asked", "words"), DIFFERENCES, ids=[words.partition(":")[0] for _, words in DIFFERENCES]
)
def test_a_miss_shows_the_first_difference_to_the_nearest_recording(
    asked: dict[str, Any], words: str
) -> None:
    error = Library([recording(request(messages=[user("Something else")])), recording()]).miss(asked)
    assert isinstance(error, ReplayError)
    assert f"The nearest recording (a.jsonl) differs in {words}." in str(error)
    assert "--replay auto" in str(error)


def test_of_equal_recordings_the_newest_is_the_nearest() -> None:
    one, two = recording(request(system="1")), recording(request(system="2"))
    for order, there in (([one, two], "2"), ([one, two, one], "1")):
        assert f"the system prompt: '3' here, '{there}' there" in str(
            Library(order).miss(request(system="3"))
        )


def test_a_long_prompt_is_shown_where_it_goes_another_way() -> None:
    long, other = "word " * 900 + "A" + " tail" * 900, "word " * 900 + "B" + " tail" * 900
    words = difference(request(messages=[user(long)]), request(messages=[user(other)]))
    assert len(words) < 200
    assert "word A tail" in words
    assert "word B tail" in words


def test_images_that_differ_are_not_shown_as_equal_texts() -> None:
    other = {**IMAGE, "source": {**IMAGE["source"], "data": "AAAA" * 99}}
    mine, theirs = (request(messages=[{"role": "user", "content": [i]}]) for i in (IMAGE, other))
    words = difference(mine, theirs)
    assert words.startswith("the prompt: block 1, image: ")
    assert "iVBORw0KGgo=" in words
    assert len(words) < 300


def test_equal_requests_whose_bytes_differ_are_told_apart() -> None:
    assert difference(dict(reversed(REQUEST.items())), REQUEST) == "the order of its fields"


def test_a_miss_without_any_recording_says_how_to_get_one() -> None:
    assert "(0 recordings are known)" in str(Library().miss(REQUEST))


def test_a_turn_without_its_context_is_still_named() -> None:
    library = Library()
    library.add_turn(turn("a", exchanges=(Exchange("f1", 1, {}),)), "b.ipynb")
    assert "(b.ipynb) differs in what came before the prompt" in str(
        library.miss(request(messages=[user("a")]))
    )


def test_the_nearest_of_very_many_is_found() -> None:
    many = [recording(request(messages=[user(f"Question {n}?")])) for n in range(300)]
    assert "the nearest (a.jsonl) is 'Question 17?'." in str(
        Library(many).miss(request(messages=[user("Question 17?!")], system="Sing."))
    )


def test_a_question_that_nothing_recorded_has_is_told_with_the_nearest_one() -> None:
    library = Library([recording(), recording(request(messages=[user("word " * 900 + "A" + " tail" * 900)]))])
    error = library.miss(request(messages=[user("Why is the sky green?")], max_tokens=9, model="other"))
    assert error.message == (
        "No recording has this question; the nearest (a.jsonl) is 'Why is the sky blue?'."
    )
    long = str(library.miss(request(messages=[user("word " * 900 + "B" + " tail" * 900)])))
    assert "is … 'word word word word A tail tail" in long
    assert len(long) < 250


def test_the_same_question_is_nearer_than_one_that_only_begins_like_it() -> None:
    begun = "word " * 900
    library = Library([recording(request(messages=[user(f"{begun}{end}")])) for end in ("one", "two")])
    assert "effort" in str(library.miss(request(messages=[user(f"{begun}one")], output_config=None)))


# --- cassettes ----------------------------------------------------------------------------------


def test_a_cassette_is_lines_that_a_person_can_read() -> None:
    made = Recording(
        REQUEST, ((0.0, "data: 深圳\n\n".encode()), (0.12345, b"\xff\n\n")), 200, {"set-cookie": "x"}
    )
    line = to_line(made)
    assert line.count("\n") == 1
    assert "深圳" in line
    (back,) = from_lines([line, "", "  "], "a.jsonl")
    assert back.request == REQUEST
    assert back.chunks == ((0.0, "data: 深圳\n\n".encode()), (0.1235, b"\xff\n\n"))
    assert back.headers == {}


@pytest.mark.parametrize(
    "line",
    ["{", "[]", "3", "{}", '{"request": 3, "status": 200, "headers": {}, "chunks": []}',
     '{"request": {}, "status": 200, "headers": [], "chunks": [[1]]}',
     '{"request": {}, "status": 200, "headers": {}, "chunks": [[0, {"base64": "?"}]]}',
     '{"request": {"messages": 5}, "status": 200, "headers": {}, "chunks": []}',
     '{"request": {"messages": [{"content": null}]}, "status": 200, "headers": {}, "chunks": []}',
     '{"request": {"output_config": 5}, "status": 200, "headers": {}, "chunks": []}'],
)  # fmt: skip
def test_a_line_that_is_no_recording_is_named(line: str) -> None:
    with pytest.raises(ReplayError, match=r"Line 2 of a.jsonl is no recording"):
        from_lines([to_line(recording()), line], "a.jsonl")
