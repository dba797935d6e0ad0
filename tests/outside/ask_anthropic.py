"""The anthropic SDK at a base URL: prints what it made of each reply. Runs in a venv of its own."""

from __future__ import annotations

import json
import sys
from typing import Any

import anthropic

URL = sys.argv[1]
MODEL = "kimi-k3.1-pro"
WEATHER: Any = {
    "name": "get_weather",
    "description": "The weather of a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
client = anthropic.Anthropic(base_url=URL, auth_token="k", api_key=None, max_retries=0)


def ask(prompt: str, **fields: Any) -> Any:
    messages = fields.pop("messages", [{"role": "user", "content": prompt}])
    return {"model": MODEL, "max_tokens": 4000, "messages": messages, **fields}


def streamed(prompt: str, **fields: Any) -> Any:
    with client.messages.stream(**ask(prompt, **fields)) as stream:
        events = [event.type for event in stream]
        return stream.get_final_message(), events


def told(message: Any) -> dict[str, Any]:
    return {
        "types": [b.type for b in message.content],
        "text": "".join(b.text for b in message.content if b.type == "text"),
        "thinking": "".join(b.thinking for b in message.content if b.type == "thinking"),
        "signed": all(b.signature for b in message.content if b.type == "thinking"),
        "stop_reason": message.stop_reason,
        "input_tokens": message.usage.input_tokens,
        "output_tokens": message.usage.output_tokens,
    }


def error_of(prompt: str) -> str:
    try:
        streamed(prompt)
    except anthropic.AnthropicError as error:
        return type(error).__name__
    return "none"


out: dict[str, Any] = {}
message, events = streamed("Say hello and explain a prime number.")
out["stream"] = {**told(message), "events": sorted(set(events))}
out["whole"] = told(client.messages.create(**ask("Say hello and explain a prime number.")))
out["beta"] = told(client.beta.messages.create(**ask("Say hello.")))

first, _ = streamed("Use get_weather for Paris.", tools=[WEATHER])
calls = [b for b in first.content if b.type == "tool_use"]
history = [
    {"role": "user", "content": "Use get_weather for Paris."},
    {"role": "assistant", "content": [b.model_dump(mode="json", exclude_none=True) for b in first.content]},
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": c.id, "content": "sunny, 21 °C"} for c in calls],
    },
]
second, _ = streamed("", messages=history, tools=[WEATHER])
out["tools"] = {"calls": [[c.name, c.input] for c in calls], "first": told(first), "second": told(second)}
out["errors"] = {
    name: error_of(f"[[simulate: {name}]]")
    for name in (
        "bad-request",
        "unauthorized",
        "rate-limited",
        "server-error",
        "overloaded",
        "stream-error",
        "html",
    )
}
print(json.dumps(out))
