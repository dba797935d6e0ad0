"""The simulator under clients that we did not write, each in a virtual environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kimi_magic.simulator import Simulator
from kimi_magic.transports import serve

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent


@pytest.fixture(params=[False, True], ids=["strict", "lenient"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    with serve(Simulator(lenient=request.param, speed=0)) as server:
        yield server.url


def run(bin_folder: Path, script: str, url: str) -> Any:
    env = {k: v for k, v in os.environ.items() if "proxy" not in k.lower() and not k.startswith("ANTHROPIC")}
    command = [str(bin_folder / "python"), str(HERE / script), url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_the_anthropic_sdk(url: str, venv: Callable[..., Path]) -> None:
    out = run(venv("anthropic", "anthropic==2.14.0"), "ask_anthropic.py", url)
    for way in ("stream", "whole", "beta"):
        assert out[way]["types"] == ["thinking", "text"]
        assert out[way]["stop_reason"] == "end_turn"
        assert out[way]["text"]
        assert out[way]["thinking"]
        assert out[way]["signed"]
        assert out[way]["output_tokens"] > 0
    assert out["stream"]["text"] == out["whole"]["text"]
    assert {"message_start", "content_block_delta", "message_stop"} <= set(out["stream"]["events"])
    assert [name for name, _ in out["tools"]["calls"]] == ["get_weather"]
    assert isinstance(out["tools"]["calls"][0][1]["city"], str)
    assert out["tools"]["first"]["stop_reason"] == "tool_use"
    assert out["tools"]["second"]["stop_reason"] == "end_turn"
    assert out["errors"] == {
        "bad-request": "BadRequestError",
        "unauthorized": "AuthenticationError",
        "rate-limited": "RateLimitError",
        "server-error": "InternalServerError",
        "overloaded": "OverloadedError",
        "stream-error": out["errors"]["stream-error"],
        "html": "InternalServerError",
    }
    assert out["errors"]["stream-error"] != "none"


@pytest.mark.parametrize(
    "url", [True], ids=["lenient"], indirect=True
)  # it sends both headers and `tools: []`
def test_chatlas(url: str, venv: Callable[..., Path]) -> None:
    out = run(venv("chatlas", "chatlas==0.23.0", "anthropic<2"), "ask_chatlas.py", url)
    assert out["text"]
    assert len(out["called"]) == 1
    assert out["with_tool"]
    assert out["pieces"] > 1


def test_pydantic_ai(url: str, venv: Callable[..., Path]) -> None:
    out = run(venv("pydantic-ai", "pydantic-ai-slim[anthropic]==2.68.0"), "ask_pydantic_ai.py", url)
    assert out["text"] == out["streamed"]
    assert out["pieces"] > 1
    assert len(out["called"]) == 1
    assert out["with_tool"]
    assert isinstance(out["typed"]["population"], int)
