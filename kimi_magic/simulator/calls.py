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
    places = _places(reading)
    before = _calls_so_far(reading.request["messages"])
    whole = Hints(reading.prompt, loose=True)
    return [
        {
            "type": "tool_use",
            "id": f"functions.{tool['name']}:{len(before) + n}",
            "name": tool["name"],
            "input": _arguments(tool, _said_of(tool["name"], reading.prompt, places), whole, reading.seed),
        }
        for n, tool in enumerate(_chosen(reading, places))
    ]


def _chosen(reading: Reading, places: dict[str, int]) -> list[Json]:
    steps = reading.wish("steps")
    again = steps is not None and reading.rounds < steps.number(1)
    kind = reading.choice["type"]
    if kind == "tool":
        return [tool for tool in reading.tools if tool["name"] == reading.choice["name"]]
    named = sorted((t for t in reading.tools if t["name"] in places), key=lambda t: places[t["name"]])
    if reading.choice.get("disable_parallel_tool_use"):
        named = named[:1]
    if not reading.rounds or again:
        forced = reading.tools[:1] if again or (kind == "any" and reading.search is None) else []
        return named or forced
    if kind != "any":
        return []
    # A call is still demanded: the tools that have had their turn would only be called for ever.
    called = _calls_so_far(reading.request["messages"][-2 * reading.rounds :])
    return [tool for tool in reading.tools if tool["name"] not in called][:1] or reading.tools[-1:]


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


def _said_of(name: str, prompt: str, places: dict[str, int]) -> str | None:
    """The prompt from this tool's name to the next tool's; None where it is not named."""
    if name not in places:
        return None
    later = [place for place in places.values() if place > places[name]]
    return prompt[places[name] + len(name) : min(later, default=len(prompt))]


def _arguments(tool: Json, said: str | None, whole: Hints, seed: str) -> Json:
    """From the words after the tool's name; from the whole prompt where those hold no value.

    A tool that is not named but must be called is there to collect data: all its fields are filled.
    """
    near = Hints(said or "", loose=True)
    hints = near if near.rich else whole
    value = example(tool["input_schema"], hints, seed=f"{seed}/{tool['name']}", optional=said is None)
    return value if isinstance(value, dict) else {}


def _calls_so_far(messages: list[Json]) -> list[str]:
    """The names of the tools called, in order."""
    blocks = [block for message in messages for block in as_blocks(message["content"])]
    return [block["name"] for block in blocks if block["type"] == "tool_use"]
