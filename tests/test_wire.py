"""The API's JSON as typed values and back: requests by the page's schemas, errors, blocks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from contract import judge
from hypothesis import given
from hypothesis import strategies as st

from kimi_magic.errors import (
    AuthenticationError,
    BadRequestError,
    OverloadedError,
    QuotaError,
    RateLimitError,
    RequestError,
    ServerError,
)
from kimi_magic.wire import (
    CACHE_TTLS,
    EFFORTS,
    MODELS,
    WEB_SEARCH,
    Block,
    ImageBlock,
    Message,
    Request,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    WebSearchResultBlock,
    api_error,
    assistant,
    block,
    content_blocks,
    user,
)

TOOL = {"name": "add", "description": "Adds", "input_schema": {"type": "object", "properties": {}}}
CALL = block({"type": "tool_use", "id": "functions.add:0", "name": "add", "input": {"a": 1}})


HISTORY = (
    user(
        [TextBlock.of("look"), ImageBlock.of("image/png", "QUJD"), ImageBlock.at("https://host.test/a.png")]
    ),
    assistant(
        [
            block({"type": "thinking", "thinking": "hm", "signature": "S"}),
            block({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}}),
            block({"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"url": "u"}]}),
            TextBlock.of("so"),
            CALL,
        ]
    ),
    user([ToolResultBlock.of("functions.add:0", [TextBlock.of("3"), ImageBlock.of("image/gif", "QUJD")])]),
)
REQUESTS = [
    {},
    {"model": MODELS[1], "max_tokens": 1_048_576, "stream": False},
    {"system": "be short"},
    {"system": [{"type": "text", "text": "be short"}]},
    *({"effort": effort} for effort in EFFORTS),
    {"schema": {"type": "object", "properties": {"a": {"type": "string"}}}, "effort": "low"},
    *({"cache_ttl": ttl} for ttl in CACHE_TTLS),
    {"stop_sequences": ("a", "深" * 10, "x" * 32)},
    {"tools": (TOOL, {**WEB_SEARCH, "max_uses": 3}), "tool_choice": "any"},
    {"messages": HISTORY},
]


@pytest.mark.parametrize("fields", REQUESTS, ids=range(len(REQUESTS)))
def test_every_request_follows_the_pages_schema(fields: dict[str, Any]) -> None:
    request = Request(**{"messages": (user("hi"),), **fields})
    request.check()
    judge("CreateMessageRequest").validate(json.loads(request.encode()))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"model": "gpt"}, "model: must be kimi-k3.1-pro or kimi-k3.1-pro-highspeed, not 'gpt'"),
        ({"max_tokens": 1_048_577}, "max_tokens: must be a whole number from 1 to 1,048,576, not 1048577"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"effort": "medium-ish"}, "effort"),
        ({"cache_ttl": "1d"}, "cache_control.ttl: must be 5m or 1h, not '1d'"),
        ({"tool_choice": "add"}, "tool_choice: must be auto, any or none, not 'add'"),
        ({"stop_sequences": ("",)}, "1 to 32 bytes"),
        ({"stop_sequences": ("x" * 33,)}, "has 33"),
        ({"stop_sequences": tuple("abcdef")}, "at most 5, not 6"),
        ({"tools": ({"name": "a b", "input_schema": {}},)}, r"tools\[0\].name"),
        ({"tools": (TOOL, TOOL)}, "twice"),
        ({"tools": ({"name": "a"},)}, r"tools\[0\].input_schema"),
        ({"tools": ({**WEB_SEARCH, "max_uses": 0},)}, r"tools\[0\].max_uses"),
        ({"messages": ()}, "at least one"),
        ({"messages": ("hi",)}, r"messages\[0\]: must be an object"),
        ({"messages": ({"role": "system", "content": "x"},)}, "role: must be user or assistant"),
        ({"messages": ({"role": "assistant", "content": "x"},)}, "first message is the user's"),
        ({"messages": (user(" \n"),)}, "is empty"),
        (
            {"messages": (user([ImageBlock.of("image/bmp", "QUJD")]),)},
            r"media_type: must be image/jpeg, .*bmp",
        ),
        ({"messages": (user([]),)}, "is empty"),
        ({"messages": ({"role": "user", "content": 5},)}, "must be text or a list of blocks"),
        ({"messages": ({"role": "user", "content": ["x"]},)}, "must be an object with a type"),
        ({"messages": (user("a"), assistant([CALL]))}, "have no tool_result"),
        ({"messages": (user("a"), assistant([CALL]), user("b"))}, "tool_result blocks answer"),
    ],
)
def test_what_the_page_rules_out_names_field_limit_and_value(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(RequestError, match=says):
        Request(**{"messages": (user("hi"),), **fields}).check()


def test_any_other_model_passes_where_it_may() -> None:
    Request(messages=(user("hi"),), model="own").check(any_model=True)


@pytest.mark.parametrize(("value", "says"), [(object(), "not JSON"), ("\udc00", "surrogate")])
def test_what_cannot_be_written_is_refused_when_it_is_encoded(value: object, says: str) -> None:
    request = Request(messages=(user("hi"), {"role": "assistant", "content": [{"type": "x", "v": value}]}))
    with pytest.raises(RequestError, match=says):
        request.encode()


texts = st.text(max_size=20)


@given(st.lists(texts.filter(str.strip), min_size=1, max_size=5), texts)
def test_a_longer_conversation_repeats_the_bytes_before_it(said: list[str], system: str) -> None:
    messages: list[Any] = []
    before = b""
    for n, text in enumerate(said):
        messages.append(user(text) if n % 2 == 0 else assistant([TextBlock.of(text)]))
        encoded = Request(messages=tuple(messages), system=system, tools=(TOOL,)).encode()
        assert encoded.startswith(before)
        assert encoded == Request(messages=tuple(messages), system=system, tools=(TOOL,)).encode()
        before = encoded.removesuffix(b"]}")


def test_blocks_read_their_json_and_keep_it() -> None:
    thinking = block({"type": "thinking", "thinking": "t"})
    assert isinstance(thinking, ThinkingBlock)
    assert thinking.signature is None
    assert thinking.json == {"type": "thinking", "thinking": "t"}
    assert isinstance(CALL, ToolUseBlock)
    assert (CALL.id, CALL.name, CALL.input) == ("functions.add:0", "add", {"a": 1})
    failed = block({"type": "web_search_tool_result", "content": {"error_code": "unavailable"}})
    assert isinstance(failed, WebSearchResultBlock)
    assert (failed.error_code, failed.results) == ("unavailable", [])
    unknown = block({"type": "hologram", "x": 1})
    assert type(unknown) is Block
    assert unknown.json == {"type": "hologram", "x": 1}
    assert content_blocks("a") == [TextBlock.of("a")]
    assert content_blocks("") == []
    assert ToolResultBlock.of("t", "no", is_error=True).is_error


def test_a_message_tells_text_thinking_and_its_own_tool_calls() -> None:
    server_call = block({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}})
    content = (
        block({"type": "thinking", "thinking": "a"}),
        TextBlock.of("b"),
        server_call,
        CALL,
        TextBlock.of("c"),
    )
    message = Message(content=content)
    assert (message.text, message.thinking, message.tool_uses) == ("bc", "a", [CALL])
    assert isinstance(server_call, ServerToolUseBlock)
    assert not message.is_empty
    assert Message(content=(TextBlock.of(""), block({"type": "thinking", "thinking": ""}))).is_empty
    assert Message().is_empty


@given(st.dictionaries(texts.filter(lambda k: k not in {"type", "role"}), st.one_of(texts, st.integers())))
def test_a_message_comes_back_equal_from_its_dict(extra: dict[str, Any]) -> None:
    known = {
        "id": "m",
        "model": "k",
        "content": [{"type": "x"}],
        "stop_reason": "end_turn",
        "usage": {"a": 1},
    }
    json_object = {**extra, **known}
    json_object.pop("stop_sequence", None)
    message = Message.from_dict(json_object)
    assert Message.from_dict(message.to_dict()) == message
    assert json_object.items() <= message.to_dict().items()


@pytest.mark.parametrize(
    ("status", "body", "cls"),
    [
        (400, {"error": {"type": "invalid_request_error", "message": "m"}}, BadRequestError),
        (401, {"error": {"type": "authentication_error", "message": "m"}}, AuthenticationError),
        (402, {}, QuotaError),
        (403, {"error": {"type": "permission_error", "message": "m"}}, AuthenticationError),
        (403, {"error": {"message": "insufficient balance"}}, QuotaError),
        (429, {"error": {"type": "rate_limit_error", "message": "m"}}, RateLimitError),
        (429, {"error": {"code": "insufficient_quota", "message": "m"}}, QuotaError),
        (429, {"error": {"type": "x", "code": "insufficient_user_quota", "message": "m"}}, QuotaError),
        (429, {"error": {"message": "You exceeded your current quota, check your plan"}}, QuotaError),
        (429, {"error": {"message": "额度不足"}}, QuotaError),
        (429, {"error": {"message": "请求过于频繁或额度不足"}}, RateLimitError),
        (500, None, ServerError),
        (503, "text", ServerError),
        (529, {"error": {"type": "overloaded_error"}}, OverloadedError),
        (None, {"error": {"type": "overloaded_error"}}, OverloadedError),
        (None, {"error": {"type": "unheard_of"}}, ServerError),
        (None, {"error": {"code": 401, "message": "m"}}, AuthenticationError),
        (None, {"error": {"code": "400"}}, BadRequestError),
    ],
)
def test_errors_by_status_and_type(status: int | None, body: Any, cls: type) -> None:
    error = api_error(status, body, request_id="r", retry_after=2.0)
    assert type(error) is cls
    assert (error.status, error.request_id, error.retry_after) == (status, "r", 2.0)
    assert error.hint or cls is BadRequestError


def test_missing_thinking_has_its_own_next_step() -> None:
    said = {"error": {"message": "reasoning_content is missing in assistant message"}}
    assert "%kimi new" in str(api_error(400, said))
