"""What is kept is kept whole, whoever writes, whatever breaks; what cannot be kept waits."""

from __future__ import annotations

import json
import os
import resource
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from scripted import Scripted, reply
from store_writer import turn
from test_session import run, session

from kimi_magic.conversation import COMPLETE, FAILED, Conversation, Turn
from kimi_magic.errors import StoreError
from kimi_magic.session import Session
from kimi_magic.store import Store, store_path
from kimi_magic.store.migrations import MIGRATIONS
from kimi_magic.usage import Record
from kimi_magic.wire import user

WRITER = Path(__file__).parent / "store_writer.py"
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "kimi_magic.db"


def chain(*names: str, conversation: Conversation | None = None) -> Conversation:
    conversation = conversation or Conversation()
    for name in names:
        conversation = conversation.with_turn(turn(name, conversation.head))
    return conversation


def keep(store: Store, conversation: Conversation, *records: Record, notebook: str = "a.ipynb") -> bool:
    return store.keep(notebook, conversation, conversation.turns.values(), records)


def sql(path: Path, *statements: str) -> list[tuple[object, ...]]:
    with sqlite3.connect(path) as db:
        rows = [row for statement in statements for row in db.execute(statement).fetchall()]
    db.close()
    return rows


# --- what comes back ----------------------------------------------------------------------------


def test_a_conversation_comes_back_as_it_was(path: Path) -> None:
    before = replace(chain("a", "b", "c").undo(), system="Be brief.")
    failed = replace(turn("d", "b"), status=FAILED, error="one line")
    before = before.with_turn(failed)
    used = Record(time=NOON, turn="a", cost=Decimal("0.0060600"), input=3, conversation="main")
    store = Store(path)
    keep(store, before, used)
    for reader in (store, Store(path)):
        found = reader.load("a.ipynb")
        assert found.conversations == {"main": before}
        assert found.records == (used,)
        assert found.problems == ()
    assert [t.id for t in before.path()] == ["a", "b"]
    store.close()


def test_notebooks_and_names_do_not_mix(path: Path) -> None:
    store = Store(path)
    keep(store, chain("a"))
    keep(store, replace(chain("b"), name="报告 第1版"))
    keep(store, chain("c"), Record(time=NOON, turn="c"), notebook="b.ipynb")
    assert {n: list(c.turns) for n, c in store.load("a.ipynb").conversations.items()} == {
        "main": ["a"],
        "报告 第1版": ["b"],
    }
    assert list(store.load("b.ipynb").conversations["main"].turns) == ["c"]
    assert store.load("c.ipynb").conversations == {}
    assert store.load("a.ipynb").records == ()
    assert [r.turn for r in store.records()] == ["c"]


def test_a_turn_is_never_overwritten(path: Path) -> None:
    store = Store(path)
    keep(store, chain("a"))
    other = Conversation(turns={"a": replace(turn("a"), messages=(user("other"),))}, head="a")
    keep(store, other)
    assert store.load("a.ipynb").conversations["main"].turns["a"] == turn("a")


@pytest.mark.parametrize(
    "value",
    ["half \ud83d a pair", "\x00 \u2028 \x85 \r", 2**70, 1e22, 1.0, None, {"\ud800": ["", {}, []]}],
    ids=repr,
)
def test_any_json_comes_back_verbatim(path: Path, value: object) -> None:
    blocks = [{"type": "text", "text": "a"}, {"type": "future_block", "x": value}]
    odd = replace(turn("a"), messages=(user("a"), {"role": "assistant", "content": blocks}))
    keep(Store(path), Conversation().with_turn(odd))
    back = Store(path).load("a.ipynb").conversations["main"].turns["a"]
    assert json.dumps(back.to_json()) == json.dumps(odd.to_json())


def test_file_and_folder_are_the_users_alone(path: Path) -> None:
    old = os.umask(0)
    try:
        keep(store := Store(path), chain("a"))
    finally:
        os.umask(old)
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in [path.parent, *path.parent.iterdir()]}
    assert modes == {"home": 0o700, path.name: 0o600, f"{path.name}-wal": 0o600, f"{path.name}-shm": 0o600}
    assert sql(path, "PRAGMA journal_mode") == [("wal",)]
    store.close()


def test_the_home_can_be_named(tmp_path: Path) -> None:
    assert store_path({"KIMI_MAGIC_HOME": str(tmp_path)}) == tmp_path / "kimi_magic.db"
    assert store_path({"KIMI_MAGIC_HOME": "~/x"}) == Path.home() / "x" / "kimi_magic.db"
    data = Path(os.environ["JUPYTER_DATA_DIR"])
    assert store_path({"KIMI_MAGIC_HOME": " "}) == store_path({}) == data / "kimi_magic" / "kimi_magic.db"


# --- what is wrong with it ----------------------------------------------------------------------


def test_verify_finds_a_changed_byte(path: Path) -> None:
    store = Store(path)
    keep(store, chain("a", "b"))
    assert store.verify() == []
    sql(path, "UPDATE turns SET json = replace(json, 'b 深', 'b 浅') WHERE id = 'b'")
    assert store.verify() == ["Turn b (row 2) is not as it was stored."]


def test_verify_finds_a_request_that_cannot_be_read(path: Path) -> None:
    store = Store(path)
    keep(store, chain("a"), Record(NOON), Record(NOON))
    sql(path, "UPDATE requests SET json = '{' WHERE number = 1")
    assert store.verify() == ["1 of 2 requests cannot be read, and no sum has it."]
    store.close()


@pytest.mark.parametrize(
    ("damage", "left", "head"),
    [
        ("UPDATE turns SET json = '{' WHERE id = 'd'", ["a", "b", "c"], "c"),
        ("UPDATE turns SET json = '{}' WHERE id = 'b'", ["a"], "a"),
        ("DELETE FROM turns WHERE id = 'a'", [], None),
        (
            "UPDATE turns SET json = replace(json, '\"version\":1', '\"version\":99') WHERE id = 'c'",
            ["a", "b"],
            "b",
        ),
    ],
)
def test_what_cannot_be_read_is_left_out_and_the_rest_goes_on(
    path: Path, damage: str, left: list[str], head: str | None
) -> None:
    keep(Store(path), chain("a", "b", "c", "d"))
    sql(path, damage)
    found = Store(path).load("a.ipynb")
    conversation = found.conversations["main"]
    assert (list(conversation.turns), conversation.head) == (left, head)
    assert [t.id for t in conversation.path()] == left
    assert found.problems[-1] == "Conversation 'main' goes on from the last turn that is whole in the store."
    assert all("\n" not in line for line in found.problems)


def test_an_unreadable_usage_record_is_left_out(path: Path) -> None:
    store = Store(path)
    keep(store, chain("a"), Record(time=NOON), Record(time=NOON + timedelta(seconds=1)))
    sql(path, "UPDATE requests SET json = '{}' WHERE number = 1")
    found = store.load("a.ipynb")
    assert [r.time.second for r in found.records] == [1]
    assert found.problems == ("1 usage records of the store cannot be read.",)


def test_a_second_look_in_the_same_process_releases_no_lock(path: Path) -> None:
    """Else the next process that closes the file takes itself for the last one, and removes the log."""
    store = Store(path)
    keep(store, chain("a"))
    Store(path).verify()
    look = "import sys, pathlib, kimi_magic.store as s; st = s.Store(pathlib.Path(sys.argv[1]))"
    for _ in range(2):
        subprocess.run([sys.executable, "-c", f"{look}; st.records(); st.close()", str(path)], check=True)
    assert path.with_name("kimi_magic.db-wal").exists()
    keep(store, chain("a", "b"))
    assert sql(path, "SELECT id FROM turns ORDER BY number") == [("a",), ("b",)]
    store.close()


def test_a_schema_is_made_step_by_step_and_each_step_once(path: Path) -> None:
    keep(Store(path), chain("a"))
    Store(path).load("a.ipynb")
    assert [name for (name,) in sql(path, "SELECT name FROM migrations ORDER BY rowid")] == list(MIGRATIONS)


def newer(path: Path) -> None:
    keep(Store(path), chain("a"))
    sql(path, "INSERT INTO migrations VALUES ('2099-01 more')")


def no_database(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("This is a letter to my aunt.\n" * 99, "utf-8")


def below_a_file(path: Path) -> None:
    path.parent.write_text("a file", "utf-8")


def a_folder(path: Path) -> None:
    path.mkdir(parents=True)


UNUSABLE: list[tuple[Callable[[Path], None], str]] = [
    (newer, "was written by a newer kimi_magic (2099-01 more). Upgrade kimi_magic"),
    (no_database, "file is not a database. The notebook goes on in memory. Move the file away"),
    (below_a_file, "Not a directory"),
    (a_folder, "unable to open database file"),
]


@pytest.mark.parametrize(("spoil", "words"), UNUSABLE, ids=lambda value: getattr(value, "__name__", ""))
def test_a_store_that_cannot_be_used_is_one_line_and_the_notebook_goes_on(
    path: Path, spoil: Callable[[Path], None], words: str
) -> None:
    spoil(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(StoreError) as caught:
        Store(path).load("a.ipynb")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)

    server = Scripted([reply("Hi")])
    chat = session(server.client(), notebook="a.ipynb", store=Store(path))
    run(chat, "one")
    run(chat, "two")
    warnings = chat.take_warnings()
    assert len(warnings) == 1
    assert words in warnings[0]
    assert len(server.requests[1]["messages"]) == 3
    if spoil is no_database:
        assert path.read_bytes() == before


# --- what waits is written later ----------------------------------------------------------------


def test_what_waited_is_written_when_the_store_can_be(path: Path) -> None:
    below_a_file(path)
    chat = session(Scripted([reply("Hi")]).client(), notebook="a.ipynb", store=Store(path))
    run(chat, "one")
    run(chat, "in another", conversation="b")
    run(chat, "without history", once=True)
    chat.take_warnings()
    path.parent.unlink()
    run(chat, "two")
    assert chat.take_warnings() == ("The store can be written again: what had waited is kept now.",)
    found = Store(path).load("a.ipynb")
    assert [t.prompt for t in found.conversations["main"].path()] == ["one", "two"]
    assert [t.prompt for t in found.conversations["b"].path()] == ["in another"]
    assert len(found.records) == 4
    assert found.records == tuple(chat.records)


def test_a_store_that_opens_late_brings_what_it_had_and_loses_none_of_it(path: Path) -> None:
    keep(Store(path), chain("a", "b"), Record(time=NOON, turn="a"))
    keep(Store(path), replace(chain("x"), name="other"))
    hidden = path.parent.rename(path.parent.with_name("away"))
    below_a_file(path)
    chat = session(Scripted([reply("Hi")]).client(), notebook="a.ipynb", store=Store(path))
    run(chat, "one")
    path.parent.unlink()
    hidden.rename(path.parent)
    run(chat, "two")
    assert [t.prompt for t in chat.conversation().path()] == ["one", "two"]
    assert set(chat.conversation().turns) == {"a", "b", "turn1", "turn2"}
    assert chat.conversation("other").head == "x"
    assert [r.turn for r in chat.records] == ["a", "turn1", "turn2"]
    assert Store(path).load("a.ipynb").conversations["main"].turns.keys() == {"a", "b", "turn1", "turn2"}


def test_what_waits_is_written_when_the_session_ends(path: Path) -> None:
    below_a_file(path)
    chat = session(Scripted([reply("Hi")]).client(), notebook="a.ipynb", store=Store(path))
    run(chat, "one")
    path.parent.unlink()
    chat.close()
    found = Store(path).load("a.ipynb")
    assert [t.prompt for t in found.conversations["main"].path()] == ["one"]
    assert len(found.records) == 1


AT_EXIT = """
import os, pathlib
from kimi_magic.api import Kimi
from kimi_magic.config import KimiMagic
home = pathlib.Path(os.environ["KIMI_MAGIC_HOME"])
home.write_text("no folder")
kimi = Kimi(KimiMagic(), notebook="a.ipynb")
kimi.ask("one", effort="low")
kimi.map("Say {{ x }}", ["a"], effort="low", name="words", progress=False)
home.unlink()
"""


def test_what_waits_is_written_when_the_process_ends(tmp_path: Path) -> None:
    environ = {**os.environ, "KIMI_MAGIC_HOME": str(tmp_path / "home"), "KIMI_MAGIC_SIMULATOR": "always"}
    subprocess.run([sys.executable, "-c", AT_EXIT], env=environ, check=True, timeout=60)
    (file,) = (tmp_path / "home").glob("*.db")
    found = Store(file).load("a.ipynb")
    assert [t.prompt for t in found.conversations["main"].path()] == ["one"]
    assert len(found.records) == 2
    assert len(Store(file).batch("http://simulator.invalid words")) == 1


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """As a full disk: whatever would make a file larger fails."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


def test_a_full_disk_loses_nothing(path: Path) -> None:
    server = Scripted([reply("long " * 9_000)])
    chat = session(server.client(), notebook="a.ipynb", store=Store(path))
    run(chat, "one")
    size = max(p.stat().st_size for p in path.parent.iterdir())
    with files_no_larger_than(size + 8_000):
        run(chat, "two")
        run(chat, "three")
        (warning,) = chat.take_warnings()
        assert warning.startswith(f"Nothing can be kept in {path}: ")
        assert [t.prompt for t in Store(path).load("a.ipynb").conversations["main"].path()] == ["one"]
    assert Store(path).verify() == []
    run(chat, "four")
    assert chat.take_warnings() == ("The store can be written again: what had waited is kept now.",)
    found = Store(path).load("a.ipynb")
    assert [t.prompt for t in found.conversations["main"].path()] == ["one", "two", "three", "four"]
    assert len(found.records) == 4


def test_a_kernel_that_begins_on_a_full_disk_has_what_was_kept(path: Path) -> None:
    """It can open the file for reading only, as it can that of a folder which nobody may write to."""
    keep(Store(path), chain("a", "b"), Record(time=NOON, turn="a"))
    with files_no_larger_than(0):
        chat = session(Scripted([reply("Hi")]).client(), notebook="a.ipynb", store=Store(path))
        assert [t.id for t in chat.conversation().path()] == ["a", "b"]
        assert [r.turn for r in chat.records] == ["a"]
        run(chat, "one")
        (warning,) = chat.take_warnings()
        assert warning.startswith(f"Nothing can be kept in {path}: ")
        assert [t.id for t in chat.conversation().path()] == ["a", "b", "turn1"]
    run(chat, "two")
    assert chat.take_warnings() == ("The store can be written again: what had waited is kept now.",)
    found = Store(path).load("a.ipynb")
    assert [t.id for t in found.conversations["main"].path()] == ["a", "b", "turn1", "turn2"]
    assert len(found.records) == 3


def test_a_turn_that_no_json_can_hold_at_once_does_not_block_those_after_it(path: Path) -> None:
    chat = session(Scripted([reply("Hi")]).client(), notebook="a.ipynb", store=Store(path))
    with pytest.raises(Exception, match="surrogate"):
        run(chat, "half \ud83d")
    run(chat, "whole")
    assert chat.take_warnings() == ()
    turns = Store(path).load("a.ipynb").conversations["main"].turns.values()
    assert [(t.prompt, t.status) for t in turns] == [("half \ud83d", FAILED), ("whole", COMPLETE)]


def test_a_write_that_breaks_off_leaves_nothing_and_the_next_one_goes_through(path: Path) -> None:
    store = Store(path)
    broken = replace(turn("b", "a"), settings={"x": object()})
    with pytest.raises(TypeError):
        store.keep("a.ipynb", chain("a", "b"), [turn("a"), broken], [Record(time=NOON)])
    assert store.load("a.ipynb").conversations == {}
    keep(store, chain("a"))
    assert Store(path).load("a.ipynb").conversations == {"main": chain("a")}


# --- several writers ----------------------------------------------------------------------------


def test_another_kernel_is_noticed_and_its_turns_stand_beside(path: Path) -> None:
    first = session(Scripted([reply("Hi")]).client(), notebook="a.ipynb", store=Store(path))
    run(first, "one")
    second = Session(Scripted([reply("Hi")]).client(), notebook="a.ipynb", store=Store(path))
    run(second, "theirs")
    run(first, "two")
    (warning,) = first.take_warnings()
    assert warning.startswith("Another kernel has written to this conversation meanwhile")
    assert [t.prompt for t in first.conversation().path()] == ["one", "two"]
    assert {t.prompt for t in first.conversation().turns.values()} == {"one", "two", "theirs"}
    run(first, "three")
    assert first.take_warnings() == ()
    other = next(t for t in first.conversation().turns.values() if t.prompt == "theirs")
    first.change(first.conversation().use(other.id))
    third = Session(Scripted([reply("Hi")]).client(), notebook="a.ipynb", store=Store(path))
    assert [t.prompt for t in third.conversation().path()] == ["one", "theirs"]
    assert [r.turn for r in second.records] == [first.records[0].turn, other.id]


def test_a_kernel_writes_only_the_conversation_that_it_changed(path: Path) -> None:
    first = session(Scripted([reply("Hi")]).client(), notebook="a.ipynb", store=Store(path))
    run(first, "one")
    second = Session(Scripted([reply("Hi")]).client(), notebook="a.ipynb", store=Store(path))
    run(second, "two")
    run(first, "elsewhere", conversation="b")
    assert first.take_warnings() == ()
    third = Store(path).load("a.ipynb").conversations["main"]
    assert [t.prompt for t in third.path()] == ["one", "two"]


def test_a_kernel_that_writes_alone_is_told_nothing(path: Path) -> None:
    chat = session(Scripted([reply("Hi")]).client(), notebook="a.ipynb", store=Store(path))
    for name in ("main", "b", "main", "b"):
        run(chat, conversation=name)
    again = Session(Scripted([reply("Hi")]).client(), notebook="a.ipynb", store=Store(path))
    for name in ("main", "b"):
        run(again, conversation=name)
    assert (*chat.take_warnings(), *again.take_warnings()) == ()


def writer(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, str(WRITER), str(path), "a.ipynb", name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8")


def ends_well(process: subprocess.Popen[str]) -> bool:
    process.communicate()
    return process.returncode == 0


def check_whole(store: Store) -> dict[str, Turn]:
    """Every turn is as its writer made it, and has its one record."""
    found = store.load("a.ipynb")
    assert found.problems == ()
    turns = found.conversations["main"].turns if found.conversations else {}
    for name, kept in turns.items():
        words = kept.text.removeprefix(f"{name} ")
        assert kept.prompt == name
        assert len(words) == 4 * (2_000 if int(name.split("-")[1]) % 7 == 0 else 3)
    assert sorted(str(r.turn) for r in found.records) == sorted(turns)
    return dict(turns)


def test_a_kill_at_any_moment_leaves_no_half_turn_and_loses_none_that_was_acknowledged(path: Path) -> None:
    said: list[str] = []
    for n in range(12):
        with writer(path, "w", 0) as process:
            assert process.stdout is not None
            for _ in range(1 + n % 5):
                said.append(process.stdout.readline().strip())
            threading.Event().wait(n * 0.0017)  # so that kills fall into all parts of a write
            process.send_signal(signal.SIGKILL)
            said += process.stdout.read().split()
    assert len(said) == len(set(said)) >= 30
    store = Store(path)
    turns = check_whole(store)
    assert set(said) <= set(turns)
    assert len(turns) <= len(said) + 12  # one may be kept and not said, each time
    assert store.verify() == []


def test_two_processes_write_and_a_third_reads_all_the_time(path: Path) -> None:
    """The first of them also makes the file: both try at once."""
    writers = [writer(path, name, 200) for name in ("w", "v")]
    reader, most, reads = Store(path), 0, 0
    while any(process.poll() is None for process in writers):
        turns = check_whole(reader)
        assert len(turns) >= most
        most, reads = len(turns), reads + 1
    assert all(map(ends_well, writers))
    assert reads
    turns = check_whole(Store(path))
    assert set(turns) == {f"{name}-{n}" for name in "wv" for n in range(200)}
    assert all(
        turn.parent == (f"{name[0]}-{int(name[2:]) - 1}" if name[2:] != "0" else None)
        for name, turn in turns.items()
    )


def test_many_kernels_may_make_the_file_at_once(path: Path) -> None:
    processes = [writer(path, f"w{n}", 1) for n in range(6)]
    assert all(map(ends_well, processes))
    assert len(Store(path).load("a.ipynb").conversations["main"].turns) == 6


def test_a_kernel_that_writes_to_the_new_file_is_waited_for(path: Path) -> None:
    """SQLite itself would not wait for it before the file is switched to WAL."""
    path.parent.mkdir(parents=True, exist_ok=True)
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("CREATE TABLE elsewhere (x)")
    other.execute("BEGIN IMMEDIATE")
    end = threading.Timer(0.2, other.execute, ("COMMIT",))
    end.start()
    assert Store(path).records() == ()
    end.join()
    other.close()


def test_a_forked_process_uses_a_connection_of_its_own(path: Path) -> None:
    store = Store(path)
    keep(store, chain("a"))
    child = os.fork()
    if child == 0:
        status = 1
        try:
            keep(store, chain("a", "b"))
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    keep(store, chain("c", conversation=store.load("a.ipynb").conversations["main"]))
    assert [t.id for t in Store(path).load("a.ipynb").conversations["main"].path()] == ["a", "b", "c"]
    assert store.verify() == []


def test_threads_share_one_store(path: Path) -> None:
    store = Store(path)
    threads = [
        threading.Thread(target=lambda n=n: keep(store, replace(chain(f"t{n}"), name=f"c{n}")))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.load("a.ipynb").conversations) == 8
