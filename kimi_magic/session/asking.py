"""What the user wants, and the request that it makes. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..conversation import Place
from ..wire import EFFORTS, MODELS, Block, Request

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

    replay: str = "off"
    """off: ask; auto: show what was recorded for the same request, else ask; only: never ask."""

    def limit(self) -> int:
        """`max_tokens`, or the default that suits the effort."""
        return self.max_tokens or MAX_TOKENS[EFFORTS.get(self.effort or "max", "max")]


@dataclass(frozen=True, slots=True)
class Plan:
    """The request that an `Ask` makes, and where its turn will stand."""

    ask: Ask
    request: Request
    place: Place = field(default_factory=lambda: Place(None))
