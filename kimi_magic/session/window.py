"""How much of the model's context window a conversation fills, by estimate, and what to do about it.

A quarter of a token for an ASCII character, one for any other, a flat number for an image: the page
gives no tokenizer. So close to the limit the numbers are shown, and only what is far over it by any
count is refused before it is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from ..conversation import Turn
from ..errors import RequestError
from ..wire import CONTEXT_WINDOW, Request

NEAR = 0.9
"""The part of the window from which a cell warns."""
IMAGE_TOKENS = 1_000

SUMMARISE = (
    "Sum up our conversation so far, so that it can go on from your summary alone. Keep what was asked and"
    " decided, names, numbers, sources, code that is still in use, open questions, and how I want answers to"
    " be. Leave out what is settled and not needed any more. Write the summary only, in the language of the"
    " conversation."
)
"""What `%kimi compact` asks."""


class Window:
    """Estimates, each turn's made once: with all turns before it, which never change."""

    def __init__(self) -> None:
        self._upto: dict[str, int] = {}

    def tokens(self, request: Request, before: Sequence[Turn]) -> int:
        """The estimate for a request that sends these turns, a path, before its last message."""
        new = list(takewhile(lambda turn: turn.id not in self._upto, reversed(before)))
        total = self._upto[before[-len(new) - 1].id] if len(new) < len(before) else 0
        for turn in reversed(new):
            total += tokens(list(turn.messages))
            self._upto[turn.id] = total
        return total + tokens(request.messages[-1]) + tokens(list(request.tools)) + tokens(request.system)


def check(used: int) -> None:
    """Raise `RequestError` for a request that cannot fit."""
    if used > CONTEXT_WINDOW:
        raise RequestError(
            f"messages: about {used:,} tokens, and the context window has {CONTEXT_WINDOW:,}; nothing was"
            " sent.",
            hint="%kimi compact sums the conversation up, %kimi undo takes turns off, %kimi new or --once"
            " leaves it all out; or insert less.",
        )


def warning(used: int) -> str:
    """The line for a request that nearly fills the window, else nothing."""
    if used < NEAR * CONTEXT_WINDOW:
        return ""
    return (
        f"About {used:,} of the {CONTEXT_WINDOW:,} tokens of the context window are in use:"
        " %kimi compact sums the conversation up, %kimi new begins afresh."
    )


def tokens(value: Any) -> int:
    """The estimate for a JSON value."""
    if isinstance(value, str):
        ascii_only = len(value) if value.isascii() else len(value.encode("ascii", "ignore"))
        return len(value) - ascii_only + (ascii_only + 3) // 4
    if isinstance(value, dict):
        if value.get("type") == "image":
            return IMAGE_TOKENS
        return sum(map(tokens, value.values()))
    return sum(map(tokens, value)) if isinstance(value, list | tuple) else 1
