"""What keeping a conversation costs: loading it, a durable turn, and a turn's overhead as it grows.

python tests/bench/store.py            prints a table for the README
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from scripted import Scripted, reply

from kimi_magic.api import Kimi
from kimi_magic.config import KimiMagic
from kimi_magic.conversation import Conversation, Turn
from kimi_magic.session import Session
from kimi_magic.store import Store
from kimi_magic.usage import Record
from kimi_magic.wire import Request, user

TURNS = 1_000
SIZE = 2_000  # bytes of a turn's texts
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
WORDS = "Some words that a model might say in reply to a question. "
RUNS = 7
ROUNDS = 45


def turn(number: int, parent: str | None) -> Turn:
    content = [
        {"type": "thinking", "thinking": (WORDS * 20)[: SIZE // 2], "signature": "c2lnbmF0dXJl"},
        {"type": "text", "text": (WORDS * 20)[: SIZE // 2]},
    ]
    return Turn(
        id=f"{number:016x}",
        parent=parent,
        messages=(user(f"Question {number}"), {"role": "assistant", "content": content}),
        cell=f"cell {number}",
        prompt=f"Question {number}",
        model="kimi-k3.1-pro",
        time=NOON + timedelta(minutes=number),
        settings={"model": "kimi-k3.1-pro", "max_tokens": 65_536, "stream": True},
    )


def record(made: Turn) -> Record:
    return Record(
        time=made.time, conversation="main", turn=made.id, model=made.model, input=900, output=400,
        cache_read=100, cost=Decimal("0.00582"), seconds=4.2, seconds_to_first=0.8,
    )  # fmt: skip


def conversation(count: int = TURNS) -> Conversation:
    told = Conversation()
    turns: dict[str, Turn] = {}
    for number in range(count):
        made = turn(number, told.head)
        turns[made.id] = made
        told = replace(told, head=made.id)
    return replace(told, turns=turns)


def cpu(work: Callable[[], Any], runs: int = RUNS) -> float:
    """Milliseconds of CPU, the median of several runs."""
    took = []
    for _ in range(runs):
        took.append(seconds(work))
    return statistics.median(took) * 1e3


def wall(work: Callable[[int], Any], runs: int) -> float:
    """Milliseconds, the median of many runs."""
    took = []
    for number in range(runs):
        began = time.perf_counter()
        work(number)
        took.append(time.perf_counter() - began)
    return statistics.median(took) * 1e3


def loading(folder: Path) -> tuple[float, float]:
    """CPU for a new kernel to load 1,000 turns, and to show their history."""
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    from kimi_magic.magics import load

    os.environ["KIMI_MAGIC_HOME"] = str(folder)
    told = conversation()
    Store(folder / "kimi_magic.db").keep("n", told, told.turns.values(), map(record, told.turns.values()))
    client = Scripted([reply()]).client()
    load_time = cpu(lambda: Session(client, notebook="n", store=Store(folder / "kimi_magic.db")))
    shell = InteractiveShell.instance()
    kimi = Kimi(KimiMagic(display="static"), client)
    kimi._access.made = Session(client, notebook="n", store=Store(folder / "kimi_magic.db"))
    load(shell, kimi.settings, lambda: kimi)

    def history() -> None:
        with capture_output():
            shell.run_line_magic("kimi", "history")

    shown = cpu(history)
    kimi.close()
    return load_time, shown


def appending(folder: Path) -> tuple[float, float]:
    """Milliseconds for a bare commit of the same bytes, and for a turn with its record, in turns."""
    bare = sqlite3.connect(folder / "bare.db", isolation_level=None)
    bare.execute("PRAGMA journal_mode=WAL")
    bare.execute("PRAGMA synchronous=FULL")
    bare.execute("CREATE TABLE turns (number INTEGER PRIMARY KEY, json TEXT)")
    text = "x" * (SIZE + 600)

    def commit(number: int) -> None:
        bare.execute("BEGIN IMMEDIATE")
        bare.execute("INSERT INTO turns (json) VALUES (?)", (text,))
        bare.execute("COMMIT")

    store, told = Store(folder / "append.db"), Conversation()

    def keep(number: int) -> None:
        nonlocal told
        made = turn(number, told.head)
        told = told.with_turn(made)
        store.keep("n", told, [made], [record(made)])

    keep(0)
    ours, theirs = [], []
    for number in range(1, 400):
        theirs.append(wall(commit, 1))
        ours.append(wall(lambda _, n=number: keep(n), 1))  # type: ignore[misc]
    return statistics.median(theirs), statistics.median(ours)


class Grown:
    """A notebook whose conversation has so many turns."""

    def __init__(self, folder: Path, turns: int) -> None:
        from IPython.core.interactiveshell import InteractiveShell

        from kimi_magic.magics import load

        path, self.turns = str(folder / f"{turns}.ipynb"), turns
        self.server = Scripted([reply((WORDS * 20)[:SIZE])], judges=False)
        store, told = Store(folder / "grown.db"), conversation(turns)
        store.keep(path, told, told.turns.values(), map(record, told.turns.values()))
        self._shell = InteractiveShell()
        self._kimi = Kimi(KimiMagic(display="static"), self.server.client(), path)
        self._kimi._access.made = Session(self.server.client(), notebook=path, store=store)
        load(self._shell, self._kimi.settings, lambda: self._kimi)
        self._asked = 0

    def turn(self) -> float:
        """CPU seconds of a whole turn, and of the client alone for its request."""
        self._asked += 1
        self.server.bodies.clear()
        return seconds(partial(self._shell.run_cell_magic, "kimi", "", f"Question {self._asked}"))

    def client(self) -> float:
        self.server.bodies.clear()
        request = Request(messages=(*self._kimi.messages, user("?")))
        return seconds(partial(asyncio.run, self.server.client().create(request)))

    def close(self) -> None:
        self._kimi.close()


def growing(folder: Path) -> list[tuple[int, float, float]]:
    """Turns so far → CPU milliseconds of the next one in a notebook, and of the client alone for its
    request. They take turns."""
    from IPython.utils.capture import capture_output

    grown = [Grown(folder, turns) for turns in (1, 20, 200, TURNS)]
    took: dict[int, list[tuple[float, float]]] = {each.turns: [] for each in grown}
    with capture_output():
        for _ in range(ROUNDS):
            for each in grown:
                took[each.turns].append((each.turn(), each.client()))
    for each in grown:
        each.close()
    return [
        (turns, *(statistics.median(column) * 1e3 for column in zip(*rows[5:], strict=True)))
        for turns, rows in took.items()
    ]


def seconds(work: Callable[[], Any]) -> float:
    """CPU seconds, of all threads."""
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["KIMI_MAGIC_HOME"] = str(folder / "home")
        load_time, shown = loading(folder / "load")
        bare, ours = appending(folder)
        os.environ["KIMI_MAGIC_HOME"] = str(folder / "home")
        rows = growing(folder)
    print("| what | measured | goal |\n| --- | --- | --- |")
    print(f"| load {TURNS:,} turns (2 MB) | {load_time:.1f} ms CPU | |")
    print(f"| show their history | {shown:.1f} ms CPU | both: 50 ms CPU |")
    print(f"| a bare SQLite commit, WAL, synchronous=FULL | {bare:.3f} ms | |")
    print(f"| a turn kept with its usage | {ours:.3f} ms ({ours / bare:.2f} ×) | 2 × |")
    for turns, whole, alone in rows:
        print(
            f"| a turn after {turns:,} in a notebook | {whole:.2f} ms CPU, the client alone {alone:.2f},"
            f" beyond it {whole - alone:.2f} | flat |"
        )


if __name__ == "__main__":
    main()
