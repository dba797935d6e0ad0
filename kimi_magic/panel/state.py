"""What the panel shows, as plain values that go to the front end as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from statistics import median
from typing import Any

from ..api import Kimi
from ..conversation import Conversation, Turn
from ..counts import counted
from ..keys import SET_A_KEY
from ..render import money
from ..render.footer import seconds
from ..session import TurnStream
from ..usage import Record, expires, totals
from ..wire import CONTEXT_WINDOW, EFFORTS, MODELS
from .transcript import Entry, is_of_panel, shown

SIMULATED = f"The embedded simulator answers here, not a model. {SET_A_KEY}"

_COSTS_TIME = {"low": "quick", "high": "thinks longer", "max": "can take minutes"}
"""What an effort costs in time, where nothing has been measured."""


def state(kimi: Kimi, running: Sequence[TurnStream]) -> dict[str, Any]:
    """All but the turns' own content, and what `notebook` gives."""
    session, conversation = kimi.session, kimi.conversation
    return {
        "conversations": sorted({*session.conversations, conversation.name}),
        "branches": _branches(conversation),
        "turns": [turn.id for turn in shown(conversation)],
        "running": [_running(kimi, stream) for stream in running],
        "usage": usage(session.records, conversation, session.now()),
        "models": list(MODELS),
        "efforts": efforts(session.records),
        "notice": SIMULATED if kimi.simulated else "",
    }


def notebook(kimi: Kimi, names: Mapping[str, Any]) -> dict[str, Any]:
    """What any cell may change without a word to the panel; cheap to look at."""
    return {
        "defaults": {
            "model": kimi.settings.model,
            "effort": EFFORTS[kimi.settings.effort or "max"],
            "cache": kimi.settings.cache or "5m",
            "max_tokens": kimi.settings.max_tokens or None,
        },
        "tools": sorted(kimi.tools),
        "variables": sorted(name for name, value in list(names.items()) if _is_variable(name, value)),
        "conversation": kimi.conversation.name,
        "head": kimi.conversation.head,
        "system": kimi.conversation.system or "",
    }


def item(entry: Entry, files: Sequence[str] = ()) -> dict[str, Any]:
    """One turn of the transcript. html: sanitised; prompt and the two texts: to be shown as text. files: what
    was attached to it, as far as is known."""
    turn = entry.turn
    return {
        "id": turn.id,
        "prompt": turn.prompt,
        "files": list(files),
        "origin": "panel" if is_of_panel(turn) else "cell",
        "status": turn.status,
        "html": entry.html,
        "text": turn.text,
        "markdown": entry.markdown,
    }


def efforts(records: Sequence[Record]) -> list[dict[str, str]]:
    """The real levels, each with the time that it takes: as measured here, else in words."""
    levels = list(dict.fromkeys(EFFORTS.values()))
    rows = []
    for level in levels:
        took = [
            r.seconds
            for r in records
            if EFFORTS.get(r.effort or "max") == level
            and r.seconds
            and r.status == "complete"
            and not (r.replayed or r.simulated)
        ]
        time = f"about {seconds(median(took))} here" if took else _COSTS_TIME[level]
        rows.append({"value": level, "label": f"{level} · {time}"})
    return rows


def usage(records: Sequence[Record], conversation: Conversation, now: datetime) -> dict[str, Any]:
    """The strip: sums of the conversation, cost of today, the cache's end, how full the window is."""
    own = [record for record in records if record.conversation == conversation.name]
    day = now.astimezone().date()
    today = [record for record in records if record.time.astimezone().date() == day]
    sums = totals(own)
    known = next((r for r in reversed(own) if r.prompt_tokens is not None), None)
    return {
        "in": sums.input + sums.cache_read + sums.cache_write,
        "cached": sums.cache_read,
        "out": sums.output,
        "hit_rate": sums.cache_hit_rate,
        "cost": _cost(own),
        "today": _cost(today),
        "expires_in": _expires_in(conversation, own, now),
        "context": (known.prompt_tokens or 0) + (known.output or 0) if known is not None else 0,
        "window": CONTEXT_WINDOW,
        "plot": [_bar(turn, own) for turn in conversation.path()],
    }


def _cost(records: Sequence[Record]) -> str:
    """The sum, and what is not in it."""
    sums = totals(records)
    if sums.unknown == sums.requests:
        return "unknown" if sums.requests else "–"
    text = money(sums.cost, sums.currency)
    if sums.cost and sums.simulated == sums.requests:
        text = f"would be {text}"
    elif sums.simulated and sums.simulated < sums.requests:
        text += f", {sums.simulated:,} simulated"
    unknown = [f"{sums.unknown:,} without a known cost"] * bool(sums.unknown)
    others = [f"{sums.others:,} in another currency"] * bool(sums.others)
    return ", ".join([text, *unknown, *others])


def _expires_in(conversation: Conversation, records: Sequence[Record], now: datetime) -> float | None:
    """Seconds until the server's cache forgets the conversation; None where it holds nothing. What failed
    has left nothing there, and taken nothing away."""
    for record in reversed(records):
        turn = conversation.turns.get(record.turn or "")
        ttl = ((turn.settings.get("cache_control") or {}) if turn is not None else {}).get("ttl", "5m")
        end = expires(record, ttl) if turn is not None else None
        if end is not None:
            return max(0.0, (end - now).total_seconds())
    return None


def _bar(turn: Turn, records: Sequence[Record]) -> dict[str, int]:
    sums = totals(record for record in records if record.turn == turn.id)
    return {"cached": sums.cache_read, "fresh": sums.input + sums.cache_write, "out": sums.output}


def _branches(conversation: Conversation) -> list[dict[str, str]]:
    """The ends of the ways that the conversation went, and the place where it is, if that is none of them."""
    ends = [{"turn": turn.id, "label": _label(conversation, turn)} for turn in conversation.branches()]
    head = conversation.head
    if any(end["turn"] == head for end in ends):
        return ends
    here = "nothing yet" if head is None else _label(conversation, conversation.turns[head])
    return [{"turn": head or "", "label": f"here: {here}"}, *ends]


def _label(conversation: Conversation, turn: Turn) -> str:
    words = " ".join(turn.prompt.split())
    short = words if len(words) <= 40 else f"{words[:39]}…"
    return f"{short} ({counted(len(conversation.path_to(turn.id)), 'turn')})"


def _running(kimi: Kimi, stream: TurnStream) -> dict[str, Any]:
    ask = stream.plan.ask
    return {
        "key": stream.id,
        "prompt": ask.prompt,
        "conversation": "" if ask.once else ask.conversation,
        "cell": not any(job.stream is stream for job in kimi.jobs),
    }


def _is_variable(name: str, value: object) -> bool:
    """Something that a prompt may show: no module, function or class, and nothing of IPython's own."""
    ours = name.startswith("_") or name in ("In", "Out", "exit", "quit", "open", "get_ipython", "kimi")
    return not ours and not callable(value) and type(value).__name__ != "module"
