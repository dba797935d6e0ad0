"""The requests that the rows of a batch make; rows with the same request share it.

Where the template begins with a long text that all rows have, that text is a block of its own: then
the first request is sent alone, and the others read its beginning from the server's cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..errors import KimiError, PromptError, RequestError
from ..prompt import ImageLimits, expand
from ..prompt.template import placeholders
from ..session import Plan, tokens
from ..wire import Block, Request, TextBlock, user
from .rows import Lacks, Rows

LONG = 1_000
"""Tokens of a beginning that is worth reading from the cache; servers of this kind cache none below
about as many."""


@dataclass(frozen=True, slots=True)
class Job:
    """One request, and the rows that make it."""

    fingerprint: str
    request: Request
    rows: tuple[int, ...]

    @property
    def tokens(self) -> int:
        """About how many it sends."""
        sent = self.request
        return tokens(list(sent.messages)) + tokens(list(sent.tools)) + tokens(sent.system or "")


@dataclass(frozen=True, slots=True)
class Jobs:
    """All requests of a batch, in the order of their first rows."""

    jobs: tuple[Job, ...]
    failures: Mapping[int, KimiError]
    """Rows that make no request, and why."""
    shared: int
    """About how many tokens all requests begin with."""


def plan_jobs(
    template: str,
    rows: Rows,
    values: Mapping[str, Any],
    base: Callable[[tuple[Block, ...]], Plan],
    limits: ImageLimits,
) -> tuple[Jobs, Plan | None]:
    """The requests for the rows, and the plan of the first one, which has all that they share. base: plans
    one with this content. A row that cannot be written or sent, or lacks a value, is a failure of its own;
    raises what is wrong with all of them."""
    head, lacks = _head(template), Lacks(template)
    found: dict[str, tuple[Request, list[int]]] = {}
    failures: dict[int, KimiError] = {}
    broken: list[KimiError] = []
    plan: Plan | None = None
    for number, names in enumerate(rows.namespaces(values)):
        lacking = lacks.first(rows.records[number], names)
        if lacking is not None:
            failures[number] = PromptError(f"{{{{ {lacking} }}}} is missing in this row.")
            continue
        try:
            content = _content(template, head, names, limits)
            if plan is None:
                plan = base(content)
            request = replace(plan.request, messages=(user(content),))
            request.check(any_model=True)  # the model was looked at with the first one
            found.setdefault(request.fingerprint(), (request, []))[1].append(number)
        except (PromptError, RequestError) as error:
            failures[number] = error
            broken.append(error)
    if plan is None and broken:
        raise broken[0]
    jobs = tuple(Job(key, request, tuple(numbers)) for key, (request, numbers) in found.items())
    return Jobs(jobs, failures, _shared(plan, head)), plan


def _head(template: str) -> int:
    """Where the text that all rows begin with ends: before the paragraph of the first value."""
    first = next(placeholders(template), None)
    if first is None:
        return 0
    end = template.rfind("\n\n", 0, first.start) + 2
    return end if end > 1 and tokens(template[:end]) >= LONG else 0


def _content(template: str, head: int, names: Mapping[str, Any], limits: ImageLimits) -> tuple[Block, ...]:
    rest = expand(template[head:], names, limits=limits).blocks
    if not head:
        return rest
    return (TextBlock.of(expand(template[:head], {}).text), *rest)


def _shared(plan: Plan | None, head: int) -> int:
    if plan is None:
        return 0
    request = plan.request
    first = request.messages[0]["content"]
    return (
        tokens(list(request.tools))
        + tokens(request.system or "")
        + (tokens(first[0]["text"]) if head and isinstance(first, list) else 0)
    )
