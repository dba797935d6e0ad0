"""Subcommands about money: usage, price, budget."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from ..api import Kimi
from ..counts import counted
from ..errors import OptionError, StoreError
from ..insight import look_at
from ..paths import user_path
from ..render import ShownUsage, cache_table, money, price_rows
from ..render.plot import usage_plot
from ..store import check_ours
from ..usage import ANY, FIELDS, GROUPS, KINDS, PERIODS, Budget, Price, PriceVersion, amount, read_records
from . import values
from .stage import Stage

_USAGE = (
    "%kimi usage [--by day|model|conversation|notebook] [--since 7d] [--all] [--plot] [--cache] [--save FILE]"
)
_PRICE = (
    "%kimi price MODEL input=2.00 output=10.00 cache_read=0.20 … [server=URL] [source=TEXT], or"
    " %kimi price MODEL off"
)
_BUDGET = "%kimi budget 2.00 --per day|notebook|total, or %kimi budget off"

USAGE_OPTIONS = {
    "--by": "|".join(GROUPS), "--since": "TIME", "--all": "", "--plot": "", "--cache": "", "--save": "FILE",
}  # fmt: skip
PRICE_OPTIONS = {"--all": "", **{f"{name}=": "" for name in (*KINDS, "currency", "server", "source")}}
BUDGET_OPTIONS = {"--per": "|".join(PERIODS)}
"""As `Command.options`: name → what its value is, "" for none."""


def usage(kimi: Kimi, stage: Stage, words: Sequence[str]) -> ShownUsage | None:
    """The records: a notebook shows what a line returns; a terminal gets the table, too. A plot and the
    cache's table are shown instead, and nothing is returned."""
    options = _options(words, USAGE_OPTIONS, _USAGE)
    found = _selected(kimi, options)
    if "--save" in options:
        path = str(options["--save"]).strip("\"'")
        check_ours(user_path(path), _records)
        is_are = "is" if len(found) == 1 else "are"
        stage.say(f"{counted(len(found), 'record')} {is_are} in {found.save(path)}.")
        return None
    if "--cache" in options:
        rows, lines = cache_table(
            look_at(kimi.conversation, found.records), kimi.session.price, kimi.session.now()
        )
        stage.table(rows, f"The cache in conversation {kimi.conversation.name}")
        for line in lines:
            stage.say(line)
        return None
    if "--plot" in options:
        stage.picture(usage_plot(found.records), f"Usage of {counted(len(found), 'request')}")
        return None
    return found


def _records(path: Path) -> None:
    """Raise `StoreError` for a file that does not hold usage, not even a header of it."""
    if not read_records(path) and path.read_text("utf-8-sig").splitlines()[:1] != [",".join(FIELDS)]:
        raise StoreError(f"{path} holds no usage records.")


def _selected(kimi: Kimi, options: dict[str, str | None]) -> ShownUsage:
    by, since = options.get("--by"), options.get("--since")
    if by is not None and by not in GROUPS:
        raise OptionError(f"--by takes {', '.join(GROUPS)}, not {by!r}.")
    everywhere = "--all" in options or by == "notebook"
    try:
        found = kimi.usage.all(since=since) if everywhere else kimi.usage.where(since=since)
        found.by = by
    except ValueError:
        raise OptionError(
            f"--since takes a time, not {since!r}.", hint="2026-11-30, today, 12h, 7d …"
        ) from None
    return found


def price(kimi: Kimi, stage: Stage, words: Sequence[str]) -> None:
    """Show the prices that hold, or all that ever held (`--all`); set one from now on, or take it back."""
    book = kimi.session.purse.prices
    words = [values.model(words[0]), *words[1:]] if words else []
    if list(words[1:]) == ["off"]:
        _take_back(kimi, stage, words[0])
        return
    if words and words != ["--all"]:
        version, kept = _version(kimi, words)
        kimi.session.purse.set_price(version)
        stage.say(
            f"{version.model} costs this from now on, in every notebook; what was recorded keeps its cost."
            f" %kimi price {version.model} off takes it back."
        )
        if kept:
            stage.say(f"Not given, so as before: {', '.join(kept)}.")
        stage.table(price_rows([version]), f"{version.price.currency} for a million tokens")
        return
    latest = {(v.model, v.base_url): v for v in book.versions}
    shown = book.versions if words else tuple(latest.values())
    older = len(book.versions) - len(latest)
    more = f"; {counted(older, 'earlier price')}: %kimi price --all" if older and not words else ""
    stage.table(price_rows(shown), f"For a million tokens each, and for a search{more}")


def _take_back(kimi: Kimi, stage: Stage, model: str) -> None:
    """The price of a model is that of the public table again."""
    purse = kimi.session.purse
    if not any(version.model == model for version in purse.prices.versions):
        raise OptionError(f"No price of {model} is known.", hint="%kimi price shows those that are.")
    purse.drop_prices(model)
    found = [version for version in purse.prices.versions if version.model == model]
    if found:
        stage.table(price_rows(found), f"{model} costs again what the public table says")
    else:
        stage.say(f"No price of {model} is known any more: it is in no public table.")


def _version(kimi: Kimi, words: Sequence[str]) -> tuple[PriceVersion, list[str]]:
    """The price that is set, and which of its numbers, with what they are, were not given."""
    model, *pairs = words
    if "=" in model or not pairs:
        raise OptionError("%kimi price needs a model and prices.", hint=_PRICE)
    given = dict(_pair(text) for text in _joined(pairs))
    server = _server(given.pop("server", ""))
    found = kimi.session.purse.prices.find(model, server)
    more: dict[str, Any] = {key: given.pop(key) for key in ("currency", "source") if key in given}
    if "currency" in more:
        more["currency"] = more["currency"].upper()
    numbers = {name: _number(name, text) for name, text in given.items()}
    if found is None and not {"input", "output"} <= numbers.keys():
        raise OptionError(f"No price of {model} is known yet: input= and output= are needed.", hint=_PRICE)
    plain = numbers.get("input", Decimal(0))  # without a price of its own a cached token costs the same
    known = found or Price(plain, plain, plain, plain, plain)
    changes: dict[str, Any] = {"source": "set by %kimi price"}
    changes |= numbers
    changes |= more
    kept = {name: getattr(known, name) for name in KINDS if found is not None and name not in numbers}
    version = PriceVersion(model, replace(known, **changes), server, kimi.session.now())
    return version, [f"{name} {value}" for name, value in kept.items() if value is not None]


def _server(url: str) -> str:
    """A base URL as clients have it, in which prices are looked up. Raises `ConfigError` for what is none."""
    from ..client import base_urls  # httpx is not needed before

    return base_urls(url)[0] if url else ANY


def _joined(words: Sequence[str]) -> list[str]:
    """`source=` takes the rest of the line."""
    at = next((n for n, word in enumerate(words) if word.startswith("source=")), len(words))
    return [*words[:at], *[" ".join(words[at:])][: at < len(words)]]


def _pair(text: str) -> tuple[str, str]:
    name, mark, value = text.partition("=")
    known = (*KINDS, "currency", "server", "source")
    if not mark or name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        raise OptionError(
            f"{text!r} is no price.", hint=f"Did you mean {near[0]}=? {_PRICE}" if near else _PRICE
        )
    return name, value


def _number(name: str, text: str) -> Decimal:
    try:
        return amount(text)
    except ValueError as error:
        raise OptionError(f"{name}: {error}.", hint=_PRICE) from None


def budget(kimi: Kimi, stage: Stage, words: Sequence[str]) -> None:
    """Show the budgets and what is left of them, set one, or take all away."""
    purse = kimi.session.purse
    if list(words) == ["off"]:
        purse.drop_budgets()
    elif words:
        at = next((n for n, word in enumerate(words) if word.startswith("--")), len(words))
        options = _options(words[at:], BUDGET_OPTIONS, _BUDGET)
        try:
            purse.set_budget(Budget.parse(f"{' '.join(words[:at])}{_per(options)}"))
        except ValueError as error:
            raise OptionError(f"{error}.", hint=_BUDGET) from None
    rows = [
        {
            "budget": str(each),
            "spent": money(purse.spent(each), each.currency),
            "left": money(max(each.amount - purse.spent(each), Decimal(0)), each.currency),
            "set by": each.source,
        }
        for each in purse.budgets()
    ]
    if kimi.simulated:
        stage.say("The embedded simulator answers: nothing costs money, and no budget ends it.")
    stage.table(rows, "What is simulated or replayed does not count." if rows else "No budget is set.")


def _per(options: dict[str, str | None]) -> str:
    per = options.get("--per")
    if per is not None and per not in PERIODS:
        raise OptionError(f"--per takes {', '.join(PERIODS)}, not {per!r}.")
    return f"/{per}" if per else ""


def _options(words: Sequence[str], known: Mapping[str, str], usage: str) -> dict[str, str | None]:
    """Options by name. known: as `Command.options`. Raises `OptionError`."""
    found: dict[str, str | None] = {}
    rest = list(words)
    while rest:
        name, mark, value = rest.pop(0).partition("=")
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise OptionError(
                f"There is no {name!r} here.", hint=f"Did you mean {near[0]}? {usage}" if near else usage
            )
        if known[name] and not mark:
            if not rest:
                raise OptionError(f"{name} needs a value.", hint=usage)
            value = rest.pop(0)
        found[name] = value if known[name] else None
    return found
