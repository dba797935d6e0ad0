"""`kimi` from Python: one chat that connects on first use and can be closed at any time."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from loopback import Answer as Said
from loopback import Loopback, http
from notebook import Notebook
from scripted import Scripted, end, failing, reply, stopping, text, thinking
from traitlets.config import Config

from kimi_magic.api import Kimi, connect
from kimi_magic.client import BASE_URLS
from kimi_magic.config import KimiMagic
from kimi_magic.errors import BadRequestError, ConfigError, OptionError
from kimi_magic.magics import load, unload
from kimi_magic.simulator import Simulator
from kimi_magic.transports import serve
from kimi_magic.usage import Budget
from kimi_magic.wire import TextBlock


@pytest.fixture
def chat() -> Iterator[Any]:
    made: list[Kimi] = []

    def make(server: Scripted | None = None, **settings: Any) -> Kimi:
        settings = {"store": "off", "simulator_speed": 0.0, **settings}
        made.append(Kimi(KimiMagic(**settings), client=server.client() if server else None))
        return made[-1]

    yield make
    for one in made:
        one.close()


def settings(**more: Any) -> KimiMagic:
    return KimiMagic(store="off", simulator_speed=0.0, **more)


# --- who answers --------------------------------------------------------------------------------


def test_without_a_key_the_simulator_answers_and_says_so(chat: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KIMI_API_KEY", "EVOLINK_API_KEY", "KIMI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    kimi = chat()
    answer = kimi.ask("Hello")
    assert kimi.simulated
    assert answer.turn.simulated
    assert "Simulated reply" in answer._repr_mimebundle_()["text/plain"]
    assert [row["simulated"] for row in answer.usage] == [True]


def test_never_makes_a_missing_key_an_error_with_the_next_step() -> None:
    with pytest.raises(ConfigError, match=r"KIMI_MAGIC_SIMULATOR=never.*Set the environment variable"):
        connect(settings(simulator="never"), {})


@pytest.mark.parametrize(
    ("environ", "simulator", "urls"),
    [
        ({"KIMI_API_KEY": "k"}, "auto", BASE_URLS),
        ({"EVOLINK_API_KEY": "k"}, "never", BASE_URLS),
        ({"KIMI_API_KEY": "k"}, "always", ("http://simulator.invalid",)),
        ({"KIMI_BASE_URL": "http://127.0.0.1:9"}, "auto", ("http://127.0.0.1:9",)),
    ],
)
def test_the_key_and_the_settings_choose_the_server(
    environ: dict[str, str], simulator: str, urls: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("KIMI_API_KEY", "EVOLINK_API_KEY", "KIMI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KIMI_MAGIC_SIMULATOR", "always")  # the settings go before it
    client, simulated = connect(settings(simulator=simulator), environ)
    assert client.base_urls == urls
    assert simulated == (simulator == "always")
    asyncio.run(client.aclose())


def test_another_simulator_setting_takes_hold_at_the_next_question(
    chat: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with serve(Simulator(speed=0)) as server:
        monkeypatch.setenv("KIMI_API_KEY", "sk-key")
        monkeypatch.setenv("KIMI_BASE_URL", server.url)
        kimi = chat()
        kimi.ask("One?", effort="low")
        there = kimi.session.client
        kimi.settings.replay_speed = 2.0
        kimi.settings.simulator_speed = 1.0  # of nobody who answers
        assert kimi.session.client is there
        kimi.record(tmp_path / "tape.jsonl")
        kimi.settings.simulator, kimi.settings.simulator_speed = "always", 0.0
        kimi.session.purse.set_budget(Budget(Decimal(0)))
        kimi.ask("Two?", effort="low")  # which costs nothing now
        assert kimi.simulated
        assert kimi.session.client.base_urls == ("http://simulator.invalid",)
        assert len((tmp_path / "tape.jsonl").read_text().splitlines()) > 0
        here = kimi.session.client
        kimi.settings.simulator_speed = 1_000.0
        assert kimi.session.client is not here
        kimi.settings.simulator = "never"
        assert kimi.session.client.base_urls == (server.url,)
        assert not kimi.simulated
        assert [t.prompt for t in kimi.conversation.path()] == ["One?", "Two?"]
        kimi.close()


def test_a_client_of_ones_own_stays_whatever_the_settings_say(chat: Any) -> None:
    kimi = chat(Scripted([reply()]))
    kimi.ask("One?")
    kimi.settings.simulator = "always"
    assert kimi.ask("Two?").text == "Yes."
    assert not kimi.simulated


def test_a_store_that_is_changed_too_late_is_said_at_once() -> None:
    note = Notebook()
    assert note.run("%config KimiMagic.store = 'on'") is None
    assert note.run("%config KimiMagic.store = 'off'") is None
    assert note.printed == ""
    note.ask("-e low", "One?")
    assert note.run("%config KimiMagic.store = 'on'") is None
    assert note.printed == (
        "kimi_magic: store=on takes effect after a restart of the kernel; until then conversations and usage"
        " stay in memory.\n"
    )
    unload(note.shell)
    assert note.run("kimi.settings.store = 'off'") is None
    assert note.printed == ""
    note.close()


# --- status -------------------------------------------------------------------------------------


def _status(kimi: Kimi, capsys: pytest.CaptureFixture[str]) -> str:
    shell = InteractiveShell(config=Config({"HistoryManager": {"hist_file": ":memory:"}}))
    load(shell, kimi.settings, lambda: kimi)
    capsys.readouterr()
    shell.run_line_magic("kimi", "status")
    return " ".join(capsys.readouterr().out.split())


def test_the_status_names_the_place_of_the_key_and_what_is_replayed_and_recorded(
    chat: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("KIMI_API_KEY", "sk-key")
    kimi = chat(display="terminal")
    said = _status(kimi, capsys)
    assert "key set, from KIMI_API_KEY" in said
    assert "replay off" in said
    assert "recording off" in said
    kimi.record(tmp_path / "tape.jsonl")
    assert "tape.jsonl" in _status(kimi, capsys)
    only = _status(chat(display="terminal", replay="only"), capsys)
    assert "server recordings only" in only
    assert "key none is needed" in only
    assert "replay only" in only


# --- asking -------------------------------------------------------------------------------------


def test_a_reply_has_what_one_wants_of_it(chat: Any) -> None:
    cited = {"type": "text", "text": "It is.", "citations": [{"url": "https://a.org/x", "title": "A"}]}
    answer = stopping(
        thinking(0, "hm"),
        [
            {"type": "content_block_start", "index": 1, "content_block": cited},
            {"type": "content_block_stop", "index": 1},
        ],
        end(),
    )
    kimi = chat(Scripted([answer]))
    got = kimi.ask("?", effort="low", max_tokens=9)
    assert (got.text, got.thinking, str(got)) == ("It is.", "hm", "It is.")
    assert got.sources == [{"url": "https://a.org/x", "title": "A"}]
    assert got.message.stop_reason == got.stop_reason == "end_turn"
    assert [row["output"] for row in got.usage] == [40]
    assert got.cost == Decimal("0.000462")
    assert repr(got) == "<Reply: 6 characters, complete>"
    assert set(got._repr_mimebundle_()) >= {"text/html", "text/markdown", "text/plain"}


def test_a_prompt_is_text_or_blocks(chat: Any) -> None:
    server = Scripted([reply()])
    kimi = chat(server)
    block = TextBlock({"type": "text", "text": "one"})
    for prompt in ("one", block, [block, block]):
        kimi.ask(prompt, once=True)
    contents = [r["messages"][0]["content"] for r in server.requests]
    assert contents == [[block.json], [block.json], [block.json, block.json]]


def test_the_chat_knows_its_conversation_messages_and_usage(chat: Any) -> None:
    server = Scripted([reply("A."), reply("B.")])
    kimi = chat(server)
    kimi.ask("a")
    kimi.ask("b")
    assert [t.prompt for t in kimi.conversation.path()] == ["a", "b"]
    assert [m["role"] for m in kimi.messages] == ["user", "assistant"] * 2
    assert list(kimi.messages[:3]) == server.requests[1]["messages"]
    assert len(kimi.usage) == 2
    assert kimi.usage.summary().requests == 2
    assert kimi.conversations == ("main",)


@pytest.mark.parametrize("door", ["ask", "map", "estimate"])
def test_an_option_that_is_misspelt_is_one_line_that_names_the_near_one(chat: Any, door: str) -> None:
    server = Scripted([reply()])
    kimi = chat(server)
    rows = () if door == "ask" else ([],)
    for slip, meant in (("effrt", "effort"), ("max_token", "max_tokens")):
        with pytest.raises(OptionError, match=rf"There is no option {slip}. Did you mean {meant}\?"):
            getattr(kimi, door)("x", *rows, **{slip: "low"})
    with pytest.raises(OptionError, match=r"There is no option colour. There are prompt, model, effort,"):
        getattr(kimi, door)("x", *rows, colour="red")
    assert server.bodies == []


def test_an_option_of_a_batch_that_is_misspelt_is_compared_with_those_of_a_batch(chat: Any) -> None:
    with pytest.raises(OptionError, match=r"Did you mean budget\?"):
        chat(Scripted([reply()])).map("x", [], budgte=2)


def test_an_error_is_raised_and_the_chat_goes_on(chat: Any) -> None:
    server = Scripted([failing(400), reply()])
    kimi = chat(server)
    with pytest.raises(BadRequestError):
        kimi.ask("a")
    assert kimi.ask("b").text == "Yes."
    assert [r["status"] for r in kimi.usage] == ["failed", "complete"]


def test_nothing_is_made_before_the_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KIMI_API_KEY", raising=False)
    monkeypatch.delenv("EVOLINK_API_KEY", raising=False)
    kimi = Kimi(settings(simulator="never"))
    assert kimi.conversations == ()
    assert "notebook's chat" in repr(kimi)
    kimi.close()


def test_a_chat_that_was_closed_opens_anew_with_its_conversation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connections belong to the loop that ended: none of them may be used again."""
    others = threading.enumerate()
    events = [{"type": "message_start", "message": {"role": "assistant", "content": []}}]
    events += [*text(0, "Yes."), *end()]
    stream = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)
    with Loopback([Said(http(stream), after="keep")]) as server:
        monkeypatch.setenv("KIMI_API_KEY", "sk-key")
        monkeypatch.setenv("KIMI_BASE_URL", server.url)
        kimi = Kimi(settings())
        kimi.ask("a")
        kimi.ask("b")
        assert [r.connection for r in server.requests] == [1, 1]  # kept alive, as it should be
        kimi.close()
        assert [t for t in threading.enumerate() if t.name == "kimi-magic" and t not in others] == []
        assert kimi.ask("c").text == "Yes."
        assert [r.connection for r in server.requests] == [1, 1, 2]
        assert len(server.requests[2].json["messages"]) == 5
        kimi.close()


def test_a_process_that_forgets_to_close_ends_all_the_same() -> None:
    code = (
        "from kimi_magic import Kimi, KimiMagic\n"
        "k = Kimi(KimiMagic(store='off', simulator='always', simulator_speed=0))\n"
        "print(k.ask('Hi').turn.status)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "complete", "")


# --- images -------------------------------------------------------------------------------------


def test_images_go_out_ahead_of_the_prompt_and_are_what_the_setting_allows(chat: Any) -> None:
    from io import BytesIO

    from PIL import Image

    file = BytesIO()
    Image.new("RGB", (40, 20), "red").save(file, "PNG")
    server = Scripted([reply("Red.")])
    chat(server, image_max_side=10).ask("Which colour?", images=[file.getvalue()])
    image, prompt = server.requests[0]["messages"][0]["content"]
    assert prompt == {"type": "text", "text": "Which colour?"}
    sent = Image.open(BytesIO(base64.b64decode(image["source"]["data"])))
    assert sent.size == (10, 5)
