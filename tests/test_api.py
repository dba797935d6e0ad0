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
from typing import Any

import pytest
from loopback import Answer as Said
from loopback import Loopback, http
from scripted import Scripted, end, failing, reply, stopping, text, thinking

from kimi_magic.api import Kimi, connect
from kimi_magic.client import BASE_URLS
from kimi_magic.config import KimiMagic
from kimi_magic.errors import BadRequestError, ConfigError
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
    assert got.message.stop_reason == "end_turn"
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
        assert [t for t in threading.enumerate() if t.name == "kimi-magic"] == []
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
