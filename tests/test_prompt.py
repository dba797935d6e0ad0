"""Prompts with the notebook in them. `data/prompt.toml` has templates and what becomes of them."""

from __future__ import annotations

import base64
import contextlib
import csv
import dataclasses
import enum
import io
import json
import math
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from collections import deque, namedtuple
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any

import matplotlib.figure
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from kimi_magic.api import Kimi
from kimi_magic.config import KimiMagic
from kimi_magic.errors import PromptError
from kimi_magic.prompt import BUDGET, Part, Prompt, expand, expand_text, overlooked
from kimi_magic.wire import ImageBlock, Message, TextBlock

CASES = tomllib.loads((Path(__file__).parent / "data" / "prompt.toml").read_text(encoding="utf-8"))


@dataclasses.dataclass
class Holder:
    user: str
    password: str = dataclasses.field(default="hunter2", repr=False)


@dataclasses.dataclass
class Own:
    text: str

    def __str__(self) -> str:
        return self.text


class Opaque:
    token = "T"
    _hidden = "H"


class Spoken:
    def __str__(self) -> str:
        return "a spoken thing"


class Shown:
    def __repr__(self) -> str:
        return "Shown(1)"


class Unwritable:
    def __repr__(self) -> str:
        raise RuntimeError("no\nway")


class Failing:
    @property
    def value(self) -> int:
        raise RuntimeError("broken")


class Color(enum.Enum):
    RED = 1


Point = namedtuple("Point", "x y")


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def itself() -> list[Any]:
    value: list[Any] = [1]
    value.append(value)
    return value


def numbers() -> Iterator[int]:
    yield 1


NAMES: dict[str, object] = {
    "x": 3.14159,
    "n": 1234567,
    "z": 1 + 2j,
    "名": "值",
    "name": "Ada",
    "nothing": None,
    "yes": True,
    "nan": math.nan,
    "empty": "",
    "half": "a\ud83db",
    "pair": "\ud83d\ude42",
    "template": "{{ name }} {name} {{ secret }}",
    "secret": "never",
    "row": (1, 2.5, "c"),
    "d": {"first name": "Grace", 1: ["one"], 1.5: "half", "}}": "braces", "a]:b": "odd", (1, "x"): "pair"},
    "point": Point(1, 2),
    "when": datetime(2026, 2, 3, 14, 5),
    "path": PurePosixPath("data/a.csv"),
    "price": Decimal("1.10"),
    "color": Color.RED,
    "tags": {"c", "a", "b"},
    "records": [{"site": "北", "n": 1, "ok": True}, {"site": None, "n": 2.5, "ok": False}],
    "mixed": {"when": datetime(2026, 2, 3, 14, 5), 3: b"ab", "o": Opaque(), "t": (1,), "e": []},
    "queue": deque([1, 2]),
    "loop": itself(),
    "deep": nested(5000),
    "error": ValueError("no such site"),
    "opaque": Opaque(),
    "u": Opaque(),
    "spoken": Spoken(),
    "shown": Shown(),
    "own": Own("as I say"),
    "unwritable": Unwritable(),
    "failing": Failing(),
    "secret_holder": Holder("ada"),
    "reply": Message(content=(TextBlock.of("The reply."),)),
    "raw": b"\x89PNG",
    "os": os,
    "function": textwrap.dedent,
    "numbers": numbers(),
    "In": ["", "x + 1"],
    "Out": {1: 4.14159},
    "_": "last",
}


# --- the language -------------------------------------------------------------------------------


@pytest.mark.parametrize("template", CASES["text"])
def test_braces_that_are_no_expression_go_out_as_written(template: str) -> None:
    assert expand(template, NAMES).blocks == (TextBlock.of(template),)


@pytest.mark.parametrize(("template", "said"), CASES["doubtful"])
def test_what_was_perhaps_meant_as_an_expression_is_found(template: str, said: str) -> None:
    assert overlooked(template, NAMES) == [said]
    assert said in expand(template, NAMES).text


def test_text_that_names_nothing_of_the_notebook_is_not_spoken_of() -> None:
    templates = [*CASES["text"], *(case[0] for case in CASES["values"] + CASES["refused"])]
    spoken_of = {template for template in templates if overlooked(template, NAMES)}
    assert spoken_of == {"{{ -x }}", "{{ (x) }}", "{{ [x] }}", "{{x", "{{ x }"}
    assert not any(overlooked(template, {}) for template in templates)


@settings(deadline=None)
@given(st.text("{} x*(2:'\"\n"))
def test_any_text_can_be_looked_at(template: str) -> None:
    for found in overlooked(template, {"x": 1}):
        assert found in template


@pytest.mark.parametrize(("template", "text"), CASES["values"])
def test_an_expression_becomes_its_value(template: str, text: str) -> None:
    assert expand(template, NAMES).text == text


@pytest.mark.parametrize(("template", "message"), CASES["refused"])
def test_what_cannot_be_inserted_stops_with_one_line_that_points_at_it(template: str, message: str) -> None:
    with pytest.raises(PromptError) as caught:
        expand(template, NAMES)
    assert message in str(caught.value)
    assert "in line" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("template", [case[0] for case in CASES["values"] + CASES["refused"]])
def test_raw_sends_every_template_as_written(template: str) -> None:
    assert expand(template, NAMES, raw=True).blocks == (TextBlock.of(template),)


def test_no_refusal_shows_what_it_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIMI_TEST_CANARY", "canary-7788")
    for template, _ in CASES["refused"]:
        with pytest.raises(PromptError) as caught:
            expand(template, NAMES)
        assert "canary-7788" not in str(caught.value)


@settings(deadline=None)
@given(st.text().filter(lambda text: "{{" not in text))
def test_a_template_without_double_braces_is_sent_unchanged(template: str) -> None:
    assert expand(template, {}).text == template


@settings(deadline=None)
@given(st.text("{}x y\"'\\:.[]()!#0\n"))
def test_any_braces_give_text_or_a_prompt_error(template: str) -> None:
    with contextlib.suppress(PromptError):
        prompt = expand(template, {"x": "X"})
        assert len(prompt.text) == sum(part.characters for part in prompt.parts)


@settings(deadline=None)
@given(st.lists(st.tuples(st.text("ab {}\n"), st.text('{}x "')), max_size=6))
def test_a_value_is_never_expanded_again(pieces: list[tuple[str, str]]) -> None:
    names = {f"v{n}": value for n, (_, value) in enumerate(pieces)}
    before = [text.replace("{", "(").replace("}", ")") for text, _ in pieces]
    template = "".join(f"{text}{{{{ v{n} }}}}" for n, text in enumerate(before))
    assert expand(template, names | {"x": "AGAIN"}).text == "".join(
        text + value for text, (_, value) in zip(before, pieces, strict=True)
    )


@pytest.mark.parametrize(
    "template",
    [
        "{{ a " * 100_000,
        "{" * 200_000,
        "{{ a'" * 100_000,
        '{{"' * 100_000,
        "{{ n }}" * 20_000,
        "{{ a" + ".b" * 50_000,
    ],
)
def test_a_huge_template_is_no_trouble(template: str) -> None:
    assert expand(template, {"n": "{{ n }}"}).text == template


@pytest.mark.parametrize(
    "inside", ["x" + "(" * 500, "not " * 50_000 + "x", "x " + "if x else x " * 50_000, "x" + ".a" * 50_000]
)
def test_an_expression_that_no_parser_takes_is_text_or_an_error(inside: str) -> None:
    try:
        assert expand(f"{{{{ {inside} }}}}", {"x": 1}).text == f"{{{{ {inside} }}}}"
    except PromptError as error:
        assert len(str(error)) < 500  # noqa: PT017 - either is right


# --- blocks and parts ---------------------------------------------------------------------------


def figure() -> matplotlib.figure.Figure:
    made = matplotlib.figure.Figure(figsize=(1, 1))
    made.subplots().plot([1, 2])
    return made


def image_of(block: object) -> Image.Image:
    assert isinstance(block, ImageBlock)
    assert block.source["media_type"] == "image/png"
    return Image.open(io.BytesIO(base64.b64decode(block.source["data"])))


def test_images_stand_at_their_place_between_the_text() -> None:
    prompt = expand(
        "{{ fig }}Look: {{ n }} {{ im }}{{ im }} end",
        {"fig": figure(), "im": Image.new("RGB", (3, 2)), "n": 1},
    )
    assert [block.type for block in prompt.blocks] == ["image", "text", "image", "image", "text"]
    assert [block.text for block in prompt.blocks if isinstance(block, TextBlock)] == ["Look: 1 ", " end"]
    assert image_of(prompt.blocks[0]).size == (100, 100)
    assert image_of(prompt.blocks[2]).size == (3, 2)


def test_the_parts_say_what_goes_out() -> None:
    prompt = expand("Why {{ xs }}\n{{ fig }}", {"xs": list(range(50)), "fig": figure()}, budget=60)
    assert prompt.parts == (
        Part("", "text", 4, 0, ""),
        Part(
            "xs",
            "list",
            len(prompt.text) - 5,
            0,
            "33 items left out, the first 12 and the last 5 of 50 shown",
        ),
        Part("", "text", 1, 0, ""),
        Part("fig", "Figure", 0, 1, ""),
    )


def test_nothing_gives_no_blocks() -> None:
    assert expand("", {}) == Prompt((), ())
    assert expand("{{ empty }}", NAMES).blocks == ()


def test_an_option_takes_text_by_the_same_rule_and_no_image() -> None:
    assert expand_text("Help {{ name }}", NAMES) == "Help Ada"
    assert expand_text("Help {{ name }}", NAMES, raw=True) == "Help {{ name }}"
    with pytest.raises(PromptError, match=r"\{\{ fig \}\} is an image"):
        expand_text("{{ fig }}", {"fig": figure()})


@pytest.mark.parametrize(
    "mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "F", "I", "I;16"]
)
def test_an_image_of_any_mode_goes_out_as_png(mode: str) -> None:
    assert image_of(expand("{{ im }}", {"im": Image.new(mode, (4, 3))}).blocks[0]).size == (4, 3)


def test_a_photo_goes_out_upright() -> None:
    photo = Image.new("RGB", (4, 2))
    photo.getexif()[0x0112] = 6
    upright = image_of(expand("{{ im }}", {"im": photo}).blocks[0])
    assert upright.size == (2, 4)
    assert 0x0112 not in upright.getexif()


def test_of_an_animation_one_frame_goes_out_and_the_part_says_so() -> None:
    out = io.BytesIO()
    frames = [Image.new("L", (2, 2), shade) for shade in (0, 128, 255)]
    frames[0].save(out, format="gif", save_all=True, append_images=frames[1:])
    prompt = expand("{{ im }}", {"im": Image.open(out)})
    assert prompt.parts[0].note == "one of 3 frames"


def test_axes_stand_for_their_figure_and_a_list_of_figures_for_each() -> None:
    one = figure()
    prompt = expand("{{ axes }}{{ both }}", {"axes": one.axes[0], "both": [one, one]})
    assert [block.type for block in prompt.blocks] == ["image"] * 3


def test_an_image_inside_other_data_is_refused() -> None:
    with pytest.raises(PromptError, match=r"it holds a Figure.*Insert the image by its own"):
        expand("{{ d }}", {"d": {"fig": figure()}})


@pytest.mark.parametrize("module", ["pandas", "numpy", "matplotlib", "PIL", "polars", "pydantic"])
def test_no_library_is_imported_for_a_prompt_without_its_values(module: str) -> None:
    code = (
        "import sys; from kimi_magic.prompt import expand; expand('{{ x }}', {'x': [1]});"
        f"sys.exit({module!r} in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- lines of their own -------------------------------------------------------------------------

TABLE = "| a |\n| ---: |\n| 1 |"
APART: list[tuple[str, str]] = [
    ("Describe {{ df }} please", f"Describe \n\n{TABLE}\n\n please"),
    ("Describe {{ df }}", f"Describe \n\n{TABLE}"),
    ("{{ df }} shows what?", f"{TABLE}\n\n shows what?"),
    ("One\n{{ df }}\nTwo", f"One\n{TABLE}\nTwo"),
    ("One\n  {{ df }}\t\r\nTwo", f"One\n  {TABLE}\t\r\nTwo"),
    ("{{ df }}", TABLE),
    ("{{ df }}{{ df }}", f"{TABLE}\n\n{TABLE}"),
    ("A {{ df }} and {{ df }}.", f"A \n\n{TABLE}\n\n and \n\n{TABLE}\n\n."),
    ("{{ n }} {{ df }} {{ n }}", f"5 \n\n{TABLE}\n\n 5"),
    ("- {{ df }}\n- b", f"- \n\n{TABLE}\n- b"),
    ("```\n{{ df }}\n```", f"```\n{TABLE}\n```"),
    ("Say {{ poem }} twice", "Say one\ntwo twice"),
    ("Say {{ reply }} twice", "Say one\n\ntwo twice"),
    ("In {{ short }} there", "In [1, 2] there"),
    ("In {{ df.shape }} there", "In (1, 1) there"),
]


@pytest.mark.parametrize(("template", "text"), APART, ids=range(len(APART)))
def test_a_table_in_the_middle_of_a_line_gets_lines_of_its_own(template: str, text: str) -> None:
    names = {
        "df": pd.DataFrame({"a": [1]}),
        "n": 5,
        "poem": "one\ntwo",
        "reply": Message(content=(TextBlock.of("one\n\ntwo"),)),
        "short": [1, 2],
    }
    prompt = expand(template, names)
    assert prompt.text == text
    assert sum(part.characters for part in prompt.parts) == len(text)


def test_a_listing_and_a_traceback_get_lines_of_their_own_too() -> None:
    listing = expand("In {{ x }} there", {"x": [{"k": "x" * 60}, {"k": "y" * 60}]}).text
    assert listing.startswith("In \n\n[\n")
    assert listing.endswith("\n]\n\n there")
    frame = expand("See {{ df }}.", {"df": pd.DataFrame({"a": range(5000)})}, budget=100).text
    assert frame.startswith("See \n\nDataFrame of 5,000 rows")
    assert frame.endswith("\n\n.")


def test_a_figure_between_words_stays_at_its_place() -> None:
    prompt = expand("See {{ fig }} and {{ df }}", {"fig": figure(), "df": pd.DataFrame({"a": [1]})})
    assert [b.text for b in prompt.blocks if isinstance(b, TextBlock)] == ["See ", f" and \n\n{TABLE}"]


def test_a_reply_that_was_kept_goes_out_as_its_text() -> None:
    kimi = Kimi(KimiMagic(store="off", simulator="always", simulator_speed=0))
    answer = kimi.ask("Hello", once=True)
    kimi.close()
    assert len(answer.text) > 20
    assert expand("So: {{ answer }}!", {"answer": answer}).text == f"So: {answer.text}!"
    assert expand("{{ answer.text }}", {"answer": answer}).text == answer.text


# --- frames, arrays, containers -----------------------------------------------------------------


def text_of(value: object, budget: int = BUDGET) -> str:
    return expand("{{ v }}", {"v": value}, budget=budget).text


def note_of(value: object, budget: int = BUDGET) -> str:
    return expand("{{ v }}", {"v": value}, budget=budget).parts[0].note


@pytest.fixture
def wide_frame() -> pd.DataFrame:
    """200 rows × 30 columns with markers, one long Chinese cell (case M08)."""
    frame = pd.DataFrame({f"c{k}": [f"r{n}c{k}" for n in range(200)] for k in range(30)})
    frame.loc[100, "c15"] = "深" * 499 + "尾"
    return frame


def test_a_frame_within_the_budget_goes_out_whole(wide_frame: pd.DataFrame) -> None:
    text = text_of(wide_frame)
    assert len(text.splitlines()) == 201
    assert "r100c14" in text
    assert "深" * 499 + "尾" in text
    assert "..." not in text
    assert pd.read_csv(io.StringIO(text)).equals(wide_frame)


def test_a_frame_beyond_the_budget_says_what_was_left_out(wide_frame: pd.DataFrame) -> None:
    text = text_of(wide_frame, 10_000)
    first, types, header, *rows = text.splitlines()
    assert (
        first == "DataFrame of 200 rows × 30 columns; 152 rows left out, the first 34 and the last 14 shown"
    )
    assert re.match(r"Columns: c0 \((str|object)\), c1 \(", types)
    assert header.split(",") == list(wide_frame.columns)
    assert rows[34] == "[152 rows left out here]"
    assert (rows[0].split(",")[0], rows[33].split(",")[0]) == ("r0c0", "r33c0")
    assert (rows[35].split(",")[0], rows[-1].split(",")[0]) == ("r186c0", "r199c0")
    assert note_of(wide_frame, 10_000) in first


def test_a_frame_with_very_many_columns_loses_columns_and_says_so() -> None:
    frame = pd.DataFrame(np.arange(15_000).reshape(3, 5000), columns=[f"c{k}" for k in range(5000)])
    text = text_of(frame, 2000)
    assert re.match(
        r"DataFrame of 3 rows × 5,000 columns; 4,9\d\d columns left out, the first \d+ and the last \d+ ",
        text,
    )
    assert "c4999" in text
    assert len(text) < 2000


def test_only_a_cell_longer_than_a_quarter_of_the_budget_is_cut() -> None:
    frame = pd.DataFrame({"a": ["x" * 249, "y" * 600], "b": [1, 2]})
    text = text_of(frame, 1000)
    assert "x" * 249 in text
    assert "y" * 167 + "[350 of 600 characters left out here]" + "y" * 83 in text
    assert text.startswith("DataFrame of 2 rows × 2 columns; long cells are cut where marked\n")


FRAMES: list[tuple[object, str]] = [
    (pd.DataFrame({"a": [1, 2], "b": ["x", None]}), "| a | b |\n| ---: | --- |\n| 1 | x |\n| 2 | NaN |"),
    (pd.DataFrame({"a": [0.1, math.nan], "t": [pd.Timestamp("2026-01-01"), pd.NaT]}),
     "| a | t |\n| ---: | --- |\n| 0.1 | 2026-01-01 00:00:00 |\n| NaN | NaN |"),
    (pd.DataFrame({"a": np.array([0.1], dtype="f4"), "i": pd.array([None], dtype="Int64")}),
     "| a | i |\n| ---: | ---: |\n| 0.1 | NaN |"),
    (pd.DataFrame([[1, 2]], columns=["a", "a"]), "| a | a |\n| ---: | ---: |\n| 1 | 2 |"),
    (pd.DataFrame({"a": [1]}, index=pd.Index(["north"], name="site")),
     "| site | a |\n| --- | ---: |\n| north | 1 |"),
    (pd.DataFrame({"a": range(9)})[7:], "| index | a |\n| ---: | ---: |\n| 7 | 7 |\n| 8 | 8 |"),
    (pd.DataFrame({"a": [1]}, index=pd.MultiIndex.from_tuples([("n", 2026)], names=["site", None])),
     "| site | level_1 | a |\n| --- | ---: | ---: |\n| n | 2026 | 1 |"),
    (pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "mean"), ("b", "")])),
     "| a / mean | b |\n| ---: | ---: |\n| 1 | 2 |"),
    (pd.DataFrame({"a": ["x|y", 'say "hi", you'], "b": ["1\n2", ""]}), 'a,b\nx|y,"1\n2"\n"say ""hi"", you",'),
    (pd.DataFrame({"a": [[1, 2]], "b": [np.arange(3)]}), "| a | b |\n| --- | --- |\n| [1, 2] | [0, 1, 2] |"),
    (pd.DataFrame({"a": pd.array([], dtype="Int64")}),
     "DataFrame of 0 rows × 1 column\nColumns: a (Int64)\na"),
    (pd.Series([1, 2], name="k"), "| k |\n| ---: |\n| 1 |\n| 2 |"),
    (pd.Series({"n": 1, "s": 2}), "| index | value |\n| --- | ---: |\n| n | 1 |\n| s | 2 |"),
    (pd.Index(["a", "b"]), "| value |\n| --- |\n| a |\n| b |"),
    (pd.Timestamp("2026-01-01"), "2026-01-01 00:00:00"),
]  # fmt: skip


@pytest.mark.parametrize(("frame", "text"), FRAMES, ids=range(len(FRAMES)))
def test_a_small_frame_is_a_table(frame: object, text: str) -> None:
    assert text_of(frame) == text


def test_display_options_are_neither_used_nor_changed(wide_frame: pd.DataFrame) -> None:
    def options() -> tuple[object, ...]:
        names = ("display.max_rows", "display.max_colwidth", "display.precision")
        return *map(pd.get_option, names), np.get_printoptions()

    array = np.arange(2000) / 7
    plain = text_of(wide_frame), text_of(array)
    small = pd.option_context("display.max_rows", 2, "display.max_colwidth", 3, "display.precision", 1)
    with small, np.printoptions(threshold=3, precision=1):
        before = options()
        assert (text_of(wide_frame), text_of(array)) == plain
        with pytest.raises(PromptError):
            expand("{{ v }} {{ nope }}", {"v": wide_frame})
        assert options() == before


def test_frames_of_polars_are_tables() -> None:
    frame = pl.DataFrame({"a": [1, None], "b": [0.5, math.nan], "l": [[1], [2, 3]]})
    assert (
        text_of(frame) == "| a | b | l |\n| ---: | ---: | --- |\n| 1 | 0.5 | [1] |\n| null | NaN | [2, 3] |"
    )
    assert text_of(frame["a"]) == "| a |\n| ---: |\n| 1 |\n| null |"
    assert note_of(pl.DataFrame({"a": range(1000)}), 100).endswith("shown")
    with pytest.raises(PromptError, match=r"\.collect\(\)"):
        text_of(frame.lazy())


class Tensor:
    """Looks at a numpy array as torch does."""

    def __init__(self, data: Any, attached: bool = True) -> None:
        self.data, self.attached = data, attached
        self.shape, self.dtype = data.shape, f"torch.{data.dtype}"

    def detach(self) -> Tensor:
        return Tensor(self.data, attached=False)

    def cpu(self) -> Tensor:
        return self

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if self.attached:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        return self.data


ARRAYS: list[tuple[object, str]] = [
    (np.array([[0.1, 2], [3, math.nan]], dtype="f4"),
     "ndarray of shape (2, 2), dtype float32:\n[[0.1, 2.0],\n[3.0, nan]]"),
    (np.array(3), "3"),
    (np.float32(0.1), "0.1"),
    (np.array(["a", 'b"']), 'ndarray of shape (2,), dtype <U2:\n["a", "b\\""]'),
    (np.array([]), "ndarray of shape (0,), dtype float64:\n[]"),
    (np.zeros((0, 3)), "ndarray of shape (0, 3), dtype float64:\n[]"),
    (np.ma.masked_array([1, 2], mask=[False, True]), "MaskedArray of shape (2,), dtype int64:\n[1, --]"),
    (np.arange(8).reshape(2, 2, 2),
     "ndarray of shape (2, 2, 2), dtype int64:\n[[[0, 1], [2, 3]],\n[[4, 5], [6, 7]]]"),
    (Tensor(np.array([1, 2])), "Tensor of shape (2,), dtype torch.int64:\n[1, 2]"),
    ([np.array([1, 2])], '["ndarray of shape (2,), dtype int64:\\n[1, 2]"]'),
    ({"m": np.float64(0.5), "f": pd.DataFrame({"a": [1]})}, '{"m": 0.5, "f": "| a |\\n| ---: |\\n| 1 |"}'),
]  # fmt: skip


@pytest.mark.parametrize(("array", "text"), ARRAYS, ids=range(len(ARRAYS)))
def test_an_array_has_shape_dtype_and_values(array: object, text: str) -> None:
    assert text_of(array) == text


def test_two_thousand_numbers_go_out_whole() -> None:
    numbers = text_of(np.arange(2000))
    assert all(f" {n}," in numbers for n in range(1, 1999))
    assert text_of(list(range(5000))) == str(list(range(5000)))


def test_a_large_array_says_what_was_left_out() -> None:
    assert text_of(np.arange(1000), 40) == (
        "ndarray of shape (1000,), dtype int64;"
        " 989 values left out, the first 8 and the last 3 of 1,000 shown:\n"
        "[0, 1, 2, 3, 4, 5, 6, 7, [989 values left out here], 997, 998, 999]"
    )
    rows = text_of(np.zeros((500, 4), dtype=int), 100)
    assert "rows left out" in rows.splitlines()[0]
    assert "[0, 0, 0, 0],\n[49" in rows


@settings(deadline=None)
@given(st.integers(0, 300), st.integers(1, 400))
def test_what_is_shown_and_what_is_left_out_add_up(count: int, budget: int) -> None:
    for value in (list(range(count)), np.arange(count), pd.DataFrame({"a": np.arange(count)})):
        text, note = text_of(value, budget), note_of(value, budget)
        left_out = int(note.split(" ")[0]) if note else 0
        body = text.splitlines()[3:] if isinstance(value, pd.DataFrame) and note else [text.splitlines()[-1]]
        if note:
            shown = re.findall(r"\d+", re.sub(r"\[\d+ \w+ left out here\]", "", " ".join(body)))
            assert len(shown) + left_out == count
            assert len(" ".join(shown)) <= budget


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


@settings(deadline=None)
@given(st.lists(_JSON) | st.dictionaries(st.text(), _JSON))
def test_what_json_can_say_goes_out_as_json(value: object) -> None:
    assert json.loads(text_of(value)) == value


@settings(deadline=None)
@given(st.integers(1, 3), st.data())
def test_text_in_a_frame_goes_out_as_csv_that_reads_back(width: int, data: st.DataObject) -> None:
    names = [f"a|{k}" for k in range(width)]  # a bar rules out markdown
    rows = data.draw(st.lists(st.tuples(*[st.text()] * width), min_size=1, max_size=5))
    text = text_of(pd.DataFrame(rows, columns=names))
    assert list(csv.reader(io.StringIO(text, newline=""))) == [names, *map(list, rows)]


def test_an_item_that_is_too_long_itself_is_cut_inside() -> None:
    text = text_of({"notes": "x" * 5000, "ids": list(range(5000)), "ok": True}, 1000)
    assert "[4,752 of 5,002 characters left out here]" in text
    assert re.search(r"\[4,9\d\d items left out here\]", text)
    assert '"ok": true' in text
    assert len(text) < 1100


def test_inner_items_are_left_out_where_marked() -> None:
    value = {"notes": [["x" * 60, ["y" * 60]], "z" * 300], "ok": True}
    assert text_of(value, 300) == (
        '{\n  "notes": [\n    [\n      [2 items left out here]\n    ],\n'
        '    [1 item left out here]\n  ],\n  "ok": true\n}'
    )
    assert note_of(value, 300) == "inner parts left out where marked"


def test_text_is_never_cut() -> None:
    assert text_of("x" * 200_000, 10) == "x" * 200_000


def test_a_long_repr_is_cut_with_a_mark() -> None:
    class Long:
        def __repr__(self) -> str:
            return "a" * 100 + "b" * 100

    assert text_of(Long(), 30) == "a" * 20 + "[170 of 200 characters left out here]" + "b" * 10


def test_an_exception_goes_out_with_its_last_calls() -> None:
    def fall(n: int) -> None:
        if n:
            fall(n - 1)
        raise KeyError("site")

    with pytest.raises(KeyError) as caught:
        fall(20)
    text = text_of(caught.value)
    assert text.startswith("[the last 8 of 22 calls]\nTraceback (most recent call last):\n")
    assert text.endswith("KeyError: 'site'")


def test_what_the_notebook_defines_goes_out_as_source() -> None:
    code = (
        "from kimi_magic.prompt import expand\nimport linecache\n"
        "source = 'def twice(x):\\n    return 2 * x\\n'\n"
        "linecache.cache['<cell>'] = (len(source), None, source.splitlines(True), '<cell>')\n"
        "exec(compile(source, '<cell>', 'exec'))\n"
        "print(expand('{{ twice }}', globals()).text)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, encoding="utf-8"
    )
    assert done.stdout == "def twice(x):\n    return 2 * x\n"
