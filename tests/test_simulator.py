"""The simulator through its door: request bytes in, reply bytes out, every reply judged by the API page."""

import base64
import copy
import json
import struct
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from contract import judge
from hypothesis import given, settings
from hypothesis import strategies as st

from kimi_magic.simulator import DIRECTIVES, MARK, Simulator

HEADERS = {"Authorization": "Bearer key"}
ADD = {
    "name": "add",
    "input_schema": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
}
WEATHER = {
    "name": "get_weather",
    "description": "Weather of a city.",
    "input_schema": {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            "days": {"type": "integer", "minimum": 1, "maximum": 7},
        },
        "required": ["city"],
    },
}
NOW = {"name": "now", "input_schema": {"type": "object", "properties": {}}}
SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}
FRAME = """Which species is the heaviest?

|    | species   |   mass |   count |
|---:|:----------|-------:|--------:|
|  0 | Adelie    | 3700.5 |     151 |
|  1 | Gentoo    | 5076   |     123 |
|  2 | Chinstrap | 3733.5 |         |
"""


REQUEST, RESPONSE, ERROR = judge("CreateMessageRequest"), judge("MessageResponse"), judge("ErrorResponse")


def request_of(prompt, **fields):
    messages = (
        [{"role": "user", "content": prompt}] if isinstance(prompt, (str, list)) else prompt["messages"]
    )
    return {"model": "kimi-k3.1-pro", "max_tokens": 4096, "messages": messages, **fields}


def send(simulator, request, headers=HEADERS):
    """(reply, its whole body); the reply is judged where it is JSON."""
    reply = simulator.reply(json.dumps(request).encode(), headers)
    body = b"".join(chunk for _, chunk in reply.chunks)
    assert reply.headers[MARK] == "1"
    assert reply.headers["request-id"].startswith("req_")
    return reply, body


def ask(simulator, prompt, **fields):
    """The whole message of a request that the page allows, validated."""
    request = request_of(prompt, **fields)
    reply, body = send(simulator, request)
    assert reply.status == 200, body
    message = json.loads(body)
    validate(message)
    return message


def validate(message):
    """The page's schema, but for what only the notes on the wire know."""
    known = copy.deepcopy(message)
    if known["stop_reason"] in ("stop_sequence", "pause_turn", "never_heard_of"):
        known["stop_reason"] = None
    known["content"] = [b for b in known["content"] if b["type"] not in ("redacted_thinking", "future_block")]
    RESPONSE.validate(known)
    usage = message["usage"]
    assert usage["output_tokens_details"]["thinking_tokens"] <= usage["output_tokens"]
    assert all(block["text"] for block in message["content"] if block["type"] == "text")


def refusal(simulator, request, headers=HEADERS):
    """(status, error type, message) of a refused request."""
    reply, body = send(simulator, request, headers)
    error = json.loads(body)
    ERROR.validate(error)
    assert error["type"] == "error"
    assert error["request_id"] == reply.headers["request-id"]
    return reply.status, error["error"]["type"], error["error"]["message"]


def events_of(simulator, prompt, **fields):
    reply, body = send(simulator, request_of(prompt, stream=True, **fields))
    assert reply.status == 200, body
    assert reply.headers["content-type"].startswith("text/event-stream")
    return read_events(body)


def read_events(body):
    events = []
    for part in body.decode().split("\n\n")[:-1]:
        name, data = part.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    return events


def assembled(events):
    """The message that a stream's events make."""
    message, inputs = {}, {}
    for event in events:
        kind = event["type"]
        if kind == "message_start":
            message = copy.deepcopy(event["message"])
        elif kind == "content_block_start":
            message["content"].append(copy.deepcopy(event["content_block"]))
            assert event["index"] == len(message["content"]) - 1
        elif kind == "content_block_delta":
            apply(message["content"][event["index"]], event["delta"], inputs, event["index"])
        elif kind == "content_block_stop" and event["index"] in inputs:
            text = inputs[event["index"]]
            message["content"][event["index"]]["input"] = json.loads(text) if text else {}
        elif kind == "message_delta":
            message.update(event["delta"])
            message["usage"].update(event["usage"])
    return message


def apply(block, delta, inputs, index):
    if delta["type"] == "input_json_delta":
        inputs[index] = inputs.get(index, "") + delta["partial_json"]
    elif delta["type"] == "citations_delta":
        block["citations"].append(delta["citation"])
    elif delta["type"] == "signature_delta":
        block["signature"] = delta["signature"]
    else:
        field = delta["type"].removesuffix("_delta")
        block[field] += delta[field]


def text_of(message):
    return "".join(block["text"] for block in message["content"] if block["type"] == "text")


def kinds(message):
    return [block["type"] for block in message["content"]]


def after(request, message, prompt):
    """The next request of a conversation, the reply sent back as it came."""
    messages = [
        *request["messages"],
        {"role": "assistant", "content": message["content"]},
        {"role": "user", "content": prompt},
    ]
    return {**request, "messages": messages}


@pytest.fixture
def simulator():
    return Simulator(speed=0)


# --- what it says -------------------------------------------------------------------------------


def test_a_reply_thinks_first_and_says_that_it_is_simulated(simulator):
    message = ask(simulator, "Why do site means drift?")
    assert kinds(message) == ["thinking", "text"]
    assert message["content"][0]["signature"]
    assert text_of(message).startswith("*Simulated reply")
    assert "“Why do site means drift?”" in text_of(message)


def test_more_effort_thinks_longer(simulator):
    sizes = {
        e: ask(simulator, "Hi", output_config={"effort": e})["usage"]["output_tokens_details"][
            "thinking_tokens"
        ]
        for e in ("none", "minimal", "low", "medium", "high", "xhigh", "max")
    }
    assert sizes["none"] == sizes["minimal"] == sizes["low"] < sizes["medium"] == sizes["high"]
    assert sizes["high"] < sizes["xhigh"] == sizes["max"]


PROMPTS = [
    ("Hello", {}),
    (FRAME, {}),
    ("Write code for it", {"system": "You are terse."}),
    ("用中文介绍深圳", {"system": [{"type": "text", "text": "You are terse."}]}),
    ("add 2 and 3, get_weather for 'Oslo', then now", {"tools": [ADD, WEATHER, NOW]}),
    ("Find the Kimi page", {"tools": [SEARCH]}),
    ("Stop at the comma, please", {"stop_sequences": ["model"]}),
    ("Hello", {"max_tokens": 30}),
    ("[[simulate: unknown]] [[simulate: redacted]] [[simulate: stop-reason never_heard_of]]", {}),
]


@pytest.mark.parametrize(("prompt", "fields"), PROMPTS)
@pytest.mark.parametrize("chunk", [1, 7, 10**6])
def test_a_stream_and_a_whole_reply_are_the_same_message(prompt, fields, chunk):
    whole = ask(Simulator(speed=0), prompt, **fields)
    streamed = assembled(events_of(Simulator(speed=0, chunk=chunk), prompt, **fields))
    validate(streamed)
    assert streamed == whole


def test_the_same_request_gets_the_same_message_from_any_simulator():
    first, second = (ask(Simulator(speed=0), FRAME) for _ in range(2))
    assert first == second
    assert ask(Simulator(speed=0), FRAME + "?")["id"] != first["id"]


def test_request_ids_are_never_repeated(simulator):
    ids = {send(simulator, request_of("Hi"))[0].headers["request-id"] for _ in range(5)}
    assert len(ids) == 5


def test_a_follow_up_knows_the_prompt_before_it(simulator):
    request = request_of("Count the penguins")
    later = after(request, ask(simulator, request), "And the seals?")
    text = text_of(ask(simulator, later))
    assert "turn 2" in text
    assert "“Count the penguins”" in text
    assert "“And the seals?”" in text


@pytest.mark.parametrize(
    "table",
    [
        FRAME,
        "Heaviest?\n\nspecies,mass,count\nAdelie,3700.5,151\nGentoo,5076,123\nChinstrap,3733.5,\n",
        "Heaviest?\n```csv\nspecies,mass,count\nAdelie,3700.5,151\nGentoo,5076,123\nChinstrap,3733.5,NaN\n```",
        "Heaviest?\nspecies\tmass\tcount\nAdelie\t3700.5\t151\nGentoo\t5076\t123\nChinstrap\t3733.5\t\n",
    ],
)
def test_a_table_in_the_prompt_is_counted_and_averaged(simulator, table):
    text = text_of(ask(simulator, table))
    assert "**3 rows** and 3 columns: `species`, `mass`, `count`" in text
    assert "| mass | 4,170 | 3,700.5 | 5,076 |" in text
    assert "| count | 137 | 123 | 151 |" in text
    assert "row of Gentoo" in text


def test_words_with_commas_are_no_table(simulator):
    text = text_of(ask(simulator, "Hello, how are you\nFine, thanks\nGood, 3 of them"))
    assert "rows**" not in text


@pytest.mark.parametrize(
    "prompt", ["Write a Python function", FRAME + "\nGive me code", "写一段代码：求\"平均\" '值'"]
)
def test_code_in_a_reply_runs(simulator, prompt):
    text = text_of(ask(simulator, prompt))
    code = text.split("```python\n")[1].split("```")[0]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout


def test_code_for_a_table_computes_its_mean(simulator):
    code = text_of(ask(simulator, FRAME + "\nGive me code")).split("```python\n")[1].split("```")[0]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "4170" in done.stdout


def test_math_comes_in_every_notation(simulator):
    text = text_of(ask(simulator, "Show me the formula for the mean"))
    assert all(mark in text for mark in ("\\(", "\\)", "\\[", "\\]", "$$"))


def test_chinese_is_answered_in_chinese_with_bold_beside_full_width_punctuation(simulator):
    message = ask(simulator, "介绍一下深圳")
    assert "模拟回复" in text_of(message)
    assert "：**" in text_of(message)
    assert "模拟器" in message["content"][0]["thinking"]
    assert "模拟" not in text_of(ask(simulator, "What does 深圳 mean?"))


@pytest.mark.parametrize(
    ("prompt", "least", "most"),
    [
        ("Write about 500 words on penguins", 2500, 8000),
        ("Give me a text of 20 KB", 20_000, 23_000),
        ("[[simulate: long 20KB]]", 20_000, 23_000),
        ("[[simulate: long 100 words]]", 500, 3000),
        ("Write a long report", 3000, 12_000),
        ("写 300 字介绍深圳", 600, 4000),
    ],
)
def test_a_long_text_has_the_size_asked_for(simulator, prompt, least, most):
    text = text_of(ask(simulator, prompt, max_tokens=100_000))
    assert least <= len(text.encode()) <= most
    assert "## " in text


def test_a_very_long_text_streams_in_as_many_deltas_as_its_length_asks(simulator):
    events = events_of(simulator, "[[simulate: long 400 KB]]", max_tokens=1_000_000)
    assert sum(event["type"] == "content_block_delta" for event in events) > 30_000


def png(width, height):
    return (
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", width, height) + b"\x08\x02\x00\x00\x00"
    )


IMAGES = [
    ("image/png", png(640, 480), "640 × 480"),
    ("image/gif", b"GIF89a" + struct.pack("<HH", 31, 17) + b"\x00\x00\x00", "31 × 17"),
    (
        "image/jpeg",
        b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08" + struct.pack(">HH", 200, 300) + b"\x03",
        "300 × 200",
    ),
    (
        "image/webp",
        b"RIFF\x00\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00\x3f\x00\x00\x1f\x00\x00",
        "64 × 32",
    ),
    ("image/webp", b"RIFF\x00\x00\x00\x00WEBPVP8L\x05\x00\x00\x00\x2f\x09\x40\x01\x00", "10 × 6"),
    (
        "image/webp",
        b"RIFF\x00\x00\x00\x00WEBPVP8 \x0a\x00\x00\x00\x00\x00\x00\x9d\x01\x2a\x0a\x00\x05\x00",
        "10 × 5",
    ),
    ("image/png", b"no image at all", "size unknown"),
]


@pytest.mark.parametrize(("media", "data", "size"), IMAGES)
def test_an_image_is_told_by_type_size_and_bytes(simulator, media, data, size):
    source = {"type": "base64", "media_type": media, "data": base64.b64encode(data).decode()}
    message = ask(simulator, [{"type": "image", "source": source}, {"type": "text", "text": "What is it?"}])
    assert f"`{media}`, {size}" in text_of(message)
    assert f"{len(data)} bytes" in text_of(message)
    assert message["usage"]["input_tokens"] + message["usage"]["cache_creation_input_tokens"] > 1000


def test_an_image_in_a_tool_result_and_one_by_url_are_told_too(simulator):
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(png(3, 2)).decode()}
    request = request_of("plot and see add", tools=[ADD])
    message = ask(simulator, request, tools=[ADD])
    content = [
        {"type": "image", "source": source},
        {"type": "image", "source": {"type": "url", "url": "https://x.y"}},
    ]
    result = {"type": "tool_result", "tool_use_id": message["content"][-1]["id"], "content": content}
    text = text_of(ask(simulator, after(request, message, [result]), tools=[ADD]))
    assert "3 × 2" in text
    assert "https://x.y" in text


@settings(deadline=None, max_examples=150)
@given(
    prompt=st.text(min_size=1).filter(str.strip), stream=st.booleans(), effort=st.sampled_from(["low", "max"])
)
def test_any_prompt_has_a_valid_reply(prompt, stream, effort):
    fields = {
        "output_config": {"effort": effort},
        "tools": [ADD, WEATHER, NOW],
        "tool_choice": {"type": "any"},
    }
    simulator = Simulator(speed=0, chunk=5)
    for extra in ({}, fields):
        if stream:
            validate(assembled(events_of(simulator, prompt, **extra)))
        else:
            ask(simulator, prompt, **extra)


@pytest.mark.parametrize(
    "prompt",
    [
        "1" * 50_000,
        "[[simulate: searches 1" + "0" * 400 + "]]",
        "a = " * 50_000,
        "write " * 50_000,
        "| a\n|" + " -" * 50_000,
    ],
)
def test_an_odd_prompt_is_only_an_odd_prompt(simulator, prompt):
    ask(simulator, prompt)
    ask(simulator, prompt, tools=[ADD], tool_choice={"type": "any"})


# --- limits -------------------------------------------------------------------------------------


@pytest.mark.parametrize("room", [1, 5, 100, 260, 300])
@pytest.mark.parametrize("prompt", ["Hello there", "你好，介绍一下深圳"])
def test_max_tokens_cuts_thinking_and_text_alike(simulator, prompt, room):
    whole, cut = ask(simulator, prompt), ask(simulator, prompt, max_tokens=room)
    assert cut["stop_reason"] == "max_tokens"
    assert cut["usage"]["output_tokens"] <= room
    before, after_cut = (m["content"][0]["thinking"] for m in (whole, cut))
    assert before.startswith(after_cut)
    assert bool(cut["content"][0]["signature"]) == (before == after_cut)


def test_max_tokens_can_cut_the_arguments_of_a_call(simulator):
    fields = {"tools": [ADD], "output_config": {"effort": "low"}}
    whole = ask(simulator, "add 2 and 3", **fields)
    room = whole["usage"]["output_tokens"] - 2
    assert ask(simulator, "add 2 and 3", max_tokens=room, **fields)["content"][-1]["input"] == {}
    events = events_of(simulator, "add 2 and 3", max_tokens=room, **fields)
    partial = "".join(
        e["delta"].get("partial_json", "") for e in events if e["type"] == "content_block_delta"
    )
    assert partial
    assert json.dumps(whole["content"][-1]["input"], separators=(",", ":")).startswith(partial)


@pytest.mark.parametrize("stop", ["no model", "read", "*", "“", "ulated reply: no model has read "])
def test_a_stop_sequence_ends_the_text_right_before_it(simulator, stop):
    whole = text_of(ask(simulator, "Hello"))
    message = ask(simulator, "Hello", stop_sequences=["never there", stop])
    assert text_of(message) == whole[: whole.index(stop)]
    assert (message["stop_reason"], message["stop_sequence"]) == ("stop_sequence", stop)


def test_usage_in_the_stream_is_a_running_total(simulator):
    events = events_of(simulator, "Hello")
    start, end = events[0]["message"]["usage"], events[-2]["usage"]
    assert start["output_tokens"] == 0 < end["output_tokens"]
    assert start["input_tokens"] == end["input_tokens"]
    assert "cache_creation" in start


# --- the prefix cache ---------------------------------------------------------------------------

LONG = "A long paper about penguins. " * 80  # about 580 tokens


class Hand:
    """A clock that is moved by hand."""

    now = 1000.0

    def __call__(self):
        return self.now


def counts(message):
    usage = message["usage"]
    return (
        usage["cache_read_input_tokens"],
        usage["cache_creation"]["ephemeral_5m_input_tokens"],
        usage["cache_creation"]["ephemeral_1h_input_tokens"],
    )


def test_a_conversation_reads_what_the_turn_before_wrote(simulator):
    request = request_of(LONG, system="Be terse.", tools=[NOW])
    first = ask(simulator, request, system="Be terse.", tools=[NOW])
    read, written, hour = counts(first)
    assert (read, hour) == (0, 0)
    assert written > 500
    total = written
    for n in range(3):
        request = after(request, first, f"Question {n}")
        first = ask(simulator, request, system="Be terse.", tools=[NOW])
        read, written, _ = counts(first)
        assert read == total
        assert written > 0
        total = read + written
    again = ask(simulator, request, system="Be terse.", tools=[NOW])
    assert counts(again) == (total, 0, 0)
    assert again["usage"]["input_tokens"] < 10


@pytest.mark.parametrize("ttl", ["5m", "1h"])
def test_a_prefix_expires_and_every_read_gives_it_its_time_again(ttl):
    clock = Hand()
    simulator = Simulator(speed=0, clock=clock)
    life = {"5m": 300, "1h": 3600}[ttl]
    fields = {"cache_control": {"type": "ephemeral", "ttl": ttl}}
    _, five, hour = counts(ask(simulator, LONG, **fields))
    size = five + hour
    assert (five > 0, hour > 0) == (ttl == "5m", ttl == "1h")
    for _ in range(3):
        clock.now += life - 1
        assert counts(ask(simulator, LONG, **fields)) == (size, 0, 0)
    clock.now += life
    read, five, hour = counts(ask(simulator, LONG, **fields))
    assert (read, five + hour) == (0, size)


def test_a_read_refreshes_a_prefix_for_as_long_as_it_was_written_for():
    clock = Hand()
    simulator = Simulator(speed=0, clock=clock)
    ask(simulator, LONG, cache_control={"type": "ephemeral", "ttl": "1h"})
    clock.now += 1000
    assert counts(ask(simulator, LONG))[0] > 500
    clock.now += 3000
    assert counts(ask(simulator, LONG))[0] > 500


def test_the_five_minute_cache_is_the_default(simulator):
    assert counts(ask(simulator, LONG, cache_control={"type": "ephemeral"}))[1] > 500
    assert counts(ask(simulator, LONG + "x"))[1] > 500


@pytest.mark.parametrize("change", ["one space in the reply", "the system prompt", "the model", "the tools"])
def test_any_change_in_the_prefix_misses_from_there_on(simulator, change):
    fields = {"system": LONG, "tools": [NOW]}
    request = request_of(LONG, **fields)
    request = after(request, ask(simulator, request, **fields), "And?")
    request = after(request, ask(simulator, request, **fields), "More?")
    read_all = counts(ask(simulator, request, **fields))[0]
    changed = copy.deepcopy(request)
    if change == "one space in the reply":
        changed["messages"][1]["content"][1]["text"] += " "
        assert 1000 < counts(ask(simulator, changed, **fields))[0] < read_all
        return
    fields = dict(fields)
    if change == "the system prompt":
        fields["system"] += "!"
    elif change == "the tools":
        fields["tools"] = [WEATHER]
    else:
        fields["model"] = "kimi-k3.1-pro-highspeed"
    assert counts(ask(simulator, changed, **fields))[0] == 0


def test_text_and_a_text_block_are_the_same_prefix(simulator):
    ask(simulator, LONG)
    assert counts(ask(simulator, [{"type": "text", "text": LONG}]))[0] > 500


def test_a_prefix_below_the_minimum_is_plain_input(simulator):
    for _ in range(2):
        message = ask(simulator, "Hello")
        assert counts(message) == (0, 0, 0)
        assert message["usage"]["input_tokens"] >= 2
    small = Simulator(speed=0, min_cache_tokens=1)
    ask(small, "Hello")
    assert counts(ask(small, "Hello"))[0] == 2


def test_a_refused_request_writes_no_cache(simulator):
    prompt = LONG + "[[simulate: overloaded x1]]"
    assert refusal(simulator, request_of(prompt))[0] == 529
    assert counts(ask(simulator, prompt))[0] == 0


# --- tools --------------------------------------------------------------------------------------


def calls_of(message):
    return [(block["name"], block["input"]) for block in message["content"] if block["type"] == "tool_use"]


def test_a_named_tool_is_called_with_the_values_of_the_prompt(simulator):
    message = ask(simulator, "Please add 2 and 40.", tools=[ADD, WEATHER, NOW])
    assert message["stop_reason"] == "tool_use"
    assert calls_of(message) == [("add", {"a": 2, "b": 40})]


def test_several_named_tools_are_called_at_once_each_with_its_own_words(simulator):
    prompt = (
        'add b = 7 and a = -3, then get weather for "Oslo" in fahrenheit for 3 days, then say what now is'
    )
    message = ask(simulator, prompt, tools=[NOW, WEATHER, ADD])
    assert calls_of(message) == [
        ("add", {"a": -3, "b": 7}),
        ("get_weather", {"city": "Oslo", "unit": "fahrenheit"}),
        ("now", {}),
    ]
    ids = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
    assert len(set(ids)) == 3


def test_a_call_without_arguments_streams_an_empty_text(simulator):
    events = events_of(simulator, "now?", tools=[NOW])
    parts = [
        e["delta"]["partial_json"] for e in events if e.get("delta", {}).get("type") == "input_json_delta"
    ]
    assert parts == [""]


def test_values_that_do_not_fit_the_schema_are_not_taken(simulator):
    message = ask(simulator, "get_weather for 'Oslo' days=30", tools=[WEATHER])
    assert 1 <= calls_of(message)[0][1].get("days", 1) <= 7


@pytest.mark.parametrize(("choice", "called"), [("auto", []), ("any", ["add"]), ("none", [])])
def test_tool_choice_decides_where_no_tool_is_named(simulator, choice, called):
    message = ask(simulator, "Hello", tools=[ADD, NOW], tool_choice={"type": choice})
    assert [name for name, _ in calls_of(message)] == called
    jsonschema.validate([i for _, i in calls_of(message)], {"items": ADD["input_schema"]})


def test_tool_choice_any_goes_on_with_the_tools_that_had_no_turn(simulator):
    fields = {"tools": [ADD, NOW], "tool_choice": {"type": "any"}}
    request, called = request_of("add 2 and 3", **fields), []
    for _ in range(3):
        message = ask(simulator, request, **fields)
        called += [name for name, _ in calls_of(message)]
        result = {"type": "tool_result", "tool_use_id": message["content"][-1]["id"], "content": "5"}
        request = after(request, message, [result])
    assert called == ["add", "now", "now"]


def test_a_tool_that_must_be_called_takes_its_values_from_the_whole_prompt(simulator):
    tool = {"name": "a_very_long_name_of_a_tool", "input_schema": WEATHER["input_schema"]}
    message = ask(simulator, "city: Oslo", tools=[tool], tool_choice={"type": "any"})
    assert calls_of(message)[0][1]["city"] == "Oslo"


def test_tool_choice_none_forbids_a_tool_that_is_named(simulator):
    assert calls_of(ask(simulator, "add 2 and 3", tools=[ADD], tool_choice={"type": "none"})) == []


def test_results_of_tools_are_quoted_in_the_answer(simulator):
    request = request_of("add 2 and 3, then now", tools=[ADD, NOW])
    message = ask(simulator, request, tools=[ADD, NOW])
    ids = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
    results = [
        {"type": "tool_result", "tool_use_id": ids[1], "content": "no clock", "is_error": True},
        {"type": "tool_result", "tool_use_id": ids[0], "content": [{"type": "text", "text": "5\n```\nsix"}]},
    ]
    answer = ask(simulator, after(request, message, results), tools=[ADD, NOW])
    assert answer["stop_reason"] == "end_turn"
    assert "`now` failed: `no clock`" in text_of(answer)
    assert "`add` returned" in text_of(answer)
    assert "````" in text_of(answer)


def test_steps_call_tools_round_after_round_with_ids_of_their_own(simulator):
    request = request_of("add 2 and 3 [[simulate: steps 3]]", tools=[ADD])
    seen = []
    for _ in range(4):
        message = ask(simulator, request, tools=[ADD])
        seen += [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        if message["stop_reason"] != "tool_use":
            break
        request = after(request, message, [{"type": "tool_result", "tool_use_id": seen[-1], "content": "5"}])
    assert len(seen) == len(set(seen)) == 3
    assert message["stop_reason"] == "end_turn"


# --- web search ---------------------------------------------------------------------------------


def test_a_search_has_results_on_reserved_domains_and_cited_sentences(simulator):
    message = ask(simulator, "Find the Kimi page", tools=[SEARCH])
    call, result = message["content"][1:3]
    assert (call["type"], call["name"]) == ("server_tool_use", "web_search")
    assert result["tool_use_id"] == call["id"]
    assert message["usage"]["server_tool_use"]["web_search_requests"] == 1
    urls = {page["url"]: page for page in result["content"]}
    assert all(url.startswith("https://example.") for url in urls)
    assert all(page["encrypted_content"] for page in urls.values())
    cited = [block for block in message["content"] if block.get("citations")]
    assert cited
    for block in cited:
        for citation in block["citations"]:
            assert citation["url"] in urls
            assert citation["cited_text"] in block["text"]
            assert citation["encrypted_index"]


def test_searches_beyond_max_uses_fail(simulator):
    message = ask(simulator, "[[simulate: searches 3]] Find it", tools=[SEARCH])
    results = [block["content"] for block in message["content"] if block["type"] == "web_search_tool_result"]
    assert [isinstance(content, list) for content in results] == [True, True, False]
    assert results[2] == {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    assert message["usage"]["server_tool_use"]["web_search_requests"] == 3


@pytest.mark.parametrize(
    ("words", "code"), [("", "unavailable"), (" too_many_requests", "too_many_requests")]
)
def test_a_search_fails_on_demand(simulator, words, code):
    message = ask(simulator, f"[[simulate: search-error{words}]] Find it", tools=[SEARCH])
    assert message["content"][2]["content"]["error_code"] == code
    assert code in text_of(message)


@pytest.mark.parametrize("times", [1, 3])
def test_a_paused_reply_goes_on_where_it_stopped(simulator, times):
    request = request_of(f"[[simulate: pause x{times}]] Find it", tools=[SEARCH])
    content = []
    for _ in range(times):
        message = ask(simulator, request, tools=[SEARCH])
        assert message["stop_reason"] == "pause_turn"
        content += message["content"]
        request = {**request, "messages": [request["messages"][0], {"role": "assistant", "content": content}]}
    last = ask(simulator, request, tools=[SEARCH])
    assert last["stop_reason"] == "end_turn"
    content += last["content"]
    asked = [block["id"] for block in content if block["type"] == "server_tool_use"]
    assert [b["tool_use_id"] for b in content if b["type"] == "web_search_tool_result"] == asked
    assert len(asked) == times
    ask(simulator, after(request_of("Find it"), {"content": content}, "And now?"))


# --- structured output --------------------------------------------------------------------------


def structured(simulator, prompt, schema, **fields):
    message = ask(
        simulator, prompt, output_config={"format": {"type": "json_schema", "schema": schema}}, **fields
    )
    return json.loads(text_of(message))


def test_a_schema_is_filled_from_the_prompt(simulator):
    schema = {
        "type": "object",
        "properties": {
            "result": {"type": "string"},
            "full_name": {"type": "string"},
            "age": {"type": "integer"},
            "height": {"type": "number"},
            "member": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "mood": {"type": "string", "enum": ["calm", "glad", "sad"]},
        },
        "required": ["result", "full_name"],
        "additionalProperties": False,
    }
    prompt = (
        "result equal to OK.\nFull name: Ada Lovelace\nage=36, height: 1.65\nmember: no\ntags: a, b\nGlad."
    )
    assert structured(simulator, prompt, schema) == {
        "result": "OK",
        "full_name": "Ada Lovelace",
        "age": 36,
        "height": 1.65,
        "member": False,
        "tags": ["a", "b"],
        "mood": "glad",
    }


def test_labels_vary_with_the_prompt(simulator):
    schema = {"type": "string", "enum": ["red", "green", "blue", "grey"]}
    assert len({structured(simulator, f"Row {n}", schema) for n in range(20)}) > 1


def test_structured_output_comes_after_tools_and_with_a_search(simulator):
    schema = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
    fields = {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
    message = ask(simulator, "add 2 and 3", tools=[ADD], **fields)
    assert message["stop_reason"] == "tool_use"
    searched = ask(simulator, "sum: 5", tools=[SEARCH], **fields)
    assert "web_search_tool_result" in kinds(searched)
    assert json.loads(text_of(searched)) == {"sum": 5}


NODE = {
    "type": "object",
    "properties": {
        "value": {"type": "integer"},
        "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
    },
    "required": ["value", "children"],
    "additionalProperties": False,
}
EXPRESSION = {
    "anyOf": [
        {
            "type": "object",
            "properties": {
                "op": {"const": "+"},
                "left": {"$ref": "#/$defs/E"},
                "right": {"$ref": "#/$defs/E"},
            },
            "required": ["op", "left", "right"],
        },
        {"type": "number"},
    ]
}
SCHEMAS = [
    {"$defs": {"Node": NODE}, "$ref": "#/$defs/Node"},
    {"$defs": {"E": EXPRESSION}, "type": "array", "items": {"$ref": "#/$defs/E"}, "minItems": 3},
    {
        "type": "array",
        "uniqueItems": True,
        "minItems": 6,
        "maxItems": 6,
        "items": {"type": "integer", "minimum": 3},
    },
    {"type": "array", "uniqueItems": True, "minItems": 3, "items": {"enum": ["a", "b", "c"]}},
    {"type": "array", "prefixItems": [{"const": 1}, {"type": "string"}], "items": False, "minItems": 2},
    {"type": "array", "contains": {"const": 7}, "minContains": 2, "minItems": 4},
    {"type": "string", "pattern": r"^[A-Z]{3}-\d{2,4}(x|y)?[^a-z]$"},
    {"type": "string", "pattern": r"^\w+@\w+\.(org|com)$", "minLength": 20},
    {"type": "string", "pattern": "b", "minLength": 12, "maxLength": 12},
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.001},
    {"type": "integer", "minimum": 10**9, "multipleOf": 7},
    {"type": "number", "multipleOf": 0.01, "minimum": 3.14},
    {"oneOf": [{"type": "integer", "multipleOf": 3}, {"type": "integer", "multipleOf": 5}]},
    {"not": {"type": ["string", "integer"]}},
    {"type": ["null", "boolean"]},
    {
        "if": {"properties": {"kind": {"const": "a"}}},
        "then": {"required": ["x"]},
        "type": "object",
        "required": ["kind"],
    },
    {
        "type": "object",
        "patternProperties": {"^n_": {"type": "integer"}},
        "minProperties": 2,
        "additionalProperties": False,
    },
    {"type": "object", "propertyNames": {"pattern": "^[a-c]{2}$"}, "minProperties": 1},
    {"type": "object", "required": ["unnamed"], "additionalProperties": {"type": "integer"}},
    {
        "allOf": [{"$ref": "#/$defs/A"}, {"properties": {"a": {"maximum": 4}}}],
        "$defs": {"A": {"properties": {"a": {"minimum": 3, "type": "integer"}}, "required": ["a"]}},
    },
    {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "oneOf": [{"minimum": 3}, {"type": "string", "maxLength": 2}],
    },
    {"definitions": {"D": {"enum": [None]}}, "$ref": "#/definitions/D"},
    {"type": "object", "properties": {"a": False, "b": True}},
    {"type": "object", "properties": {"a": False}, "minProperties": 1},
    {"type": "object", "required": ["a"], "dependentSchemas": {"a": {"required": ["c"]}, "b": False}},
    {"type": "array", "items": NODE, "uniqueItems": True, "minItems": 5, "$defs": {"Node": NODE}},
    {"$defs": {"a/b ~": {"type": "integer"}}, "$ref": "#/$defs/a~1b%20~0"},
    {"type": "string", "format": "email", "minLength": 40},
    {"type": "string", "format": "uuid", "pattern": "^[0-9a-f-]{36}$"},
    {"type": "string", "pattern": r"^\W+$", "minLength": 5, "maxLength": 5},
    {"type": "string", "pattern": r"^(?=.*[A-Z])(?=.*\d).{8,}$"},
    {},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=range(len(SCHEMAS)))
def test_structured_output_fits_unusual_schemas(schema):
    value = structured(Simulator(speed=0, lenient=True), "Anything", schema)
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    jsonschema.Draft202012Validator(schema, format_checker=checker).validate(value)


def bounds(low, high):
    return st.tuples(st.integers(low, high), st.integers(low, high)).map(sorted)


LEAVES = st.one_of(
    bounds(-50, 50).map(lambda b: {"type": "integer", "minimum": b[0], "maximum": b[1]}),
    st.tuples(st.integers(-90, 90), st.integers(2, 9)).map(
        lambda p: {"type": "integer", "exclusiveMinimum": p[0], "maximum": p[0] + p[1], "multipleOf": p[1]}
    ),
    bounds(-5, 5).map(lambda b: {"type": "number", "minimum": b[0] / 4, "exclusiveMaximum": b[1] / 4 + 0.01}),
    bounds(0, 40).map(lambda b: {"type": "string", "minLength": b[0], "maxLength": b[1]}),
    st.sampled_from([r"^\d{3}-[a-f]+$", "^(yes|no)$", r"^[^\s]{4,8}$", "x.z"]).map(
        lambda pattern: {"type": "string", "pattern": pattern}
    ),
    st.sampled_from(["date", "date-time", "email", "ipv4", "ipv6", "uuid", "uri", "time", "hostname"]).map(
        lambda name: {"type": "string", "format": name}
    ),
    st.lists(
        st.one_of(st.text(max_size=5), st.integers(), st.none(), st.booleans()), min_size=1, max_size=4
    ).map(lambda options: {"enum": options}),
    st.one_of(st.text(max_size=8), st.integers(), st.floats(-1e9, 1e9)).map(lambda value: {"const": value}),
    st.sampled_from(
        [{"type": "boolean"}, {"type": "null"}, {"type": ["string", "null"]}, {"$ref": "#/$defs/Node"}]
    ),
)


def composite(inner):
    names = st.sampled_from(["name", "age", "city", "values", "a b", "größe", "$ref", "type"])
    properties = st.dictionaries(names, inner, max_size=4)
    return st.one_of(
        st.tuples(properties, st.data(), st.booleans()).map(object_of),
        st.tuples(inner, bounds(0, 4)).map(
            lambda p: {"type": "array", "items": p[0], "minItems": p[1][0], "maxItems": p[1][1]}
        ),
        st.lists(inner, min_size=1, max_size=3).map(lambda branches: {"anyOf": branches}),
        inner.map(
            lambda branch: {"oneOf": [{"type": "array", "items": branch, "minItems": 1}, {"type": "boolean"}]}
        ),
        st.tuples(inner, inner).map(
            lambda p: {
                "allOf": [
                    {"type": "object", "properties": {n: s}, "required": [n]}
                    for n, s in zip("xy", p, strict=True)
                ]
            }
        ),
    )


def object_of(parts):
    properties, data, more = parts
    required = data.draw(st.lists(st.sampled_from(sorted(properties)), unique=True)) if properties else []
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": more}


@settings(deadline=None, max_examples=150)
@given(schema=st.recursive(LEAVES, composite, max_leaves=12), prompt=st.text(max_size=40))
def test_structured_output_fits_any_schema(schema, prompt):
    schema = {**schema, "$defs": {"Node": NODE}}
    value = structured(Simulator(speed=0, lenient=True), f"name: {prompt}.", schema, max_tokens=1_000_000)
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    jsonschema.Draft202012Validator(schema, format_checker=checker).validate(value)


DATES = {"type": "array", "items": {"type": "string", "format": "date"}, "minItems": 1}


@pytest.mark.parametrize("said", ["0", "2026-W01-1", "2026-02-30", "2026-01-31"])
@pytest.mark.parametrize(
    "field",
    [DATES["items"], DATES, {"oneOf": [DATES, {"type": "boolean"}]}, {"items": {"anyOf": [DATES["items"]]}}],
    ids=["alone", "in a list", "in a branch", "in a branch of a list"],
)
def test_what_the_prompt_says_is_taken_only_where_it_has_the_format_wherever_that_stands(field, said):
    schema = {"type": "object", "properties": {"day": field}, "required": ["day"]}
    value = structured(Simulator(speed=0, lenient=True), f"day: {said}", schema)
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    jsonschema.Draft202012Validator(schema, format_checker=checker).validate(value)
    assert (f'"{said}"' in json.dumps(value)) is (said == "2026-01-31")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 3, "maximum": 2},
        {"$defs": {"A": {"$ref": "#/$defs/A"}}, "$ref": "#/$defs/A"},
        {"$ref": "#/$defs/Missing"},
        {"$ref": "https://example.org/schema"},
        {
            "$defs": {
                "L": {"type": "object", "properties": {"next": {"$ref": "#/$defs/L"}}, "required": ["next"]}
            },
            "$ref": "#/$defs/L",
        },
        {"type": "string", "pattern": "(", "minLength": 1},
        {"type": {}},
        {"type": "object", "properties": 5},
        {"type": "object", "properties": {"a": {"type": "integer"}}, "required": 3},
        {"anyOf": 7},
        {"enum": 1},
        {"type": "integer", "minimum": "a"},
        {"type": "integer", "multipleOf": 0},
    ],
)
def test_a_schema_without_a_value_is_refused(schema):
    request = request_of("Hi", output_config={"format": {"type": "json_schema", "schema": schema}})
    status, kind, text = refusal(Simulator(speed=0, lenient=True), request)
    assert (status, kind) == (400, "invalid_request_error")
    assert "schema" in text


# --- what it refuses ----------------------------------------------------------------------------

THOUGHT = {"type": "thinking", "thinking": "Hm."}
CALL = {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1, "b": 2}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "3"}


def dialogue(*turns):
    roles = ("user", "assistant")
    return [{"role": roles[n % 2], "content": content} for n, content in enumerate(turns)]


def rich_request():
    """A request with everything in it that the page knows."""
    source = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    searched = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}}
    found = {
        "type": "web_search_tool_result",
        "tool_use_id": "s1",
        "content": [{"type": "web_search_result"}],
    }
    return {
        "model": "kimi-k3.1-pro",
        "max_tokens": 100,
        "system": [{"type": "text", "text": "Be terse."}],
        "stream": False,
        "tools": [ADD, SEARCH],
        "tool_choice": {"type": "auto"},
        "stop_sequences": ["END"],
        "cache_control": {"type": "ephemeral", "ttl": "1h"},
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}},
        "messages": dialogue(
            [{"type": "text", "text": "Hi"}, {"type": "image", "source": source}],
            [{**THOUGHT, "signature": "abc"}, searched, found, {"type": "text", "text": "So"}, CALL],
            [RESULT, {"type": "text", "text": "Go on"}],
        ),
    }


def test_a_request_with_everything_is_accepted(simulator):
    REQUEST.validate(rich_request())
    reply, body = send(simulator, rich_request())
    assert reply.status == 200, body


def test_an_empty_list_of_tools_is_as_good_as_none(simulator):
    request = request_of(LONG, tools=[])
    REQUEST.validate(request)
    ask(simulator, request_of(LONG))
    assert ask(simulator, request)["usage"]["cache_read_input_tokens"] > 0


BAD = [
    ("model", {"model": "gpt-9"}),
    ("model", {"model": None}),
    ("max_tokens", {"max_tokens": 0}),
    ("max_tokens", {"max_tokens": 1_048_577}),
    ("max_tokens", {"max_tokens": True}),
    ("max_tokens", {"max_tokens": 1.5}),
    ("messages", {"messages": []}),
    ("temperature", {"temperature": 0.5}),
    ("thinking", {"thinking": {"type": "enabled", "budget_tokens": 1000}}),
    ("stream", {"stream": "yes"}),
    ("system[0].text", {"system": [{"type": "text", "text": ""}]}),
    (
        "system[0].cache_control",
        {"system": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]},
    ),
    ("stop_sequences", {"stop_sequences": list("abcdef")}),
    ("stop_sequences[1]", {"stop_sequences": ["a", "深" * 11]}),
    ("stop_sequences[0]", {"stop_sequences": [""]}),
    ("cache_control.ttl", {"cache_control": {"type": "ephemeral", "ttl": "2h"}}),
    ("cache_control.type", {"cache_control": {"ttl": "1h"}}),
    ("output_config.effort", {"output_config": {"effort": "huge"}}),
    ("output_config.format.schema", {"output_config": {"format": {"type": "json_schema"}}}),
    ("output_config.format.type", {"output_config": {"format": {"type": "json_object"}}}),
    ("tools[1].name", {"tools": [ADD, ADD]}),
    ("tools[0].input_schema", {"tools": [{"name": "f"}]}),
    ("tools[0].input_schema.type", {"tools": [{"name": "f", "input_schema": {"properties": {}}}]}),
    ("tools[0].type", {"tools": [{"name": "f", "type": "bash_20250124"}]}),
    ("tools[0].max_uses", {"tools": [{**SEARCH, "max_uses": 0}]}),
    ("tools[0].name", {"tools": [{**SEARCH, "name": "search"}]}),
    ("tools[0].cache_control", {"tools": [{**ADD, "cache_control": {"type": "ephemeral"}}]}),
    ("tool_choice.type", {"tools": [ADD], "tool_choice": {"type": "tool", "name": "add"}}),
    ("tool_choice.type", {"tool_choice": {"type": "any"}}),
    ("messages[1].role", {"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]}),
    (
        "messages[0].role",
        {"messages": [{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]},
    ),
    ("messages[0].role", {"messages": [{"role": "system", "content": "a"}]}),
    ("messages[1].role", {"messages": dialogue("a", "b")}),
    ("messages[0].content", {"messages": dialogue("")}),
    ("messages[0].content", {"messages": dialogue([])}),
    ("messages[0].content[0].text", {"messages": dialogue([{"type": "text", "text": ""}])}),
    ("messages[0].content[0].type", {"messages": dialogue([THOUGHT])}),
    (
        "messages[0].content[0].cache_control",
        {"messages": dialogue([{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}])},
    ),
    (
        "messages[0].content[0].source.media_type",
        {
            "messages": dialogue(
                [{"type": "image", "source": {"type": "base64", "media_type": "image/bmp", "data": "aGk="}}]
            )
        },
    ),
    (
        "messages[0].content[0].source.data",
        {
            "messages": dialogue(
                [
                    {
                        "type": "image",
                        "source": {
                            "type": "base64",
                            "media_type": "image/png",
                            "data": "data:image/png;base64,aGk=",
                        },
                    }
                ]
            )
        },
    ),
    (
        "messages[0].content[0].source.url",
        {"messages": dialogue([{"type": "image", "source": {"type": "url"}}])},
    ),
    ("messages[1].content", {"messages": dialogue("a", [THOUGHT], "b")}),
    ("messages[1].content", {"messages": dialogue("a", [CALL], [RESULT])}),
    ("messages[2].content", {"messages": dialogue("a", [THOUGHT, CALL], "b")}),
    ("messages[1].content", {"messages": dialogue("a", [THOUGHT, CALL, CALL], [RESULT, RESULT])}),
    ("messages[2].content", {"messages": dialogue("a", [THOUGHT, CALL], [RESULT, RESULT])}),
    (
        "messages[2].content",
        {"messages": dialogue("a", [THOUGHT, CALL], [{"type": "text", "text": "a"}, RESULT])},
    ),
    ("messages[0].content", {"messages": dialogue([RESULT])}),
    ("messages[1].content", {"messages": dialogue("a", [THOUGHT, CALL])}),
    (
        "messages[2].content[0].content",
        {"messages": dialogue("a", [THOUGHT, CALL], [{**RESULT, "content": None}])},
    ),
    (
        "messages[2].content[0].content[0].text",
        {"messages": dialogue("a", [THOUGHT, CALL], [{**RESULT, "content": [{"type": "text", "text": ""}]}])},
    ),
    ("messages[1].content[0].input", {"messages": dialogue("a", [{**CALL, "input": "{}"}], [RESULT])}),
]


@pytest.mark.parametrize(("field", "change"), BAD, ids=[f"{n}-{field}" for n, (field, _) in enumerate(BAD)])
def test_a_bad_request_is_refused_with_the_name_of_its_field(simulator, field, change):
    status, kind, text = refusal(simulator, {**request_of("Hi"), **change})
    assert (status, kind) == (400, "invalid_request_error")
    assert text.startswith(field + ":")


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'"a"', b"\xff", b'{"a": "\\ud800"}', b'{"a": 1' + b"0" * 30 + b"}", b"[" * 9000],
)
def test_a_body_that_is_no_json_object_is_refused(simulator, body):
    reply = simulator.reply(body, HEADERS)
    assert reply.status == 400
    ERROR.validate(json.loads(b"".join(chunk for _, chunk in reply.chunks)))


@pytest.mark.parametrize(
    ("parameters", "fault"),
    [
        ({"p": {"$ref": "#/$defs/P", "description": "x"}}, "properties.p: no other keyword"),
        ({"p": {"$ref": "#/definitions/P"}}, "properties.p.$ref"),
        ({"p": {"$ref": "#/$defs/Q"}}, "properties.p.$ref"),
        ({"p": {"type": "string", "anyOf": [{"type": "string"}]}}, "properties.p: type"),
        ({"p": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"enum": [1]}]}}}, "items.anyOf[1]"),
    ],
)
def test_the_schema_dialect_is_the_servers(simulator, parameters, fault):
    schema = {"type": "object", "properties": parameters, "$defs": {"P": {"type": "string"}}}
    for fields in (
        {"tools": [{"name": "f", "input_schema": schema}]},
        {"output_config": {"format": {"type": "json_schema", "schema": schema}}},
    ):
        status, _, text = refusal(simulator, request_of("Hi", **fields))
        assert status == 400
        assert fault in text
        assert send(Simulator(speed=0, lenient=True), request_of("Hi", **fields))[0].status in (200, 400)


def test_what_an_attached_file_speaks_of_is_no_wish(simulator):
    file = "File `a.md`:\n```md\nA formula, code, and 200 KB: write 900 words.\n```\n\n"
    plain, attached = (text_of(ask(simulator, p)) for p in ("What is it?", f"{file}What is it?"))
    assert len(attached) < len(plain) + 500
    assert "```" not in attached
    assert "900 words" not in attached


def test_the_question_behind_attached_files_and_images_is_quoted(simulator):
    files = "File `a b.csv` (GBK):\n```csv\n站点,x\n北,1\n```\n\nFile `n.md`:\n````md\n```\nx\n```\n````\n\n"
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    for content in (
        [{"type": "text", "text": f"{files}What does it hold?\nBriefly."}],
        [
            {"type": "text", "text": f"{files}Image `one`:\n"},
            image,
            {"type": "text", "text": "Image `two`:\n"},
            image,
            {"type": "text", "text": "What does it hold?"},
        ],
    ):
        request = request_of("?")
        request["messages"] = [{"role": "user", "content": content}]
        _, body = send(simulator, request)
        assert "You asked: “What does it hold?”" in text_of(json.loads(body))
        _, body = send(simulator, after(request, json.loads(body), "And now?"))
        assert "Before it you asked: “What does it hold?”" in text_of(json.loads(body))


def test_properties_that_are_named_like_keywords_are_no_faults(simulator):
    properties = {"$ref": {"type": "string"}, "anyOf": {"type": "string"}, "type": {"type": "string"}}
    schema = {"type": "object", "properties": properties, "enum": [{"$ref": 1, "b": 2}]}
    assert send(simulator, request_of("Hi", tools=[{"name": "f", "input_schema": schema}]))[0].status == 200


def test_thinking_must_come_back_unchanged(simulator):
    request = request_of("Hi")
    message = ask(simulator, request)
    ask(simulator, after(request, message, "And?"))
    message["content"][0]["thinking"] += " "
    _, _, text = refusal(simulator, after(request, message, "And?"))
    assert text.startswith("messages[1].content[0].signature:")


def test_a_prompt_beyond_the_context_window_is_refused(simulator):
    status, _, text = refusal(simulator, request_of("word " * 900_000))
    assert status == 400
    assert "1,048,576" in text


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "key"},
        {"authorization": "Bearer "},
        {"x-api-key": "key"},
        {"AUTHORIZATION": "Bearer old"},
    ],
)
def test_a_missing_or_refused_key_is_401(headers):
    status, kind, _ = refusal(Simulator(speed=0, refused_keys={"old"}), request_of("Hi"), headers)
    assert (status, kind) == (401, "authentication_error")


LENIENT = [
    {"temperature": 0.2, "top_p": 1, "thinking": {"type": "disabled"}, "metadata": {"user_id": "u"}},
    {"model": "claude-something"},
    {"tools": [ADD], "tool_choice": {"type": "tool", "name": "add"}},
    {"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]},
    {"messages": dialogue("a", "b")},
    {"messages": dialogue("a", [CALL], [RESULT])},
    {"system": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]},
    {"tools": [{**ADD, "type": "custom"}], "tool_choice": {"type": "any", "disable_parallel_tool_use": True}},
]


@pytest.mark.parametrize("change", LENIENT)
def test_lenient_mode_takes_what_other_clients_send(change):
    simulator = Simulator(speed=0, lenient=True)
    reply, body = send(simulator, {**request_of("Hi"), **change}, {"x-api-key": "key"})
    assert reply.status == 200, body
    validate(json.loads(body))


def test_lenient_mode_obeys_a_named_tool_choice():
    simulator = Simulator(speed=0, lenient=True)
    message = ask(simulator, "Hi", tools=[NOW, ADD], tool_choice={"type": "tool", "name": "add"})
    assert [name for name, _ in calls_of(message)] == ["add"]


JUNK = st.one_of(
    st.sampled_from(["", "x", 0, -1, 1.5, True, [], {}, [1], {"type": "x"}, [[]], [{}], "text", 10**9])
)


def paths_of(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from paths_of(item, (*path, key))


PATHS = [path for path in paths_of(rich_request()) if path]


@settings(deadline=None, max_examples=400)
@given(path=st.sampled_from(PATHS), junk=JUNK, drop=st.booleans(), lenient=st.booleans())
def test_no_request_breaks_it_and_what_the_page_forbids_is_refused(path, junk, drop, lenient):
    request = copy.deepcopy(rich_request())
    holder = request
    for key in path[:-1]:
        holder = holder[key]
    if drop:
        del holder[path[-1]]
    else:
        holder[path[-1]] = junk
    reply, body = send(Simulator(speed=0, lenient=lenient), request)
    assert reply.status in (200, 400), body
    allowed = REQUEST.is_valid(request)
    # Blocks of unknown kinds go back in the assistant's messages; the page does not list them.
    unknown = path[:2] == ("messages", 1) and path[-1] in ("type", *range(9))
    assert lenient or allowed or unknown or reply.status == 400, request


# --- faults on demand ---------------------------------------------------------------------------

IN_PLACE = {
    "bad-request": (400, "invalid_request_error"),
    "unauthorized": (401, "authentication_error"),
    "forbidden": (403, "permission_error"),
    "rate-limited": (429, "rate_limit_error"),
    "quota": (429, "exceeded_current_quota_error"),
    "server-error": (500, "api_error"),
    "overloaded": (529, "overloaded_error"),
}


@pytest.mark.parametrize("name", IN_PLACE)
@pytest.mark.parametrize("stream", [True, False])
def test_an_error_comes_in_place_of_the_reply(simulator, name, stream):
    by_prompt = request_of(f"Hi\n[[simulate: {name}]]", stream=stream)
    by_model = {**request_of("Hi", stream=stream), "model": f"kimi-k3.1-pro:{name}"}
    for request in (by_prompt, by_model):
        assert refusal(simulator, request)[:2] == IN_PLACE[name]


def test_retry_after_is_as_asked(simulator):
    reply, _ = send(simulator, {**request_of("Hi"), "model": "kimi-k3.1-pro:rate-limited=7"})
    assert reply.headers["retry-after"] == "7"
    reply, _ = send(simulator, request_of("[[simulate: 429 2.5]]"))
    assert reply.headers["retry-after"] == "2.5"
    assert "retry-after" not in send(simulator, request_of("[[simulate: quota]]"))[0].headers


def test_a_fault_with_a_number_strikes_so_often_and_then_anew(simulator):
    request = request_of("[[simulate: overloaded x2]] Hi")
    statuses = [send(simulator, request)[0].status for _ in range(6)]
    assert statuses == [529, 529, 200, 529, 529, 200]


def test_faults_are_not_repeated_in_the_turns_after(simulator):
    request = request_of("add 2 and 3 [[simulate: overloaded x1]]", tools=[ADD])
    assert send(simulator, request)[0].status == 529
    message = ask(simulator, request, tools=[ADD])
    result = {"type": "tool_result", "tool_use_id": message["content"][-1]["id"], "content": "5"}
    assert send(simulator, after(request, message, [result]))[0].status == 200


def test_html_and_openai_shaped_errors(simulator):
    reply, body = send(simulator, request_of("[[simulate: html 502]]"))
    assert (reply.status, reply.headers["content-type"]) == (502, "text/html; charset=utf-8")
    assert body.startswith(b"<!DOCTYPE html>")
    reply, body = send(simulator, request_of("[[simulate: openai-error]]"))
    assert reply.status == 429
    assert "type" not in json.loads(body)


def test_a_dropped_connection_has_no_reply(simulator):
    with pytest.raises(ConnectionResetError):
        simulator.reply(json.dumps(request_of("[[simulate: drop]]")).encode(), HEADERS)


def broken_stream(simulator, prompt):
    """(delays and chunks, whether the connection broke)"""
    reply = simulator.reply(json.dumps(request_of(prompt, stream=True)).encode(), HEADERS)
    timed = []
    try:
        timed.extend(reply.chunks)
    except ConnectionResetError:
        return timed, True
    return timed, False


def test_a_stream_fails_in_its_middle_on_demand(simulator):
    for name, broke in (("cut", False), ("broken", True), ("garbled", False), ("stream-error", False)):
        timed, reset = broken_stream(simulator, f"Hi [[simulate: {name}]]")
        body = b"".join(chunk for _, chunk in timed)
        assert reset is broke
        assert b"text_delta" in body
        assert (b"message_stop" in body) is (name == "garbled")
        assert (b'"overloaded_error"' in body) is (name == "stream-error")
    timed, _ = broken_stream(simulator, "Hi [[simulate: garbled]]")
    with pytest.raises(json.JSONDecodeError):
        read_events(b"".join(chunk for _, chunk in timed))


def test_an_error_event_comes_before_any_content(simulator):
    timed, _ = broken_stream(simulator, "Hi [[simulate: early-error api_error]]")
    assert [event["type"] for event in read_events(b"".join(c for _, c in timed))] == [
        "message_start",
        "error",
    ]
    assert b"api_error" in timed[-1][1]


def test_slow_silent_and_pinging_streams_say_how_long_to_wait(simulator):
    timed, _ = broken_stream(simulator, "Hi [[simulate: slow 3]]")
    assert [delay for delay, _ in timed if delay] == [3]
    assert timed[0][0] == 3
    timed, _ = broken_stream(simulator, "Hi [[simulate: silence 40]]")
    assert [delay for delay, _ in timed if delay] == [40]
    assert timed[0][0] == 0
    timed, _ = broken_stream(simulator, "Hi [[simulate: pings 4]]")
    assert [chunk for delay, chunk in timed if delay] == [b'event: ping\ndata: {"type":"ping"}\n\n'] * 4


@pytest.mark.parametrize("name", ["cut", "broken", "garbled", "stream-error", "early-error"])
def test_a_whole_reply_fails_too(simulator, name):
    reply = simulator.reply(json.dumps(request_of(f"Hi [[simulate: {name}]]")).encode(), HEADERS)
    body, broke = b"", False
    try:
        for _, chunk in reply.chunks:
            body += chunk
    except ConnectionResetError:
        broke = True
    assert broke == (name == "broken")
    if name.endswith("error"):
        ERROR.validate(json.loads(body))
    else:
        with pytest.raises(ValueError, match=r".*"):
            json.loads(body)


def test_a_slow_whole_reply_waits(simulator):
    reply = simulator.reply(json.dumps(request_of("Hi [[simulate: slow 3]]")).encode(), HEADERS)
    assert [delay for delay, _ in reply.chunks] == [3]


def test_what_it_says_changes_on_demand(simulator):
    assert ask(simulator, "[[simulate: empty]]")["content"] == []
    assert ask(simulator, "[[simulate: refusal]] Hi")["stop_reason"] == "refusal"
    assert kinds(ask(simulator, "[[simulate: redacted thinking]] Hi")) == [
        "thinking",
        "redacted_thinking",
        "text",
    ]
    for name in ("unsigned", "no signature"):
        assert "signature" not in ask(simulator, f"[[simulate: {name}]] Hi")["content"][0]
    assert ask(simulator, "[[simulate: stop-reason never_heard_of]]")["stop_reason"] == "never_heard_of"


def test_unknown_events_and_blocks_come_on_demand_and_the_blocks_may_go_back(simulator):
    events = events_of(simulator, "[[simulate: unknown]] Hi")
    assert "gateway_note" in [event["type"] for event in events]
    message = assembled(events)
    assert kinds(message) == ["thinking", "future_block", "text"]
    ask(simulator, after(request_of("Hi"), message, "And?"))


def test_a_directive_that_it_does_not_know_changes_nothing_but_is_named(simulator):
    assert "the nearest is `overloaded`" in text_of(ask(simulator, "[[simulate: overladen]] Hi"))
    for prompt in ("[simulate: cut]", "simulate: cut", "[[simulation: cut]]", "{{ simulate: cut }}"):
        assert ask(simulator, prompt)["stop_reason"] == "end_turn"


def test_every_directive_is_named_in_this_file_and_in_the_documentation():
    import kimi_magic.simulator as package

    here = Path(__file__).read_text()
    for name in DIRECTIVES:
        assert f"simulate: {name}" in here or f'"{name}"' in here or name in IN_PLACE, name
        assert name in package.__doc__, name


# --- time ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("speed", [0, float("inf")])
def test_without_a_speed_nothing_waits(speed):
    reply = Simulator(speed=speed).reply(json.dumps(request_of("Hi", stream=True)).encode(), HEADERS)
    assert {delay for delay, _ in reply.chunks} == {0}


@pytest.mark.parametrize("stream", [True, False])
def test_a_reply_takes_the_time_of_its_tokens_and_highspeed_half_of_it(stream):
    def seconds(model):
        request = {**request_of("Hi"), "model": model, "stream": stream}
        return sum(
            delay for delay, _ in Simulator(speed=100).reply(json.dumps(request).encode(), HEADERS).chunks
        )

    tokens = ask(Simulator(speed=0), "Hi")["usage"]["output_tokens"]
    assert seconds("kimi-k3.1-pro") == pytest.approx(tokens / 100, abs=0.5)
    assert seconds("kimi-k3.1-pro-highspeed") == pytest.approx(seconds("kimi-k3.1-pro") / 2, rel=0.01)


def test_a_simulator_may_be_used_by_several_threads(simulator):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda _: send(simulator, request_of(LONG))[0].headers["request-id"], range(40)))
    assert len(set(ids)) == 40


# --- the door -----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages?beta=true", "/anthropic/v1/messages"])
def test_the_api_stands_under_any_prefix(simulator, path):
    headers = {**HEADERS, "anthropic-version": "2023-06-01", "anthropic-beta": "x"}
    assert simulator.handle("POST", path, headers, json.dumps(request_of("Hi")).encode()).status == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/v1/messages"), ("POST", "//v1/messages"), ("POST", "/messages"), ("GET", "/v1/messages")],
)
def test_anything_else_is_404(simulator, method, path):
    reply = simulator.handle(method, path, HEADERS, b"")
    assert reply.status == 404
    ERROR.validate(json.loads(b"".join(chunk for _, chunk in reply.chunks)))


@pytest.mark.parametrize("path", ["/", "/health"])
def test_it_says_in_one_line_what_it_is(simulator, path):
    reply = simulator.handle("GET", path, {}, b"")
    assert reply.status == 200
    assert b"".join(chunk for _, chunk in reply.chunks).count(b"\n") == 1
