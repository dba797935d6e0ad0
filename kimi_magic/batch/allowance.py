"""What a batch has cost, and whether one more row may run beside those that do.

Where all of them could be as long as `max_tokens` allows, nothing can go over a budget. Where there is not as
much left, each row that runs holds what its own size costs and the most that one has cost beyond its size so
far, and no more of them run at once than have been answered: so long replies are met while few run. Only a
row that is dearer than all before it can go over a budget then.
"""

from __future__ import annotations

from decimal import Decimal

from ..errors import BudgetError
from ..session import Plan, Purse
from ..usage import MILLION, Budget, Price, money, most
from .asking import Outcome
from .jobs import Job


class Allowance:
    """own: the batch's budget. purse: the notebook's. plan: of the first request. price: of its model.
    shared: about how many tokens all requests begin with."""

    def __init__(
        self, own: Budget | None, purse: Purse, plan: Plan | None, price: Price | None, shared: int
    ) -> None:
        self.cost = Decimal(0)
        """As far as it is known, simulated or not."""
        self.paid = Decimal(0)
        self.asked = 0
        """Requests that have ended."""
        self.currency = "USD" if price is None else price.currency
        self.is_simulated = False
        self._own, self._purse = own, purse
        self._plan, self._price, self._shared = plan, price, shared
        self._running: dict[str, Decimal] = {}  # by fingerprint: what the row's size costs
        self._beyond = Decimal(0)  # the most that a row has cost more than its size

    def rests(self) -> list[tuple[Budget, Decimal]]:
        """The budgets that hold, the batch's own and the notebook's, and what is left of each. Raises
        `BudgetError` where one of the notebook's is spent."""
        rests = [(b, left) for b, left in self._purse.check() if b.currency == self.currency]
        return rests if self._own is None else [*rests, (self._own, self._own.amount - self.paid)]

    def takes(self, job: Job, rests: list[tuple[Budget, Decimal]]) -> bool:
        """Whether the row may run now; then it holds its money. Raises `BudgetError` where it may not, and
        none runs that would give some back."""
        if not rests:
            return True
        budget, left = min(rests, key=lambda rest: rest[1])
        size = self._size(job)
        held = sum(self._running.values(), size)
        count = len(self._running) + 1
        expected = held + count * self._beyond if self.paid else Decimal(0)
        fits = count <= max(1, self.asked) and expected <= left
        if left > 0 and (fits or self._is_ample(held, count, left)):
            self._running[job.fingerprint] = size
            return True
        if not self._running:
            raise self.over(budget, left, expected)
        return False

    def _is_ample(self, held: Decimal, count: int, left: Decimal) -> bool:
        """No reply of this length could go over it; what tools may take, nobody knows."""
        if self._price is None:
            return True
        request = self._plan.request if self._plan is not None else None
        if request is None or request.tools:
            return False
        return held + count * most(0, request.max_tokens, self._price) <= left

    def _size(self, job: Job) -> Decimal:
        """What the input of a row costs: from the second one on its beginning is in the cache."""
        if self._price is None:
            return Decimal(0)
        read = min(self._shared, job.tokens) if self.asked else 0
        whole = most(job.tokens - read, 0, self._price, job.request.cache_ttl)
        return whole + read * self._price.cache_read / MILLION

    def over(self, budget: Budget, left: Decimal, each: Decimal) -> BudgetError:
        """Why no further row may run. each: what one may cost."""
        is_own = budget is self._own
        name = f"batch's budget of {budget.amount} {budget.currency}" if is_own else f"budget of {budget}"
        if left <= 0:
            why = f"The {name} is spent ({money(budget.amount - left, budget.currency)})"
        else:
            rest, cost = money(left, budget.currency), money(each, budget.currency)
            why = f"The next row would go over the {name} ({rest} left, and a row costs about {cost})"
        how = "Run it again with a higher budget=" if is_own else f"Raise it: {budget.source} …"
        hint = f"{how}. What is done is not paid again."
        return BudgetError(f"{why}; nothing further was sent.", hint=hint)

    def count(self, job: Job, outcome: Outcome) -> None:
        """A row has ended."""
        size = self._running.pop(job.fingerprint, None)
        self.asked += 1
        paid = sum((record.paid or Decimal(0) for record in outcome.records), Decimal(0))
        self.paid += paid
        if size is not None and paid:
            self._beyond = max(self._beyond, paid - size)
        for record in outcome.records:
            self.cost += record.cost or 0
            self.currency = record.currency
            self.is_simulated = self.is_simulated or record.simulated
