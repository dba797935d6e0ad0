"""A function, run: its output caught, async or not, with a time limit or not.

- A plain function without a limit runs in the thread that calls, so that an interrupt reaches it.
- An async function, and one with a limit, runs in a thread of its own, since the caller's thread may
  have a running event loop; the caller waits and feels an interrupt at once. A coroutine is then
  cancelled; a plain function cannot be ended from outside, and runs on unheard.
- Only what the function itself prints is caught, not what other threads print meanwhile: the stand-in
  for `sys.stdout` looks at a context variable.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import io
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TextIO

_TICK = 0.05  # seconds between two looks of the waiting thread
_GRACE = 1.0  # seconds for a cancelled coroutine to tidy up

_printing: contextvars.ContextVar[io.StringIO | None] = contextvars.ContextVar("printing", default=None)


class _StandIn:
    """Writes to the buffer of the context that runs, else to the stream that it stands in for. No file of
    `io`: those close what they hold when they go."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        buffer = _printing.get()
        return self._stream.write(text) if buffer is None else buffer.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def isatty(self) -> bool:
        return _printing.get() is None and self._stream.isatty()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Catch:
    """The stand-ins, in their place as long as any function runs: several may, each in its thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._before: dict[str, Any] = {}
        self._placed: dict[str, _StandIn] = {}

    def __enter__(self) -> None:
        with self._lock:
            self._count += 1
            if self._count == 1:
                for name in ("stdout", "stderr"):
                    self._before[name] = getattr(sys, name)
                    self._placed[name] = _StandIn(self._before[name])
                    setattr(sys, name, self._placed[name])

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._count -= 1
            if self._count == 0:
                for name, stand_in in self._placed.items():
                    if getattr(sys, name) is stand_in:  # else somebody else has changed it, and mends it
                        setattr(sys, name, self._before[name])


_catch = _Catch()


@contextlib.contextmanager
def caught() -> Iterator[io.StringIO]:
    """What the code inside prints, to stdout and stderr."""
    buffer = io.StringIO()
    token = _printing.set(buffer)
    try:
        with _catch:
            yield buffer
    finally:
        _printing.reset(token)


def run(call: Callable[[], Any], timeout: float | None, *, is_async: bool) -> Any:
    """What `call` returns; a coroutine is awaited. Raises what it raises, and TimeoutError."""
    if is_async or timeout is not None:
        return _Thread(call, timeout).result()
    value = call()
    return _Thread(lambda: value, None).result() if inspect.isawaitable(value) else value


class _Thread:
    """One call in a thread of its own, in a copy of the caller's context."""

    def __init__(self, call: Callable[[], Any], timeout: float | None) -> None:
        self._call = call
        self._timeout = timeout
        self._ended = threading.Event()
        self._value: Any = None
        self._error: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._run,), name="kimi-tool", daemon=True)

    def result(self) -> Any:
        self._thread.start()
        waited = 0.0
        try:
            while not self._ended.wait(_TICK):
                waited += _TICK
                if self._timeout is not None and waited >= self._timeout:
                    raise TimeoutError(f"it took longer than {self._timeout:g} s")
        except BaseException:
            self._cancel()
            raise
        if self._error is not None:
            raise self._error
        return self._value

    def _run(self) -> None:
        try:
            value = self._call()
            self._value = asyncio.run(self._awaited(value)) if inspect.isawaitable(value) else value
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            self._error = error
        finally:
            self._ended.set()

    async def _awaited(self, value: Any) -> Any:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        return await value

    def _cancel(self) -> None:
        if self._loop is not None and self._task is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                self._loop.call_soon_threadsafe(self._task.cancel)
            self._ended.wait(_GRACE)
