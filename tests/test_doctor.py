"""`kimi-magic doctor` and `%kimi doctor`: what is wrong, and how to mend it."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from command_line import run
from loopback import Answer, Loopback, http
from notebook import Notebook

from kimi_magic.doctor import Finding, examine, lines
from kimi_magic.simulator import Simulator
from kimi_magic.store import Store
from kimi_magic.transports import serve
from kimi_magic.usage import PRICES_READ, Record

KEY = "sk-test-QWERTY7788ASDF"
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def found(tmp_path: Path, about: str, online: bool = False, **environ: str) -> list[Finding]:
    """The findings about one thing, in an environment that has nothing else."""
    everything = {"KIMI_MAGIC_HOME": str(tmp_path / "home"), **environ}
    return [f for f in examine(online=online, environ=everything) if f.about == about]


def only(findings: list[Finding]) -> Finding:
    (finding,) = findings
    return finding


def test_a_fresh_installation_is_well_and_the_key_has_its_remedy(tmp_path: Path) -> None:
    findings = examine(environ={"KIMI_MAGIC_HOME": str(tmp_path / "home")})
    assert [f for f in findings if f.is_wrong] == []
    key = only([f for f in findings if f.about == "key"])
    assert (key.mark, key.says) == ("note", "none")
    assert "KIMI_API_KEY" in key.remedy
    assert lines(findings).endswith("Nothing is wrong.")
    assert not (tmp_path / "home").exists(), "it only looks"


def test_the_key_s_place_is_told_and_never_the_key(tmp_path: Path) -> None:
    findings = examine(environ={"EVOLINK_API_KEY": KEY, "KIMI_MAGIC_HOME": str(tmp_path)})
    assert only([f for f in findings if f.about == "key"]).says == "set, from EVOLINK_API_KEY"
    assert "https://direct.evolink.ai, then https://api.evolink.ai" in lines(findings)
    assert "QWERTY" not in repr(findings)


@pytest.mark.parametrize(
    ("environ", "about", "says"),
    [
        ({"KIMI_API_KEY": f"{KEY}\n"}, "key", "line break"),
        ({"KIMI_MAGIC_SIMULATOR": "never"}, "key", "none"),
        ({"KIMI_BASE_URL": "ftp://x"}, "server", "is not usable"),
        ({"KIMI_BASE_URL": "keyhost:8000"}, "server", "is not usable"),
        ({"KIMI_BASE_URL": "ftp://x", "KIMI_API_KEY": f"{KEY}\n"}, "server", "is not usable"),
        ({"KIMI_BASE_URL": "ftp://x", "KIMI_API_KEY": f"{KEY}\n"}, "key", "line break"),
        ({"KIMI_MAGIC_MODEL": "some-model"}, "model", "none of the server's"),
        ({"KIMI_MAGIC_EFFORT": "enormous"}, "settings", "KIMI_MAGIC_EFFORT='enormous'"),
        ({"KIMI_MAGIC_REPLAY": "only", "KIMI_MAGIC_CASSETTE": "gone.jsonl"}, "replay", "cannot be read"),
    ],
)
def test_what_does_not_work_is_wrong_and_has_a_remedy(
    tmp_path: Path, environ: Mapping[str, str], about: str, says: str
) -> None:
    finding = only(found(tmp_path, about, **environ))
    assert finding.is_wrong
    assert says in finding.says
    assert finding.remedy
    assert "QWERTY" not in repr(finding)


def test_each_setting_that_is_not_usable_is_told_and_the_others_hold(tmp_path: Path) -> None:
    environ = {"KIMI_MAGIC_EFFORT": "huge", "KIMI_MAGIC_REPLAY": "maybe", "KIMI_MAGIC_STORE": "off"}
    told = found(tmp_path, "settings", **environ)
    assert [f.says.partition("=")[0] for f in told] == ["KIMI_MAGIC_EFFORT", "KIMI_MAGIC_REPLAY"]
    assert only(found(tmp_path, "store", **environ)).says.startswith("off: ")


def test_where_only_recordings_are_shown_no_key_is_needed(tmp_path: Path) -> None:
    cassette = Path(__file__).parent.parent / "notebooks" / "teaching.jsonl"
    environ = {"KIMI_MAGIC_REPLAY": "only", "KIMI_MAGIC_CASSETTE": str(cassette)}
    environ["KIMI_MAGIC_SIMULATOR"] = "never"
    assert found(tmp_path, "key", **environ) == []
    assert only(found(tmp_path, "server", **environ)).says.startswith("none is asked")
    says = only(found(tmp_path, "replay", **environ)).says
    assert re.search(rf"and \d+ recordings of {re.escape(str(cassette))}$", says)


def test_a_variable_that_is_like_no_setting_is_told_to_be_unset(tmp_path: Path) -> None:
    finding = only(found(tmp_path, "settings", KIMI_MAGIC_FOO="1"))
    assert finding.remedy.startswith("Unset it")


def test_a_variable_that_is_no_setting_names_the_one_that_was_meant(tmp_path: Path) -> None:
    finding = only(found(tmp_path, "settings", KIMI_MAGIC_EFORT="low", KIMI_MAGIC_NOTEBOOK="a.ipynb"))
    assert finding.says.startswith("KIMI_MAGIC_EFORT is no setting")
    assert finding.remedy == "Did you mean KIMI_MAGIC_EFFORT?"


# --- the server ---------------------------------------------------------------------------------


def test_nothing_is_sent_unless_it_is_asked_for(tmp_path: Path) -> None:
    with Loopback([Answer(http("{}", "400 Bad Request"))]) as server:
        finding = only(found(tmp_path, "network", KIMI_BASE_URL=server.url, KIMI_API_KEY=KEY))
        assert (finding.mark, server.requests) == ("ok", [])
        assert "--online" in finding.says


def test_online_asks_every_server_whether_it_takes_the_key(tmp_path: Path) -> None:
    with serve(Simulator(speed=0, refused_keys={"sk-wrong"})) as one, serve(Simulator(speed=0)) as two:
        both = f"{one.url},{two.url}"
        takes = found(tmp_path, "network", True, KIMI_BASE_URL=both, KIMI_API_KEY=KEY)
        assert [f.says for f in takes] == [f"{url} answers and takes the key." for url in (one.url, two.url)]
        refused = found(tmp_path, "network", True, KIMI_BASE_URL=both, KIMI_API_KEY="sk-wrong")
        assert [f.mark for f in refused] == ["wrong", "ok"]
        assert "refuses the key (401)" in refused[0].says
    with Loopback([Answer(http("{}", "401 Unauthorized"))]) as server:
        finding = only(found(tmp_path, "network", True, KIMI_BASE_URL=server.url))
        assert f"{server.url} wants a key (401)" in finding.says


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (http("<html>", "502 Bad Gateway"), "answers 502"),
        (http("nothing here", "404 Not Found"), "answers 404"),
        (b"", "No connection"),
        (f"HTTP/1.1 200 {KEY}\r\nx".encode(), "No connection"),
    ],
)
def test_what_is_no_server_of_the_api_is_wrong(tmp_path: Path, answer: bytes, says: str) -> None:
    with Loopback([Answer(answer)]) as server:
        finding = only(found(tmp_path, "network", True, KIMI_BASE_URL=server.url, KIMI_API_KEY=KEY))
    assert finding.is_wrong
    assert says in finding.says
    assert finding.remedy
    assert "QWERTY" not in repr(finding)


# --- the store ----------------------------------------------------------------------------------


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A store with a request in it."""
    path = tmp_path / "home" / "kimi_magic.db"
    store = Store(path)
    store.keep_records("a.ipynb", [Record(NOON)])
    store.close()
    return path


def test_a_healthy_store_is_told_with_its_size(tmp_path: Path, kept: Path) -> None:
    finding = only(found(tmp_path, "store"))
    assert finding.mark == "ok"
    assert str(kept) in finding.says
    assert finding.says.endswith(", 1 request")


def test_a_store_that_others_can_read_says_what_to_type(tmp_path: Path, kept: Path) -> None:
    kept.chmod(0o644)
    kept.parent.chmod(0o755)
    wrong = [f for f in found(tmp_path, "store") if f.is_wrong]
    assert [f.remedy for f in wrong] == [f"chmod 600 '{kept}'", f"chmod 700 '{kept.parent}'"]
    for finding in wrong:
        assert os.system(finding.remedy) == 0
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert [f.mark for f in found(tmp_path, "store")] == ["ok"]


def test_a_damaged_store_is_wrong(tmp_path: Path, kept: Path) -> None:
    kept.write_bytes(b"this is no database, whatever its name says" * 30)
    finding = only(found(tmp_path, "store"))
    assert finding.is_wrong
    assert "not a database" in finding.says
    assert finding.remedy.endswith("To begin anew, move kimi_magic.db away.")


def test_a_place_that_cannot_be_one_is_wrong_and_names_the_variable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    finding = only(found(tmp_path, "store", KIMI_MAGIC_HOME=str(tmp_path / "file" / "below")))
    assert finding.is_wrong
    assert "KIMI_MAGIC_HOME" in finding.remedy
    assert found(tmp_path, "store", KIMI_MAGIC_STORE="off")[0].mark == "ok"


@pytest.mark.parametrize("link", ["home", "home/kimi_magic.db"])
def test_a_link_that_leads_nowhere_is_no_place(tmp_path: Path, link: str) -> None:
    (tmp_path / link).parent.mkdir(exist_ok=True)
    (tmp_path / link).symlink_to(tmp_path / "gone" / "away")
    assert only(found(tmp_path, "store")).says == f"{tmp_path / link} cannot be written."


def test_the_display_follows_the_setting(tmp_path: Path) -> None:
    assert only(found(tmp_path, "display", KIMI_MAGIC_DISPLAY="static")).says.startswith("static: by the")


def test_old_prices_are_a_note(tmp_path: Path) -> None:
    def at(today: date) -> Finding:
        return only([f for f in examine(environ={}, today=today) if f.about == "prices"])

    assert at(PRICES_READ).mark == "ok"
    assert at(date(PRICES_READ.year + 1, 1, 1)).mark == "ok"
    old = at(date(PRICES_READ.year + 2, 1, 1))
    assert (old.mark, old.is_wrong) == ("note", False)
    assert "%kimi price" in old.remedy


# --- the two commands ---------------------------------------------------------------------------


def test_the_command_prints_all_and_its_status_says_whether_something_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KIMI_MAGIC_HOME", str(tmp_path))
    said = run("doctor").stdout
    assert said.splitlines()[-1] == "Nothing is wrong."
    assert "ipywidgets" in said
    assert "live in a notebook of a Jupyter server" in said
    monkeypatch.setenv("KIMI_MAGIC_SIMULATOR", "never")
    said = run("doctor", status=1).stdout
    assert "wrong  key" in said
    assert said.splitlines()[-1].startswith("1 of ")


def test_the_magic_knows_the_front_end_and_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIMI_MAGIC_HOME", str(tmp_path))
    note = Notebook()
    try:
        assert note.run("%kimi doctor") is None
        assert "display   terminal: by the setting display" in note.printed
        assert "refuses" not in note.printed
        error = note.run("%kimi doctor --onlin")
        assert "takes --online or nothing" in str(error)
    finally:
        note.close()
