"""pydantic-ai at a base URL: text, a stream, a tool and a typed result. Runs in a venv of its own."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from anthropic import AsyncAnthropic
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider


class City(BaseModel):
    name: str
    population: int


async def main() -> dict[str, Any]:
    client = AsyncAnthropic(base_url=sys.argv[1], auth_token="k", api_key=None, max_retries=0)
    model = AnthropicModel("kimi-k3.1-pro", provider=AnthropicProvider(anthropic_client=client))
    settings: Any = {"max_tokens": 4000}
    plain = Agent(model, model_settings=settings)
    text = (await plain.run("Say hello and explain a prime number.")).output
    async with plain.run_stream("Say hello and explain a prime number.") as result:
        pieces = [piece async for piece in result.stream_text(delta=True, debounce_by=None)]
    called: list[str] = []
    agent = Agent(model, model_settings=settings)

    @agent.tool_plain
    def get_weather(city: str) -> str:
        """The weather of a city."""
        called.append(city)
        return f"sunny in {city}"

    with_tool = (await agent.run("Use get_weather for Paris.")).output
    typed = (await Agent(model, output_type=City, model_settings=settings).run("Name a city.")).output
    return {
        "text": text,
        "streamed": "".join(pieces),
        "pieces": len(pieces),
        "called": called,
        "with_tool": with_tool,
        "typed": typed.model_dump(),
    }


print(json.dumps(asyncio.run(main())))
