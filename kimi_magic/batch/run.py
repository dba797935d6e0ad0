"""A batch while it runs.

- Each reply is stored as soon as it is there, with its usage, in one transaction; replies that come while
  the disk is busy go into the next one. So a batch that was killed goes on where it was, and nothing is
  paid twice.
- A row that failed is not stored, and is asked again when the batch runs again. What fails for every row
  alike (a budget, a key, a quota) ends the batch; what is done stays.
- Tools are called in threads of this process. A row that was answered in part (up to a call, or a pause) is
  not begun again by itself: that part would be paid twice.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial

from ..errors import AuthenticationError, BudgetError, ConfigError, KimiError, QuotaError, TransportError
from ..prompt.lookup import said
from ..session import Plan, Session, ToolCalls, TurnStream
from ..tools import Schema
from ..usage import Budget
from .allowance import Allowance
from .asking import Elsewhere, Item, Outcome, follow, is_too_many
from .gate import Gate
from .jobs import LONG, Job, Jobs
from .keeper import Keeper, batch_key

TRIES = 6
"""How often a request is sent at most while the server says that there are too many; the client's own
tries come on top."""
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0  # seconds, where the server does not say how long
_FOR_ALL = (BudgetError, AuthenticationError, QuotaError, ConfigError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a batch runs."""

    concurrency: int = 8
    name: str | None = None
    """What its replies are stored under; None for one name a notebook."""
    budget: Budget | None = None
    """Of this batch alone."""
    resume: bool = True
    """Take what an earlier run has stored; else ask anew."""
    schema: Schema | None = None
    """What each reply has to fill."""
    executor: Executor | None = None
    """Where the requests are sent from, instead of here."""
    elsewhere: Elsewhere | None = None
    """What a process of the executor needs."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a batch has come, in rows."""

    total: int
    done: int
    failed: int
    cost: Decimal
    """Of the requests so far, as far as it is known."""
    currency: str
    waiting: float
    """Seconds that all of it waits, since the server asked for that; 0 mostly."""
    simulated: bool = False
    """A simulator answers: the cost is what it would be."""


class Run:
    """Iterate `events()` once, in the loop of the session's client; then `outcomes` has what came of each
    request, by its fingerprint, and `stored` which of them were there already."""

    def __init__(
        self,
        session: Session,
        plan: Plan | None,
        jobs: Jobs,
        settings: Settings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.jobs = jobs
        self.plan = plan
        """Of the first request; None without rows."""
        self.outcomes: dict[str, Outcome] = {}
        self.stored: set[str] = set()
        self.ended: KimiError | None = None
        """Why it asked no further, where it did not get to its end."""
        self._session = session
        self._settings = settings
        self._gate = Gate(settings.concurrency, clock)
        self._waiting: deque[tuple[Job, int]] = deque()
        self._running: dict[asyncio.Task[Outcome], tuple[Job, int]] = {}
        self._streams: set[TurnStream] = set()
        self._threads = ThreadPoolExecutor(settings.concurrency, "kimi-tool")  # makes none before a call
        self._keeper = Keeper(session, batch_key(session, settings.name))
        self._total = sum(len(job.rows) for job in jobs.jobs)
        self._done = self._failed = 0  # rows
        price = session.price(plan.request.model) if plan is not None else None
        self._allowance = Allowance(settings.budget, session.purse, plan, price, jobs.shared)

    async def events(self) -> AsyncGenerator[Progress, None]:
        """Ask, and say how far it has come. Whatever happens, what is done is stored."""
        self._begin()
        try:
            yield self.progress()
            while self._waiting or self._running:
                self._start()
                await self._some_end()
                yield self.progress()
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
            self._threads.shutdown(wait=False, cancel_futures=True)
            await self._keeper.close()

    def _begin(self) -> None:
        kept = self._keeper.found() if self._settings.resume else {}
        for job in self.jobs.jobs:
            message = kept.get(job.fingerprint)
            if message is None:
                self._waiting.append((job, 1))
            else:
                self.outcomes[job.fingerprint] = Outcome(message)
                self.stored.add(job.fingerprint)
                self._done += len(job.rows)

    # --- starting ---

    def _start(self) -> None:
        if not self._waiting or not self._has_room():
            return
        try:
            rests = self._allowance.rests()  # once for all that start together: nothing is paid meanwhile
            while self._waiting and self._has_room() and self._allowance.takes(self._waiting[0][0], rests):
                job, number = self._waiting.popleft()
                self._running[asyncio.create_task(self._ask(job))] = (job, number)
        except BudgetError as error:
            self._stop(error)

    def _has_room(self) -> bool:
        return len(self._running) < (1 if self._is_alone() else self._gate.limit) and not self._gate.wait()

    def _is_alone(self) -> bool:
        """The first request goes alone where its beginning is long: it is in the cache then."""
        return not self._allowance.asked and self.jobs.shared >= LONG

    async def _ask(self, job: Job) -> Outcome:
        assert self.plan is not None
        plan = replace(self.plan, request=job.request)
        if self._settings.executor is None:
            stream = self._session.aside(plan)
            self._streams.add(stream)
            try:
                return await follow(stream, self._gate.slow, self._call)
            except asyncio.CancelledError:
                self._keeper.add(None, Outcome(records=tuple(stream.records)))
                raise
            finally:
                self._streams.remove(stream)
        return await self._ask_elsewhere(self._settings.executor, job, plan)

    async def _ask_elsewhere(self, executor: Executor, job: Job, plan: Plan) -> Outcome:
        assert self._settings.elsewhere is not None
        try:
            future = executor.submit(Item.ask, Item(plan, self._settings.elsewhere))
        except RuntimeError as error:  # it was shut down, or its workers are gone
            return Outcome(error=ConfigError(f"The executor takes no rows any more: {error}."))
        try:
            outcome = await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            future.add_done_callback(partial(self._come_late, job))
            raise
        except KimiError as error:  # it has no key, say
            return Outcome(error=error)
        except Exception as error:  # noqa: BLE001 - each library has a type of its own for a dead worker
            return Outcome(error=TransportError(f"The executor's worker failed: {said(error)}."))
        for record in outcome.records:
            self._session.purse.note(record)
        if outcome.slowed:
            self._gate.slow(outcome.slowed)
        return outcome

    def _come_late(self, job: Job, future: Future[Outcome]) -> None:
        """Keep what a worker had begun when the batch was cancelled. From any thread."""
        if not future.cancelled() and future.exception() is None:
            self._keeper.keep(job, _checked(future.result(), self._settings.schema))

    async def _call(self, calls: ToolCalls, stream: TurnStream) -> None:
        """Run the calls of a row. Raises `BudgetError` where the batch's money is spent by then."""
        budget = self._settings.budget
        paid = self._allowance.paid + sum(
            record.paid or 0 for open_ in self._streams for record in open_.records
        )
        if budget is not None and paid >= budget.amount:
            raise self._allowance.over(budget, budget.amount - paid, Decimal(0))
        await asyncio.get_running_loop().run_in_executor(self._threads, calls.run_all, stream.answer)

    # --- ending ---

    async def _some_end(self) -> None:
        if not self._running:
            await asyncio.sleep(self._gate.wait() if self._waiting else 0)
            return
        pause = self._gate.wait() if self._waiting else 0
        ended, _ = await asyncio.wait(
            self._running, timeout=pause or None, return_when=asyncio.FIRST_COMPLETED
        )
        for task in ended:
            job, number = self._running.pop(task)
            self._take(job, number, task.result())

    def _take(self, job: Job, number: int, outcome: Outcome) -> None:
        self._allowance.count(job, outcome)
        if is_too_many(outcome.error) and number < TRIES and len(outcome.records) == 1:
            self._gate.slow(_asked_wait(outcome.error, number))
            self._waiting.appendleft((job, number + 1))
            self._keeper.add(None, outcome)
            return
        outcome = _checked(outcome, self._settings.schema)
        self.outcomes[job.fingerprint] = outcome
        self._keeper.add(job, outcome)
        self._done += len(job.rows)
        if outcome.error is None:
            self._gate.answered()
        else:
            self._failed += len(job.rows)
        if isinstance(outcome.error, _FOR_ALL):
            self._stop(outcome.error)

    def _stop(self, error: KimiError) -> None:
        """Ask no further; what runs goes on to its end."""
        self.ended = error
        self._waiting.clear()

    def progress(self) -> Progress:
        """How far it has come."""
        failures = len(self.jobs.failures)
        return Progress(
            total=self._total + failures,
            done=self._done + failures,
            failed=self._failed + failures,
            cost=self._allowance.cost,
            currency=self._allowance.currency,
            waiting=self._gate.wait(),
            simulated=self._allowance.is_simulated,
        )


def waiting_jobs(session: Session, jobs: Jobs, settings: Settings) -> list[Job]:
    """The requests of a batch that are not stored yet."""
    kept = session.kept_replies(batch_key(session, settings.name)) if settings.resume else {}
    return [job for job in jobs.jobs if job.fingerprint not in kept]


def _checked(outcome: Outcome, schema: Schema | None) -> Outcome:
    """A reply that does not fill the schema is a failure, and is not stored."""
    if outcome.message is None or schema is None:
        return outcome
    try:
        schema.read(outcome.message.text, outcome.message)
    except KimiError as error:
        return replace(outcome, message=None, error=error)
    return outcome


def _asked_wait(error: KimiError | None, number: int) -> float:
    asked = getattr(error, "retry_after", None)
    return min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** (number - 1) if asked is None else float(asked))
