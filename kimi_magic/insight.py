"""Why a request read from the server's cache what it read, or did not. Values only.

Each request is compared with the one before it in its conversation. The cache holds what both begin
with, in the order tools, system, messages, for each model apart, until its time to live has passed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from .conversation import Conversation, Turn, sendable
from .usage import LIFE, Record
from .wire import Json

ENOUGH = 0.9
"""The part of what the request before had in the cache, from which it counts as read: servers cache in
blocks, and leave the end out."""


@dataclass(frozen=True, slots=True)
class Sent:
    """One request of a conversation, as far as the cache is concerned."""

    record: Record
    number: int
    """Of its turn in the conversation, from 1; 0 for one that is off the path."""
    tools: object
    system: object
    messages: tuple[Json, ...]
    ttl: str


@dataclass(frozen=True, slots=True)
class Look:
    """A request, and why the cache did for it what it did."""

    sent: Sent
    missed: bool
    """Less was read than the request before had left there."""
    reason: str
    """In words, for the user."""


def look_at(conversation: Conversation, records: Iterable[Record]) -> list[Look]:
    """What the cache did for the requests of a conversation, oldest first; replayed ones are left out, as
    they never reached it."""
    requests = list(_requests(conversation, records))
    return [_look(sent, requests[n - 1] if n else None) for n, sent in enumerate(requests)]


def _requests(conversation: Conversation, records: Iterable[Record]) -> Iterable[Sent]:
    numbers = {turn.id: n for n, turn in enumerate(conversation.path(), 1)}
    steps: dict[str, int] = {}
    for record in records:
        turn = conversation.turns.get(record.turn or "")
        if turn is None or record.replayed or record.conversation != conversation.name:
            continue
        step = steps[turn.id] = steps.get(turn.id, -1) + 1
        yield Sent(
            record,
            numbers.get(turn.id, 0),
            turn.settings.get("tools"),
            turn.settings.get("system"),
            (*conversation.messages(turn.parent or turn.compacts), *_sent_of(turn, step)),
            (turn.settings.get("cache_control") or {}).get("ttl", "5m"),
        )


def _sent_of(turn: Turn, step: int) -> tuple[Json, ...]:
    """What the turn's own request number `step` sent of it: the prompt, and all before that reply."""
    replies = [n for n, message in enumerate(turn.messages) if message["role"] == "assistant"]
    end = replies[step] if step < len(replies) else len(turn.messages)
    return tuple(sendable(message) for message in turn.messages[: max(1, end)])


def _look(now: Sent, before: Sent | None) -> Look:
    read = now.record.cache_read
    if before is None:
        return Look(now, False, "the first request: nothing of it could be there")
    if read is None:
        return Look(now, False, "the server did not say")
    there = sum(
        n or 0 for n in (before.record.cache_read, before.record.cache_write_5m, before.record.cache_write_1h)
    )
    changed, gap = difference(now, before), now.record.time - before.record.time
    if changed is None and there and read >= ENOUGH * min(there, now.record.prompt_tokens or there):
        return Look(now, False, "all of the request before was read")
    if before.record.status != "complete" and not there:
        return Look(now, False, "the request before failed, and left nothing there")
    if not there:
        return Look(now, False, "the request before was too short to be cached")
    if changed is not None:
        is_ahead = changed.startswith("turn") or (changed == "the system prompt" and now.tools)
        whose = "ahead of that" if is_ahead else "that an earlier request had left"
        kept = f"; {read:,} tokens {whose} were read" if read else ""
        return Look(now, True, f"{changed} changed{kept}")
    if gap > LIFE[before.ttl]:
        late = _clock(gap - LIFE[before.ttl])
        kept = f"; {read:,} tokens with a longer life were read" if read else ""
        return Look(
            now, True, f"expired: {_clock(gap)} after the request before, {late} past its {before.ttl}{kept}"
        )
    return Look(now, True, "nothing changed and it was in time, but the server had it no more")


def difference(now: Sent, before: Sent) -> str | None:
    """The first part in which a request does not go on like the one before it; None where it does."""
    if now.record.model != before.record.model:
        return "the model"
    if now.tools != before.tools:
        return "the tools"
    if now.system != before.system:
        return "the system prompt"
    turn = 0
    for ours, theirs in zip(now.messages, before.messages, strict=False):
        turn += ours["role"] == "user" and not _is_result(ours)
        if ours != theirs:
            return f"turn {turn}"
    return None


def _is_result(message: Json) -> bool:
    content = message["content"]
    return isinstance(content, list) and any(block.get("type") == "tool_result" for block in content)


def _clock(time: timedelta) -> str:
    """A duration in two units: 45 s, 6 min 5 s, 2 h 5 min, 3 d 2 h."""
    seconds = int(time.total_seconds())
    for unit, size, small, part in (("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= size:
            return f"{seconds // size} {unit} {seconds % size // part} {small}"
    return f"{seconds} s"
