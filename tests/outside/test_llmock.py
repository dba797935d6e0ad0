"""Our client against llmock, which injects faults and grades what the client does about them."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from kimi_magic.client import Client, Limits
from kimi_magic.errors import (
    BadRequestError,
    KimiError,
    RateLimitError,
    ServerError,
    StreamError,
    TimeoutError,
)
from kimi_magic.retry import Policy
from kimi_magic.wire import ToolResultBlock, assistant, user

WEATHER: Any = {
    "name": "get_weather",
    "description": "The weather of a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
QUICK = Policy(tries=4, first_wait=0.2)


@pytest.fixture
def scenario(llmock_root: str) -> Any:
    """`scenario(*behaviours)` queues faults; at the end of the test the verdict must list nothing."""

    def queue(*behaviors: dict[str, Any]) -> None:
        httpx.post(f"{llmock_root}/_llmock/scenario", json={"behaviors": list(behaviors)}).raise_for_status()

    httpx.post(f"{llmock_root}/_llmock/reset").raise_for_status()
    yield queue
    verdict = httpx.get(f"{llmock_root}/_llmock/verdict").json()
    assert verdict["findings"] == []
    assert verdict["attempts"] > 0


def client(url: str, **settings: Any) -> Client:
    return Client("sk-test", url, **{"policy": QUICK, **settings})


ASK: Any = {"messages": [user("Tell me of the sea.")], "max_tokens": 500}


@pytest.mark.parametrize("stream", [True, False])
def test_text(llmock_url: str, scenario: Any, stream: bool) -> None:
    scenario({"type": "reply", "text": "你好 🌙 sea"})
    with client(llmock_url) as c:
        message = c.create(**ASK, stream=stream)
    assert message.text == "你好 🌙 sea"
    assert message.stop_reason == "end_turn"
    assert message.usage.input_tokens > 0


def test_a_tool_round(llmock_url: str, scenario: Any) -> None:
    messages = [user("What is the weather in Paris?")]
    with client(llmock_url) as c:
        first = c.create(messages=messages, max_tokens=500, tools=[WEATHER])
        (call,) = first.tool_uses
        assert call.name == "get_weather"
        assert isinstance(call.input["city"], str)
        messages += [assistant(first.content), user([ToolResultBlock.of(call.id, "sunny")])]
        last = c.create(messages=messages, max_tokens=500, tools=[WEATHER])
    assert last.stop_reason == "end_turn"
    assert last.text


def test_broken_tool_arguments_are_kept_as_text(llmock_url: str, scenario: Any) -> None:
    scenario({"type": "tool_fault", "kind": "malformed_arguments"})
    with client(llmock_url) as c:
        message = c.create(messages=[user("weather in Paris?")], max_tokens=500, tools=[WEATHER])
    assert message.tool_uses[0].raw_input
    assert message.tool_uses[0].input == {}


@pytest.mark.parametrize(("status", "times"), [(408, 2), (409, 1), (429, 1), (500, 2), (503, 1), (529, 1)])
def test_a_passing_error_is_waited_out(llmock_url: str, scenario: Any, status: int, times: int) -> None:
    scenario({"type": "fail", "status": status, "times": times})
    with client(llmock_url) as c:
        assert c.create(**ASK).text


def test_the_servers_own_wait_is_kept(llmock_url: str, scenario: Any) -> None:
    scenario({"type": "fail", "status": 429, "retry_after": 1})
    with client(llmock_url) as c:
        assert c.create(**ASK).text


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_final_error_is_not_tried_again(llmock_url: str, scenario: Any, status: int) -> None:
    scenario({"type": "fail", "status": status, "times": None})
    with client(llmock_url) as c, pytest.raises(KimiError):
        c.create(**ASK)


@pytest.mark.parametrize(("status", "cls"), [(429, RateLimitError), (500, ServerError), (503, ServerError)])
def test_an_outage_is_given_up_after_a_few_tries(
    llmock_url: str, scenario: Any, status: int, cls: type[KimiError]
) -> None:
    scenario({"type": "fail", "status": status, "times": 9})
    with client(llmock_url, policy=Policy(tries=2, first_wait=0.2)) as c, pytest.raises(cls):
        c.create(**ASK)


@pytest.mark.parametrize("kind", ["disconnect", "truncate", "malformed", "stall"])
def test_a_stream_that_breaks_before_the_content_is_asked_for_again(
    llmock_url: str, scenario: Any, kind: str
) -> None:
    long = {"type": "reply", "text": "word " * 20_000}  # it is still being sent when we have seen the fault
    scenario(long, {"type": "stream_fault", "kind": kind, "after_chunks": 1, "stall_seconds": 5})
    with client(llmock_url, limits=Limits(silence=0.5)) as c:
        assert c.create(**ASK).text


BREAKS = [
    ("disconnect", StreamError),
    ("truncate", StreamError),
    ("malformed", StreamError),
    ("stall", TimeoutError),
]


@pytest.mark.parametrize(("kind", "cls"), BREAKS)
def test_a_stream_that_breaks_inside_the_content_is_an_error_with_what_arrived(
    llmock_url: str, llmock_root: str, kind: str, cls: type[KimiError]
) -> None:
    """No verdict here: it asks for another request, and output that was shown must not be repeated."""
    httpx.post(f"{llmock_root}/_llmock/reset")
    behaviors = [
        {"type": "reply", "text": "word " * 200},
        {"type": "stream_fault", "kind": kind, "after_chunks": 9, "stall_seconds": 5},
    ]
    httpx.post(f"{llmock_root}/_llmock/scenario", json={"behaviors": behaviors}).raise_for_status()
    with client(llmock_url, limits=Limits(silence=0.5)) as c, pytest.raises(cls) as caught:
        c.create(**ASK)
    assert caught.value.partial.text.startswith("word")
    requests = httpx.get(f"{llmock_root}/_llmock/requests").json()
    assert len(requests["requests"] if isinstance(requests, dict) else requests) == 1


def test_a_prompt_that_is_too_long_is_a_bad_request(llmock_url: str, scenario: Any) -> None:
    scenario({"type": "fail", "status": 413})
    with client(llmock_url) as c, pytest.raises(BadRequestError):
        c.create(**ASK)
