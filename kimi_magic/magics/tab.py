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

from .names import Names

_LINE = r"\s*(?:[^\s=%#'\"]+\s*=\s*)?%kimi\s"
"""`%kimi ` or `x = %kimi ` at the beginning of a line."""


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
        magic = re.match(_LINE if context.cursor_line else rf"\s*%%kimi\s|{_LINE}", before)
        if magic is None:
            return {"completions": []}
        from .completion import complete, complete_line

        text = before[magic.end() :]
        listed, known = _known(names, conversations)
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


def _known(
    variables: Mapping[str, Any], conversations: Callable[[], tuple[str, ...]]
) -> tuple[Mapping[str, Any], dict[str, tuple[str, ...]]]:
    """The notebook's names, and what else is known by name: conversations, turns and jobs. Those are not
    worth making a chat for."""
    known = {"NAME": conversations()}
    shell = getattr(variables.get("get_ipython"), "__self__", None)
    if shell is None or not hasattr(shell, "user_ns_hidden"):  # the name has another value now
        return variables, known
    chat = getattr(shell.magics_manager.registry.get("KimiMagics"), "chat", None)
    if chat is not None and known["NAME"]:
        known["TURN"] = tuple(key[:6] for key in reversed(chat.conversation.turns))
        known["JOB"] = tuple(str(job.number) for job in chat.jobs.running)
    return Names(shell), known
