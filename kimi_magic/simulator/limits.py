"""Where a reply is cut: at the first stop sequence, exactly, and at max_tokens, thinking included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from ..wire import Json
from . import tokens
from .replies import Draft

_BODY = {"text": "text", "thinking": "thinking"}
_CALLS = ("tool_use", "server_tool_use")


@dataclass(frozen=True, slots=True)
class Part:
    """A content block; `body` is what streams of it, for a call the text of its arguments."""

    block: Json
    body: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A reply as it is sent."""

    parts: list[Part]
    stop_reason: str
    stop_sequence: str | None = None
    output_tokens: int = 0
    thinking_tokens: int = 0


def limit(draft: Draft, stops: Sequence[str], max_tokens: int) -> Outcome:
    """The draft up to the first limit that it meets."""
    parts: list[Part] = []
    left, thinking = max_tokens, 0
    reason, found = draft.stop_reason, None
    for block in draft.blocks:
        part, stop = _stopped(_part(block), stops)
        kept = _fitted(part, left)
        used = tokens.count(kept.body)
        left -= used
        thinking += used if block["type"] == "thinking" else 0
        # A text or thinking block that nothing is left of is not sent: an empty one could not go back.
        if kept.body or block["type"] not in _BODY:
            parts.append(kept)
        if kept.body != part.body:
            reason = "max_tokens"
            break
        if stop is not None:
            reason, found = "stop_sequence", stop
            break
    return Outcome(
        parts=parts,
        stop_reason=reason,
        stop_sequence=found,
        output_tokens=max_tokens - left,
        thinking_tokens=thinking,
    )


def _part(block: Json) -> Part:
    kind = block["type"]
    if kind in _CALLS:
        return Part(block, msgspec.json.encode(block["input"]).decode() if block["input"] else "")
    return Part(block, block[_BODY[kind]] if kind in _BODY else "")


def _stopped(part: Part, stops: Sequence[str]) -> tuple[Part, str | None]:
    """The text before the first stop sequence; of two at one place the longer."""
    if part.block["type"] != "text":
        return part, None
    hits = [(part.body.find(stop), -len(stop), stop) for stop in stops if stop in part.body]
    if not hits:
        return part, None
    at, _, stop = min(hits)
    return _with(part, part.body[:at]), stop


def _fitted(part: Part, left: int) -> Part:
    if tokens.count(part.body) <= left:
        return part
    return _with(part, tokens.fit(part.body, left))


def _with(part: Part, body: str) -> Part:
    """The part with a shorter body. Half a thinking text has no signature, half a call no input."""
    kind = part.block["type"]
    if kind in _CALLS:
        return replace(part, block={**part.block, "input": {}}, body=body)
    block = {**part.block, _BODY[kind]: body}
    if "signature" in block:
        block["signature"] = ""
    return replace(part, block=block, body=body)
