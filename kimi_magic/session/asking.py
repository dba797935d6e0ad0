"""What the user wants, and the request that it makes. Values only."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields

from ..conversation import Place
from ..errors import OptionError
from ..tools import Schema, Tool
from ..wire import EFFORTS, MODELS, WEB_SEARCH, Block, Json, Request
from .steps import MAX_STEPS

MAX_TOKENS: Mapping[str, int] = {"low": 16_384, "high": 32_768, "max": 65_536}
"""Default of `max_tokens` by what the server makes of the effort: thinking counts too, and more of
it wants more room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One question. None means the default of the session, or of the server."""

    content: tuple[Block, ...]
    """The user message: text and images, values put in."""
    prompt: str = ""
    """As the user wrote it."""
    model: str = MODELS[0]
    effort: str | None = None
    max_tokens: int | None = None
    system: str | None = None
    """For this turn only; else the conversation's."""
    cache_ttl: str | None = None
    stop_sequences: tuple[str, ...] = ()
    conversation: str = "main"
    cell: str | None = None
    new: bool = False
    """Begin afresh: nothing before is sent."""
    once: bool = False
    """Neither read nor write the conversation."""
    append: bool = False
    """Add a turn even where the cell has one."""
    compact: bool = False
    """The reply sums up the path, and goes into its place."""
    tools: tuple[Tool, ...] = ()
    """What the model may call, sorted by name (`tools.function_tools`)."""
    tool_choice: str | None = None
    """auto, any (for the first reply) or none."""
    max_steps: int = MAX_STEPS
    """Rounds of tool calls, at most."""
    schema: Schema | None = None
    """What the reply has to fill."""
    search: int | None = None
    """How often the server may search for one reply; None for never."""
    replay: str = "off"
    """off: ask; auto: show what was recorded for the same request, else ask; only: never ask."""

    def tool_list(self) -> tuple[Json, ...]:
        """`Request.tools`, by name: their order is part of what the server caches."""
        listed = [tool.to_json() for tool in self.tools]
        if self.search is not None:
            listed.append({**WEB_SEARCH, "max_uses": self.search})
        return tuple(sorted(listed, key=lambda tool: str(tool["name"])))

    def limit(self) -> int:
        """`max_tokens`, or the default that suits the effort."""
        return self.max_tokens or MAX_TOKENS[EFFORTS.get(self.effort or "max", "max")]


def check_names(names: Iterable[str], also: Collection[str] = ()) -> None:
    """Raise `OptionError` for a name of an option that no question has. also: further ones that pass."""
    known = [*(field.name for field in fields(Ask) if field.name != "content"), *also]
    for name in names:
        if name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, known, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join(known)}."
            raise OptionError(f"There is no option {name}.", hint=hint)


@dataclass(frozen=True, slots=True)
class Plan:
    """The request that an `Ask` makes, and where its turn will stand."""

    ask: Ask
    request: Request
    place: Place = field(default_factory=lambda: Place(None))
    warning: str = ""
    """A line for the user about the size of the request."""
    tokens: int = 0
    """About how many tokens the request has (`window`)."""
