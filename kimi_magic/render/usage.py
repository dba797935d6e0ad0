"""Usage as tables: request by request, in groups, what the cache did, prices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from ..counts import counted
from ..usage import (
    LIFE,
    PRICES,
    Advice,
    Price,
    PriceVersion,
    Record,
    Selection,
    Totals,
    UsageTable,
    advise,
    cold_cost,
    expires,
    grouped,
    has_unpriced_searches,
    money,
    saved_by_cache,
    totals,
)
from .footer import known_sum, seconds
from .tables import Rows, table_html, table_text

if TYPE_CHECKING:
    from ..insight import Look

SHOWN = 50
"""Requests that a table has; earlier ones are in the sums, and in the records."""


class ShownUsage(UsageTable):
    """Usage rows that show themselves as a table with their sums. by: one row a group instead
    (`usage.GROUPS`). price_of: a model's price, which tells whether its searches are in the costs."""

    def __init__(
        self,
        records: Iterable[Record],
        ledger: Callable[[Selection], Iterable[Record]] | None = None,
        by: str | None = None,
        price_of: Callable[[str], Price | None] = PRICES.get,
    ) -> None:
        super().__init__(records, ledger)
        self.by = by
        self._price_of = price_of

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        unpriced = sum(r.searches or 0 for r in self.records if self._lacks_searches(r))
        rows, caption = self.rows(), summary(self.summary(), unpriced)
        return {"text/html": table_html(rows, caption), "text/plain": table_text(rows, caption)}

    def rows(self) -> Rows:
        """What the table shows."""
        if self.by is not None:
            return [
                {self.by: name, **_sums(records, lacks=any(map(self._lacks_searches, records)))}
                for name, records in grouped(self.records, self.by).items()
            ]
        return [_row(record, lacks=self._lacks_searches(record)) for record in self.records[-SHOWN:]]

    def _lacks_searches(self, record: Record) -> bool:
        """Whether the cost leaves searches out."""
        known = record.cost is not None and not record.replayed
        return known and has_unpriced_searches(record, self._price_of(record.model))


def summary(t: Totals, unpriced: int | None = None) -> str:
    """The sums in one line. unpriced: searches that are in no cost; all, where that is not known."""
    if not t.requests:
        return "No requests yet."
    rate = f", {t.cache_hit_rate:.0%} of it from cache" if t.cache_hit_rate is not None else ""
    requests = counted(t.requests, "request")
    out = "?" if t.unknown and not t.output else f"{t.output:,}"
    tokens = f"{t.prompt_tokens:,} tokens in{rate}, {out} out"
    notes = []
    left_out = t.searches if unpriced is None else unpriced
    if left_out:
        notes.append(f"{counted(left_out, 'search', 'searches')} not included (no price known)")
    if 0 < t.unknown < t.requests:
        notes.append(f"{t.unknown:,} without a known cost")
    if t.replayed:
        saved = f", which saved {money(t.saved, t.currency)}" if t.saved else ""
        notes.append(f"{t.replayed:,} replayed{saved}")
    if t.others:
        notes.append(f"{t.others:,} in another currency")
    return "; ".join([f"{requests}: {tokens}", _cost(t), *notes])


def _cost(t: Totals) -> str:
    if t.unknown == t.requests:
        return "cost not known"
    cost = money(t.cost, t.currency)
    if t.simulated == t.requests:
        return f"would cost {cost} (all simulated, nothing was billed)"
    return f"{cost} ({t.simulated:,} of them simulated and not billed)" if t.simulated else cost


def added(counts: Sequence[int | None]) -> str:
    """A sum of which a part may not be known; empty where nothing was counted."""
    known = [count for count in counts if count is not None]
    if not known:
        return "?" if counts else ""
    return f"{sum(known):,}" + " + ?" * (len(known) < len(counts))


def _sums(records: Sequence[Record], *, lacks: bool) -> dict[str, str]:
    """lacks: searches are not in the cost."""
    t = totals(records)
    cost = money(t.cost, t.currency) + " + ?" * (lacks or bool(t.unknown))
    return {
        "requests": f"{t.requests:,}",
        "in": added([record.input for record in records]),
        "cache read": known_sum(records, "cache_read"),
        "cache write": known_sum(records, "cache_write_5m", "cache_write_1h"),
        "hit rate": _percent(t.cache_hit_rate),
        "out": added([record.output for record in records]),
        "thinking": known_sum(records, "thinking"),
        "searches": f"{t.searches:,}" if t.searches else "",
        "cost": "?" if t.unknown == t.requests else cost,
    }


def _row(record: Record, *, lacks: bool) -> dict[str, str]:
    """lacks: its searches are not in the cost."""
    return {
        "time": record.time.astimezone().strftime("%m-%d %H:%M:%S"),
        "conversation": record.conversation or "(once)",
        "model": record.model.removeprefix("kimi-"),
        "effort": record.effort or "max",
        "in": _count(record.input),
        "cache read": _count(record.cache_read),
        "cache write": _written(record),
        "hit rate": _percent(record.cache_hit_rate),
        "out": _count(record.output),
        "thinking": _count(record.thinking),
        "first": "" if record.seconds_to_first is None else seconds(record.seconds_to_first),
        "time taken": "" if record.seconds is None else seconds(record.seconds),
        "cost": _paid(record) + " + ?" * lacks,
        "ended": record.stop_reason or record.error or record.status,
    }


def _paid(record: Record) -> str:
    if record.replayed:
        return "replayed" if record.saved is None else f"saved {money(record.saved, record.currency)}"
    return "?" if record.cost is None else money(record.cost, record.currency)


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _written(record: Record) -> str:
    if record.cache_write_5m is None and record.cache_write_1h is None:
        return ""
    return f"{(record.cache_write_5m or 0) + (record.cache_write_1h or 0):,}"


def _percent(rate: float | None) -> str:
    return "" if rate is None else f"{rate:.0%}"


# --- the cache ----------------------------------------------------------------------------------


def cache_table(
    looks: Sequence[Look], price_of: Callable[[str], Price | None], now: datetime
) -> tuple[Rows, list[str]]:
    """What the cache did for the requests of one conversation: rows, and lines below them. price_of: a
    model's price."""
    if not looks:
        return [], ["No requests yet in this conversation."]
    records = [look.sent.record for look in looks]
    last, price = looks[-1], price_of(records[-1].model)
    rows = [_look_row(look, price_of(look.sent.record.model)) for look in looks[-SHOWN:]]
    lines = [_cache_sum(records, price_of), _expiry(last, now)]
    if price is not None and (advice := advise(records, price)) is not None:
        lines += _advice(advice)
    return rows, [line for line in lines if line]


def _look_row(look: Look, price: Price | None) -> dict[str, str]:
    record = look.sent.record
    cold = cold_cost(record, price) if price is not None else None
    gain = "" if cold is None or record.cost is None else _signed(cold - record.cost, record.currency)
    return {
        "turn": str(look.sent.number or "off"),
        "sent": record.time.astimezone().strftime("%H:%M:%S"),
        "in": _count(record.prompt_tokens),
        "read": _count(record.cache_read),
        "written": _written(record),
        "hit rate": _percent(record.cache_hit_rate),
        "saved": gain,
        "why": look.reason,
    }


def _signed(amount: Decimal, currency: str) -> str:
    return f"-{money(-amount, currency)}" if amount < 0 else money(amount, currency)


def _cache_sum(records: Sequence[Record], price_of: Callable[[str], Price | None]) -> str:
    t = totals(records)
    if t.cache_hit_rate is None:
        return ""
    line = f"{t.cache_hit_rate:.0%} of {t.prompt_tokens:,} input tokens were read from cache."
    gains = [saved_by_cache([record], price_of(record.model)) for record in records]
    known = [gain for gain in gains if gain is not None]
    if not known:
        return line
    gain = sum(known, Decimal(0))
    costs = f"{money(t.cost, t.currency)} instead of {money(t.cost + gain, t.currency)} with a cold cache"
    return f"{line} That saved {_signed(gain, t.currency)}: {costs}."


def _expiry(last: Look, now: datetime) -> str:
    end = expires(last.sent.record, last.sent.ttl)
    if end is None:
        return "The last request left nothing in the cache."
    left = (end - now).total_seconds()
    what = f"What the last request left in the cache ({last.sent.ttl})"
    if left <= 0:
        return f"{what} expired {seconds(-left)} ago."
    return f"{what} expires in {seconds(left)}, unless a request reads it before."


def _advice(advice: Advice) -> list[str]:
    gaps = sorted(gap.total_seconds() for gap in advice.gaps)
    middle = seconds(gaps[len(gaps) // 2])
    counts = ", ".join(f"{advice.within(ttl)} within {ttl}" for ttl in LIFE)
    costs = (
        f"{money(advice.cost_5m, advice.currency)} with 5m, {money(advice.cost_1h, advice.currency)} with 1h"
    )
    other = "5m" if advice.ttl == "1h" else "1h"
    difference = abs(advice.cost_1h - advice.cost_5m)
    return [
        f"You pause {middle} between turns (the middle of {len(gaps)}): {counts}.",
        f"The input of these requests costs {costs}, each prefix read where the pause was short enough"
        " and written anew where not.",
        f"So --cache {advice.ttl} suits you: {money(difference, advice.currency)} less than {other}.",
    ]


# --- prices -------------------------------------------------------------------------------------


def price_rows(versions: Iterable[PriceVersion]) -> Rows:
    """Prices as a table, for a million tokens each."""
    return [
        {
            "model": v.model,
            "server": v.base_url or "any",
            "since": v.since.astimezone().strftime("%Y-%m-%d %H:%M") if v.since.year > 1970 else "ever",
            "currency": v.price.currency,
            "input": str(v.price.input),
            "output": str(v.price.output),
            "cache read": str(v.price.cache_read),
            "write 5m": str(v.price.cache_write_5m),
            "write 1h": str(v.price.cache_write_1h),
            "a search": "not known" if v.price.search is None else str(v.price.search),
            "source": v.price.source,
        }
        for v in versions
    ]
