"""The options of a `%%kimi` cell: one table, from which reading, help and completion are made.

A row of the table is a field of `CellOptions`; what its option is like stands in the field's
`Option`. A new option is one new field.
"""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Callable
from typing import Any

from ..config import SHORT_MODELS
from ..wire import CACHE_TTLS, CONTEXT_WINDOW, EFFORT_LEVELS, EFFORTS, MODELS, check_stop_sequences
from . import values


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """What one option is like. Without a `metavar` it is a flag."""

    name: str = ""
    """The long name without its dashes; the field's name with `-` for `_`."""
    short: str = ""
    metavar: str = ""
    help: str
    read: Callable[[str], object] = str
    """A value's text → the value; raises ValueError with a message."""
    offers: tuple[str, ...] = ()
    """Values that Tab offers."""
    names: str = ""
    """The kind of names of the notebook that Tab offers: a key of `completion.KINDS`."""
    alone: str = ""
    """Its value where none stands behind it; then a word behind it is its value only if it can be one."""
    paths: str = ""
    """Pattern of the names of files that Tab offers; "" for none."""
    repeats: bool = False
    """It may stand several times, and its field is the tuple of the values."""
    check: Callable[[Any], object] | None = None
    """Checks all values so far of an option that repeats; raises `RequestError`."""
    excludes: tuple[str, ...] = ()
    """Names of options that cannot stand beside it."""

    @property
    def field(self) -> str:
        return self.name.replace("-", "_")

    @property
    def label(self) -> str:
        """`-e/--effort`"""
        return f"-{self.short}/--{self.name}" if self.short else f"--{self.name}"


def _option(short: str, metavar: str, help: str, **more: Any) -> Any:
    default: Any = () if more.get("repeats") else None if metavar else False
    option = Option(short=short, metavar=metavar, help=help, **more)
    return dataclasses.field(default=default, metadata={"option": option})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CellOptions:
    """What the options of one cell say; None, False or () where they say nothing."""

    model: str | None = _option(
        "m",
        "MODEL",
        f"{MODELS[0]} (pro, the default) or {MODELS[1]} (highspeed)",
        read=values.model,
        offers=(*SHORT_MODELS, *MODELS),
    )
    effort: str | None = _option(
        "e",
        "LEVEL",
        "how hard to think: low, high or max (the default)",
        read=values.choice(*EFFORT_LEVELS, also=EFFORTS),
        offers=EFFORT_LEVELS,
    )
    max_tokens: int | None = _option(
        "n",
        "TOKENS",
        f"most tokens of the reply, thinking included: 1 to {CONTEXT_WINDOW:,}; 8k is 8,192",
        read=values.max_tokens,
        offers=("4k", "8k", "32k", "128k"),
    )
    system: str | None = _option(
        "s", "TEXT", 'system prompt: text, or @name of a variable; "" for none', names="text"
    )
    cache: str | None = _option(
        "",
        "5m|1h",
        "keep the prompt in the server's cache",
        read=values.choice(*CACHE_TTLS),
        offers=CACHE_TTLS,
    )
    image: tuple[str, ...] = _option(
        "i",
        "IMAGE",
        "show an image: a file, a web address, a figure, image or array of the notebook, clipboard",
        read=values.word,
        names="image",
        paths=r"(?i)\.(png|jpe?g|gif|webp|tiff?|bmp)$",
        offers=("clipboard",),
        repeats=True,
    )
    file: tuple[str, ...] = _option(
        "f",
        "FILE",
        "attach a file with its name: text, a notebook, a PDF (with pypdf)",
        read=values.word,
        paths=".",
        repeats=True,
    )
    stop: tuple[str, ...] = _option(
        "",
        "TEXT",
        "end the reply before this text, at most 32 bytes; up to 5 times; \\n is a line end",
        read=values.stop,
        repeats=True,
        check=check_stop_sequences,
    )
    out: str | None = _option(
        "o", "NAME", "put the reply into a variable; also: NAME << …", read=values.identifier
    )
    tool: tuple[str, ...] = _option(
        "t",
        "NAME",
        "a function of the notebook that the model may call; several times for several",
        read=values.word,
        names="function",
        repeats=True,
    )
    tool_choice: str | None = _option(
        "",
        "auto|any|none",
        "whether it calls tools: as it likes, at least one first, or none",
        read=values.choice("auto", "any", "none"),
        offers=("auto", "any", "none"),
    )
    max_steps: int | None = _option(
        "", "N", "most rounds of tool calls, 10 by default; then it has to answer", read=values.count
    )
    schema: str | None = _option(
        "",
        "TYPE",
        "the reply fills this model, dataclass, TypedDict, list[…] of one, or JSON Schema",
        read=values.word,
        names="model",
    )
    search: int | None = _option(
        "",
        "[N]",
        "let the server search the web, at most N times (5); each search is billed",
        read=values.count,
        offers=("1", "3", "5", "10"),
        alone="5",
    )
    conversation: str | None = _option(
        "c",
        "NAME",
        "go on with another conversation of this notebook",
        read=values.word,
        names="conversation",
    )
    new: bool = _option("", "", "begin the conversation afresh")
    once: bool = _option("", "", "neither read nor write history", excludes=("conversation", "new", "append"))
    append: bool = _option("", "", "add a turn, even though this cell already has one")
    background: bool = _option("", "", "return at once; the reply comes while other cells run")
    replay: str | None = _option(
        "",
        "off|auto|only",
        "show what was recorded for the same request: never, else ask, or nothing else",
        read=values.choice("off", "auto", "only"),
        offers=("off", "auto", "only"),
    )
    raw: bool = _option("", "", "insert nothing: {{ … }} goes out as it is written")
    dry_run: bool = _option("", "", "show the request and its size, send nothing")


OPTIONS: tuple[Option, ...] = tuple(
    dataclasses.replace(field.metadata["option"], name=field.name.replace("_", "-"))
    for field in dataclasses.fields(CellOptions)
)
_BY_FLAG = {f"--{o.name}": o for o in OPTIONS} | {f"-{o.short}": o for o in OPTIONS if o.short}


def find(flag: str) -> Option | None:
    """The option of `--name` or `-x`, or None."""
    return _BY_FLAG.get(flag)


def in_columns(left: str, right: str, width: int) -> list[str]:
    """Text beside what it is about, which stands in `width` columns, or above it where it is too long."""
    head = f"{left:<{width}}"
    above = [] if len(left) < width else [left]
    indent = " " * width
    return above + textwrap.wrap(
        right, 100, initial_indent=indent if above else head, subsequent_indent=indent
    )


def describe_options() -> str:
    """A line or two of help per option, 100 characters wide at most."""
    lines: list[str] = []
    for option in OPTIONS:
        flags = f"  {f'-{option.short},' if option.short else '   '} --{option.name} {option.metavar}"
        lines += in_columns(flags, option.help, 28)
    return "\n".join(lines)
