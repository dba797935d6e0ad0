"""The hook for Tab in IPython's completer, which serves kernels and terminals."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)


def matcher(
    names: Mapping[str, Any], conversations: Callable[[], tuple[str, ...]]
) -> Callable[[CompletionContext], SimpleMatcherResult]:
    """The matcher to register: on a `%%kimi` or `%kimi` line it offers what can stand at the cursor, and
    nothing of IPython's own.

    names: the notebook's variables. conversations: gives the names of its conversations.
    """

    @context_matcher()  # type: ignore[untyped-decorator]  # IPython has no types for it
    def kimi_matcher(context: CompletionContext) -> SimpleMatcherResult:
        before = context.text_until_cursor
        magic = re.match(r"\s*%kimi\s" if context.cursor_line else r"\s*%%?kimi\s", before)
        if magic is None:
            return {"completions": []}
        from .completion import complete, complete_line

        fill = complete if "%%" in magic[0] else complete_line
        found = fill(before[magic.end() :], len(before) - magic.end(), names, conversations())
        return {
            "completions": [SimpleCompletion(text=match, type="magic") for match in found.matches],
            "matched_fragment": before[magic.end() + found.start :],
            "suppress": True,
        }

    offer: Callable[[CompletionContext], SimpleMatcherResult] = kimi_matcher
    return offer
