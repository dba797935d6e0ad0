"""Memory, file handles and threads stay flat; many kernels share one store, also where some are killed."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kimi_magic import AsyncClient, Kimi
from kimi_magic.config import KimiMagic
from kimi_magic.errors import KimiError
from kimi_magic.retry import Policy
from kimi_magic.simulator import Simulator
from kimi_magic.store import Store
from kimi_magic.transports import Server, serve

ASKER = Path(__file__).parent / "asker.py"
MOST_BYTES = 12_000
"""A turn, its usage record and its place in the conversation: what a kernel keeps of it."""


@pytest.fixture
def server() -> Iterator[Server]:
    with serve(Simulator(speed=0)) as running:
        yield running


# --- one kernel ---------------------------------------------------------------------------------


def ask(kimi: Kimi, turns: int) -> None:
    """Questions over real sockets, some of which fail."""
    for n in range(turns):
        fault = ("", "", "[[simulate: cut]]", "[[simulate: broken]]", "[[simulate: 500]]", "")[n % 6]
        with suppress(KimiError):
            kimi.ask(f"Hi. {fault}", effort="low", new=True)


def handles() -> int:
    folder = Path("/proc/self/fd")
    if not folder.is_dir():
        pytest.skip("this system does not list a process's files")
    return len(list(folder.iterdir()))


def held() -> tuple[int, int]:
    """Files and threads."""
    return handles(), threading.active_count()


def held_at_last(most: tuple[int, int]) -> tuple[int, int]:
    """What is held, as soon as it is no more than that: what was closed may be seen a while longer."""
    end = time.monotonic() + 60
    while any(now > limit for now, limit in zip(held(), most, strict=True)) and time.monotonic() < end:
        time.sleep(0.01)
    return held()


def test_memory_handles_and_threads_stay_flat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    monkeypatch.setenv("KIMI_MAGIC_HOME", str(tmp_path))
    client = AsyncClient("sk-key", server.url, policy=Policy(tries=1))
    kimi = Kimi(KimiMagic(), client, "a.ipynb")
    turns = 120
    tracemalloc.start()
    try:
        ask(kimi, 30)
        gc.collect()
        before, memory = held(), tracemalloc.get_traced_memory()[0]
        ask(kimi, turns)
        gc.collect()
        more = tracemalloc.get_traced_memory()[0] - memory
        after = held_at_last(before)
    finally:
        tracemalloc.stop()
        kimi.worker.run(client.aclose)
        kimi.close()
    assert after[0] <= before[0]
    assert after[1] <= before[1]
    assert more / turns < MOST_BYTES


def test_chats_that_are_made_and_closed_leave_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KIMI_MAGIC_HOME", str(tmp_path))
    monkeypatch.setenv("KIMI_MAGIC_SIMULATOR", "always")

    def live() -> None:
        kimi = Kimi(notebook="a.ipynb")
        kimi.ask("Hi", effort="low")
        kimi.close()

    live()
    gc.collect()
    before = held()
    for _ in range(20):
        live()
    gc.collect()
    files, threads = held_at_last(before)
    assert (files, threads) == (min(files, before[0]), min(threads, before[1]))


# --- many kernels -------------------------------------------------------------------------------


def start(folder: Path, url: str, first: int, notebooks: int, turns: int) -> subprocess.Popen[str]:
    command = [sys.executable, str(ASKER), str(folder), str(first), str(notebooks), str(turns)]
    environ = {"KIMI_MAGIC_HOME": str(folder / "home"), "KIMI_BASE_URL": url, "KIMI_API_KEY": "sk-key"}
    return subprocess.Popen(command, env={**os.environ, **environ}, stdout=subprocess.PIPE, text=True)


def kept(folder: Path, notebooks: int) -> tuple[Counter[str], int, int]:
    """Prompts of all turns, the number of turns on active paths, and that of usage records."""
    store = Store(folder / "home" / "kimi_magic.db")
    try:
        assert store.verify() == []
        prompts: Counter[str] = Counter()
        active = 0
        for n in range(notebooks):
            found = store.load(str(folder / f"{n}.ipynb"))
            assert found.problems == ()
            for conversation in found.conversations.values():
                prompts.update(turn.prompt for turn in conversation.turns.values())
                active += len(conversation.path())
        return prompts, active, len(store.records())
    finally:
        store.close()


def test_fifty_notebooks_in_many_kernels_share_one_store(tmp_path: Path, server: Server) -> None:
    kernels = [start(tmp_path, server.url, first, 10, 4) for first in range(0, 50, 10)]
    said = [kernel.communicate(timeout=300)[0] for kernel in kernels]
    assert [kernel.returncode for kernel in kernels] == [0] * 5
    prompts, active, records = kept(tmp_path, 50)
    assert prompts == Counter("".join(said).splitlines())
    assert (len(prompts), active, records) == (200, 200, 200)


@pytest.mark.skipif(os.name != "posix", reason="no such kill elsewhere")
def test_kernels_that_are_killed_lose_no_turn_that_was_kept_and_double_none(
    tmp_path: Path, server: Server
) -> None:
    said: list[str] = []
    for round_ in range(3):
        kernels = [start(tmp_path, server.url, first, 2, 10_000) for first in (0, 2)]
        for n, kernel in enumerate(kernels):
            assert kernel.stdout is not None
            said += [kernel.stdout.readline().strip() for _ in range(7 + 5 * round_ + n)]
            kernel.kill()
            rest, _, unfinished = kernel.stdout.read().rpartition("\n")
            said += [*filter(None, rest.splitlines()), *([unfinished] if unfinished.endswith(".") else [])]
            kernel.stdout.close()
            kernel.wait(20)
    prompts, _, records = kept(tmp_path, 4)
    acknowledged = Counter(said)
    # Each round asks the same questions again; one that was on its way may be kept without being said.
    assert acknowledged <= prompts
    unsaid = prompts - acknowledged
    assert sum(unsaid.values()) <= 6
    assert records == sum(prompts.values())
