"""The options of a question, as one writes them in Python → an `Ask`: settings are the defaults, functions
become tools, a type becomes a schema. None stands for the default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..config import KimiMagic
from ..session import Ask, check_names
from ..tools import Schema, Tool, function_tools
from ..wire import Block

SEARCHES = 5
"""How often the server may search for one reply, where no number is given."""


def ask_of(
    content: Sequence[Block],
    options: Mapping[str, Any],
    settings: KimiMagic,
    conversation: str,
    as_tool: Callable[[Any], Tool],
) -> Ask:
    """The question. conversation: the one that goes on, where none is named. as_tool: what finds a tool that
    was named, or makes a function one. Raises `OptionError`, `ToolError` and `SchemaError`."""
    check_names(options, also=("images",))
    defaults: dict[str, Any] = {
        "model": settings.model,
        "effort": settings.effort or None,
        "max_tokens": settings.max_tokens or None,
        "cache_ttl": settings.cache or None,
        "conversation": conversation,
        "replay": settings.replay,
    }
    given = {name: value for name, value in options.items() if value is not None}
    if "tools" in given:
        given["tools"] = function_tools(as_tool(tool) for tool in given["tools"])
    if "schema" in given:
        given["schema"] = Schema.of(given["schema"])
    if isinstance(given.get("search"), bool):
        given["search"] = SEARCHES if given["search"] else None
    return Ask(content=tuple(content), **{**defaults, **given})
