"""What to show of something longer than its budget, always said and never a bare `...`.

A budget is a number of characters. What does not go in is left out in the middle, since the
beginning and the end of a table, list or text say most.
"""

from __future__ import annotations

import re
from collections.abc import Callable

BUDGET = 50_000
"""Characters that one inserted value may have before part of it is left out."""

CUT = " characters left out here]"
"""How the mark of a cut ends."""


def fit(count: int, render: Callable[[int], str], budget: int, gap: int = 1) -> tuple[list[str], list[str]]:
    """The first and the last of `count` items whose texts go into `budget` characters.

    Everything is in the first list where everything goes in; else about two thirds of the budget
    are the head's. Only items that may be shown are rendered. gap: characters between two items.
    """
    head: list[str] = []
    used = 0
    for n in range(count):
        text = render(n)
        if used + len(text) + gap > budget:
            break
        head.append(text)
        used += len(text) + gap
    if len(head) == count:
        return head, []
    while head and used > budget * 2 // 3:
        used -= len(head.pop()) + gap
    tail: list[str] = []
    for n in range(count - 1, len(head) - 1, -1):
        text = render(n)
        if used + len(text) + gap > budget:
            break
        tail.append(text)
        used += len(text) + gap
    return head, tail[::-1]


def cut(text: str, budget: int) -> tuple[str, str]:
    """The text within about `budget` characters, and a note of what was left out ("" for nothing)."""
    if len(text) <= budget:
        return text, ""
    tail = budget // 3
    note = f"{len(text) - budget:,} of {len(text):,}"
    return f"{text[: budget - tail]}[{note}{CUT}{text[len(text) - tail :]}", f"{note} characters left out"


def shown(head: int, tail: int) -> str:
    """Which items stand there: `the first 10 and the last 5`."""
    if not head and not tail:
        return "none"
    return " and ".join(
        f"the {which} {number:,}" for which, number in (("first", head), ("last", tail)) if number
    )


def fenced(text: str, language: str = "") -> str:
    """The text in a markdown fence that is longer than any inside it."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    mark = "`" * (longest + 1)
    return f"{mark}{language}\n{text}{'' if text.endswith(chr(10)) or not text else chr(10)}{mark}"
