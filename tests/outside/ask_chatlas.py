"""chatlas at a base URL: text, a tool and a second turn. Runs in a venv of its own."""

from __future__ import annotations

import json
import sys

from chatlas import ChatAnthropic

chat = ChatAnthropic(
    model="kimi-k3.1-pro",
    api_key="x",
    max_tokens=4000,
    kwargs={"base_url": sys.argv[1], "auth_token": "k"},
)
called: list[str] = []


def get_weather(city: str) -> str:
    """The weather of a city."""
    called.append(city)
    return f"sunny in {city}, 21 °C"


text = str(chat.chat("Say hello and explain a prime number.", echo="none"))
chat.register_tool(get_weather)
with_tool = str(chat.chat("Use get_weather for Paris.", echo="none"))
pieces = list(chat.stream("And what is a square number?"))
print(json.dumps({"text": text, "with_tool": with_tool, "called": called, "pieces": len(pieces)}))
