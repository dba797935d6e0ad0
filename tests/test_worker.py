"""The thread that HTTP runs in: it can be left at any moment, and nothing stays behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from kimi_magic.errors import Interrupted, ServerError
from kimi_magic.session import Worker

_others: set[threading.Thread] = set()  # workers that other tests have left to the end of the process


def threads() -> list[threading.Thread]:
    """Those that this test's workers have started and not ended."""
    return [t for t in threading.enumerate() if t.name == "kimi-magic" and t not in _others]


@pytest.fixture(autouse=True)
def alone() -> None:
    _others.clear()
    _others.update(threads())


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.close()
    assert threads() == []


class Source:
    """Yields these, then ends, fails or hangs; and says how it ended."""

    def __init__(self, *values: int, then: str = "end", tidy: float = 0.0) -> None:
        self._values, self._then, self._tidy = values, then, tidy
        self.begun = threading.Event()
        self.tidied = False

    async def __call__(self) -> AsyncGenerator[int, None]:
        self.begun.set()
        try:
            for value in self._values:
                yield value
            if self._then == "fail":
                raise ServerError("It broke.")
            if self._then == "hang":
                await asyncio.Event().wait()
        finally:
            await asyncio.sleep(self._tidy)
            self.tidied = True


def values(items: Any) -> list[int]:
    return [item for item in items if item is not None]


def test_what_the_source_yields_comes_out_in_order(worker: Worker) -> None:
    source = Source(*range(100))
    assert values(worker.iterate(source)) == list(range(100))
    assert source.tidied


def test_what_the_source_raises_comes_out_after_what_it_yielded(worker: Worker) -> None:
    source, seen = Source(1, 2, then="fail"), []
    with pytest.raises(ServerError, match="It broke"):  # noqa: PT012 - it is raised on the way
        for item in worker.iterate(source):
            seen += [] if item is None else [item]
    assert seen == [1, 2]
    assert source.tidied


def test_silence_is_told_in_ticks(worker: Worker) -> None:
    with closing(worker.iterate(Source(then="hang"), tick=0.01)) as items:  # type: ignore[type-var]  # a generator
        assert [next(items) for _ in range(3)] == [None, None, None]


def test_an_iterator_that_is_closed_leaves_a_source_that_has_tidied_up(worker: Worker) -> None:
    source = Source(1, then="hang", tidy=0.05)
    with closing(worker.iterate(source)) as items:  # type: ignore[type-var]  # a generator
        assert next(items) == 1
    assert source.tidied


def test_an_interrupt_while_it_waits_is_felt_and_the_source_tidies_up(worker: Worker) -> None:
    source = Source(1, then="hang", tidy=0.05)
    timer = threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - the interrupt strikes somewhere in here
        for _ in worker.iterate(source, tick=60):
            timer.start()
    assert source.tidied


def test_a_look_happens_in_the_loop_and_between_two_events(worker: Worker) -> None:
    with closing(worker.iterate(Source(then="hang"), tick=0.01)) as items:  # type: ignore[type-var]  # a generator
        next(items)
        assert worker.call(threading.current_thread).name == "kimi-magic"
    with pytest.raises(ZeroDivisionError):
        worker.call(lambda: 1 // 0)


def test_a_look_where_nothing_runs_starts_nothing() -> None:
    assert Worker().call(threading.current_thread) is threading.current_thread()
    assert threads() == []


def close_from_elsewhere(worker: Worker, when: Callable[[], object]) -> threading.Thread:
    def close() -> None:
        when()
        worker.close()

    thread = threading.Thread(target=close)
    thread.start()
    return thread


@pytest.mark.parametrize("late", [False, True])
def test_a_worker_that_is_closed_ends_what_waits_for_it(worker: Worker, late: bool) -> None:
    source, arrived = Source(1, then="hang"), threading.Event()
    closer = close_from_elsewhere(worker, (arrived if late else source.begun).wait)
    with pytest.raises(Interrupted, match="unloaded"):  # noqa: PT012 - it strikes somewhere in here
        for item in worker.iterate(source, tick=0.01):
            if item == 1:
                arrived.set()
    closer.join(5)
    assert source.tidied
    assert threads() == []


def test_closing_at_any_moment_never_hangs() -> None:
    for pause in range(30):
        worker = Worker()
        closer = close_from_elsewhere(
            worker, lambda pause=pause: [os.sched_yield() for _ in range(pause * 3)]
        )
        try:
            for _ in worker.iterate(Source(*range(20), then="end"), tick=0.01):
                worker.call(lambda: None)
        except Interrupted:
            pass
        closer.join(5)
        assert not closer.is_alive()
        worker.close()
    assert threads() == []


def test_a_closed_worker_starts_anew(worker: Worker) -> None:
    assert values(worker.iterate(Source(1))) == [1]
    worker.close()
    worker.close()
    assert threads() == []
    assert values(worker.iterate(Source(2))) == [2]


def test_several_threads_may_use_one_worker(worker: Worker) -> None:
    results: list[list[int]] = []
    users = [
        threading.Thread(target=lambda n=n: results.append(values(worker.iterate(Source(*[n] * 50)))))
        for n in range(8)
    ]
    for user in users:
        user.start()
    for user in users:
        user.join(10)
    assert sorted(results) == [[n] * 50 for n in range(8)]
    assert len(threads()) == 1


def test_work_runs_to_its_end_where_there_is_a_loop(worker: Worker) -> None:
    ran: list[str] = []

    async def work() -> None:
        ran.append(threading.current_thread().name)

    worker.run(work)
    assert ran == []
    values(worker.iterate(Source(1)))
    worker.run(work)
    assert ran == ["kimi-magic"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_has_a_loop_of_its_own_and_leaves_its_parent_s_alone(worker: Worker) -> None:
    with closing(worker.iterate(Source(1, 2, 3), tick=1)) as items:  # type: ignore[type-var]  # a generator
        assert next(items) == 1
        child = os.fork()
        if child == 0:  # pragma: no cover - another process
            good = values(worker.iterate(Source(7, 8))) == [7, 8] and len(threads()) == 1
            os._exit(0 if good else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert values(items) == [2, 3]


def test_an_interrupt_at_the_very_beginning_leaves_nothing_running(worker: Worker) -> None:
    """It may strike between the start of the source and the first wait for it."""
    begun: list[int] = []
    tidied: list[int] = []

    async def source() -> AsyncGenerator[int, None]:
        number = len(begun)
        begun.append(number)
        try:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            await asyncio.sleep(60)
            yield number
        finally:
            tidied.append(number)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(100):
            with pytest.raises(KeyboardInterrupt):
                list(worker.iterate(source))
            assert tidied == begun
    finally:
        sys.setswitchinterval(before)
