"""The one line under a reply, and the table behind it: model, time, tokens, cost, how it ended."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from ..counts import counted
from ..usage import Price, Record, has_unpriced_searches, money, totals
from ..wire import EFFORTS
from .sanitise import clean

_NAME = 32  # characters of a conversation's name

STOPS = {
    "max_tokens": "cut at max_tokens",
    "refusal": "the model refused",
    "stop_sequence": "stopped at a stop sequence",
    "tool_use": "ended at a tool call",
    "pause_turn": "the server paused the reply too often",
    "model_context_window_exceeded": "the context window is full",
}
"""What a reader is told for a stop reason; `end_turn` needs no word, an unknown one is shown as it is."""


def footer(records: tuple[Record, ...], price: Price | None, took: float | None = None) -> str:
    """One line about the requests of a turn, parts that are not known left out. took: seconds of the
    whole turn; without them from the first request to the end of the last one."""
    if not records:
        return ""
    last, sums = records[-1], totals(records)
    parts = [last.model, _effort(last.effort), _conversation(last.conversation)]
    if records[0].seconds_to_first is not None:
        parts.append(f"first token {seconds(records[0].seconds_to_first)}")
    parts.append(seconds(_span(records) if took is None else took))
    if any(r.input is not None for r in records):
        parts.append(_input(sums.input, sums.cache_read, sums.cache_write))
    if any(r.output is not None for r in records):
        thinking = f" ({sums.thinking:,} thinking)" if sums.thinking else ""
        parts.append(f"{sums.output:,} out{thinking}")
    if sums.searches:
        parts.append(counted(sums.searches, "search", "searches"))
    parts.append(_cost(records, price))
    if last.attempts > 1:
        parts.append(f"attempt {last.attempts}")
    parts.append(stop_words(records))
    return " · ".join(part for part in parts if part)


def stop_words(records: tuple[Record, ...]) -> str:
    """Why the last reply ended, where a reader has to be told."""
    reason = records[-1].stop_reason if records else None
    return "" if reason in (None, "end_turn") else STOPS.get(str(reason), str(reason))


def ends_in_the_middle(records: tuple[Record, ...], max_tokens: int | None) -> str:
    """That the server ended the last reply where its room did, and what to do about it; else nothing."""
    match records[-1].stop_reason if records else None:
        case "max_tokens":
            limit = f"max_tokens ({max_tokens:,})" if max_tokens is not None else "max_tokens"
            why = f"{limit} was reached. Raise it (-n; in the panel: Most tokens), or ask it to go on."
        case "model_context_window_exceeded":
            why = "the context window is full. %kimi compact makes room, %kimi new begins afresh."
        case _:
            return ""
    return f"The reply ends in the middle: {why}"


def _span(records: tuple[Record, ...]) -> float:
    """Seconds from the first request to the end of the last one: tools ran in between."""
    last = records[-1]
    span = (last.time - records[0].time).total_seconds() + (last.seconds or 0.0)
    return max(span, sum(r.seconds or 0.0 for r in records))  # the clock may have been set meanwhile


def _conversation(name: str | None) -> str:
    """The conversation that the turn is in, where it is another than the usual one."""
    line = " ".join(clean(name or "").split())
    short = line if len(line) <= _NAME else f"{line[: _NAME - 1]}…"
    return "" if line in ("", "main") else f"conversation {short}"


def _effort(effort: str | None) -> str:
    """The effort, and what the server makes of a name that it only tolerates."""
    if effort is None:
        return "effort max"
    real = EFFORTS.get(effort, effort)
    still = ", still thinking" if effort == "none" else ""
    return f"effort {effort}" if real == effort else f"effort {effort} (works as {real}{still})"


def _input(fresh: int, read: int, written: int) -> str:
    cached = [f"{read:,} from cache"] * bool(read) + [f"{written:,} to cache"] * bool(written)
    total = f"{fresh + read + written:,} in"
    return f"{total} ({', '.join(cached)})" if cached else total


def _cost(records: tuple[Record, ...], price: Price | None) -> str:
    known = [r.cost for r in records if r.cost is not None]
    if not known:
        return "cost unknown" if price is None else ""
    text = money(sum(known, Decimal(0)), records[-1].currency)
    if all(r.replayed for r in records):
        saved = [r.saved for r in records if r.saved is not None]
        spared = f", saved {money(sum(saved, Decimal(0)), records[-1].currency)}" if saved else ""
        return f"replayed at no cost{spared}"
    if all(r.simulated for r in records):
        text = f"would cost {text}"
    if any(has_unpriced_searches(r, price) for r in records):
        text += " and the searches (no price known)"
    return text


def details(records: tuple[Record, ...]) -> list[tuple[str, str]]:
    """Names and values of the table behind the line, for the last request and the turn's sums."""
    last = records[-1]
    rows = [
        ("request id", last.request_id),
        ("sent", last.time.isoformat(sep=" ", timespec="seconds")),
        ("requests", str(len(records))),
        ("input, not cached", known_sum(records, "input")),
        ("read from cache", known_sum(records, "cache_read")),
        ("written to cache", known_sum(records, "cache_write_5m", "cache_write_1h")),
        ("output", known_sum(records, "output")),
        ("of it thinking", known_sum(records, "thinking")),
        ("tokens a second", str(last.tokens_per_second) if last.tokens_per_second else None),
        ("stop reason", last.stop_reason),
    ]
    return [(name, value) for name, value in rows if value]


def known_sum(records: Iterable[Record], *names: str) -> str:
    """What is known of these counts, summed up; empty where nothing is."""
    counts = [count for r in records for name in names if (count := getattr(r, name)) is not None]
    return f"{sum(counts):,}" if counts else ""


def seconds(value: float) -> str:
    """A duration as people say it: 0.8 s, 12 s, 3 min 5 s."""
    if value < 9.95:
        return f"{value:.1f} s"
    if value < 99.5:
        return f"{value:.0f} s"
    return f"{round(value) // 60} min {round(value) % 60} s"
