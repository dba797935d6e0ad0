"""Whatever goes wrong, in any order, with restarts and restores between: what is sent next is valid, and
nothing that was said is lost. The judge is the simulator, which refuses what the API refuses."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interrupting import InterruptAt
from nbformat.v4 import new_code_cell, new_notebook, new_output
from PIL import Image
from scripted import Answer, Scripted, end, reply, whole
from test_twins import BLOCKS, IMAGE

from kimi_magic.api import Kimi
from kimi_magic.client import AsyncClient
from kimi_magic.config import KimiMagic
from kimi_magic.conversation import COMPLETE, INTERRUPTED
from kimi_magic.errors import Interrupted, KimiError
from kimi_magic.retry import Policy
from kimi_magic.simulator import Simulator
from kimi_magic.store import TWIN, read_twins, twin_of
from kimi_magic.transports import SimulatorTransport
from kimi_magic.wire import ImageBlock, TextBlock


class Chat:
    """One notebook over several kernels and machines, always asking the same server."""

    def __init__(self, folder: Path, client: Callable[[], AsyncClient]) -> None:
        self._folder, self._client = folder, client
        self._machines = 0
        self.kimi = self._start()

    def _start(self) -> Kimi:
        return Kimi(KimiMagic(), self._client(), str(self._folder / f"{self._machines}.ipynb"))

    def restart(self) -> None:
        """Another kernel on the same notebook."""
        self.kimi.close()
        self.kimi = self._start()

    def mail(self) -> None:
        """The notebook goes to a stranger, through a file, who restores it."""
        conversation, records = self.kimi.conversation, self.kimi.session.records
        outputs = [
            new_output(
                "display_data", {TWIN: twin_of(t, conversation, [r for r in records if r.turn == t.id])}
            )
            for t in conversation.turns.values()
        ]
        path = self._folder / f"mail {self._machines}.ipynb"
        nbformat.write(new_notebook(cells=[new_code_cell(outputs=outputs)]), path)
        found = read_twins(path)
        self.kimi.close()
        self._machines += 1
        self.kimi = self._start()
        for name, restored in found.conversations.items():
            self.kimi.session.change(self.kimi.session.conversation(name).joined(restored))

    @property
    def messages(self) -> str:
        return json.dumps(self.kimi.messages)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KIMI_MAGIC_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.fixture
def chat(folder: Path) -> Iterator[Callable[..., Chat]]:
    made: list[Chat] = []

    def make(*answers: Answer) -> Chat:
        server = Scripted(list(answers))
        made.append(Chat(folder, server.client))
        made[-1].server = server  # type: ignore[attr-defined]  # for the tests that look at it
        return made[-1]

    yield make
    for each in made:
        each.kimi.close()


def simulated() -> AsyncClient:
    transport = SimulatorTransport(Simulator(speed=0))
    return AsyncClient("sk-test-key", "http://sim.test", transport=transport, policy=Policy(tries=1))


def look(name: str) -> str:
    """Looks a name up."""
    return f"{name} is here"


def stop(name: str) -> str:
    """Is interrupted."""
    raise KeyboardInterrupt


def fail(name: str) -> str:
    """Fails without a word."""
    raise ValueError


# --- the cases ----------------------------------------------------------------------------------

CALLS = [
    {"type": "thinking", "thinking": "先查天气 \u200b🙂", "signature": "c2ln+/=="},
    {"type": "redacted_thinking", "data": "QUJD"},
    {"type": "tool_use", "id": "t1", "name": "look", "input": {"name": "a"}},
    {"type": "tool_use", "id": "t2", "name": "stop", "input": {"name": "b"}},
]


def saying(*blocks: dict[str, Any], stop_reason: str = "end_turn") -> Answer:
    start = reply().events[0]
    return Answer((start, *[e for n, b in enumerate(blocks) for e in whole(n, b)], *end(stop_reason)))


def test_s02_an_interrupt_in_a_tool_leaves_no_call_without_its_result(chat: Callable[..., Chat]) -> None:
    told = chat(saying(*CALLS, stop_reason="tool_use"), reply("Hi"))
    with pytest.raises(Interrupted):
        told.kimi.ask("Use both.", tools=[look, stop], cell="1")
    (turn,) = told.kimi.conversation.turns.values()
    assert turn.status == INTERRUPTED
    assert [b.json for b in turn.reply] == CALLS
    told.kimi.ask("And now?", tools=[look, stop])
    told.restart()
    told.kimi.ask("And now?", tools=[look, stop])
    told.mail()
    told.kimi.ask("And now?", tools=[look, stop])
    for body in told.server.requests[1:]:  # type: ignore[attr-defined]  # see `chat`
        assert "tool_use" not in json.dumps(body["messages"])
    assert len(told.kimi.conversation.path()) == 3
    assert told.kimi.conversation.turns[turn.id] == turn


def test_s04_blocks_go_back_unchanged_inside_a_tool_round_and_after_a_restore(
    chat: Callable[..., Chat],
) -> None:
    empty = {"type": "thinking", "thinking": "", "signature": "c2ln"}
    calls = [*CALLS[:2], empty, CALLS[2]]
    told = chat(saying(*calls, stop_reason="tool_use"), reply("It rains."), reply("Hi"))
    told.kimi.ask("Weather?", tools=[look])
    first = told.server.requests[1]["messages"][1]  # type: ignore[attr-defined]
    assert json.dumps(first["content"]) == json.dumps(calls)
    for change in (told.restart, told.mail, told.restart):
        change()
        told.kimi.ask("And now?")
        again = told.server.requests[-1]["messages"]  # type: ignore[attr-defined]
        assert json.dumps(again[1]["content"]) == json.dumps(calls)
        assert again[2]["content"][0]["tool_use_id"] == "t1"


def test_s07_save_restart_and_restore_keep_every_block(chat: Callable[..., Chat], folder: Path) -> None:
    def picture(name: str) -> Any:
        """Draws."""
        return Image.new("RGB", (2, 2))

    call = {"type": "tool_use", "id": "t1", "name": "picture", "input": {"name": "a"}}
    told = chat(saying(CALLS[0], call, stop_reason="tool_use"), saying(*BLOCKS), reply("Hi"))
    told.kimi.ask([ImageBlock(IMAGE), TextBlock.of("Look.")], tools=[picture])
    before = told.messages
    kinds = {b["type"] for m in json.loads(before) for b in m["content"]}
    assert kinds >= {"image", "tool_use", "tool_result", *(b["type"] for b in BLOCKS)}
    assert '"type": "image"' in json.dumps(json.loads(before)[2])
    assert "null" in before
    for change in (told.restart, told.mail, told.restart, told.mail):
        change()
        assert told.messages == before


# --- anything, in any order ---------------------------------------------------------------------

mishaps = st.sampled_from(
    ["", "", "", "400", "500", "drop", "early-error", "stream-error", "cut", "broken", "garbled", "empty",
     "refusal", "redacted", "unsigned", "unknown", "pause x1", "pause", "stop-reason tool_use", "html"]
)  # fmt: skip
tools = st.sampled_from([[], [], [look], [look, fail], [look, stop], [stop]])
hows = st.sampled_from(
    ["", "", "", "append", "once", "new", "interrupt 0", "interrupt 1", "interrupt 3", "short"]
)
asks = st.tuples(st.just("ask"), mishaps, st.sampled_from([None, "1", "2", "3"]), hows, tools)
others = st.sampled_from([("undo",), ("new",), ("restart",), ("restart",), ("mail",), ("compact",)])
steps = st.one_of(asks, asks, asks, others, st.tuples(st.just("use"), st.integers(0, 9)))


@given(st.lists(steps, max_size=9))
@settings(deadline=None, max_examples=40)
def test_whatever_happens_the_next_request_is_valid_and_nothing_is_lost(
    history: list[tuple[Any, ...]],
) -> None:
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("KIMI_MAGIC_HOME", str(Path(folder) / "home"))
        told = Chat(Path(folder), simulated)
        try:
            for step in history:
                turns, messages = dict(told.kimi.conversation.turns), told.messages
                play(told, step)
                conversation = told.kimi.conversation
                assert conversation.turns.keys() >= turns.keys()
                assert all(conversation.turns[key] == turn for key, turn in turns.items())
                assert all(turn.status == COMPLETE for turn in conversation.path())
                if step[0] in ("restart", "mail") and told.kimi.conversation.head is not None:
                    assert step[0] == "mail" or told.messages == messages
            told.kimi.ask("And now?", cell=None)  # raises where the simulator refuses it
            told.restart()
            assert told.kimi.conversation.path()[-1].prompt == "And now?"
            told.kimi.ask("And now?", cell=None)
        finally:
            told.kimi.close()


def play(told: Chat, step: tuple[Any, ...]) -> None:
    conversation, change = told.kimi.conversation, told.kimi.session.change
    match step:
        case ("ask", mishap, cell, how, functions):
            prompt = f"Say it. [[simulate: {mishap}]]" if mishap else "Say it."
            options: dict[str, Any] = {"cell": cell, "tools": functions or None}
            options |= {how: True} if how in ("append", "once", "new") else {}
            options |= {"max_tokens": 30} if how == "short" else {}
            options |= {"view": InterruptAt(int(how[-1]))} if how.startswith("interrupt") else {}
            with suppress(KimiError, Interrupted):
                told.kimi.ask(prompt, **options)
        case ("undo",) if conversation.path():
            change(conversation.undo())
        case ("new",):
            change(conversation.fresh())
        case ("restart",):
            told.restart()
        case ("mail",):
            told.mail()
        case ("compact",):
            with suppress(KimiError):
                told.kimi.compact()
        case ("use", place):
            usable = [t for t in conversation.turns.values() if t.status == COMPLETE]
            if usable:
                change(conversation.use(usable[place % len(usable)].id))
