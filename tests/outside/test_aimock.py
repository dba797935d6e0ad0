"""Our clients against aimock, a server that knows nothing of us."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kimi_magic.client import AsyncClient, Client
from kimi_magic.errors import (
    AuthenticationError,
    BadRequestError,
    IncompleteStreamError,
    KimiError,
    RateLimitError,
)
from kimi_magic.retry import Policy
from kimi_magic.wire import Message, RedactedThinkingBlock, ThinkingBlock, ToolResultBlock, assistant, user

WEATHER: Any = {
    "name": "weather",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}
NOW: Any = {"name": "now", "input_schema": {"type": "object", "properties": {}}}
QUICK = Policy(tries=2, first_wait=0.01)


def ask(url: str, prompt: str, **fields: Any) -> Message:
    with Client("sk-test", url, policy=QUICK) as client:
        return client.create(messages=[user(prompt)], max_tokens=1000, **fields)


def aask(url: str, prompt: str, **fields: Any) -> Message:
    async def run() -> Message:
        async with AsyncClient("sk-test", url, policy=QUICK) as client:
            return await client.create(messages=[user(prompt)], max_tokens=1000, **fields)

    return asyncio.run(run())


@pytest.fixture(params=[ask, aask], ids=["sync", "async"])
def way(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.mark.parametrize("stream", [True, False])
def test_text(aimock_url: str, way: Any, stream: bool) -> None:
    message = way(aimock_url, "greet", stream=stream)
    assert message.text == "你好, world 🌙\n\n| a | b |\n|---|---|\n| 1 | 2 |"
    assert message.stop_reason == "end_turn"
    assert message.id


@pytest.mark.parametrize("stream", [True, False])
def test_thinking_with_its_signature(aimock_url: str, way: Any, stream: bool) -> None:
    message = way(aimock_url, "think", effort="low", stream=stream)
    thinking = message.content[0]
    assert isinstance(thinking, ThinkingBlock)
    assert (thinking.thinking, thinking.signature) == ("先想一想 🙂, then answer.", "c2ln+/==")
    assert message.text == "42"


def test_redacted_thinking(aimock_url: str, way: Any) -> None:
    blocks = way(aimock_url, "redacted").content
    assert [b.data for b in blocks if isinstance(b, RedactedThinkingBlock)] == ["QUJD"]


def test_a_tool_round(aimock_url: str) -> None:
    with Client("sk-test", aimock_url) as client:
        messages = [user("weather")]
        first = client.create(messages=messages, max_tokens=1000, tools=[WEATHER, NOW])
        assert first.stop_reason == "tool_use"
        assert [(t.name, t.input) for t in first.tool_uses] == [
            ("weather", {"city": "深圳", "days": 2}),
            ("now", {}),
        ]
        results = [ToolResultBlock.of(t.id, "sunny") for t in first.tool_uses]
        messages += [assistant(first.content), user(results)]
        last = client.create(messages=messages, max_tokens=1000, tools=[WEATHER, NOW])
    assert last.text == "It is sunny in 深圳."


@pytest.mark.parametrize(("prompt", "reason"), [("pause", "pause_turn"), ("cut short", "max_tokens")])
def test_stop_reasons(aimock_url: str, prompt: str, reason: str) -> None:
    assert ask(aimock_url, prompt).stop_reason == reason


def test_a_busy_server_is_asked_again(aimock_url: str) -> None:
    with Client("sk-test", aimock_url, policy=QUICK) as client:
        stream = client.stream(messages=[user("busy once")], max_tokens=1000)
        assert next(e.type for e in list(stream)) == "retry"
        assert stream.message.text == "now it works"


@pytest.mark.parametrize(
    ("prompt", "cls"), [("rate limit", RateLimitError), ("bad request", BadRequestError)]
)
def test_errors(aimock_url: str, way: Any, prompt: str, cls: type[KimiError]) -> None:
    with pytest.raises(cls):
        way(aimock_url, prompt)


def test_a_wrong_key(aimock_url: str) -> None:
    with Client("sk-wrong", aimock_url) as client, pytest.raises(AuthenticationError):
        client.create(messages=[user("greet")], max_tokens=1000)


def test_a_reply_that_breaks_off_keeps_what_arrived(aimock_url: str, way: Any) -> None:
    with pytest.raises(IncompleteStreamError) as caught:
        way(aimock_url, "break off")
    assert caught.value.partial.text.startswith("one ")


def test_one_connection_serves_many_replies(aimock_url: str) -> None:
    with Client("sk-test", aimock_url) as client:
        for _ in range(20):
            assert client.create(messages=[user("long")], max_tokens=1000).text == "深圳🚀 long text, "
