"""Which of the caller's tools a reply calls, and with what arguments.

A tool is called when the prompt names it. With tool_choice any the first tool is called where none
is named; in lenient mode a named tool_choice is obeyed. Arguments fit the tool's schema and are
taken from the prompt where it has them.
"""

from __future__ import annotations

import re

from ..wire import Json
from .cache import as_blocks
from .hints import Hints
from .reading import Reading
from .schema import example


def planned(reading: Reading) -> list[Json]:
    """The tool_use blocks of this reply; none where it should answer instead."""
    steps = reading.wish("steps")
    again = steps is not None and reading.rounds < steps.number(1)
    must = reading.choice["type"] in ("any", "tool")
    if (reading.rounds or reading.results) and not again and not must:
        return []
    places = _places(reading)
    if reading.choice["type"] == "tool":
        places = {reading.choice["name"]: 0}
    elif not places and (again or must) and reading.tools and not reading.search:
        places = {reading.tools[0]["name"]: 0}
    chosen = [tool for tool in reading.tools if tool["name"] in places]
    chosen.sort(key=lambda tool: places[tool["name"]])
    if reading.choice.get("disable_parallel_tool_use"):
        chosen = chosen[:1]
    before = _calls_so_far(reading)
    loose = Hints(reading.prompt, loose=True)
    return [
        {
            "type": "tool_use",
            "id": f"functions.{tool['name']}:{before + n}",
            "name": tool["name"],
            "input": _arguments(tool, _said_of(tool["name"], reading.prompt, places), loose, reading.seed),
        }
        for n, tool in enumerate(chosen)
    ]


def _places(reading: Reading) -> dict[str, int]:
    """Where the prompt names each tool, in its own spelling or with spaces for underscores."""
    found = {}
    for tool in reading.tools:
        name = str(tool["name"])
        spoken = re.escape(name.replace("_", " "))
        match = re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)|(?i:\b{spoken}\b)", reading.prompt)
        if match:
            found[name] = match.start()
    return found


def _said_of(name: str, prompt: str, places: dict[str, int]) -> str:
    """The prompt from this tool's name to the next tool's."""
    later = [place for place in places.values() if place > places[name]]
    return prompt[places[name] + len(name) : min(later, default=len(prompt))]


def _arguments(tool: Json, said: str, whole: Hints, seed: str) -> Json:
    """From the words after the tool's name; from the whole prompt where those hold no value."""
    near = Hints(said, loose=True)
    hints = near if near.rich else whole
    value = example(tool["input_schema"], hints, seed=f"{seed}/{tool['name']}", optional=False)
    return value if isinstance(value, dict) else {}


def _calls_so_far(reading: Reading) -> int:
    return sum(
        block["type"] == "tool_use"
        for message in reading.request["messages"]
        for block in as_blocks(message["content"])
    )
