"""Our client against two more servers, each in a virtual environment of its own."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import free_port, running

from kimi_magic.client import Client
from kimi_magic.errors import (
    AuthenticationError,
    BadRequestError,
    KimiError,
    RateLimitError,
    ServerError,
)
from kimi_magic.retry import Policy
from kimi_magic.wire import ToolResultBlock, assistant, user

pytestmark = pytest.mark.slow
QUICK = Policy(tries=2, first_wait=0.01)
WEATHER: Any = {
    "name": "weather",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}


@pytest.fixture(scope="module")
def mock_ai(venv: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    port = free_port()  # its own command starts two servers in sessions of their own, and leaves them
    command = [str(venv("mock-ai-api", "mock-ai-api==0.1.1") / "python"), "-m", "uvicorn"]
    command += ["app.anthropic_app:app", "--host", "127.0.0.1", "--port", str(port)]
    log = tmp_path_factory.mktemp("mock-ai") / "log.txt"
    with running(command, port, log) as url, Client("sk-test", url, policy=QUICK) as client:
        yield client


@pytest.mark.parametrize("scenario", ["mock-text", "mock-anthropic-stream", "mock-delay"])
@pytest.mark.parametrize("stream", [True, False])
def test_mock_ai_text(mock_ai: Client, scenario: str, stream: bool) -> None:
    message = mock_ai.create(messages=[user("hi")], max_tokens=9, model=f"kimi:{scenario}", stream=stream)
    assert message.text
    assert message.stop_reason == "end_turn"


@pytest.mark.parametrize("scenario", ["mock-tool-use", "mock-tool-stream"])
def test_mock_ai_tools(mock_ai: Client, scenario: str) -> None:
    message = mock_ai.create(messages=[user("hi")], max_tokens=9, model=f"kimi:{scenario}")
    assert message.stop_reason == "tool_use"
    assert message.tool_uses[0].input
    assert message.tool_uses[0].raw_input is None


ERRORS = {
    "mock-400": BadRequestError,
    "mock-401": AuthenticationError,
    "mock-429": RateLimitError,
    "mock-500": ServerError,
    "mock-stream-error": ServerError,
}


@pytest.mark.parametrize("scenario", ERRORS)
def test_mock_ai_errors(mock_ai: Client, scenario: str) -> None:
    with pytest.raises(ERRORS[scenario]):
        mock_ai.create(messages=[user("hi")], max_tokens=9, model=f"kimi:{scenario}")


@pytest.fixture(scope="module")
def litellm(
    venv: Callable[..., Path], aimock_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    """litellm's proxy with aimock behind it: another encoder of the same replies."""
    folder = tmp_path_factory.mktemp("litellm")
    model = {"model": "anthropic/kimi-k3.1-pro", "api_base": aimock_url, "api_key": "sk-test"}
    config = {"model_list": [{"model_name": "kimi-k3.1-pro", "litellm_params": model}]}
    (folder / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
    port = free_port()
    command = [str(venv("litellm", "litellm[proxy]==1.108.7") / "litellm"), "--host", "127.0.0.1"]
    command += ["--port", str(port), "--config", str(folder / "config.yaml"), "--telemetry", "False"]
    key = f"sk-{secrets.token_hex(32)}"  # the proxy does not start without one
    env = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": key}
    with running(command, port, folder / "log.txt", **env) as url, Client(key, url, policy=QUICK) as client:
        yield client


@pytest.mark.parametrize("stream", [True, False])
def test_litellm_text_and_thinking(litellm: Client, stream: bool) -> None:
    greeted = litellm.create(messages=[user("greet")], max_tokens=500, stream=stream)
    assert greeted.text == "你好, world 🌙\n\n| a | b |\n|---|---|\n| 1 | 2 |"
    assert greeted.stop_reason == "end_turn"
    thought = litellm.create(messages=[user("think")], max_tokens=500, stream=stream)
    assert thought.thinking == "先想一想 🙂, then answer."
    assert thought.text == "42"


def test_litellm_tools(litellm: Client) -> None:
    messages = [user("weather")]
    first = litellm.create(messages=messages, max_tokens=500, tools=[WEATHER])
    assert [(t.name, t.input) for t in first.tool_uses] == [
        ("weather", {"city": "深圳", "days": 2}),
        ("now", {}),
    ]
    results = [ToolResultBlock.of(t.id, "sunny") for t in first.tool_uses]
    messages += [assistant(first.content), user(results)]
    last = litellm.create(messages=messages, max_tokens=500, tools=[WEATHER])
    assert last.text == "It is sunny in 深圳."


@pytest.mark.parametrize("prompt", ["rate limit", "bad request", "break off"])
def test_litellm_errors(litellm: Client, prompt: str) -> None:
    with pytest.raises(KimiError):
        litellm.create(messages=[user(prompt)], max_tokens=500)
