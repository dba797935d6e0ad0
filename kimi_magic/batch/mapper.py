"""`kimi.map` and its kin: from a template and rows to a table."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from concurrent.futures import Executor
from contextlib import aclosing, closing
from dataclasses import dataclass, replace
from operator import index
from typing import Any

from ..counts import counted
from ..errors import Interrupted, OptionError, PromptError
from ..prompt import ImageLimits
from ..session import Plan, Session, Worker, check_names
from ..tools import Schema
from ..usage import Budget, Price
from ..wire import Block
from .asking import Elsewhere, held
from .estimate import Estimate, estimate
from .jobs import plan_jobs
from .progress import Bar
from .rows import Rows, read_rows
from .run import Progress, Run, Settings, waiting_jobs
from .table import result

_OURS = ("values", "name", "budget", "resume", "executor", "progress")
"""Options of a batch; all others are those of a question."""


@dataclass(frozen=True, slots=True)
class Door:
    """What a batch needs of the chat."""

    worker: Worker
    session: Callable[[], Session]
    plan: Callable[..., Plan]
    """Content and options of a question → its plan."""
    limits: Callable[[], ImageLimits]
    elsewhere: Callable[[], Elsewhere]
    """What a process needs to ask. Raises `ConfigError` where it cannot."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch, about to run."""

    rows: Rows
    run: Run
    settings: Settings
    bar: Bar

    def close(self) -> None:
        """End the bar. What the money of a simulator may make one expect is said below it."""
        self.bar.close()
        if self.settings.budget is not None and self.run.progress().simulated:
            self.bar.say("Simulated rows cost nothing, so no budget ends them.")

    def table(self) -> Any:
        """What has come of it so far."""
        return result(self.rows, self.run, self.settings.schema)

    def finished(self) -> Any:
        """The table at its end. Raises what ended the batch, where nothing came of it at all."""
        if self.run.ended is not None and not any(o.message for o in self.run.outcomes.values()):
            raise self.run.ended
        return self.table()


class Mapper:
    """The batches of one chat."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self.last: Batch | None = None
        """The batch that ran last, also where it was interrupted."""

    def map(self, template: str, rows: Any, options: Mapping[str, Any]) -> Any:
        """Run a batch and wait for it. Raises `Interrupted` with what is done stored."""
        batch = self._batch(template, rows, options)
        with closing(batch), held(batch.settings.elsewhere):
            try:
                with closing(self._door.worker.iterate(batch.run.events)) as events:  # type: ignore[type-var]  # a generator
                    for progress in events:
                        if progress is not None:
                            batch.bar.show(progress)
            except KeyboardInterrupt:
                raise _interrupted(batch) from None
        return batch.finished()

    async def amap(self, template: str, rows: Any, options: Mapping[str, Any]) -> Any:
        """The same, awaited; cancelling it ends the batch, with what is done stored."""
        batch = self._batch(template, rows, options)
        with closing(batch), held(batch.settings.elsewhere):
            source: Callable[[], AsyncGenerator[Progress, None]] = batch.run.events
            async with aclosing(self._door.worker.aiterate(source)) as events:
                async for progress in events:
                    batch.bar.show(progress)
        return batch.finished()

    def estimate(self, template: str, rows: Any, options: Mapping[str, Any]) -> Estimate:
        """What the batch would send and may cost; nothing is sent."""
        batch = self._batch(template, rows, {**options, "progress": False, "executor": None})
        session = self._door.session()
        waiting = waiting_jobs(session, batch.run.jobs, batch.settings)
        price = session.price(waiting[0].request.model) if waiting else None
        stored = len(batch.rows.records) - len(batch.run.jobs.failures) - sum(len(j.rows) for j in waiting)
        ask = batch.run.plan.ask if batch.run.plan is not None else None
        rounds = ask.max_steps if ask is not None and ask.tools else 0
        return estimate(len(batch.rows.records), waiting, stored, price, session.records, rounds)

    def _batch(self, template: str, rows: Any, options: Mapping[str, Any]) -> Batch:
        check_names(options, also=(*_OURS, "concurrency"))
        own = {name: options[name] for name in _OURS if name in options}
        asked = {name: value for name, value in options.items() if name not in (*_OURS, "concurrency")}
        executor = own.get("executor")
        _check(template, executor, asked.get("tools"))
        values = own.get("values") or {}
        schema = Schema.of(asked["schema"]) if asked.get("schema") is not None else None
        read = read_rows(rows, template, values)

        def base(content: tuple[Block, ...]) -> Plan:
            plan = self._door.plan(content, **{**asked, "schema": schema, "prompt": template, "once": True})
            return replace(plan, ask=replace(plan.ask, schema=None, content=()))

        jobs, plan = plan_jobs(template, read, values, base, self._door.limits())
        budget = _budget(own.get("budget"))
        if budget is not None and plan is not None:
            model = plan.request.model
            _check_currency(budget, model, self._door.session().price(model))
        settings = Settings(
            concurrency=_concurrency(options.get("concurrency", 8)),
            name=own.get("name"),
            budget=budget,
            resume=own.get("resume", True),
            schema=schema,
            executor=executor,
            elsewhere=self._door.elsewhere() if executor is not None else None,
        )
        run = Run(self._door.session(), plan, jobs, settings)
        self.last = Batch(read, run, settings, Bar(shown=own.get("progress", True)))
        return self.last


def _check(template: Any, executor: Any, tools: Any) -> None:
    """Raise what is said before any row is looked at."""
    if not isinstance(template, str):
        raise PromptError(
            f"A value of type {type(template).__name__} is no template.",
            hint='First the template, then the rows: kimi.map("… {{ column }} …", df).',
        )
    if not isinstance(executor, Executor | None):
        raise OptionError(
            f"executor: must be a concurrent.futures.Executor, not {executor!r}.",
            hint="Dask's is client.get_executor(), ipyparallel's client.executor().",
        )
    if tools and executor is not None:
        raise OptionError(
            "tools: the functions are in this kernel, and executor= sends the requests from elsewhere.",
            hint="Leave executor= out: up to concurrency= rows run at once here.",
        )


def _concurrency(value: Any) -> int:
    is_whole = hasattr(value, "__index__") and not isinstance(value, bool)  # numpy's, too
    if not is_whole or index(value) < 1:
        raise OptionError(f"concurrency: must be a whole number from 1 on, not {value!r}.")
    return index(value)


def _budget(value: Any) -> Budget | None:
    if value is None:
        return None
    try:
        budget = value if isinstance(value, Budget) else Budget.parse(str(value))
    except ValueError:
        raise OptionError(f"budget: must be an amount of money, not {value!r}.") from None
    return replace(budget, source="budget=")


def _check_currency(budget: Budget, model: str, price: Price | None) -> None:
    """A budget that could not end the batch is none."""
    if price is None:
        raise OptionError(
            f"budget: no price of {model} is known, so none could hold.", hint="%kimi price sets one."
        )
    if budget.currency != price.currency:
        raise OptionError(f"budget: must be in {price.currency}, as the price is, not in {budget.currency}.")


def _interrupted(batch: Batch) -> Interrupted:
    progress = batch.run.progress()
    return Interrupted(
        f"The batch was interrupted; {progress.done:,} of {counted(progress.total, 'row')}"
        f" {'is' if progress.total == 1 else 'are'} done.",
        hint="Run it again to go on: what is done is not paid again. kimi.last_map has it, too.",
    )
