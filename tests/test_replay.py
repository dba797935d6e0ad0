"""Recording and replaying, from the transports up to a teacher's notebook without key and network."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import nbformat
import pytest
from loopback import Answer, Loopback, anetwork, chunked, network
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook
from scripted import Scripted, end, failing, reply, whole
from test_session import run, session
from test_store import files_no_larger_than
from test_twins import BLOCKS
from test_wire_cases import CASES, aask, ask
from test_wire_cases import check as check_wire_case
from test_wire_cases import raw as wire_case

from kimi_magic import AsyncClient, Client, Kimi, KimiMagic
from kimi_magic.errors import ConfigError, KimiError, ReplayError, StoreError
from kimi_magic.recordings import Library, Recording
from kimi_magic.render import BADGE, REPLAYED_SIMULATED
from kimi_magic.retry import Policy
from kimi_magic.simulator import Simulator
from kimi_magic.store import TWIN, Store
from kimi_magic.transports import RecordTransport, ReplayTransport, SimulatorTransport, read_cassette, serve
from kimi_magic.wire import user

KEY = "sk-test-QWERTY7788ASDF"
URL = "http://server.test"
ASK: dict[str, Any] = {"messages": [user("Why?")], "max_tokens": 500, "effort": "low"}


def events_of(client: Client, **fields: Any) -> tuple[str, list[str]]:
    with client.stream(**{**ASK, **fields}) as stream:
        kinds = [event.type for event in stream]
        return stream.message.text, kinds


@pytest.fixture
def cassette(tmp_path: Path) -> Path:
    return tmp_path / "磁带.jsonl"


# --- the transports -----------------------------------------------------------------------------


def test_what_was_recorded_is_replayed_the_same(cassette: Path) -> None:
    simulated = SimulatorTransport(Simulator(speed=0))
    with Client(KEY, URL, transport=RecordTransport(cassette, simulated)) as client:
        first = events_of(client)
        second = client.create(**ASK, system="Be brief.")
    with Client(KEY, URL, transport=ReplayTransport(cassette, speed=0)) as client:
        assert events_of(client) == first
        again = client.create(**ASK, system="Be brief.")
        assert again == second
        assert again.request_id == second.request_id
        with pytest.raises(ReplayError, match=r"the system prompt: 'Sing\.' here, "):
            client.create(**ASK, system="Sing.")
    assert len(cassette.read_text("utf-8").splitlines()) == 2


def test_the_async_client_records_and_replays_the_same(cassette: Path) -> None:
    async def told(transport: httpx.AsyncBaseTransport) -> tuple[list[str], str]:
        async with AsyncClient(KEY, URL, transport=transport) as client, client.stream(**ASK) as stream:
            return [event.type async for event in stream], stream.message.text

    simulated = SimulatorTransport(Simulator(speed=0))
    first = asyncio.run(told(RecordTransport(cassette, async_inner=simulated)))
    assert asyncio.run(told(ReplayTransport(cassette, speed=0))) == first


def answering(content: bytes, **headers: str) -> httpx.MockTransport:
    return httpx.MockTransport(lambda request: httpx.Response(200, content=content, headers=headers))


def stream_bytes(line_end: str = "\n", words: str = "深圳🚀") -> bytes:
    events = [*reply(words).events]
    lines = [
        f"event: {e['type']}{line_end}data: {json.dumps(e, ensure_ascii=False)}{line_end * 2}" for e in events
    ]
    return "".join(lines).encode()


MESSAGE = {
    "id": "m1", "type": "message", "role": "assistant", "model": "kimi-k3.1-pro", "stop_reason": "end_turn",
    "content": [{"type": "text", "text": "深圳🚀"}], "usage": {"input_tokens": 1, "output_tokens": 2},
}  # fmt: skip

REPLIES: dict[str, tuple[bytes, dict[str, str]]] = {
    "plain": (stream_bytes(), {"content-type": "text/event-stream"}),
    "CRLF": (stream_bytes("\r\n"), {"content-type": "text/event-stream"}),
    "gzip": (
        gzip.compress(stream_bytes()),
        {"content-type": "text/event-stream", "content-encoding": "gzip"},
    ),
    "JSON": (json.dumps(MESSAGE, ensure_ascii=False).encode(), {"content-type": "application/json"}),
}


@pytest.mark.parametrize("kind", REPLIES)
def test_a_reply_of_any_make_is_recorded_as_text(cassette: Path, kind: str) -> None:
    content, headers = REPLIES[kind]
    fields = {**ASK, "stream": kind != "JSON"}
    with Client(KEY, URL, transport=RecordTransport(cassette, answering(content, **headers))) as client:
        assert client.create(**fields).text == "深圳🚀"
    with Client(KEY, URL, transport=ReplayTransport(cassette, speed=0)) as client:
        assert client.create(**fields).text == "深圳🚀"
    (recording,) = read_cassette(cassette)
    assert "深圳🚀" in cassette.read_text("utf-8")
    if kind != "JSON":
        assert len(recording.chunks) > 0
        assert recording.chunks[-1][1].endswith((b"\n\n", b"\r\n\r\n"))


def test_a_reply_is_kept_when_it_is_closed_at_its_end_and_not_when_it_is_closed_before(
    cassette: Path,
) -> None:
    record = RecordTransport(cassette, SimulatorTransport(Simulator(speed=0)))
    with Client(KEY, URL, transport=record) as client:
        with client.stream(**ASK) as stream:
            next(iter(stream))
        assert cassette.read_text("utf-8") == ""
        with client.stream(**ASK) as stream:
            for event in stream:
                if event.type == "message_stop":
                    break
    assert len(read_cassette(cassette)) == 1


def test_errors_and_cut_replies_are_not_recorded(cassette: Path) -> None:
    record = RecordTransport(cassette, SimulatorTransport(Simulator(speed=0)))
    with Client(KEY, URL, transport=record, policy=Policy(tries=1)) as client:
        for directive in ("500", "cut", "broken", "stream-error"):
            with pytest.raises(KimiError):
                client.create(messages=[user(f"Hello [[simulate: {directive}]]")], max_tokens=500)
    lines = read_cassette(cassette)
    assert lines == []


@pytest.mark.parametrize("way", [ask, aask], ids=["sync", "async"])
@pytest.mark.parametrize("name", CASES)
def test_what_a_client_takes_for_a_reply_is_recorded_from_a_connection_and_nothing_else(
    cassette: Path, name: str, way: Any
) -> None:
    with Loopback([Answer(wire_case(name))]) as server:
        outcome = way(
            server, transport=RecordTransport(cassette, network(), anetwork()), policy=Policy(tries=1)
        )
        check_wire_case(name, outcome)
        if isinstance(outcome, KimiError):
            assert read_cassette(cassette) == []
        else:
            check_wire_case(name, way(server, transport=ReplayTransport(cassette, speed=0)))
            assert len(server.requests) == 1


def test_the_end_of_a_recorded_body_is_waited_for_no_longer_than_without_the_tape(cassette: Path) -> None:
    body = stream_bytes()
    with (
        Loopback([Answer(chunked(body, end=False), after="hold")]) as server,
        Client(KEY, server.url, transport=RecordTransport(cassette, network())) as client,
    ):
        assert client.create(**ASK).text == "深圳🚀"  # else it waits for ten minutes
    assert len(read_cassette(cassette)) == 1


def test_an_inner_transport_is_asked_what_the_client_asks(cassette: Path) -> None:
    server = Scripted([reply("Hi")])
    client = AsyncClient(KEY, URL, transport=RecordTransport(cassette, async_inner=server.transport))
    asyncio.run(client.create(**ASK))
    plain = Scripted([reply("Hi")])
    asyncio.run(AsyncClient(KEY, URL, transport=plain.transport).create(**ASK))
    assert server.bodies == plain.bodies
    assert dict(server.headers[0]) == dict(plain.headers[0])


def test_failures_of_the_network_stay_what_they_are(cassette: Path) -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    record = RecordTransport(cassette, httpx.MockTransport(refuse))
    client = Client(KEY, URL, transport=record, policy=Policy(tries=1))
    with client, pytest.raises(KimiError, match="No connection to http"):
        client.create(**ASK)


def test_no_piece_of_the_key_is_in_a_cassette(cassette: Path) -> None:
    prompt = f"My key is {KEY}, half of it QWERTY77, in JSON {json.dumps({KEY: KEY})}"
    echo = stream_bytes(words=f"You said {KEY} and {KEY[3:12]}.")
    headers = {"content-type": "text/event-stream", "request-id": f"req-{KEY}", "set-cookie": KEY}
    fields = {"messages": [user(prompt)], "max_tokens": 9, "system": KEY}
    with Client(KEY, URL, transport=RecordTransport(cassette, answering(echo, **headers))) as client:
        assert KEY in client.create(**fields).text
    written = cassette.read_text("utf-8")
    body = KEY.removeprefix("sk-")
    assert not [body[i : i + 6] for i in range(len(body) - 5) if body[i : i + 6] in written]
    assert "My key is sk-[key]" in written
    (recording,) = read_cassette(cassette)
    assert recording.request["max_tokens"] == 9


def test_a_cassette_that_cannot_be_written_says_so_before_anything_is_asked(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be written: No such file or directory"):
        RecordTransport(tmp_path / "no" / "a.jsonl")


def test_a_cassette_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="cannot be read: No such file"):
        ReplayTransport(tmp_path / "a.jsonl")
    (tmp_path / "a.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(ReplayError, match="is not UTF-8"):
        ReplayTransport(str(tmp_path / "a.jsonl"))


def test_only_the_messages_api_is_recorded_and_replayed(cassette: Path) -> None:
    for transport in (RecordTransport(cassette, answering(b"")), ReplayTransport(Library())):
        with httpx.Client(transport=transport) as client, pytest.raises(ReplayError, match="Messages API"):
            client.get("http://server.test/")


def test_several_kernels_may_write_one_cassette(cassette: Path) -> None:
    program = (
        "import sys; from kimi_magic import Client; from kimi_magic.simulator import Simulator;"
        "from kimi_magic.transports import *\n"
        "t = RecordTransport(sys.argv[1], SimulatorTransport(Simulator(speed=0)))\n"
        "with Client('sk-test-key', 'http://s.test', transport=t) as c:\n"
        "  for n in range(20):\n"
        "    prompt = f'{sys.argv[2]} {n} [[simulate: long 9 KB]]'\n"
        "    c.create(messages=[{'role': 'user', 'content': prompt}], max_tokens=9000)\n"
    )
    processes = [subprocess.Popen([sys.executable, "-c", program, str(cassette), name]) for name in "ab"]
    assert [process.wait() for process in processes] == [0, 0]
    assert len(read_cassette(cassette)) == 40


def test_a_replay_takes_the_time_that_was_recorded_or_none() -> None:
    """A wait of an hour ends when the reply is closed from another thread."""
    slow = Recording({"a": 1}, ((0.0, b": a\n\n"), (3600.0, b": b\n\n")))
    with httpx.Client(transport=ReplayTransport(Library([slow]), speed=0)) as client:
        assert client.post(URL, json={"a": 1}).content == b": a\n\n: b\n\n"
    client = httpx.Client(transport=ReplayTransport(Library([slow]), speed=1))
    with client, client.stream("POST", URL, json={"a": 1}) as response:
        pieces = response.iter_raw()
        assert next(pieces) == b": a\n\n"
        threading.Timer(0.05, response.close).start()
        with pytest.raises(httpx.HTTPError):
            next(pieces)


# --- a session ----------------------------------------------------------------------------------


def chat_with(server: Scripted, **more: Any) -> Any:
    library = Library()
    replayer = AsyncClient(KEY, URL, transport=ReplayTransport(library, speed=0))
    return session(server.client(), library=library, replayer=replayer, **more)


def test_auto_asks_once_and_only_never() -> None:
    server = Scripted([reply("Hi"), reply("Hello")])
    chat = chat_with(server)
    run(chat, "one", cell="1")
    for mode in ("auto", "only"):
        stream = run(chat, "one", cell="1", replay=mode)
        assert stream.turn is not None
        assert stream.turn.text == "Hi"
        (record,) = stream.records
        assert (record.replayed, record.cost, record.status) == (True, Decimal(0), "complete")
    run(chat, "two", cell="2", replay="auto")
    assert [r.replayed for r in chat.records] == [False, True, True, False]
    assert len(server.bodies) == 2
    with pytest.raises(ReplayError, match=r"No recording has this question; the nearest .* is 'two'\."):
        run(chat, "three", replay="only")
    with pytest.raises(ReplayError, match="differs in the number of messages: 5 here, 3 there"):
        run(chat, "two", replay="only")
    assert len(server.bodies) == 2
    run(chat, "one", cell="1", replay="off")
    assert len(server.bodies) == 3


def test_what_follows_a_replayed_turn_is_the_same_request() -> None:
    """All kinds of blocks come back verbatim, so the context of the next request is the same bytes."""
    rich = replace(
        reply(), events=(reply().events[0], *[e for n, b in enumerate(BLOCKS) for e in whole(n, b)], *end())
    )
    server = Scripted([rich, reply("Yes.")])
    chat = chat_with(server)
    run(chat, "one", cell="1")
    run(chat, "two", cell="2")
    run(chat, "one", cell="1", replay="only")
    run(chat, "two", cell="2", replay="only")
    run(chat, "three", cell="3")
    assert server.bodies[2].startswith(server.bodies[1][:-3])
    assert len(server.bodies) == 3


def test_a_paused_turn_replays_all_its_requests() -> None:
    server = Scripted(
        [replace(reply("Half"), events=(*reply("Half").events[:-2], *end("pause_turn"))), reply("Whole")]
    )
    chat = chat_with(server)
    first = run(chat, "one", cell="1")
    again = run(chat, "one", cell="1", replay="only")
    assert first.turn is not None
    assert again.turn is not None
    assert again.turn.messages == first.turn.messages
    assert [r.replayed for r in again.records] == [True, True]
    assert len(server.bodies) == 2


def test_a_failed_turn_is_no_recording() -> None:
    chat = chat_with(Scripted([failing(400)]))
    with pytest.raises(KimiError):
        run(chat, "one")
    with pytest.raises(ReplayError, match=r"\(0 recordings are known\)"):
        run(chat, "one", replay="only")


def test_another_kernel_replays_from_the_store(tmp_path: Path) -> None:
    first = session(Scripted([reply("Hi")]).client(), notebook="a", store=Store(tmp_path / "a.db"))
    run(first, "one", cell="1")
    server = Scripted([failing(400)])
    chat = chat_with(server, notebook="a", store=Store(tmp_path / "a.db"))
    assert run(chat, "one", cell="1", replay="only").turn.text == "Hi"
    assert server.bodies == []


# --- kimi ---------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KIMI_MAGIC_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def kimi(here: Path) -> Iterator[Callable[..., Kimi]]:
    made: list[Kimi] = []

    def make(**settings: Any) -> Kimi:
        made.append(Kimi(KimiMagic(**{"simulator_speed": 0.0, "replay_speed": 0.0, **settings})))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_nothing_may_be_asked_and_no_key_is_needed(kimi: Callable[..., Kimi]) -> None:
    chat = kimi(replay="only", simulator="never")
    with pytest.raises(ReplayError, match="Nothing is recorded"):
        chat.ask("Why?")
    chat.settings.replay = "off"
    with pytest.raises(ConfigError, match="No API key"):
        chat.ask("Why?")
    with pytest.raises(ReplayError, match="Nothing is recorded"):
        chat.ask("Why?", replay="only")


def test_a_cassette_is_recorded_and_then_replayed_without_a_key(
    kimi: Callable[..., Kimi], cassette: Path
) -> None:
    chat = kimi()
    chat.ask("Not on tape")
    chat.record(cassette)
    said = chat.ask("Why is the sky blue?", once=True).text
    chat.record(None)
    chat.ask("Not on tape either", once=True)
    assert len(read_cassette(cassette)) == 1

    other = kimi(replay="only", simulator="never", cassette=str(cassette))
    answer = other.ask("Why is the sky blue?", once=True)
    assert (answer.text, answer.cost) == (said, 0)
    assert [row["replayed"] for row in other.usage] == [True]
    for kind, shown in answer._repr_mimebundle_().items():
        assert "Replayed: this simulated reply was recorded earlier" in shown, kind
        assert "Simulated reply: no model was asked" not in shown, "one badge says it"
    assert "replayed at no cost" in answer._repr_mimebundle_()["text/html"]
    third = kimi()
    assert third.play(cassette) == 1
    assert third.ask("Why is the sky blue?", once=True, replay="auto").records[0].replayed


def test_the_simulator_has_no_key_whose_pieces_are_kept_out_of_a_cassette(
    kimi: Callable[..., Kimi], cassette: Path
) -> None:
    words = "Which process is needed in no case, and does none need a key?"
    chat = kimi()
    chat.record(cassette)
    said = chat.ask(words).text
    other = kimi(replay="only", simulator="never", cassette=str(cassette))
    assert other.ask(words).text == said
    with pytest.raises(ReplayError, match="is 'Which process is needed in no case"):
        other.ask(f"{words}!")


@pytest.mark.parametrize("room", [0, 300], ids=["no room", "room for a part"])
def test_a_disk_that_fills_costs_a_recording_and_no_reply(
    kimi: Callable[..., Kimi], cassette: Path, room: int
) -> None:
    chat = kimi(store="off")
    chat.record(cassette)
    chat.ask("One?")
    size = cassette.stat().st_size
    with files_no_larger_than(size + room):
        answer = chat.ask("Two?")
    assert (answer.turn.status, answer.usage[0]["status"]) == ("complete", "complete")
    (line,) = chat.session.take_warnings()
    assert re.fullmatch(r"The cassette .* cannot be written: .+\. This reply is not recorded; .*\.", line)
    assert cassette.stat().st_size == size, "no half line, which nobody could read"
    chat.ask("Three?")
    assert chat.session.take_warnings() == ()
    assert [r.request["messages"][-1]["content"][0]["text"] for r in read_cassette(cassette)] == [
        "One?",
        "Three?",
    ]


def test_a_cassette_that_is_missing_is_said_each_time_and_one_that_is_set_later_is_read(
    kimi: Callable[..., Kimi], cassette: Path
) -> None:
    chat = kimi(cassette=str(cassette), replay="auto")
    for _ in range(2):
        with pytest.raises(ReplayError, match="cannot be read: No such file"):
            chat.ask("Why?", once=True)
    assert len(chat.usage) == 0, "nothing was asked"
    teacher = kimi()
    teacher.record(cassette)
    teacher.ask("Why?", once=True)
    other = kimi(replay="only")
    with pytest.raises(ReplayError, match="Nothing is recorded"):
        other.ask("Why?", once=True)
    other.settings.cassette = str(cassette)
    for each in (chat, other):
        assert each.ask("Why?", once=True).records[0].replayed


def test_a_chat_with_a_client_of_its_own_is_not_taped(here: Path, cassette: Path) -> None:
    chat = Kimi(KimiMagic(), Scripted([reply("Hi")]).client())
    with pytest.raises(ConfigError, match="a client of its own"):
        chat.record(cassette)
    chat.close()


def test_a_recording_that_cannot_begin_leaves_all_as_it_was(kimi: Callable[..., Kimi], here: Path) -> None:
    chat = kimi()
    with pytest.raises(StoreError, match="cannot be written"):
        chat.record(here / "no" / "a.jsonl")
    assert chat.ask("Why?").turn.status == "complete"


def test_a_strange_file_beside_the_notebook_is_no_reason_to_fail(
    kimi: Callable[..., Kimi], here: Path
) -> None:
    (here / "a.ipynb").write_text(f"not JSON, but it names {TWIN}", "utf-8")
    (here / "b.ipynb").write_bytes(b"\xff" * 100)
    (here / "c.ipynb").mkdir()
    (here / "d.ipynb").symlink_to("nowhere")
    assert kimi(replay="auto").ask("Why?").turn.status == "complete"


def test_a_replayed_turn_runs_its_tools_and_a_miss_says_what_they_gave_now(here: Path) -> None:
    call = {"type": "tool_use", "id": "t1", "name": "count", "input": {}}
    first = replace(reply(), events=(reply().events[0], *whole(0, call), *end("tool_use")))
    server = Scripted([first, reply("One.")])
    chat = Kimi(KimiMagic(store="off", replay_speed=0.0), server.client())
    found = [1]

    def count() -> int:
        """Counts."""
        return found[0]

    chat.ask("How many?", tools=[count], cell="1")
    again = chat.ask("How many?", tools=[count], cell="1", replay="only")
    assert again.text == "One."
    assert [record.replayed for record in again.records] == [True, True]
    found[0] = 2
    with pytest.raises(ReplayError, match=r'message 3 of 3: block 1, tool_result: {"content": "2"} here'):
        chat.ask("How many?", tools=[count], cell="1", replay="only")
    assert len(server.bodies) == 2
    chat.close()


def test_a_replay_that_nobody_looks_at_takes_no_time() -> None:
    server = Scripted([reply("Because. " * 200)])
    chat = Kimi(KimiMagic(store="off", replay_speed=1e-6), server.client())
    chat.ask("Why?", cell="1")
    for cell in ("1", "2"):
        question = asyncio.wait_for(chat.aask("Why?", cell=cell, once=True, replay="only"), 60)
        assert asyncio.run(question).text.startswith("Because.")
    chat.close()


# --- a teacher's notebook -----------------------------------------------------------------------

GUARD = """
import sys, threading
opened = []
def hook(event, args):
    if event in ("socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.bind"):
        opened.append((event, str(args[1:] if event.startswith("socket.c") else args)))
sys.addaudithook(hook)
"""
CELLS = [
    "%load_ext kimi_magic",
    "%%kimi -o first\nName two rivers. Add a table.",
    "x = 41 + 1",
    "%%kimi --system 'Be brief.' -e low\nAnd {{ x }} more?",
    "%%kimi --once\nA question beside it.",
    "%kimi what is the first one?",
]


def execute(notebook: nbformat.NotebookNode, folder: Path, **environ: str) -> nbformat.NotebookNode:
    client = NotebookClient(
        notebook, timeout=60, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.execute(
        env={
            **os.environ,
            "KIMI_MAGIC_SIMULATOR_SPEED": "0",
            "KIMI_MAGIC_HOME": str(folder / "home"),
            **environ,
        }
    )
    return notebook


def texts(notebook: nbformat.NotebookNode) -> list[str]:
    return [
        output.data["text/plain"]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if TWIN in getattr(output, "data", {})
    ]


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A notebook that a teacher ran and saved."""
    folder = tmp_path_factory.mktemp("teacher")
    notebook = execute(new_notebook(cells=[new_code_cell(source) for source in CELLS]), folder)
    nbformat.write(notebook, folder / "lesson.ipynb")
    return folder / "lesson.ipynb"


OFFLINE = {"KIMI_MAGIC_REPLAY": "only", "KIMI_MAGIC_SIMULATOR": "never", "KIMI_MAGIC_REPLAY_SPEED": "0"}


@pytest.fixture
def lesson(taught: Path, tmp_path: Path) -> Path:
    """It, in a class: elsewhere, and with a new home."""
    path = tmp_path / "lesson.ipynb"
    path.write_bytes(taught.read_bytes())
    return path


def test_a_class_runs_the_teachers_notebook_without_key_and_network(lesson: Path) -> None:
    notebook = nbformat.read(lesson, as_version=4)
    taught_texts = texts(notebook)
    assert len(taught_texts) == 4
    notebook.cells.insert(0, new_code_cell(GUARD))
    notebook.cells.append(new_code_cell("print(opened)"))
    execute(notebook, lesson.parent, **OFFLINE)
    replayed = texts(notebook)
    assert len(replayed) == 4
    for before, after in zip(taught_texts, replayed, strict=True):
        assert f"[{REPLAYED_SIMULATED}]" in after
        assert after.replace(REPLAYED_SIMULATED, BADGE) == before
    opened = notebook.cells[-1].outputs[0].text.strip()
    assert opened == "[]", opened


def test_a_changed_prompt_says_what_differs(lesson: Path) -> None:
    notebook = nbformat.read(lesson, as_version=4)
    notebook.cells[1].source = notebook.cells[1].source.replace("two", "three")
    with pytest.raises(Exception, match="No recording has this question") as caught:
        execute(notebook, lesson.parent, **OFFLINE)
    assert "the nearest (lesson.ipynb) is 'Name two rivers." in str(caught.value)


def test_nbval_runs_it_too(lesson: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "--nbval-lax", "-q", "-p", "no:cacheprovider", str(lesson)],
        env={
            **os.environ,
            **OFFLINE,
            "KIMI_MAGIC_HOME": str(lesson.parent / "home"),
            "PYTHONWARNINGS": "ignore",
        },
        cwd=lesson.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{len(CELLS)} passed" in ran.stdout


def test_auto_costs_nothing_where_nothing_changed(lesson: Path) -> None:
    notebook = nbformat.read(lesson, as_version=4)
    notebook.cells[5].source += " really?"
    notebook.cells.append(
        new_code_cell("from kimi_magic import kimi\nprint([r['replayed'] for r in kimi.usage])")
    )
    execute(notebook, lesson.parent, KIMI_MAGIC_REPLAY="auto", KIMI_MAGIC_REPLAY_SPEED="0")
    assert notebook.cells[-1].outputs[0].text.strip() == "[True, True, True, False]"


def test_a_cell_and_a_line_can_say_it_too(lesson: Path) -> None:
    notebook = nbformat.read(lesson, as_version=4)
    notebook.cells = [
        notebook.cells[0],
        new_code_cell("%%kimi --replay only\n" + CELLS[1].partition("\n")[2]),
        new_code_cell("%kimi replay only"),
        notebook.cells[4],
        new_code_cell("%kimi replay off"),
        new_code_cell("%%kimi --once\nSomething new."),
    ]
    execute(notebook, lesson.parent, KIMI_MAGIC_REPLAY_SPEED="0")
    assert ["Replayed" in shown for shown in texts(notebook)] == [True, True, False]
    assert notebook.cells[2].outputs[0].text == "Replay is only.\n"


def test_a_teacher_may_use_a_real_server_and_the_class_none(tmp_path: Path) -> None:
    with serve(Simulator(speed=0)) as server:
        taught = execute(
            new_notebook(cells=[new_code_cell(source) for source in CELLS[:2]]),
            tmp_path,
            KIMI_API_KEY=KEY,
            KIMI_BASE_URL=server.url,
        )
    nbformat.write(taught, tmp_path / "lesson.ipynb")
    execute(taught, tmp_path, **OFFLINE)
    (shown,) = texts(taught)
    assert "Replayed" in shown
