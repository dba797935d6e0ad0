"""Types as schemas: what goes out, and what is read from a reply."""

from __future__ import annotations

import enum
import json
import typing
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal

import dialect
import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from kimi_magic.errors import CutReplyError, InvalidReplyError, RefusedReplyError, SchemaError
from kimi_magic.tools import Schema
from kimi_magic.tools.dialect import in_dialect
from kimi_magic.wire import Message, TextBlock, Usage


class City(BaseModel):
    name: str
    pop: int | None = None


class Review(BaseModel):
    score: int = Field(ge=1, le=10)
    summary: str = Field(max_length=20)
    tags: list[str] = Field(min_length=2, max_length=3)
    when: date


@dataclass
class Point:
    x: float
    y: float = 0.0


class Row(typing.TypedDict):
    site: str
    low: typing.NotRequired[float]


class Label(enum.Enum):
    good = "good"
    bad = "bad"


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str]


class Owner(BaseModel):
    pet: Cat | Dog = Field(discriminator="kind")
    home: Point


Small = Annotated[int, Field(ge=1, le=3)]
PLAIN = {
    "title": "Sample",
    "type": "object",
    "properties": {"n": {"type": ["integer", "null"], "minimum": 3}, "ref": {"$ref": "#/$defs/Name"}},
    "required": ["n"],
    "$defs": {"Name": {"type": "string", "pattern": "^[A-Z]"}},
}

CASES: list[tuple[Any, str, Any]] = [
    (City, '{"name": "São Paulo", "pop": null}', City(name="São Paulo")),
    (list[City], '{"value": [{"name": "西安"}]}', [City(name="西安")]),
    (Point, '{"x": 1}', Point(1.0)),
    (list[Point], '{"value": [{"x": 1, "y": 2}]}', [Point(1.0, 2.0)]),
    (Row, '{"site": "k", "low": 1}', {"site": "k", "low": 1.0}),
    (list[Row], '{"value": [{"site": "k"}]}', [{"site": "k"}]),
    (dict[str, Row], '{"a": {"site": "k"}}', {"a": {"site": "k"}}),
    (Label, '{"value": "bad"}', Label.bad),
    (Literal["a", "b"], '{"value": "a"}', "a"),
    (City | Point, '{"value": {"x": 2}}', Point(2.0)),
    (int | None, '{"value": null}', None),
    (tuple[int, str], '{"value": [1, "a"]}', (1, "a")),
    (int, '{"value": 3}', 3),
    (bool, '{"value": true}', True),
    (str, '{"value": "x"}', "x"),
    (Small, '{"value": 3}', 3),
    (date, '{"value": "2026-11-30"}', date(2026, 11, 30)),
    (Owner, '{"pet": {"kind": "dog", "tricks": []}, "home": {"x": 0}}',
     Owner(pet=Dog(kind="dog", tricks=[]), home=Point(0.0))),
    (PLAIN, '{"n": 5, "ref": "Ab"}', {"n": 5, "ref": "Ab"}),
    ({"type": "array", "items": {"type": "integer"}}, '{"value": [1]}', [1]),
]  # fmt: skip
NAMES = [str(case[0]) for case in CASES]


@pytest.mark.parametrize(("kind", "text", "value"), CASES, ids=NAMES)
def test_a_type_goes_out_in_the_dialect_and_comes_back_as_its_value(kind: Any, text: str, value: Any) -> None:
    schema = Schema.of(kind)
    if kind != dict[str, Row]:  # whose keys are open
        dialect.check(schema.json)
    jsonschema.Draft202012Validator.check_schema(schema.json)
    jsonschema.validate(json.loads(text), schema.json)
    read = schema.read(text)
    assert read == value
    assert type(read) is type(value)
    assert json.dumps(Schema.of(kind).json) == json.dumps(schema.json)


@pytest.mark.parametrize(
    ("kind", "value", "rows"),
    [
        (list[City], [City(name="x")], [{"name": "x", "pop": None}]),
        (Point, Point(1.0), [{"x": 1.0, "y": 0.0}]),
        (list[Label], [Label.bad], [{"value": Label.bad}]),
        (PLAIN, {"n": 3}, [{"n": 3}]),
        (list[City], [], []),
    ],
)
def test_a_value_is_records_for_a_frame(kind: Any, value: Any, rows: list[dict[str, Any]]) -> None:
    assert Schema.of(kind).rows(value) == rows


def test_a_schema_stays_one() -> None:
    schema = Schema.of(City)
    assert Schema.of(schema) is schema


def test_limits_do_not_go_out_but_are_said_and_checked() -> None:
    schema = Schema.of(Review)
    assert schema.json["properties"]["score"] == {
        "type": "integer",
        "description": "(minimum: 1; maximum: 10)",
    }
    good = {"score": 9, "summary": "fine", "tags": ["a", "b"], "when": "2026-11-30"}
    assert schema.read(json.dumps(good)).score == 9
    for bad in ({"score": 99}, {"summary": "x" * 21}, {"tags": ["a"]}, {"when": "soon"}):
        with pytest.raises(InvalidReplyError, match=next(iter(bad))):
            schema.read(json.dumps(good | bad))


@pytest.mark.parametrize(("text", "words"), [('{"n": 1}', "minimum"), ('{"n": 4, "ref": "ab"}', "ref")])
def test_a_json_schema_is_checked_with_all_of_its_keywords(text: str, words: str) -> None:
    with pytest.raises(InvalidReplyError, match=words):
        Schema.of(PLAIN).read(text)


class Node(BaseModel):
    children: list[Node]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Node, "'Node' holds itself"),
        (list[Node], "'Node' holds itself"),
        ({"a": 1}, "no JSON Schema"),
        ({}, "no JSON Schema"),
        ({"type": "thing"}, "thing"),
        ({"type": "object", "properties": {"x": {"$ref": "#/$defs/Nope"}}}, "leads to nothing"),
        ({"type": "object", "properties": {"x": {"$ref": "#"}}}, "holds itself"),
        ({"type": "object", "properties": {"x": {"$ref": "http://x.test/s"}}}, "leads to nothing"),
        (3, "type int is no schema"),
        (None, "NoneType"),
        ("City", "type str is no schema"),
        (typing.IO, "cannot be written as JSON"),
    ],
)
def test_what_cannot_be_a_schema_is_said_in_one_line(kind: Any, words: str) -> None:
    with pytest.raises(SchemaError, match=words) as caught:
        Schema.of(kind)
    assert "\n" not in str(caught.value)


# --- what is no value ---------------------------------------------------------------------------


def message(text: str, stop_reason: str = "end_turn") -> Message:
    usage = Usage({"input_tokens": 3, "output_tokens": 5})
    return Message(content=(TextBlock.of(text),), stop_reason=stop_reason, usage=usage)


@pytest.mark.parametrize(
    ("text", "stop_reason", "error", "words"),
    [
        ('{"name": "Be', "max_tokens", CutReplyError, "max_tokens"),
        ('{"name": "Be', "model_context_window_exceeded", CutReplyError, "model_context_window_exceeded"),
        ("No.", "refusal", RefusedReplyError, "refused"),
        ('{"name": 1}', "end_turn", InvalidReplyError, "name: "),
        ("{}", "end_turn", InvalidReplyError, "name: Field required"),
        ('{"name": "x", "pop": NaN}', "end_turn", InvalidReplyError, "no JSON|not JSON"),
        ("Here you are", "end_turn", InvalidReplyError, "not JSON"),
        ("", "end_turn", InvalidReplyError, "not JSON"),
        ("[" * 100_000, "end_turn", InvalidReplyError, "nested too deeply|not JSON"),
    ],
)
def test_cut_refused_and_invalid_are_errors_of_their_own_with_text_and_usage(
    text: str, stop_reason: str, error: type[SchemaError], words: str
) -> None:
    reply = message(text, stop_reason)
    with pytest.raises(error, match=words) as caught:
        Schema.of(City).read(text, reply)
    assert caught.value.partial is reply
    assert "\n" not in str(caught.value)


def test_a_fence_around_the_json_does_no_harm() -> None:
    assert Schema.of(City).read('```json\n{"name": "x"}\n```\n') == City(name="x")


def test_what_should_be_wrapped_and_is_not_is_invalid() -> None:
    with pytest.raises(InvalidReplyError, match="'value'"):
        Schema.of(int).read("3")


# --- the dialect itself -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"const": "a", "title": "A"}, {"type": "string", "enum": ["a"]}),
        ({"enum": ["a", "b"]}, {"type": "string", "enum": ["a", "b"]}),
        (
            {"enum": [1, "a"]},
            {"anyOf": [{"type": "integer", "enum": [1]}, {"type": "string", "enum": ["a"]}]},
        ),
        ({"type": ["string", "null"]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ({"anyOf": [{}, {"type": "null"}], "default": 1}, {"default": 1}),
        ({"oneOf": [{"type": "string"}]}, {"type": "string"}),
        (
            {"type": "string", "anyOf": [{"enum": ["a"]}, {"minLength": 3}]},
            {
                "anyOf": [
                    {"type": "string", "enum": ["a"]},
                    {"type": "string", "description": "(minLength: 3)"},
                ]
            },
        ),
        (
            {"anyOf": [{"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": "null"}]},
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
        ),
        (
            {
                "allOf": [
                    {"properties": {"a": {"type": "string"}}, "required": ["a"]},
                    {"properties": {"b": {"type": "null"}}, "required": ["b"]},
                ]
            },
            {
                "type": "object",
                "properties": {"b": {"type": "null"}, "a": {"type": "string"}},
                "required": ["a", "b"],
                "additionalProperties": False,
            },
        ),
        ({"type": "object"}, {"type": "object", "additionalProperties": True}),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            {"type": "object", "additionalProperties": {"type": "integer"}},
        ),
        (True, {}),
    ],
)
def test_a_schema_is_written_in_the_dialect(schema: Any, written: dict[str, Any]) -> None:
    whole = in_dialect({"type": "object", "properties": {"x": schema}})
    made = whole["properties"]["x"]
    assert made == written or {**made, "required": sorted(made.get("required", []))} == written


def test_what_stands_beside_a_reference_stays_and_is_nearer() -> None:
    made = in_dialect(
        {
            "type": "object",
            "properties": {"x": {"$ref": "#/$defs/A", "description": "near", "default": "a"}},
            "$defs": {"A": {"type": "string", "description": "far"}},
        }
    )
    assert made["properties"]["x"] == {"type": "string", "description": "near", "default": "a"}


LEAVES = st.sampled_from(
    [
        {"type": "string", "minLength": 1},
        {"type": "integer", "maximum": 9},
        {"type": ["number", "null"]},
        {"const": 1},
        {"enum": ["a", None]},
        {"$ref": "#/$defs/D"},
        {"$ref": "#/$defs/D", "description": "d"},
        {},
    ]
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda a, b: {"anyOf": [a, b], "title": "T"}, inner, inner),
        st.builds(lambda a: {"type": "array", "items": a, "maxItems": 3}, inner),
        st.builds(lambda a, b: {"type": "object", "properties": {"a": a, "b": b}}, inner, inner),
        st.builds(lambda a: {"type": "object", "additionalProperties": a}, inner),
        st.builds(lambda a, b: {"type": "array", "prefixItems": [a, b]}, inner, inner),
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(SCHEMAS)
def test_any_schema_is_written_in_the_dialect_and_stays_so(schema: dict[str, Any]) -> None:
    root = {
        "type": "object",
        "properties": {"x": schema},
        "$defs": {"D": {"anyOf": [{"type": "boolean"}, {"type": "string", "format": "date"}]}},
    }
    written = in_dialect(root)
    dialect.check(written)
    jsonschema.Draft202012Validator.check_schema(written)
    assert in_dialect(written) == written
