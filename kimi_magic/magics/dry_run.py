"""What `--dry-run` shows: the request that would go out, its size, and what of it is in the cache."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from ..conversation import Conversation
from ..counts import counted
from ..prompt import Prompt
from ..session import Plan

_TTL = {"5m": timedelta(minutes=5), "1h": timedelta(hours=1)}
_LONGEST = 2_000  # characters of one string that are shown


def dry_run(
    plan: Plan, prompt: Prompt, conversation: Conversation, now: datetime
) -> tuple[list[dict[str, str]], str]:
    """Rows about the parts of the request, and its JSON with long strings shortened."""
    body = plan.request.encode()
    before = json.dumps(plan.request.messages[:-1], ensure_ascii=False, separators=(",", ":"))
    earlier = len(plan.request.messages) - 1
    rows = [
        _row("whole request", counted(len(body), "byte"), f"about {counted(plan.tokens, 'token')}"),
        _row(
            f"{counted(earlier, 'message') if earlier else 'no messages'} before",
            counted(len(before.encode(errors="surrogatepass")) if earlier else 0, "byte"),
            _cached(plan, conversation, now),
        ),
    ]
    for part in prompt.parts:
        images = f", {counted(part.images, 'image')}" if part.images else ""
        size = f"{counted(part.characters, 'character')}{images}"
        rows.append(_row(f"{part.title} ({part.type})", size, part.note))
    return rows, json.dumps(_shortened(plan.request.to_dict()), ensure_ascii=False, indent=2)


def _row(part: str, size: str, note: str) -> dict[str, str]:
    return {"part": part, "size": size, "note": note}


def _cached(plan: Plan, conversation: Conversation, now: datetime) -> str:
    """Whether the earlier messages were sent recently enough to be read from the server's cache."""
    if plan.place.parent is None:
        return "nothing to read from cache"
    ttl = plan.request.cache_ttl or "5m"
    age = now - conversation.turns[plan.place.parent].time
    if age > _TTL[ttl]:
        return f"sent {int(age.total_seconds() // 60)} min ago: no longer in a {ttl} cache"
    return f"sent {int(age.total_seconds())} s ago: would be read from cache"


def _shortened(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _LONGEST:
        return f"{value[:_LONGEST]} … ({len(value):,} characters in all)"
    if isinstance(value, list):
        return [_shortened(v) for v in value]
    if isinstance(value, dict):
        return {k: _shortened(v) for k, v in value.items()}
    return value
