"""Help in place: `%kimi help`, `%kimi help TOPIC`, `%%kimi?`, `kimi.ask?`, all from the tables."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

import pytest
from notebook import Notebook

from kimi_magic import Kimi
from kimi_magic.config import KimiMagic
from kimi_magic.errors import OptionError
from kimi_magic.magics.commands import COMMANDS
from kimi_magic.magics.completion import complete_line
from kimi_magic.magics.help import TOPICS
from kimi_magic.magics.options import OPTIONS
from kimi_magic.session import Ask

WIDEST = 120


@pytest.fixture
def note() -> Iterator[Notebook]:
    made = Notebook()
    yield made
    made.close()


def shown(note: Notebook, line: str) -> str:
    assert note.run(line) is None
    return note.printed


def test_the_overview_has_every_option_command_and_topic(note: Notebook) -> None:
    page = shown(note, "%kimi help")
    assert page == shown(note, "%kimi")
    for option in OPTIONS:
        assert re.search(rf"--{option.name} .*", page), option.name
    for command in COMMANDS.values():
        assert re.search(rf"%kimi {re.escape(command.usage)}\s", page), command.usage
    for name, topic in TOPICS.items():
        assert re.search(rf"^  {name} +{re.escape(topic.title)}$", page, re.MULTILINE)


@pytest.mark.parametrize("name", TOPICS)
def test_a_topic_says_what_belongs_to_it_in_the_words_of_the_tables(note: Notebook, name: str) -> None:
    page = shown(note, f"%kimi help {name}")
    words = " ".join(page.split())
    topic = TOPICS[name]
    assert " ".join(topic.text.split()) in words
    for option in (o for o in OPTIONS if o.name in topic.options):
        assert f"{option.label} {option.metavar}".strip() in page
        assert " ".join(option.help.split()) in words
    for command in topic.commands:
        assert COMMANDS[command].help in words
    for setting in topic.settings:
        assert f"KIMI_MAGIC_{setting.upper()}" in page
    assert max(map(len, page.splitlines())) <= WIDEST


def test_everything_belongs_to_a_topic_and_no_topic_names_what_is_not_there() -> None:
    def of(kind: str) -> set[str]:
        return {name for topic in TOPICS.values() for name in getattr(topic, kind)}

    assert of("options") == {o.name for o in OPTIONS}
    assert of("commands") == set(COMMANDS)
    assert of("settings") == set(KimiMagic.class_traits(config=True))


@pytest.mark.parametrize(
    ("word", "topic"),
    [
        ("--schema", "schema"),
        ("-t", "tools"),
        ("undo", "conversation"),
        ("Budget", "budget"),
        ("%kimi", ""),
        ("KIMI_BASE_URL", "key"),
        ("EVOLINK_API_KEY", "key"),
        ("KIMI_MAGIC_EFFORT", "model"),
        ("KIMI_MAGIC_HOME", "headless"),
    ],
)
def test_an_option_or_a_command_leads_to_its_topic(note: Notebook, word: str, topic: str) -> None:
    error = note.run(f"%kimi help {word}")
    if topic:
        assert note.printed.startswith(f"{topic}: ")
    else:
        assert isinstance(error, OptionError)


def test_a_topic_that_is_not_there_names_the_nearest_and_all(note: Notebook) -> None:
    error = note.run("%kimi help budgte")
    assert isinstance(error, OptionError)
    assert "Did you mean budget?" in str(error)
    assert "conversation" in str(error)


def test_a_wrong_value_names_the_help_on_its_option(note: Notebook) -> None:
    error = note.ask("-e hihg", "Hi")
    assert str(error).endswith("%kimi help effort says more.")
    assert "how hard to think" in shown(note, "%kimi help effort")


def test_tab_offers_the_topics() -> None:
    found = complete_line("help s", len("help s"), {})
    assert found.matches == ("schema", "search", "settings")


def test_the_magics_question_mark_shows_the_same(note: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    overview = shown(note, "%kimi help")
    for line in ("%%kimi?", "%kimi?"):
        note.shell.run_cell(line)
        assert overview.strip() in capsys.readouterr().out


def test_ask_says_that_it_inserts_nothing() -> None:
    assert "no `{{ name }}` is inserted" in " ".join((Kimi.ask.__doc__ or "").split())


def test_the_docstring_of_ask_has_every_option_that_it_takes() -> None:
    said = Kimi.ask.__doc__ or ""
    names = {field.name for field in dataclasses.fields(Ask)} - {"content", "prompt", "compact"}
    for name in (*names, "images"):
        assert re.search(rf"\b{name}\b", said), name
