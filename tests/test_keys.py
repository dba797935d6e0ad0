"""The API key: where it comes from, what is wrong with it, and keeping it out of sight."""

from __future__ import annotations

import pickle
import sys
import traceback
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopback import Answer, Loopback, http
from test_wire_cases import ASK, raw

from kimi_magic.client import AsyncClient, Client
from kimi_magic.errors import ConfigError, KimiError
from kimi_magic.keys import Key, find_key

SECRET = "sk-test-QWERTY7788ASDF"
PIECES = {SECRET[3:][i : i + 6] for i in range(len(SECRET[3:]) - 5)}


def shows(text: str) -> bool:
    """Whether six characters of the key in a row stand in `text`."""
    return any(piece in text for piece in PIECES)


def test_the_argument_comes_first_then_the_two_variables() -> None:
    both = {"KIMI_API_KEY": "kimi-key", "EVOLINK_API_KEY": "evo-key"}
    assert find_key("given", both) == Key("given", "argument")
    assert find_key(None, both) == Key("kimi-key", "KIMI_API_KEY")
    assert find_key(None, {"EVOLINK_API_KEY": "evo-key"}) == Key("evo-key", "EVOLINK_API_KEY")
    assert find_key(None, {}) is None


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("", "is empty"),
        (" \t", "is empty"),
        (f"{SECRET}\n", "line break"),
        (f"{SECRET}\r\nX-Header: 1", "line break"),
        (f"{SECRET[:9]}…{SECRET[9:]}", "characters that no key has"),
        (f"“{SECRET}”", "characters that no key has"),
        (f"{SECRET} {SECRET}", "characters that no key has"),
        (f"{SECRET}\x00", "characters that no key has"),
        ("密钥", "characters that no key has"),
    ],
)
def test_a_key_that_no_header_can_carry_is_one_line_that_does_not_quote_it(value: str, says: str) -> None:
    for find in (lambda: find_key(value), lambda: find_key(None, {"KIMI_API_KEY": value})):
        with pytest.raises(ConfigError, match=says) as caught:
            find()
        assert "\n" not in str(caught.value)
        assert not shows(str(caught.value))


@pytest.mark.parametrize("value", [5, SECRET.encode()])
def test_a_key_that_is_no_text_is_one_line_that_does_not_quote_it(value: Any) -> None:
    with pytest.raises(ConfigError, match="is no text") as caught:
        Client(value)
    assert not shows(str(caught.value))


def test_the_message_names_the_variable() -> None:
    with pytest.raises(ConfigError, match="EVOLINK_API_KEY is empty"):
        find_key(None, {"EVOLINK_API_KEY": ""})


def test_blanks_around_a_key_are_dropped() -> None:
    with Loopback([Answer(raw("00_baseline"))]) as server, Client(f" {SECRET}\t", server.url) as client:
        client.create(**ASK)
        assert server.requests[0].headers["authorization"] == f"Bearer {SECRET}"


@pytest.mark.parametrize("cls", [Client, AsyncClient])
def test_no_repr_shows_the_key(cls: type[Client] | type[AsyncClient]) -> None:
    client = cls(SECRET, "http://host.test")
    stream = client.stream(**ASK)
    key = find_key(SECRET)
    for thing in (client, stream, key, client.key_source, [key], {"key": key}, client._setup):
        assert not shows(repr(thing))
        assert not shows(str(thing))
    assert repr(key) == "Key(set, from argument)"
    assert repr(client) == f"{cls.__name__}(http://host.test, key from argument)"


def test_without_a_key_no_authorization_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KIMI_API_KEY", "EVOLINK_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(sys.modules, "keyring", None)
    with Loopback([Answer(raw("00_baseline"))]) as server, Client(base_url=server.url) as client:
        client.create(**ASK)
        assert "authorization" not in server.requests[0].headers
        assert client.key_source is None
        assert repr(client) == f"Client({server.url}, no key)"


class KeyringError(Exception):
    """As `keyring.errors` has it."""


@pytest.mark.parametrize("outcome", ["ring-key", None, KeyringError("locked"), RuntimeError("no D-Bus")])
def test_the_keyring_comes_last_and_one_that_does_not_work_is_no_key(
    outcome: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def get_password(service: str, user: str) -> object:
        assert (service, user) == ("kimi_magic", "api_key")
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    for name in ("KIMI_API_KEY", "EVOLINK_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    ring = ModuleType("keyring")
    ring.get_password = get_password  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keyring", ring)
    key = find_key()
    assert key == (Key("ring-key", "the system keyring") if outcome == "ring-key" else None)


ECHOES = [
    http({"error": {"type": SECRET, "message": f"bad key {SECRET}"}, "request_id": SECRET}, "401 No"),
    http({"error": {"message": f"Incorrect API key: {SECRET[:14]}****"}}, "401 No"),
    http(f"<title>{SECRET}</title>", "403 Forbidden"),
    http(f'data: {{"type": "error", "error": {{"type": "x", "message": "{SECRET[4:12]}"}}}}\n\n'),
    http(f"data: {SECRET}\n\n"),
    f"{SECRET} {SECRET}\r\n\r\n".encode(),
]  # fmt: skip


@pytest.mark.parametrize("answer", ECHOES, ids=range(len(ECHOES)))
def test_a_server_that_echoes_the_key_cannot_bring_it_out(answer: bytes) -> None:
    with Loopback([Answer(answer)]) as server, Client(SECRET, server.url, sleep=lambda s: None) as client:
        with pytest.raises(KimiError) as caught:
            client.create(**ASK)
        error = caught.value
        chain = "".join(traceback.format_exception(error))
        for text in (chain, str(error), repr(error), repr(vars(error)), error.message, error.hint):
            assert not shows(text)
        assert not shows("".join(error._render_traceback_()))
        assert b"QWERTY" not in pickle.dumps([error.args, error.message, error.hint])


@given(
    st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=6, max_size=20),
    st.lists(st.one_of(st.text(max_size=8), st.integers(0, 19)), max_size=6),
    st.integers(6, 20),
)
def test_scrub_never_lets_six_characters_through(secret: str, parts: list[str | int], size: int) -> None:
    body = secret.removeprefix("sk-")
    text = "".join(p if isinstance(p, str) else body[p : p + size] for p in parts)
    clean = Key(secret).scrub(text)
    if len(body) >= 6:
        outside = clean.split("[key]")
        assert not any(body[i : i + 6] in part for part in outside for i in range(len(body) - 5))
    if clean != text:
        assert "[key]" in clean


def test_scrub_leaves_other_text_alone() -> None:
    assert Key(SECRET).scrub("the server is busy") == "the server is busy"
    assert Key("k").scrub("ok, the kind of key") == "ok, the kind of key"
    assert Key("sk-test").scrub("wrong: sk-test") == "wrong: sk-[key]"
    assert Key(SECRET).scrub(f"a {SECRET} b {SECRET}") == "a sk-[key] b sk-[key]"
