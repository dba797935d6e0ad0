"""Usage as a picture: tokens by kind, and what they cost, request by request. matplotlib is imported
when it is asked for; its state and the user's style are left alone."""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from ..errors import ConfigError
from ..usage import Record, totals

KINDS = (
    ("read from cache", "cache_read", "#56B4E9"),
    ("input", "input", "#0072B2"),
    ("written to cache (5m)", "cache_write_5m", "#009E73"),
    ("written to cache (1h)", "cache_write_1h", "#CC79A7"),
    ("thinking", "thinking", "#F0E442"),
    ("output", "output", "#E69F00"),
)
"""Label, field and colour: those of Okabe and Ito, which the colour-blind tell apart."""


def usage_plot(records: Sequence[Record]) -> bytes:
    """A PNG. Raises `ConfigError` where matplotlib is not installed."""
    figure, picture = usage_figure(records), io.BytesIO()
    figure.savefig(picture, format="png")
    return picture.getvalue()


def usage_figure(records: Sequence[Record]) -> Any:
    """The same as a matplotlib `Figure`."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator
    except ImportError:
        raise ConfigError("A plot needs matplotlib.", hint="pip install matplotlib") from None
    figure = Figure(figsize=(8, 5), layout="constrained", facecolor="white")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    at = range(1, len(records) + 1)
    bottom = [0] * len(records)
    for label, name, colour in KINDS:
        counts = [_tokens(record, name) for record in records]
        if any(counts):
            upper.bar(at, counts, bottom=bottom, label=label, color=colour, width=0.9)
            bottom = [a + b for a, b in zip(bottom, counts, strict=True)]
    upper.set_ylabel("tokens")
    upper.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    if any(bottom):
        upper.legend(fontsize="small")
    sums = totals(records)
    costs = [float(record.cost or 0) if record.currency == sums.currency else 0.0 for record in records]
    lower.step(at, list(accumulate(costs)), where="mid", color="#D55E00")
    lower.set_ylabel(f"cost so far, {sums.currency}")
    lower.set_xlabel("request")
    lower.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    lower.set_ylim(bottom=0)
    return figure


def _tokens(record: Record, name: str) -> int:
    if name == "output":  # thinking is a part of it, and has its own colour
        return (record.output or 0) - (record.thinking or 0)
    return getattr(record, name) or 0
