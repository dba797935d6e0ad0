"""The stream parser: bytes → events → a message that is valid at any moment."""

from __future__ import annotations

import json
import random
from email.utils import formatdate
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kimi_magic.errors import (
    BadRequestError,
    EmptyResponseError,
    GatewayError,
    IncompleteStreamError,
    KimiError,
    OverloadedError,
    QuotaError,
    RateLimitError,
    ServerError,
    StreamDecodeError,
    TimeoutError,
)
from kimi_magic.retry import is_retryable
from kimi_magic.stream import (
    ContentBlockDelta,
    ContentBlockStart,
    EventDecoder,
    MessageStart,
    MessageStop,
    MessageStream,
    Reply,
    TextDelta,
    UnknownEvent,
)
from kimi_magic.wire import Message, Request, ToolUseBlock, Usage, assistant, block, user

Json = dict[str, Any]
CASES = sorted((Path(__file__).parent / "wire_cases").glob("*.http"))
START = {"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 3}}}
END = [
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
    {"type": "message_stop"},
]


def sse(*events: Json, ascii_only: bool = True, eol: str = "\n") -> bytes:
    lines = (
        f"event: {e['type']}{eol}data: {json.dumps(e, ensure_ascii=ascii_only)}{eol}{eol}" for e in events
    )
    return "".join(lines).encode("utf-8", "surrogatepass")


def start(json: Json, index: int = 0) -> Json:
    return {"type": "content_block_start", "index": index, "content_block": json}


def delta(json: Json, index: int = 0) -> Json:
    return {"type": "content_block_delta", "index": index, "delta": json}


def stop(index: int = 0) -> Json:
    return {"type": "content_block_stop", "index": index}


def text(value: str, index: int = 0) -> Json:
    return delta({"type": "text_delta", "text": value}, index)


def message_of(*events: Json) -> Message:
    stream = MessageStream()
    for _ in stream.feed(sse(START, *events, *END)):
        pass
    stream.close()
    return stream.message


def cut(data: bytes, cuts: set[int]) -> list[bytes]:
    places = sorted(c for c in cuts if c < len(data))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


def assert_valid(message: Message) -> None:
    """It can be shown, stored and sent back."""
    json.dumps(message.to_dict(), ensure_ascii=False).encode()
    Request(messages=(user("?"), assistant(message.content))).encode()
    assert isinstance(message.text + message.thinking, str)
    assert message.stop_reason is None or isinstance(message.stop_reason, str)
    for b in message.content:
        if isinstance(b, ToolUseBlock):
            assert isinstance(b.json["input"], dict)
    for name in ("input_tokens", "output_tokens"):
        assert isinstance(getattr(message.usage, name), int)


# --- any bytes ----------------------------------------------------------------------------------


def pump(pieces: list[bytes], status: int = 200) -> KimiError | None:
    """Feed a reply; whatever comes, its message stays valid and only our own errors come out."""
    reply, error = Reply(status, {}), None
    try:
        for piece in pieces:
            for _ in reply.feed(piece):
                assert_valid(reply.message)
            assert_valid(reply.message)
        for _ in reply.close():
            pass
    except KimiError as caught:
        error = caught
    if error is None:
        assert_valid(reply.message)
    elif error.partial is not None:
        assert_valid(error.partial)
    assert "\n" not in str(error)
    str(error).encode()
    return error


values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False),
        st.text(max_size=5),
        st.sampled_from(
            ["text", "thinking", "tool_use", "end_turn", "\ud83c", "\udf19", "a\ud83c", "{", '{"a":1}']
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "text",
                    "thinking",
                    "input",
                    "usage",
                    "content",
                    "stop_reason",
                    "citations",
                    "\ud83c",
                ]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=8,
)
_DELTA_FIELDS = ["text", "thinking", "partial_json", "signature", "citation"]
odd_events = st.fixed_dictionaries(
    {"type": st.sampled_from([
        "message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta",
        "message_stop", "ping", "error", "new_kind",
    ])},
    optional={
        "index": st.one_of(st.integers(0, 2), values),
        "message": values,
        "content_block": values,
        "delta": st.one_of(
            values,
            st.fixed_dictionaries({
                "type": st.sampled_from(
                    ["text_delta", "thinking_delta", "input_json_delta", "signature_delta", "citations_delta",
                     "x"]
                ),
            }, optional=dict.fromkeys(_DELTA_FIELDS, values)),
        ),
        "usage": values,
        "error": values,
        "request_id": values,
    },
)  # fmt: skip


@given(st.lists(odd_events, max_size=8))
@settings(deadline=None, max_examples=100)
def test_any_json_in_any_place_of_an_event_leaves_the_message_valid(events: list[Json]) -> None:
    pump([sse(*events)])


@given(values)
@settings(deadline=None, max_examples=200)
def test_any_json_as_a_whole_reply_leaves_the_message_valid(value: Any) -> None:
    pump([json.dumps(value).encode()])
    pump([json.dumps({"content": value, "stop_reason": "end_turn"}).encode()])
    pump([json.dumps({"content": [value], "usage": value, "stop_reason": value}).encode()])


@pytest.mark.parametrize("seed", range(300))
def test_a_damaged_reply_ends_the_same_way_wherever_it_is_cut(seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(CASES[seed % len(CASES)].read_bytes().partition(b"\r\n\r\n")[2])
    for _ in range(chance.randint(1, 12)):
        at = chance.randrange(len(data))
        match chance.randrange(4):
            case 0:
                data[at] = chance.randrange(256)
            case 1:
                del data[at : at + chance.randint(1, 40)]
            case 2:
                data[at:at] = data[chance.randrange(len(data)) :][: chance.randint(1, 200)]
            case _:
                data[at:at] = chance.choice(
                    [b"\r", b"\n", b'"', b"\\ud83c", b"\xf0\x9f", b"data: ", b"{}", b"\x00"]
                )
        data = data or bytearray(b"x")
    places = {chance.randrange(len(data)) for _ in range(5)}
    assert str(pump([bytes(data)])) == str(pump(cut(bytes(data), places)))


@pytest.mark.parametrize("deep", [201, 5_000, 200_000])
def test_json_nested_beyond_reason_is_refused_and_not_a_crash(deep: int) -> None:
    nest = "[" * deep + "]" * deep
    for line in (
        f'{{"type":"content_block_start","index":0,"content_block":{{"type":"x","a":{nest}}}}}',
        f'{{"type":"message_start","message":{{"a":{nest}}}}}',
        f'{{"type":"message_delta","delta":{{}},"usage":{{"a":{nest}}}}}',
        f'{{"type":"content_block_delta","index":0,"delta":{{"type":"citations_delta","citation":{{"a":{nest}}}}}}}',
    ):
        assert isinstance(
            pump([sse(start({"type": "text"})) + f"data: {line}\n\n".encode()]), StreamDecodeError
        )
    assert isinstance(pump([f'{{"content":[{{"type":"x","a":{nest}}}]}}'.encode()]), GatewayError)
    made = message_of(
        start({"type": "tool_use", "id": "t", "name": "f", "input": {}}),
        delta({"type": "input_json_delta", "partial_json": f'{{"a":{nest}}}'}),
    )
    assert made.tool_uses[0].raw_input is not None


# --- lines --------------------------------------------------------------------------------------


@given(
    st.lists(
        st.sampled_from(
            [b"a", b"\r", b"\n", b"data:", b"data: x", b"event: e", b":c", b" ", BOM := b"\xef\xbb\xbf"]
        )
    )
)
@settings(deadline=None, max_examples=300)
def test_events_do_not_depend_on_where_the_bytes_are_cut(parts: list[bytes]) -> None:
    data = b"".join(parts)
    whole = list(EventDecoder().feed(data))
    decoder = EventDecoder()
    assert [e for i in range(len(data)) for e in decoder.feed(data[i : i + 1])] == whole
    lines = data.removeprefix(BOM).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")[:-1]
    name, gathered, reference = b"", [], []
    for line in lines:
        field, _, value = line.partition(b":")
        if not line:
            reference += [(name, b"\n".join(gathered))] if gathered else []
            name, gathered = b"", []
        elif field == b"data":
            gathered.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
    assert whole == reference


def test_one_byte_order_mark_is_dropped_wherever_it_is_cut() -> None:
    data = BOM + b"data: x\n\n"
    for at in range(len(data)):
        decoder = EventDecoder()
        assert [*decoder.feed(data[:at]), *decoder.feed(data[at:])] == [(b"", b"x")]
    assert list(EventDecoder().feed(BOM + data)) == []


# --- blocks -------------------------------------------------------------------------------------

plain = st.text(max_size=30)
extras = st.dictionaries(st.sampled_from(["x_note", "cache", "意"]), plain, max_size=1)
arguments = st.dictionaries(plain, st.one_of(plain, st.integers(), st.lists(plain, max_size=2)), max_size=3)
citation = st.fixed_dictionaries(
    {"type": st.just("web_search_result_location"), "cited_text": plain, "encrypted_index": plain}
)
found = st.fixed_dictionaries(
    {"type": st.just("web_search_result"), "url": plain, "encrypted_content": plain}
)


def kind(name: str, /, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    optional = {k[1:]: v for k, v in fields.items() if k[0] == "_"}
    needed = {k: v for k, v in fields.items() if k[0] != "_"}
    body = st.fixed_dictionaries({"type": st.just(name), **needed}, optional=optional)
    return st.builds(lambda b, e: {**b, **e}, body, extras)


blocks = st.one_of(
    kind("text", text=plain, _citations=st.lists(citation, min_size=1, max_size=2)),
    kind("thinking", thinking=plain, _signature=plain),
    kind("redacted_thinking", data=plain),
    kind("tool_use", id=plain, name=plain, input=arguments),
    kind("server_tool_use", id=plain, name=plain, input=arguments),
    kind("web_search_tool_result", tool_use_id=plain, content=st.lists(found, max_size=2)),
    kind("hologram", data=plain, deep=arguments),
)
_GROWS = {
    "text": ("text", "text_delta"),
    "thinking": ("thinking", "thinking_delta"),
}


def streamed(draw: st.DrawFn, json_block: Json, index: int) -> list[Json]:
    """The events that would have streamed this block, its text cut anywhere, half a character too."""
    begin, deltas = dict(json_block), []
    if json_block["type"] in _GROWS:
        field, name = _GROWS[json_block["type"]]
        begin[field], *rest = pieces(draw, json_block[field])
        deltas += [{"type": name, field: piece} for piece in rest]
    if json_block["type"] in ("tool_use", "server_tool_use"):
        begin["input"] = {}
        whole = json.dumps(json_block["input"], ensure_ascii=draw(st.booleans()))
        deltas += [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(draw, whole)]
    if "signature" in json_block:
        begin["signature"] = draw(st.sampled_from(["", "old"]))
        deltas.append({"type": "signature_delta", "signature": json_block["signature"]})
    deltas += [{"type": "citations_delta", "citation": c} for c in begin.pop("citations", ())]
    return [start(begin, index), *(delta(d, index) for d in deltas), stop(index)]


def pieces(draw: st.DrawFn, value: str) -> list[str]:
    units = value.encode("utf-16-le", "surrogatepass")
    cuts = sorted(draw(st.sets(st.integers(0, len(units) // 2), max_size=4)))
    places = [0, *(2 * c for c in cuts), len(units)]
    return [units[a:b].decode("utf-16-le", "surrogatepass") for a, b in pairwise(places)]


@st.composite
def replies(draw: st.DrawFn) -> tuple[list[Json], bytes]:
    content = draw(st.lists(blocks, min_size=1, max_size=5))
    events: list[Json] = [START]
    one_index = draw(st.booleans())
    for index, json_block in enumerate(content):
        for event in streamed(draw, json_block, 0 if one_index else index):
            events += [event, *([{"type": "ping"}] if draw(st.booleans()) else [])]
    has_halves = any("\ud800" <= c <= "\udfff" for e in events for c in json.dumps(e, ensure_ascii=False))
    return content, sse(
        *events,
        *END,
        ascii_only=has_halves or draw(st.booleans()),
        eol=draw(st.sampled_from(["\n", "\r\n", "\r"])),
    )


@given(replies(), st.data())
@settings(deadline=None, max_examples=150)
def test_blocks_come_back_equal_for_any_mix_and_any_chunking(
    reply: tuple[list[Json], bytes], data: st.DataObject
) -> None:
    content, raw = reply
    cuts = data.draw(st.one_of(st.sets(st.integers(0, len(raw)), max_size=9), st.just(set(range(len(raw))))))
    stream = MessageStream()
    for piece in cut(raw, cuts):
        for _ in stream.feed(piece):
            assert_valid(stream.message)
    assert stream.done
    assert [b.json for b in stream.message.content] == content
    sent = json.loads(Request(messages=(user("?"), assistant(stream.message.content))).encode())
    assert sent["messages"][1]["content"] == content


@given(st.lists(blocks, max_size=5))
@settings(deadline=None)
def test_a_whole_json_reply_gives_the_same_blocks(content: list[Json]) -> None:
    whole = {"id": "m", "content": content, "stop_reason": "refusal", "usage": {"input_tokens": 1}}
    reply = Reply(200, {"content-type": "text/event-stream"})
    assert not list(reply.feed(json.dumps(whole).encode()))
    list(reply.close())
    assert [b.json for b in reply.message.content] == content
    assert reply.message.usage.input_tokens == 1


def test_what_is_shown_adds_up_to_the_message_also_where_a_character_is_cut_in_two() -> None:
    stream = MessageStream()
    shown = ""
    for event in stream.feed(
        sse(START, start({"type": "text", "text": "a\ud83c"}), text("\udf19b"), text("\ud83c"), stop(), *END)
    ):
        match event:
            case ContentBlockStart(_, json):
                shown += json["text"]
            case ContentBlockDelta(_, TextDelta(piece)):
                shown += piece
    assert shown == stream.message.text == "a🌙b\ufffd"


@pytest.mark.parametrize("field", ["text", "thinking"])
def test_half_a_character_that_nothing_completes_is_replaced_where_it_stood(field: str) -> None:
    halves = (delta({"type": f"{field}_delta", field: piece}) for piece in ("a\ud83c", "b", "\udf19c"))
    message = message_of(start({"type": field, field: ""}), *halves, stop())
    assert message.content[0].json[field] == "a\ufffdb\ufffdc"


def test_halves_of_characters_in_any_other_place_are_replaced() -> None:
    bad = "x\ud83c"
    message = message_of(
        {**START, "message": {"id": bad, bad: bad}},
        start({"type": "thinking", "thinking": "", "note": [bad]}),
        delta({"type": "signature_delta", "signature": bad}),
        delta({"type": "citations_delta", "citation": {bad: bad}}),
        start({"type": "hologram", bad: {bad: bad}}, 1),
        {"type": "message_delta", "delta": {"stop_sequence": bad}, "usage": {bad: bad}},
    )
    assert_valid(message)
    assert message.content[0].json["signature"] == "x\ufffd"


def test_a_second_start_at_one_index_opens_another_block() -> None:
    message = message_of(
        start({"type": "thinking", "thinking": ""}),
        delta({"type": "thinking_delta", "thinking": "why"}),
        stop(),
        start({"type": "text", "text": ""}),
        text("so"),
        stop(),
    )
    assert [b.json for b in message.content] == [
        {"type": "thinking", "thinking": "why"},
        {"type": "text", "text": "so"},
    ]


def test_a_delta_of_another_kind_than_its_block_opens_one_of_its_own() -> None:
    thinking = delta({"type": "thinking_delta", "thinking": "why"})
    signature = delta({"type": "signature_delta", "signature": "S"})
    message = message_of(thinking, signature, text("so"), stop())
    assert [b.json for b in message.content] == [
        {"type": "thinking", "thinking": "why", "signature": "S"},
        {"type": "text", "text": "so"},
    ]


def test_an_implied_block_is_announced_by_a_start() -> None:
    events = list(MessageStream().feed(sse(START, text("hi"), stop(), *END)))
    assert isinstance(events[1], ContentBlockStart)
    assert events[1].content_block == {"type": "text", "text": ""}


def test_arguments_or_unknown_deltas_without_a_block_open_none() -> None:
    message = message_of(
        delta({"type": "input_json_delta", "partial_json": "{}"}),
        delta({"type": "new", "x": 1}),
        text("ok", 1),
    )
    assert [b.json for b in message.content] == [{"type": "text", "text": "ok"}]


@pytest.mark.parametrize(
    ("field", "name", "value", "expected"),
    [
        ("text", "text_delta", "b", {"text": "ab"}),
        ("partial_json", "input_json_delta", '{"a": 1}', {"text": "a", "input": {"a": 1}}),
    ],
)
def test_a_kind_that_nobody_knows_grows_by_the_deltas_that_it_gets(
    field: str, name: str, value: str, expected: Json
) -> None:
    message = message_of(
        start({"type": "new_kind", "text": "a"}), delta({"type": name, field: value}), stop()
    )
    assert message.content[0].json == {"type": "new_kind", **expected}


@pytest.mark.parametrize(
    ("given_input", "parts", "expected", "raw"),
    [
        ({}, [], {}, None),
        ({}, [""], {}, None),
        ({"a": 1}, [""], {"a": 1}, None),
        ({"a": 1}, ['{"a"', ": 2}"], {"a": 2}, None),
        ('{"a": 1}', [], {"a": 1}, None),
        ([], [], {}, None),
        (None, [" "], {}, None),
        ({}, ['{"a": "\\ud83c', '\\udf19"}'], {"a": "🌙"}, None),
        ({}, ['{"a": "\ud83c', '\udf19"}'], {"a": "🌙"}, None),
        ({}, ['{"a": 1'], {}, '{"a": 1'),
        ({}, ["[1]"], {}, "[1]"),
        ({}, ['{"a": NaN}'], {}, '{"a": NaN}'),
    ],
)
def test_pieces_of_arguments_are_read_or_kept_raw(
    given_input: Any, parts: list[str], expected: Json, raw: str | None
) -> None:
    message = message_of(
        start({"type": "tool_use", "id": "t", "name": "f", "input": given_input}),
        *(delta({"type": "input_json_delta", "partial_json": part}) for part in parts),
        stop(),
    )
    assert message.tool_uses[0].input == expected
    assert message.tool_uses[0].raw_input == raw


@pytest.mark.parametrize("character", ["\u2028", "\u0085", "\u2029", "\x0c", "深", "🚀"])
def test_text_and_arguments_keep_every_character_wherever_the_bytes_are_cut(character: str) -> None:
    tool = start({"type": "tool_use", "id": "t", "name": "f", "input": {}}, 1)
    part = delta(
        {"type": "input_json_delta", "partial_json": json.dumps({"a": character}, ensure_ascii=False)}, 1
    )
    raw = sse(
        START,
        start({"type": "text", "text": ""}),
        text(f"甲{character}乙"),
        tool,
        part,
        *END,
        ascii_only=False,
    )
    for at in range(len(raw)):
        stream = MessageStream()
        for piece in (raw[:at], raw[at:]):
            list(stream.feed(piece))
        assert stream.message.text == f"甲{character}乙"
        assert stream.message.tool_uses[0].input == {"a": character}


def test_unknown_events_pass_and_what_is_no_event_is_skipped() -> None:
    data = b"event: gateway_note\ndata: not json\n\nevent: other\ndata: 5\n\ndata: [DONE]\n\n" + sse(
        {"type": "new"}
    )
    events = list(MessageStream().feed(data))
    assert [e.type for e in events] == ["new"]
    assert isinstance(events[0], UnknownEvent)


def test_a_message_start_may_hold_content() -> None:
    whole = {**START, "message": {"content": [{"type": "text", "text": "a"}, "junk"]}}
    stream = MessageStream()
    list(stream.feed(sse(whole, text("b"), *END)))
    assert stream.message.text == "ab"


# --- usage --------------------------------------------------------------------------------------

counts = st.dictionaries(
    st.sampled_from(["input_tokens", "output_tokens", "cache_read_input_tokens"]),
    st.one_of(st.none(), st.integers(0, 10**6)),
)


@given(st.lists(counts, max_size=4))
@settings(deadline=None)
def test_later_counts_overwrite_and_null_keeps(parts: list[dict[str, int | None]]) -> None:
    usage = Usage()
    for part in parts:
        usage = usage.merged(part)
    for name in ("input_tokens", "output_tokens", "cache_read_input_tokens"):
        said = [p[name] for p in parts if p.get(name) is not None]
        expected = said[-1] if said else (None if name.startswith("cache") else 0)
        assert getattr(usage, name) == expected


def test_nested_counts_merge_and_a_split_in_the_start_survives() -> None:
    usage = Usage({"cache_creation": {"ephemeral_5m_input_tokens": 4, "ephemeral_1h_input_tokens": 2}})
    later = usage.merged({"output_tokens": 9, "cache_creation": {"ephemeral_5m_input_tokens": None}})
    assert (later.ephemeral_5m_input_tokens, later.ephemeral_1h_input_tokens, later.output_tokens) == (
        4,
        2,
        9,
    )


# --- ends ---------------------------------------------------------------------------------------


def failure(
    data: bytes, status: int = 200, headers: dict[str, str] | None = None, now: float = 0.0
) -> KimiError:
    reply = Reply(status, headers or {})
    with pytest.raises(KimiError) as caught:
        [*reply.feed(data), *reply.close(now)]
    return caught.value


def test_the_end_is_message_stop_whatever_follows() -> None:
    stream = MessageStream()
    last = list(stream.feed(sse(START, text("a"), *END) + b"data: {junk\n\n"))[-1]
    assert isinstance(last, MessageStop)
    assert not list(stream.feed(sse(text("more"))))
    stream.close()
    assert stream.message.text == "a"


def test_an_end_without_a_stop_reason_is_incomplete_even_after_message_stop() -> None:
    error = failure(sse(START, text("a"), {"type": "message_stop"}))
    assert isinstance(error, IncompleteStreamError)
    assert error.partial.text == "a"
    assert isinstance(failure(b""), IncompleteStreamError)


@pytest.mark.parametrize(
    "content", [[], [{"type": "text", "text": ""}], [{"type": "thinking", "thinking": ""}]]
)
def test_a_finished_reply_without_a_character_is_empty(content: list[Json]) -> None:
    blocks = [start(json, i) for i, json in enumerate(content)]
    assert isinstance(failure(sse(START, *blocks, *END)), EmptyResponseError)
    whole = json.dumps({"content": content, "stop_reason": "end_turn"}).encode()
    assert isinstance(failure(whole), EmptyResponseError)


@pytest.mark.parametrize("reason", ["refusal", "max_tokens", "stop_sequence", "something_new"])
def test_other_stop_reasons_may_end_a_reply_before_its_first_character(reason: str) -> None:
    reply = Reply(200, {})
    ending = {"type": "message_delta", "delta": {"stop_reason": reason}}
    events = [*reply.feed(sse(START, ending)), *reply.close()]
    assert reply.message.stop_reason == reason
    assert isinstance(events[0], MessageStart)


def test_events_are_held_back_until_there_is_something_to_see() -> None:
    reply = Reply(200, {})
    assert not list(reply.feed(sse(START, {"type": "ping"}, start({"type": "text", "text": ""}))))
    assert [e.type for e in reply.feed(sse(text("a")))] == [
        "message_start", "ping", "content_block_start", "content_block_delta",
    ]  # fmt: skip
    assert [e.type for e in reply.feed(sse(text("b")))] == ["content_block_delta"]


def test_only_pings_for_too_long_is_a_timeout_and_anything_else_is_progress() -> None:
    reply = Reply(200, {}, now=100.0, progress_limit=50.0)
    ping = sse({"type": "ping"})
    list(reply.feed(sse(START), 149.0))
    for chunk, now in ((b": comment\n\n", 180.0), (ping, 199.0)):
        list(reply.feed(chunk, now))
    with pytest.raises(TimeoutError, match="nothing but pings for 51 s"):
        list(reply.feed(ping, 200.0))
    whole = Reply(200, {}, progress_limit=50.0)
    for now in (40.0, 80.0, 120.0):
        list(whole.feed(b'{"content": [', now))
    waiting = Reply(200, {}, progress_limit=50.0)
    with pytest.raises(TimeoutError):
        list(waiting.feed(b"\n", 51.0))


# --- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "cls"),
    [
        (200, {"type": "error", "error": {"type": "overloaded_error", "message": "m"}}, OverloadedError),
        (200, {"error": {"message": "m", "type": "invalid_request_error"}}, BadRequestError),
        (200, {"error": {"message": "m", "code": 429}}, RateLimitError),
        (200, {"type": "error"}, ServerError),
        (402, {"error": "no money"}, QuotaError),
        (404, {"detail": "Not Found"}, BadRequestError),
        (413, {"error": {"type": "request_too_large", "message": "m"}}, BadRequestError),
        (429, {"error": {"type": "rate_limit_error", "message": "m"}}, RateLimitError),
        (429, {"error": {"type": "exceeded_current_quota_error", "message": "m"}}, QuotaError),
        (500, {"error": {"type": "api_error", "message": "m"}}, ServerError),
        (529, {}, OverloadedError),
        (500, [1], GatewayError),
        (200, {"ok": True}, GatewayError),
        (307, {}, BadRequestError),
    ],
)
def test_errors_in_every_shape(status: int, body: Any, cls: type[KimiError]) -> None:
    assert type(failure(json.dumps(body).encode(), status)) is cls


@pytest.mark.parametrize("event_line", [b"event: error\n", b""])
@pytest.mark.parametrize(
    ("error", "cls"),
    [
        ({"type": "overloaded_error", "message": "m"}, OverloadedError),
        ({"type": "billing_error", "message": "m"}, QuotaError),
        ("just text", ServerError),
        (None, ServerError),
    ],
)
def test_an_error_event_in_a_stream(event_line: bytes, error: Any, cls: type[KimiError]) -> None:
    data = json.dumps({"type": "error", "error": error, "request_id": "req_1"}).encode()
    raised = failure(sse(START, text("a")) + event_line + b"data: " + data + b"\n\n")
    assert type(raised) is cls
    assert raised.request_id == "req_1"
    assert raised.partial.text == "a"


@pytest.mark.parametrize(
    "data", [b"the upstream is gone", b'{"type":"error","message":"the upstream is gone"}']
)
def test_an_error_event_of_another_make_keeps_its_words(data: bytes) -> None:
    raised = failure(sse(START, text("a")) + b"event: error\ndata: " + data + b"\n\n")
    assert type(raised) is ServerError
    assert "error: the upstream is gone." in str(raised)
    assert raised.partial.text == "a"


def test_an_openai_shaped_error_event_counts_too() -> None:
    raised = failure(sse(START) + b'data: {"error": {"message": "m", "code": "429"}}\n\n')
    assert type(raised) is RateLimitError


WHOLE = {"type": "message", "content": [{"type": "text", "text": "深"}], "stop_reason": "end_turn"}


def test_a_whole_reply_that_was_cut_is_incomplete_and_may_be_asked_for_again() -> None:
    body = json.dumps(WHOLE, ensure_ascii=False).encode()
    for end in range(1, len(body)):
        raised = pump([body[:end]])
        assert type(raised) is IncompleteStreamError
        assert is_retryable(raised)
    assert pump([body]) is None
    assert type(pump([body + b"}"])) is GatewayError


@pytest.mark.parametrize("content", [None, ""])
def test_a_whole_reply_without_content_is_an_empty_one(content: str | None) -> None:
    assert type(pump([json.dumps({**WHOLE, "content": content}).encode()])) is EmptyResponseError


def test_content_may_be_the_text_alone() -> None:
    reply = Reply(200, {})
    list(reply.feed(json.dumps({**WHOLE, "content": "a"}).encode()))
    list(reply.close())
    assert [b.json for b in reply.message.content] == [{"type": "text", "text": "a"}]


def test_a_line_of_text_is_no_cut_stream() -> None:
    for step in (1, 5, 99):
        said = b"no healthy upstream\n"
        raised = pump([said[i : i + step] for i in range(0, len(said), step)])
        assert type(raised) is GatewayError
        assert "'no healthy upstream'" in str(raised)
    for cut in (b"", b"\xef", b"eve", b"data", b": ok\n\n", b"data\n", b"event: message_st", b"retry: 5\n"):
        assert type(pump([cut])) is IncompleteStreamError


def test_a_message_with_a_null_error_is_a_message() -> None:
    reply = Reply(200, {})
    whole = {"error": None, "content": [{"type": "text", "text": "a"}], "stop_reason": "end_turn"}
    list(reply.feed(b"\xef\xbb\xbf \n" + json.dumps(whole).encode()))
    list(reply.close())
    assert reply.message.text == "a"


def test_the_servers_words_cannot_steer_a_terminal() -> None:
    for body in (
        b'{"error": {"message": "a\\u001b[2J\\nb", "type": "x\\u001b"}}',
        b"<title>a\x1b[2J\nb</title>",
    ):
        assert "\x1b" not in str(failure(body, 500))


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "3"}, 3.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": "-4"}, 0.0),
        ({"retry-after": formatdate(1_800_000_007, usegmt=True)}, 7.0),
        ({"retry-after": formatdate(1_800_000_007)}, 7.0),
        ({"retry-after": formatdate(1_700_000_000, usegmt=True)}, 0.0),
        ({"retry-after": "tomorrow"}, None),
        ({"retry-after": "nan"}, 0.0),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers: dict[str, str], seconds: float | None) -> None:
    body = b'{"error": {"type": "rate_limit_error"}}'
    assert failure(body, 429, headers, now=1_800_000_000.0).retry_after == seconds  # type: ignore[attr-defined]
    assert failure(b"<html>", 503, headers, now=1_800_000_000.0).retry_after == seconds  # type: ignore[attr-defined]


@given(st.one_of(st.text(), st.from_regex(r"\w{3}, \d+ \w{3} \d+ \d+:\d+:\d+ \S*")))
@settings(deadline=None)
def test_any_retry_after_is_read_or_passed_over(value: str) -> None:
    seconds = failure(b"{}", 429, {"retry-after": value}).retry_after  # type: ignore[attr-defined]
    assert seconds is None or seconds >= 0


def test_the_request_id_is_on_message_and_error() -> None:
    reply = Reply(200, {"Request-Id": "req_7"})
    list(reply.feed(sse(START, text("a"), *END)))
    assert reply.message.request_id == "req_7"
    assert failure(sse(START), 200, {"x-request-id": "req_8"}).request_id == "req_8"


def test_whatever_holds_a_block_stays_equal_to_the_block() -> None:
    assert block({"type": "text", "text": "a"}) == message_of(start({"type": "text", "text": "a"})).content[0]
