"""How a turn ended: whether its reply can be sent back, and the error of one that cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..conversation import COMPLETE, CUT, REFUSED
from ..errors import CutReplyError, KimiError, NoAnswerError, RefusedReplyError
from ..wire import Message, TextBlock, ToolUseBlock
from .steps import MAX_PAUSES, Said

BY_ERROR: Mapping[type[KimiError], str] = {
    CutReplyError: CUT,
    NoAnswerError: CUT,
    RefusedReplyError: REFUSED,
}
"""What becomes of a turn that this error ended; others failed."""


def status_of(message: Message, said: Sequence[Said]) -> str:
    """Whether a reply that ended by itself can be sent back: its last message has text, and no call of
    ours is left without a result."""
    if message.stop_reason == "refusal":
        return REFUSED
    last = said[-1].content if said and said[-1].role == "assistant" else []
    answered = any(isinstance(b, TextBlock) and b.text.strip() for b in last)
    calls = any(type(b) is ToolUseBlock for b in last)
    return COMPLETE if answered and not calls and message.stop_reason != "pause_turn" else CUT


def no_answer(message: Message, max_tokens: int) -> NoAnswerError:
    """The error for a reply that is `CUT`. max_tokens: what the request allowed."""
    hint = "It is left out of the conversation; run the cell again."
    match message.stop_reason:
        case "max_tokens":
            why = f"The reply ended before its answer: max_tokens ({max_tokens:,}) was reached."
            hint = "Raise it (-n; in the panel: Most tokens): thinking counts, too."
        case "pause_turn":
            why = f"The server paused the reply {MAX_PAUSES + 1} times; it was not asked again."
        case other:
            why = "The reply ended before it said anything that a conversation can go on from"
            why = f"{why} (stop_reason: {other})."
    error = NoAnswerError(why, hint=hint)
    error.partial, error.request_id = message, message.request_id
    return error
