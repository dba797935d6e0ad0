"""The same from a running loop: the loop stays free, and cancelling ends what it cancels."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
from kernels import Kernel
from paid import Paid, chat

from kimi_magic.api import Kimi
from kimi_magic.conversation import COMPLETE, INTERRUPTED
from kimi_magic.errors import BadRequestError, Interrupted
from kimi_magic.session import Worker


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIMI_MAGIC_HOME", str(tmp_path))


@pytest.fixture
def kimi() -> Iterator[Kimi]:
    made = chat(Paid(wait=0.02))
    yield made
    made.close()


def test_a_question_is_awaited_and_joins_the_conversation(kimi: Kimi) -> None:
    reply = asyncio.run(kimi.aask("One?", effort="low"))
    assert reply.turn.status == COMPLETE
    assert [turn.id for turn in kimi.conversation.path()] == [reply.turn.id]
    assert [row["turn"] for row in kimi.usage] == [reply.turn.id]


def test_the_loop_stays_free_meanwhile(kimi: Kimi) -> None:
    async def main() -> int:
        ticks = 0
        task = asyncio.create_task(kimi.aask("One?", effort="low"))
        while not task.done():
            ticks += 1
            await asyncio.sleep(0.001)
        return ticks

    assert asyncio.run(main()) > 3


def test_several_run_side_by_side_those_of_one_conversation_in_turn() -> None:
    server = Paid(wait=0.05)
    kimi = chat(server)

    async def main() -> None:
        await asyncio.gather(*(kimi.aask(f"{n}?", effort="low", once=True) for n in range(4)))
        assert server.most == 4
        await asyncio.gather(*(kimi.aask(f"{n}?", effort="low") for n in range(3)))

    asyncio.run(main())
    assert [turn.prompt for turn in kimi.conversation.path()] == ["0?", "1?", "2?"]
    kimi.close()


def test_an_error_is_raised_where_it_is_awaited(kimi: Kimi) -> None:
    with pytest.raises(BadRequestError):
        asyncio.run(kimi.aask("[[simulate: bad-request]]"))


def test_tools_run_in_threads_of_their_own(kimi: Kimi) -> None:
    ran: list[Any] = []

    def add(a: int, b: int) -> int:
        """Add."""
        ran.append(threading.current_thread())
        return a + b

    reply = asyncio.run(kimi.aask("Use the tool add.", tools=[add], effort="low"))
    assert reply.turn.status == COMPLETE
    assert ran
    assert threading.main_thread() not in ran


def test_cancelling_ends_the_reply_and_keeps_what_arrived(kimi: Kimi) -> None:
    async def main() -> None:
        task = asyncio.create_task(kimi.aask("One? [[simulate: silence]]", effort="low"))
        while kimi.session.last is None and not task.done():
            await asyncio.sleep(0.05)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    (turn,) = kimi.conversation.turns.values()
    assert turn.status == INTERRUPTED
    assert asyncio.run(kimi.aask("Two?", effort="low")).turn.status == COMPLETE


def test_a_time_limit_of_the_caller_ends_it() -> None:
    server = Paid(hold=0)
    kimi = chat(server)

    async def main() -> None:
        async with asyncio.timeout(None) as limit:

            async def when_it_is_asked() -> None:
                await asyncio.to_thread(server.held.wait)
                limit.reschedule(asyncio.get_running_loop().time())

            waiting = asyncio.create_task(when_it_is_asked())
            await kimi.aask("One?", effort="low")
        await waiting

    with pytest.raises(TimeoutError):
        asyncio.run(main())
    assert kimi.session.last is not None
    assert kimi.session.last.status == INTERRUPTED
    kimi.close()


def test_a_map_is_awaited(kimi: Kimi) -> None:
    rows = asyncio.run(kimi.amap("Say {{ x }}", ["a", "b"], effort="low", progress=False))
    assert [row["kimi_status"] for row in rows] == ["asked", "asked"]


def test_cancelling_a_map_keeps_what_is_done() -> None:
    server = Paid(hold=8)
    kimi = chat(server)
    words = [str(n) for n in range(30)]

    async def main() -> None:
        ask = kimi.amap("Say {{ x }}", words, concurrency=2, effort="low", progress=False)
        task = asyncio.create_task(ask)
        await asyncio.to_thread(server.held.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    done = [row["kimi_status"] for row in kimi.last_map].count("asked")
    assert 0 < done < 30
    server.hold = None
    rows = kimi.map("Say {{ x }}", words, effort="low", progress=False)
    assert [row["kimi_status"] for row in rows].count("stored") == done
    kimi.close()


# --- the bridge ---------------------------------------------------------------------------------


def test_the_source_has_tidied_up_before_the_caller_goes_on() -> None:
    worker, tidied = Worker(), []

    async def source() -> AsyncGenerator[int, None]:
        try:
            yield 1
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
            tidied.append(True)

    async def main() -> None:
        events = worker.aiterate(source)
        assert await anext(events) == 1
        await events.aclose()
        assert tidied == [True]

    asyncio.run(main())
    worker.close()


def test_a_worker_that_is_closed_meanwhile_ends_the_wait() -> None:
    worker = Worker()

    async def source() -> AsyncGenerator[int, None]:
        yield 1
        await asyncio.Event().wait()

    async def main() -> None:
        events = worker.aiterate(source)
        await anext(events)
        threading.Timer(0.05, worker.close).start()
        with pytest.raises(Interrupted, match="unloaded"):
            await anext(events)

    asyncio.run(main())
    worker.close()


def test_a_caller_whose_loop_is_gone_disturbs_nobody() -> None:
    worker, begun = Worker(), threading.Event()

    async def source() -> AsyncGenerator[int, None]:
        begun.set()
        for number in range(100):
            yield number
            await asyncio.sleep(0.001)

    loop = asyncio.new_event_loop()
    events = worker.aiterate(source)
    assert loop.run_until_complete(anext(events)) == 0
    loop.run_until_complete(events.aclose())
    loop.close()
    assert next(iter(worker.iterate(source))) == 0
    worker.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # jupyter_client's own
def test_a_cell_awaits_at_its_top_level() -> None:
    with Kernel() as kernel:
        kernel.run("from kimi_magic import kimi\nimport asyncio")
        cell = kernel.run("reply = await kimi.aask('One?', effort='low')\nprint(reply.turn.status)")
        assert (cell.error, cell.printed) == ("", "complete\n")
        both = "a, b = await asyncio.gather(kimi.aask('Two?', once=True), kimi.amap('Say {{ x }}', ['x']))"
        assert kernel.run(both).error == ""
        cell = kernel.run(
            "print(b[0]['kimi_status'], len(kimi.usage), kimi.map('Tell {{ x }}', [1])[0]['x'])"
        )
        assert cell.printed.splitlines()[-1] == "asked 3 1"
