"""What the requests of a session cost, and how much they may cost.

Prices and budgets stand in the store, and so does what was spent: so a budget holds for several
kernels at once. What a request costs is known when it ends, so each kernel can go over a budget by the
requests that it has open, and by no more. Without a store all of it is this session's alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from decimal import Decimal
from typing import TypeVar

from ..errors import BudgetError, StoreError
from ..store import Store
from ..usage import PERIODS, Budget, Price, PriceBook, PriceVersion, Record, money, most
from ..wire import Request

T = TypeVar("T")
U = TypeVar("U")


class Purse:
    """notebook: the key that the store has it under. book: the prices before the user's own. ceiling: gives
    the budget of the settings, as it is now; nothing here takes it away. records: of the session."""

    def __init__(
        self,
        store: Store | None,
        notebook: str,
        book: PriceBook,
        ceiling: Callable[[], Budget | None],
        records: Sequence[Record],
        utc: Callable[[], datetime],
    ) -> None:
        self.is_free = False
        """Nothing costs money: a simulator answers."""
        self._answers_free = False  # a server that says that it is a simulator
        self._store = store
        self._notebook = notebook
        self._ceiling = ceiling
        self._records = records
        self._utc = utc
        self._budgets: list[Budget] = []
        self._open: dict[int, Record] = {}  # by their identity
        self._unkept: tuple[Record, ...] = ()  # of turns that have ended
        self._lock = threading.RLock()
        self._book = book
        self._unkept_prices: list[PriceVersion] = []
        self.prices = book
        self.refresh()

    def connect(self, *, is_free: bool) -> None:
        """Somebody else answers from now on."""
        self.is_free, self._answers_free = is_free, False

    def _asked(self, question: Callable[[Store], T], otherwise: U) -> T | U:
        """What the store answers; its trouble is told elsewhere (`Keeping`)."""
        try:
            return otherwise if self._store is None else question(self._store)
        except StoreError:
            return otherwise

    # --- prices ---

    def refresh(self) -> None:
        """Take in the prices that other kernels have set."""
        kept = self._asked(Store.prices, None)
        if kept is not None:
            self.prices = self._book.added([*kept, *self._unkept_prices])

    def set_price(self, version: PriceVersion) -> None:
        """A new price, from now on and for all kernels. Raises `StoreError` where it cannot be kept; it
        holds in this one all the same."""
        self.prices = self.prices.added([version])
        self._unkept_prices.append(version)
        if self._store is not None:
            self._store.keep_price(version)
            self._unkept_prices.remove(version)

    def drop_prices(self, model: str) -> None:
        """Back to what the model cost before any price of it was set. Raises `StoreError` where that cannot
        be kept; it holds in this kernel until prices are read again."""
        self.prices = self.prices.reset(model, self._book)
        self._unkept_prices = [v for v in self._unkept_prices if v.model != model]
        if self._store is not None:
            self._store.drop_prices(model)

    # --- budgets ---

    def budgets(self) -> tuple[Budget, ...]:
        """All that hold."""
        own = self._asked(lambda store: store.budgets(self._notebook), self._budgets)
        ceiling = self._ceiling()
        return (*own, ceiling) if ceiling is not None else tuple(own)

    def set_budget(self, budget: Budget) -> None:
        """In the place of the one for the same period. Raises `StoreError`."""
        self._budgets = [b for b in self._budgets if b.per != budget.per] + [budget]
        if self._store is not None:
            self._store.keep_budget(self._notebook, budget, budget.per)

    def drop_budgets(self) -> None:
        """Take all away that were set here. Raises `StoreError`."""
        self._budgets = []
        for per in PERIODS:
            if self._store is not None:
                self._store.keep_budget(self._notebook, None, per)

    def note(self, record: Record) -> None:
        """A request has ended, its turn has not: it counts from now on."""
        self._open[id(record)] = record
        if not record.replayed:
            self._answers_free = record.simulated

    @contextmanager
    def settling(
        self, records: Iterable[Record], waiting: Callable[[], tuple[Record, ...]]
    ) -> Iterator[None]:
        """While these go into the ledger, from any thread: at no moment do they count twice. waiting: gives
        the records that could not be kept yet, which count all the same."""
        with self._lock:
            try:
                yield
            finally:
                for record in records:
                    self._open.pop(id(record), None)
                self._unkept = waiting()

    def spent(self, budget: Budget) -> Decimal:
        """What counts against it so far, in all kernels."""
        notebook, now = self._notebook if budget.per == "notebook" else None, self._utc()
        since = budget.since(now)
        with self._lock:
            open_ = list(self._open.values())
            if self._store is not None:
                with suppress(StoreError):
                    kept = self._store.spent(budget, notebook, now)
                    return kept + _paid(open_, budget, None) + _paid(self._unkept, budget, since)
            here = {id(record): record for record in (*self._records, *open_)}
            return _paid(here.values(), budget, since)

    def check(self) -> list[tuple[Budget, Decimal]]:
        """All budgets, and what is left of each. Raises `BudgetError` where one is spent."""
        rests = [] if self.is_free else self._rests()
        for budget, left in rests:
            if left <= 0:
                used = budget.amount - left
                raise BudgetError(
                    f"The budget of {budget} is spent ({used} {budget.currency}); nothing was sent.",
                    hint=f"Raise it: {budget.source} …, or go on with --replay only.",
                )
        return rests

    def _rests(self) -> list[tuple[Budget, Decimal]]:
        return [(budget, budget.amount - self.spent(budget)) for budget in self.budgets()]

    def warning(self, request: Request, tokens: int, price: Price | None) -> str:
        """A line for a request of about so many tokens that could go over a budget, else nothing. Where one
        is spent already, `check` will say so."""
        rests = [] if self.is_free or self._answers_free else self._rests()
        if not rests or any(left <= 0 for _, left in rests):
            return ""
        if price is None:
            return f"No price of {request.model} is known, so no budget holds for it: %kimi price sets one."
        worst = most(tokens, request.max_tokens, price, request.cache_ttl)
        for budget, left in rests:
            if worst > left and budget.currency == price.currency:
                return (
                    f"At worst (all of max_tokens, {request.max_tokens:,}) this costs"
                    f" {money(worst, price.currency)}, and {money(left, price.currency)} of the budget of"
                    f" {budget} are left."
                )
        return ""


def _paid(records: Iterable[Record], budget: Budget, since: datetime | None) -> Decimal:
    return sum(
        (
            record.paid or Decimal(0)
            for record in records
            if record.currency == budget.currency and (since is None or record.time >= since)
        ),
        Decimal(0),
    )
