"""The thread that HTTP runs in, and the iterator that a cell waits on.

An asyncio loop in a thread of its own waits for the network, because a read can be cancelled there
at any stage; the cell waits on a queue, where a keyboard interrupt is felt within milliseconds
(measured 2 to 11 ms, while a cell that awaits an idle stream may not be interruptible at all).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent import futures
from contextlib import aclosing
from typing import Any, TypeVar

from ..errors import Interrupted

T = TypeVar("T")
_CLOSED = "The reply was ended: kimi_magic was unloaded."
_GRACE = 2.0  # seconds to wait for a cancelled task to tidy up


class Worker:
    """A loop in a thread, started on first use. `close()` ends both, and whatever runs in them; a
    closed worker starts anew when it is used again. In a forked process it begins afresh."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._process = os.getpid()

    def iterate(self, source: Callable[[], AsyncGenerator[T, None]], tick: float = 0.1) -> Iterator[T | None]:
        """What the async generator yields, one by one; None each `tick` seconds without anything.

        When the iterator is closed, or interrupted while it waits, the source is cancelled and has
        tidied up before this returns. Raises what the source raises, and `Interrupted` when it is
        stopped from elsewhere, or the worker is closed.
        """
        items: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        task = _Task()  # before the `try`, and started in it: an interrupt leaves nothing running
        try:
            self._start(task, _pump(source, items.put))
            while True:
                try:
                    kind, value = items.get(timeout=tick)
                except queue.Empty:
                    ended = task.ended.is_set() and items.empty()
                    kind, value = "stopped" if ended else "event", None
                if self._is_last(kind, value):
                    return
                yield value
        finally:
            task.cancel()

    async def aiterate(self, source: Callable[[], AsyncGenerator[T, None]]) -> AsyncGenerator[T, None]:
        """`iterate` for a caller that has a loop of its own, which stays free meanwhile. Cancelling the
        caller cancels the source, which has tidied up before this ends."""
        here, items = asyncio.get_running_loop(), asyncio.Queue[tuple[str, Any]]()

        def put(item: tuple[str, Any]) -> None:
            with contextlib.suppress(RuntimeError):  # the caller's loop was closed: nobody waits any more
                here.call_soon_threadsafe(items.put_nowait, item)

        task = _Task()
        try:
            self._start(task, _pump(source, put))
            while True:
                kind, value = await items.get()
                if self._is_last(kind, value):
                    return
                yield value
        finally:
            if not task.ended.is_set():
                await asyncio.shield(here.run_in_executor(None, task.cancel))

    def _is_last(self, kind: str, value: Any) -> bool:
        """Whether what came is the end, and no event. Raises what ended it otherwise."""
        if kind == "stopped":
            raise Interrupted(_CLOSED if self._loop is None else "The reply was stopped.")
        if kind == "error":
            raise value
        return kind == "end"

    def call(self, look: Callable[[], T]) -> T:
        """What `look` returns, run in the loop: between two events, never in the middle of one. Raises
        `Interrupted` when the worker is closed meanwhile."""

        async def looked() -> T:
            return look()

        with self._lock:
            if self._loop is None:
                return look()  # nothing runs that it could disturb
            answer = asyncio.run_coroutine_threadsafe(looked(), self._loop)
        try:
            return answer.result()
        except futures.CancelledError:
            raise Interrupted(_CLOSED) from None

    def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run it in the loop to its end, for a moment at most; nothing where there is no loop."""
        with self._lock:
            if self._loop is None or self._process != os.getpid():
                return
            done = asyncio.run_coroutine_threadsafe(asyncio.wait_for(work(), _GRACE), self._loop)
        done.exception()

    def close(self) -> None:
        """End the loop and its thread."""
        if self._process != os.getpid():
            return  # they are the parent's
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
            if loop is not None:
                loop.call_soon_threadsafe(loop.stop)
        if thread is not None:
            thread.join(_GRACE)

    def _start(self, task: _Task, work: Coroutine[Any, Any, None]) -> None:
        if self._process != os.getpid():
            _LOST.append(self._loop)
            self._begin()
        with self._lock:  # so that no `close` comes between
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_serve, args=(self._loop,), name="kimi-magic", daemon=True
                )
                self._thread.start()
            task.begin(self._loop, work)


async def _pump(
    source: Callable[[], AsyncGenerator[T, None]], put: Callable[[tuple[str, Any]], None]
) -> None:
    """Put what the generator yields, and how it ended."""
    try:
        async with aclosing(source()) as events:
            async for event in events:
                put(("event", event))
        put(("end", None))
    except asyncio.CancelledError:
        put(("stopped", None))
        raise
    except Exception as error:  # noqa: BLE001 - raised again by the one that waits
        put(("error", error))


_LOST: list[asyncio.AbstractEventLoop | None] = []
"""Loops of the parent process: to close one here would disturb it there."""


class _Task:
    """A task in another thread's loop, that can be cancelled and waited for from this one."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]) -> None:
        self._loop = loop
        loop.call_soon_threadsafe(self._start, loop, work)

    def _start(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]) -> None:
        self._task = loop.create_task(work)
        self._task.add_done_callback(lambda _: self.ended.set())

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
        else:  # it was interrupted before it began
            self.ended.set()

    def cancel(self) -> None:
        """Cancel it and wait until it has tidied up; nothing where it has ended."""
        if self.ended.is_set() or self._loop is None:
            return
        try:
            self._loop.call_soon_threadsafe(self._stop)
        except RuntimeError:  # the loop was closed, and its tasks with it
            return
        self.ended.wait(_GRACE)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks, timeout=_GRACE))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
