"""Which server a client talks to, where it was not told everything."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kimi_magic.client import SIMULATOR_URL, AsyncClient, Client
from kimi_magic.errors import ConfigError, ReplayError
from kimi_magic.transports import RecordTransport, SimulatorTransport

ASK = {"messages": [{"role": "user", "content": "What is a Gini coefficient?"}], "max_tokens": 2000}


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key and no server, from nowhere."""
    for name in ("KIMI_API_KEY", "EVOLINK_API_KEY", "KIMI_BASE_URL", "KIMI_MAGIC_SIMULATOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KIMI_MAGIC_SIMULATOR_SPEED", "0")


def test_without_a_key_the_simulator_answers_and_says_so() -> None:
    with Client() as client, client.stream(**ASK) as stream:
        for _ in stream:
            pass
        assert stream.simulated
        assert "no model has read this" in stream.message.text


def test_the_async_client_does_the_same() -> None:
    async def ask() -> str:
        async with AsyncClient() as client:
            return (await client.create(**ASK)).text

    assert "no model has read this" in asyncio.run(ask())


def test_never_turns_a_missing_key_into_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIMI_MAGIC_SIMULATOR", "never")
    with pytest.raises(ConfigError, match=r"No API key.*KIMI_API_KEY"):
        Client()


def test_a_mode_that_is_none_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIMI_MAGIC_SIMULATOR", "nver")
    with pytest.raises(ConfigError, match=r"KIMI_MAGIC_SIMULATOR='nver'.*auto, always, never"):
        Client()


def test_always_lets_it_answer_although_there_is_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIMI_MAGIC_SIMULATOR", "always")
    monkeypatch.setenv("KIMI_API_KEY", "sk-a-key-of-some-length")
    assert Client().base_urls == (SIMULATOR_URL,)


@pytest.mark.parametrize("variable", ["KIMI_API_KEY", "KIMI_BASE_URL"])
def test_a_key_or_a_base_url_names_a_real_server(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, {"KIMI_API_KEY": "sk-some", "KIMI_BASE_URL": "http://127.0.0.1:9"}[variable])
    assert SIMULATOR_URL not in Client().base_urls


def test_a_pace_that_is_no_number_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIMI_MAGIC_SIMULATOR_SPEED", "fast")
    with pytest.raises(ConfigError, match="KIMI_MAGIC_SIMULATOR_SPEED='fast'"):
        Client()


def test_a_cassette_answers_and_nothing_else_does(tmp_path: Path) -> None:
    cassette = tmp_path / "lesson.jsonl"
    with Client("sk-a-key-of-some-length", "http://simulator.invalid", transport=_taped(cassette)) as client:
        said = client.create(**ASK).text
    with Client(replay=cassette) as client:
        assert client.create(**ASK).text == said
        assert Client(None, None, str(cassette)).create(**ASK).text == said
        with pytest.raises(ReplayError, match=r"differs in max_tokens.*10 here, 2000 there"):
            client.create(**{**ASK, "max_tokens": 10})


def test_a_cassette_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match=r"none\.jsonl cannot be read"):
        Client(replay=tmp_path / "none.jsonl")


def _taped(path: Path) -> RecordTransport:
    return RecordTransport(path, SimulatorTransport())
