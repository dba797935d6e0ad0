"""The hook for Tab in IPython's completer, which serves kernels and terminals."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)

from .names import Names

if TYPE_CHECKING:
    from ..api import Kimi

_LINE = r"\s*(?:[^\s=%#'\"]+\s*=\s*)?%kimi\s"
"""`%kimi ` or `x = %kimi ` at the beginning of a line."""


def matcher(
    shell: Any, chat: Callable[[], Kimi | None]
) -> Callable[[CompletionContext], SimpleMatcherResult]:
    """The matcher to register: on a `%%kimi` or `%kimi` line it offers what can stand at the cursor, and
    nothing of IPython's own.

    chat: gives the notebook's chat, None before its first use.
    """

    @context_matcher()  # type: ignore[untyped-decorator]  # IPython has no types for it
    def kimi_matcher(context: CompletionContext) -> SimpleMatcherResult:
        before = context.text_until_cursor
        magic = re.match(_LINE if context.cursor_line else rf"\s*%%kimi\s|{_LINE}", before)
        if magic is None:
            return {"completions": []}
        from .completion import complete, complete_line

        text = before[magic.end() :]
        listed, known = Names(shell), _known(chat())
        if "%%" in magic[0]:
            found = complete(text, len(text), listed, known["NAME"])
        else:
            found = complete_line(text, len(text), listed, known)
        typed = text[found.start :]
        offered = found.matches or (() if found.is_prompt else (typed,))  # IPython's own fill an empty list
        return {
            "completions": [SimpleCompletion(text=match, type="magic") for match in offered],
            "matched_fragment": typed,
            "suppress": True,
        }

    offer: Callable[[CompletionContext], SimpleMatcherResult] = kimi_matcher
    return offer


def _known(chat: Kimi | None) -> dict[str, tuple[str, ...]]:
    """What is known by name beside variables: conversations, turns and jobs. They are not worth making a
    chat for."""
    if chat is None or not chat.conversations:
        return {"NAME": ()}
    return {
        "NAME": chat.conversations,
        "TURN": tuple(key[:6] for key in reversed(list(chat.conversation.turns))),
        "JOB": tuple(str(job.number) for job in chat.jobs.running),
    }
