"""Functions as tools: the schema that goes out, the call that comes in, the result that goes back."""

from __future__ import annotations

import asyncio
import enum
import functools
import inspect
import json
import sys
import threading
import tomllib
import typing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import dialect
import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from kimi_magic.errors import ToolError
from kimi_magic.tools import BUDGET, Outcome, Tool, as_content, docstrings, function_tools
from kimi_magic.wire import Block, Request, TextBlock, ToolUseBlock, user

DOCSTRINGS = tomllib.loads((Path(__file__).parent / "data" / "docstrings.toml").read_text("utf-8"))["case"]


def write(value: object, budget: int) -> tuple[list[str | Block], str]:
    """How a value is written here: by `str`, and a refusal for lists and bytes."""
    if isinstance(value, (list, bytes)):
        raise TypeError("not here")
    return [str(value)], ""


def use(name: str = "f", raw: str | None = None, **arguments: Any) -> ToolUseBlock:
    return ToolUseBlock({"type": "tool_use", "id": "t1", "name": name, "input": arguments}, raw)


def call(function: Callable[..., Any], /, **arguments: Any) -> Outcome:
    return Tool.of(function, name="f").call(use(**arguments), write)


def said(outcome: Outcome) -> str:
    """All of its text."""
    return "\n".join(block.text for block in outcome.content if isinstance(block, TextBlock))


# --- the schema ---------------------------------------------------------------------------------


class Seat(enum.Enum):
    A = "A"
    B = "B"


class Place(BaseModel):
    """A place."""

    name: str = Field(description="its name", max_length=20)
    tags: tuple[int, str] | None = None


@dataclass
class Point:
    x: float
    y: float = 0.0


class Options(typing.TypedDict, total=False):
    site: typing.Required[str]
    low: float


def book(
    seat: Annotated[Seat, Field(description="座位")] = Seat.A,
    at: Place | None = None,
    options: Options | None = None,
    where: Point | int = 1,
    kind: Literal["a", 1, None] = "a",
    anything: Any = None,
    maybe_anything: typing.Optional[Any] = None,  # noqa: UP045 - as people write it
    many: dict[str, list[int]] = {},  # noqa: B006 - as people write it
    *,
    json: Annotated[int, "how many"] = 2,
    _x: bool = False,
) -> str:
    """Book a seat.

    Args:
        at: where it is
    """
    return "booked"


def test_a_schema_is_in_the_dialect_of_the_server_and_a_valid_schema() -> None:
    tool = Tool.of(book)
    dialect.check(tool.input_schema)
    jsonschema.Draft202012Validator.check_schema(tool.input_schema)
    Request(messages=(user("?"),), tools=(tool.to_json(),)).check()


def test_descriptions_and_defaults_of_a_parameter_survive() -> None:
    properties = Tool.of(book).input_schema["properties"]
    assert properties["seat"] == {"description": "座位", "default": "A", "type": "string", "enum": ["A", "B"]}
    assert properties["at"]["description"] == "where it is"
    assert properties["json"] == {"description": "how many", "default": 2, "type": "integer"}
    assert properties["_x"] == {"default": False, "type": "boolean"}
    assert properties["at"]["anyOf"][0]["properties"]["name"]["description"] == "its name (maxLength: 20)"
    assert properties["maybe_anything"] == {"default": None}


def test_a_tool_has_the_functions_name_and_words_and_the_same_bytes_each_time() -> None:
    tool = Tool.of(book)
    assert (tool.name, tool.description) == ("book", "Book a seat.")
    assert json.dumps(tool.to_json()) == json.dumps(Tool.of(book).to_json())


def test_what_must_be_given_is_required_and_a_default_gives_a_type() -> None:
    def f(site, limit=10, *rest, wanted: str, **more):  # type: ignore[no-untyped-def]
        return site

    schema = Tool.of(f).input_schema
    assert schema["required"] == ["site", "wanted"]
    assert schema["properties"] == {
        "site": {},
        "limit": {"default": 10, "type": "integer"},
        "wanted": {"type": "string"},
    }


def test_a_function_without_parameters_has_a_closed_empty_object() -> None:
    assert Tool.of(lambda: 1, name="now").input_schema == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }


def test_what_a_typed_dict_needs_is_required() -> None:
    first, nothing = Tool.of(book).input_schema["properties"]["options"]["anyOf"]
    assert nothing == {"type": "null"}
    assert first["required"] == ["site"]
    assert set(first["properties"]) == {"site", "low"}


def test_a_default_that_json_cannot_write_is_left_out() -> None:
    def f(x: Any = object()) -> None:  # noqa: B008 - as people write it
        pass

    assert Tool.of(f).input_schema["properties"] == {"x": {}}


class Node(BaseModel):
    children: list[Node]


def grows(node: Node) -> None: ...


def takes_a_lock(lock: threading.Event) -> None: ...


def takes_nothing_known(x: "Unknown") -> None: ...  # type: ignore[name-defined]  # noqa: F821, UP037 - a slip


def 查询() -> None: ...  # noqa: N802 - a name that Python takes and the server does not


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (grows, "'Node' holds itself"),
        (takes_a_lock, "parameter 'lock'"),
        (takes_nothing_known, "'Unknown' is not defined"),
        (lambda: 1, "cannot be called '<lambda>'"),
        (查询, "ASCII letters"),
        (functools.partial(book), "cannot be called ''"),
        (3, "type int is no function"),
    ],
)
def test_what_cannot_be_a_tool_is_said_in_one_line_when_it_is_made(function: Any, words: str) -> None:
    with pytest.raises(ToolError, match=words) as caught:
        Tool.of(function)
    assert "\n" not in str(caught.value)


def test_methods_partials_and_callable_objects_are_tools() -> None:
    class Shop:
        def price(self, item: str) -> str:
            return f"price of {item}"

        def __call__(self, item: str) -> str:
            return f"sold {item}"

    assert said(call(Shop().price, item="tea")) == "price of tea"
    assert said(call(Shop(), item="tea")) == "sold tea"
    assert said(call(functools.partial(Shop().price, "tea"))) == "price of tea"


def test_tools_are_listed_by_name_and_two_of_one_name_are_refused() -> None:
    listed = function_tools([Tool.of(book, name="z"), book, Tool.of(book, name="a"), book])
    assert [tool.name for tool in listed] == ["a", "book", "z"]
    with pytest.raises(ToolError, match="Two tools are called 'book'"):
        function_tools([book, Tool.of(lambda: 1, name="book")])


def test_a_tool_made_by_hand_gets_its_arguments_as_they_came() -> None:
    tool = Tool(lambda **given: given["x"], "f", "", {"type": "object"})
    assert said(tool.call(use(x="5"), write)) == "5"
    assert said(tool.call(use(y=1), write)) == "KeyError: 'x'"


@pytest.mark.parametrize("case", DOCSTRINGS, ids=[case["name"] for case in DOCSTRINGS])
def test_a_docstring_says_of_function_and_parameters_what_its_case_says(case: dict[str, Any]) -> None:
    assert docstrings.read(inspect.cleandoc(case["text"])) == (case["description"], case["parameters"])


# --- the call -----------------------------------------------------------------------------------


def test_arguments_are_validated_and_coerced() -> None:
    got: list[Any] = []

    def f(n: int, at: Place, options: Options, seat: Seat = Seat.B) -> str:
        got.extend([n, at, options, seat])
        return "ok"

    assert said(call(f, n="5", at={"name": "x", "tags": [1, "a"]}, options={"site": "k"})) == "ok"
    assert got == [5, Place(name="x", tags=(1, "a")), {"site": "k"}, Seat.B]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"n": "five"}, "n: "), ({}, "n: Field required"), ({"n": 1, "zz": 2}, "zz: ")],
)
def test_wrong_arguments_become_a_result_that_names_them(arguments: dict[str, Any], words: str) -> None:
    def f(n: int) -> int:
        raise AssertionError("it is not called")

    outcome = call(f, **arguments)
    assert outcome.is_error
    assert words in said(outcome)


def test_positional_parameters_and_none_as_a_default_are_understood() -> None:
    def f(a: int, /, b: int = None) -> str:  # type: ignore[assignment]  # noqa: RUF013 - as people write it
        return f"{a} {b}"

    assert said(call(f, a=1, b=None)) == "1 None"


def test_arguments_that_are_no_json_are_quoted_in_the_result() -> None:
    outcome = Tool.of(lambda: 1, name="f").call(use(raw='{"a": [1, 2'), write)
    assert outcome.is_error
    assert '{"a": [1, 2' in said(outcome)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError(), "ValueError"),
        (ValueError("  "), "ValueError"),
        (KeyError("k"), "KeyError: 'k'"),
        (SystemExit(3), "SystemExit: 3"),
        (asyncio.CancelledError(), "CancelledError"),
        (RecursionError("deep"), "RecursionError: deep"),
        (ValueError("half \ud83d"), "ValueError: half \ufffd"),
    ],
)
def test_an_exception_becomes_a_result_that_is_never_blank(error: BaseException, words: str) -> None:
    def f() -> None:
        raise error

    assert call(f) == Outcome((TextBlock.of(words),), is_error=True)


def test_an_interrupt_gets_through() -> None:
    def f() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call(f)


def test_async_functions_are_awaited_even_where_a_loop_runs() -> None:
    async def f(n: int) -> int:
        await asyncio.sleep(0)
        return n + 1

    async def caller() -> Outcome:
        return call(f, n=1)

    assert said(asyncio.run(caller())) == "2"
    assert said(call(lambda: f(2))) == "3"  # a plain function that gives a coroutine


@pytest.mark.parametrize("is_async", [False, True])
def test_a_call_beyond_its_time_is_given_up(is_async: bool) -> None:
    never, cancelled = threading.Event(), threading.Event()

    async def sleeps() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    outcome = Tool.of(sleeps if is_async else never.wait, name="f", timeout=0.1).call(use(), write)
    assert outcome.is_error
    assert "longer than 0.1 s" in said(outcome)
    never.set()
    assert not is_async or cancelled.wait(5)


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_a_limit_is_a_number_of_seconds(timeout: float) -> None:
    with pytest.raises(ToolError, match="timeout"):
        Tool.of(lambda: 1, name="f", timeout=timeout)


# --- what it prints -----------------------------------------------------------------------------


def test_what_a_function_prints_is_part_of_its_result_and_not_of_the_cell(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def f() -> int:
        print("to out")
        print("to err", file=sys.stderr)
        return 3

    assert said(call(f)) == "3\nPrinted:\nto out\nto err"
    assert capsys.readouterr() == ("", "")


def test_what_it_printed_before_it_failed_is_kept() -> None:
    def f() -> None:
        print("so far")
        raise ValueError("broken")

    outcome = call(f)
    assert (outcome.is_error, said(outcome)) == (True, "ValueError: broken\nPrinted:\nso far")


def test_what_other_threads_print_meanwhile_goes_where_it_belongs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    begun, printed = threading.Event(), threading.Event()

    def other() -> None:
        begun.wait()
        print("from elsewhere")
        printed.set()

    def f() -> str:
        begun.set()
        printed.wait()
        return "done"

    thread = threading.Thread(target=other)
    thread.start()
    assert said(call(f)) == "done"
    thread.join()
    assert capsys.readouterr().out == "from elsewhere\n"


def test_stdout_is_what_it_was_when_calls_that_overlapped_have_ended() -> None:
    before = sys.stdout
    first_runs, second_ends = threading.Event(), threading.Event()

    def first() -> None:
        first_runs.set()
        second_ends.wait()
        print("first")

    results: list[str] = []
    thread = threading.Thread(target=lambda: results.append(said(call(first))))
    thread.start()
    first_runs.wait()
    results.append(said(call(lambda: print("second"))))
    second_ends.set()
    thread.join()
    assert results == ["None\nPrinted:\nsecond", "None\nPrinted:\nfirst"]
    assert sys.stdout is before


# --- results ------------------------------------------------------------------------------------


def content(value: object, budget: int = BUDGET) -> tuple[tuple[Block, ...], str]:
    return as_content(value, write, budget)


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    __str__ = __repr__


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (float("nan"), "nan"),
        ("", "(an empty text)"),
        (" \n", "(an empty text)"),
        ([1, 2], "[1, 2]"),
        ("深圳🚀".encode(), "深圳🚀"),
        ("half \ud83d", "half \ufffd"),
        (b"\xff\x00", "2 bytes that are no text: b'\\xff\\x00' (not here)"),
        (Broken(), "a value of type Broken that cannot be written (RuntimeError)"),
    ],
)
def test_every_value_becomes_text_that_is_not_blank(value: object, text: str) -> None:
    assert content(value) == ((TextBlock.of(text),), "")


def test_a_huge_text_keeps_head_and_tail_and_says_what_is_missing() -> None:
    lines = [f"行{n}：值🙂" for n in range(200_000)]
    (block,), note = content("\n".join([*lines, "合计：42"]))
    assert isinstance(block, TextBlock)
    assert len(block.text) <= BUDGET + 100
    shown = block.text.split("\n")
    assert shown[0] == "行0：值🙂"
    assert shown[-1] == "合计：42"
    (mark,) = set(shown) - {*lines, "合计：42"}
    assert "characters left out here" in mark
    assert note.endswith("characters left out")
    assert note.removesuffix(" left out") in mark


@settings(deadline=None)
@given(st.lists(st.sampled_from(["a", "e\u0301", "👩\u200d💻", "👍🏽", "☀\ufe0f", "\n", "值"]), max_size=200))
def test_a_cut_is_never_inside_a_character(characters: list[str]) -> None:
    (block,), note = content("".join(["x", *characters, "x"]), 60)
    assert isinstance(block, TextBlock)
    if not note:
        return
    head, _, tail = block.text.partition("[… ")
    tail = tail.partition(" …]\n")[2]
    known = {"x", "a", "e\u0301", "👩\u200d💻", "👍🏽", "☀\ufe0f", "\n", "值"}
    for part in (head, tail):
        while part:
            first = max((c for c in known if part.startswith(c)), key=len, default=None)
            assert first is not None
            part = part[len(first) :]
    assert tail.endswith("x")


def test_an_outcome_is_one_text_or_blocks_with_the_calls_id() -> None:
    text = Outcome((TextBlock.of("3"),), is_error=True).block(use())
    assert text.json == {"type": "tool_result", "tool_use_id": "t1", "content": "3", "is_error": True}
    two = Outcome((TextBlock.of("3"), TextBlock.of("4"))).block(use())
    assert two.json == {
        "type": "tool_result",
        "tool_use_id": "t1",
        "content": [{"type": "text", "text": "3"}, {"type": "text", "text": "4"}],
    }
