"""The options of a cell. `data/options.toml` has a line and what it gives; a new case is a few lines."""

from __future__ import annotations

import contextlib
import dataclasses
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kimi_magic.counts import counted
from kimi_magic.errors import OptionError
from kimi_magic.magics.completion import KINDS, Completion, complete
from kimi_magic.magics.options import OPTIONS, CellOptions, describe_options
from kimi_magic.magics.reading import parse_cell, parse_line
from kimi_magic.magics.words import quote, read_word

CASES = tomllib.loads((Path(__file__).parent / "data" / "options.toml").read_text(encoding="utf-8"))["case"]


def set_options(options: CellOptions) -> dict[str, Any]:
    """The options that are not at their default."""
    given = {
        f.name: getattr(options, f.name)
        for f in dataclasses.fields(options)
        if getattr(options, f.name) != f.default
    }
    return {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}


@pytest.mark.parametrize("case", CASES, ids=[case["line"] or "empty" for case in CASES])
def test_a_line_reads_as_its_case_says(case: dict[str, Any]) -> None:
    if "error" in case:
        with pytest.raises(OptionError) as caught:
            parse_cell(case["line"])
        assert case["error"] in str(caught.value)
        assert "\n" not in str(caught.value)
        return
    options, rest = parse_line(case["line"])
    assert (set_options(options), rest) == (case.get("gives", {}), case.get("rest", ""))


@pytest.mark.parametrize("line", ["why is the sky blue?", "-e low why", "-- -e low", "x<<y"])
def test_a_prompt_on_the_line_of_a_cell_is_an_error_that_says_where_it_goes(line: str) -> None:
    with pytest.raises(
        OptionError, match=r"The prompt goes below the %%kimi line.*use %kimi with a single %"
    ):
        parse_cell(line)


@pytest.mark.parametrize("line", ["–effort low", "——new"])
def test_a_dash_that_is_no_hyphen_is_named(line: str) -> None:
    with pytest.raises(OptionError, match="begins with a dash"):
        parse_cell(line)


def test_a_long_prompt_on_the_line_is_shown_short() -> None:
    with pytest.raises(OptionError) as caught:
        parse_cell("word " * 1000)
    assert len(str(caught.value)) < 250


@settings(deadline=None)
@given(st.text())
@example('it\'s "{{ d["k"] }}" {{ a[\'\\\'] }}')
@example("{{{ x }}} {{")
def test_a_quoted_text_is_read_back_as_it_was(text: str) -> None:
    text = text.replace("\x00", "")
    word = read_word(f"  {quote(text)} more", 0)
    assert word is not None
    assert word.text == text
    assert parse_cell(f"--system={quote(text)}").system == text
    assert parse_cell(f"-s {quote(text)} --raw") == CellOptions(system=text, raw=True)


_VALUES = {
    "model": st.just("pro"),
    "effort": st.sampled_from(["low", "high"]),
    "max-tokens": st.integers(1, 1_048_576).map(str),
    "cache": st.sampled_from(["5m", "1h"]),
    "stop": st.text("ab \"'\\{", min_size=1, max_size=9),
    "out": st.from_regex(r"x[a-z]{0,3}", fullmatch=True),
    "tool-choice": st.sampled_from(["auto", "any", "none"]),
    "max-steps": st.integers(1, 99).map(str),
    "search": st.integers(1, 99).map(str),
    "replay": st.sampled_from(["off", "auto", "only"]),
}


@settings(deadline=None)
@given(st.data())
def test_options_in_any_order_and_form_read_the_same(data: st.DataObject) -> None:
    chosen = {
        option: data.draw(_VALUES.get(option.name, st.text(min_size=1).filter(str.strip)))
        for option in OPTIONS
        if option.metavar and data.draw(st.booleans())
    }
    long = parse_cell(" ".join(f"--{option.name}={quote(value)}" for option, value in chosen.items()))
    parts = []
    for option, value in chosen.items():
        flag = f"-{option.short}" if option.short else f"--{option.name}"
        parts.append(flag + data.draw(st.sampled_from([" ", "  ", "="])) + quote(value))
    assert parse_cell(" ".join(data.draw(st.permutations(parts)))) == long
    assert set(set_options(long)) >= {option.field for option in chosen if option.name != "system"}


@settings(deadline=None)
@given(st.text("-enso=cx< '\"\\{}ab1\u3000"))
def test_no_line_gives_anything_but_options_or_an_option_error(line: str) -> None:
    with contextlib.suppress(OptionError):
        parse_line(line)
    complete(line, len(line), {}, ())


@settings(deadline=None)
@given(st.text().filter(lambda text: not text.lstrip().startswith("-") and "<<" not in text))
def test_a_prompt_on_one_line_arrives_as_it_was_written(prompt: str) -> None:
    assert parse_line(f"-e low {prompt}")[1] == prompt.lstrip()


# --- the table, help and completion -------------------------------------------------------------


def test_every_option_of_the_table_is_in_the_help_with_its_forms() -> None:
    lines = describe_options().splitlines()
    for option in OPTIONS:
        (line,) = [line for line in lines if f" --{option.name} " in line]
        assert (f"-{option.short}," in line) == bool(option.short)
        assert option.metavar in line
    assert max(map(len, lines)) <= 100


def test_the_table_is_sound() -> None:
    shorts = [option.short for option in OPTIONS if option.short]
    assert len(shorts) == len(set(shorts))
    names = {option.name for option in OPTIONS}
    for option in OPTIONS:
        assert set(option.excludes) <= names
        assert option.names in ("", "conversation", *KINDS)
        for value in option.offers:
            option.read(value)


NAMES = {"persona": "You are …", "n": 3, "_hidden": "x", "poem": "…"}
LONG = tuple(f"--{option.name}" for option in OPTIONS)


@pytest.mark.parametrize(
    ("line", "start", "matches"),
    [
        ("", 0, LONG),
        ("-", 0, LONG),
        ("--ef", 0, ("--effort",)),
        ("-e low --e", 7, ()),
        ("--stop x --st", 9, ("--stop",)),
        ("answer << --n", 10, ("--new",)),
        ("--new --on", 6, ()),
        (
            "--once --",
            7,
            tuple(o for o in LONG if o not in ("--conversation", "--new", "--once", "--append")),
        ),
        ("-e ", 3, ("low", "high", "max")),
        ("-e h", 3, ("high",)),
        ("--effort=h", 9, ("high",)),
        ("--model k", 8, ("kimi-k3.1-pro", "kimi-k3.1-pro-highspeed")),
        ("--cache ", 8, ("5m", "1h")),
        ("-s ", 3, ("@persona", "@poem")),
        ("-s @po", 3, ("@poem",)),
        ("-c ", 3, ("main", '"side talk"')),
        ("-c m", 3, ("main",)),
        ("-s 'a ", 6, ()),
        ("hello --", 8, ()),
        ("-- --", 5, ()),
        ("--nope --", 9, ()),
    ],
)
def test_tab_offers_what_can_stand_there(line: str, start: int, matches: tuple[str, ...]) -> None:
    assert complete(line, len(line), NAMES, ["main", "side talk"]) == Completion(start, matches)


def test_tab_looks_only_at_what_stands_before_the_cursor() -> None:
    assert complete("--ef --new", 4, {}).matches == ("--effort",)


# --- counts -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "noun", "plural", "said"),
    [
        (0, "turn", "", "0 turns"),
        (1, "turn", "", "1 turn"),
        (2_000, "turn", "", "2,000 turns"),
        (1, "reply", "replies", "1 reply"),
        (2, "reply", "replies", "2 replies"),
    ],
)
def test_a_number_stands_with_its_noun(number: int, noun: str, plural: str, said: str) -> None:
    assert counted(number, noun, plural) == said
