"""The options of a `%%kimi` cell: one table, from which parser, help and completion are made.

A row of the table is a field of `CellOptions`; what its option is like stands in the field's
`Option`. A new option is one new field.

    [NAME <<] [-x VALUE | -xVALUE | --long VALUE | --long=VALUE | --flag]… [--] [prompt]

- Quotes are those of a shell (`words`). A word that begins with an unquoted `-` is an option up to
  the first word that is none, or up to `--`.
- An option may stand once, unless the table says that it repeats.
- A known option is never taken for the value of the one before it; `--system=--new` forces it.
- `--once` neither reads nor writes history, so it excludes `-c`, `--new` and `--append`, which say
  what to do with history. `--new` goes with both others: `-c b --new` starts `b` afresh.
"""

from __future__ import annotations

import dataclasses
import difflib
import keyword
import re
import textwrap
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import OptionError, RequestError
from ..wire import CACHE_TTLS, CONTEXT_WINDOW, EFFORTS, MODELS, check_stop_sequences
from .words import Word, read_word, skip_space

SHORT_MODELS = {"pro": MODELS[0], "highspeed": MODELS[1]}
"""Short form → `CreateMessageRequest.model`."""

_SEE_HELP = "%kimi help lists the options."


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


def _choice(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text in choices:
            return text
        near = difflib.get_close_matches(text.lower(), choices, n=1)
        meant = f" Did you mean {near[0]}?" if near else ""
        raise ValueError(f"must be one of {', '.join(choices)}, not {text!r}.{meant}")

    return read


def _model(text: str) -> str:
    """Any id passes here: whether the server can know it depends on the server."""
    return SHORT_MODELS.get(text, _word(text))


def _word(text: str) -> str:
    if not text.strip():
        raise ValueError("its value is empty.")
    return text


def _max_tokens(text: str) -> int:
    """`8192`, `8_192`, `8,192`, `8k` (1,024 each), `1M` (1,048,576 each)."""
    match = re.fullmatch(r"(-?\d+|-?\d{1,3}(?:[_,]\d{3})+)([kKmM]?)", text.strip())
    factor = {"": 1, "k": 1024, "m": 1024**2}[match[2].lower()] if match else 0
    value = int(match[1].replace(",", "").replace("_", "")) * factor if match and len(text) < 30 else 0
    if not 1 <= value <= CONTEXT_WINDOW:
        raise ValueError(f"must be a whole number from 1 to {CONTEXT_WINDOW:,}, not {text!r}.")
    return value


def _count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,4}", text) or int(text) < 1:
        raise ValueError(f"must be a whole number from 1 to 9,999, not {text!r}.")
    return int(text)


def _stop(text: str) -> str:
    """`\\n`, `\\t` and `\\\\` are a line end, a tab and a backslash: a line has no other way to say them."""
    marks = {"n": "\n", "t": "\t", "\\": "\\"}
    return re.sub(r"\\([nt\\])", lambda match: marks[match[1]], text)


def _identifier(text: str) -> str:
    """A variable's name, in the form in which Python looks it up."""
    name = unicodedata.normalize("NFKC", text)
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"must be a Python name, not {text!r}.")
    return name


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
        read=_model,
        offers=(*SHORT_MODELS, *MODELS),
    )
    effort: str | None = _option(
        "e",
        "LEVEL",
        "how hard to think: low, high or max (the default)",
        read=_choice(*EFFORTS),
        offers=tuple(EFFORTS),
    )
    max_tokens: int | None = _option(
        "n",
        "TOKENS",
        f"most tokens of the reply, thinking included: 1 to {CONTEXT_WINDOW:,}; 8k is 8,192",
        read=_max_tokens,
        offers=("4k", "8k", "32k", "128k"),
    )
    system: str | None = _option(
        "s", "TEXT", 'system prompt: text, or @name of a variable; "" for none', names="text"
    )
    cache: str | None = _option(
        "", "5m|1h", "keep the prompt in the server's cache", read=_choice(*CACHE_TTLS), offers=CACHE_TTLS
    )
    image: tuple[str, ...] = _option(
        "i",
        "IMAGE",
        "show an image: a file, a web address, a figure, image or array of the notebook, clipboard",
        read=_word,
        names="image",
        paths=r"(?i)\.(png|jpe?g|gif|webp|tiff?|bmp)$",
        offers=("clipboard",),
        repeats=True,
    )
    file: tuple[str, ...] = _option(
        "f",
        "FILE",
        "attach a file with its name: text, a notebook, a PDF (with pypdf)",
        read=_word,
        paths=".",
        repeats=True,
    )
    stop: tuple[str, ...] = _option(
        "",
        "TEXT",
        "end the reply before this text, at most 32 bytes; up to 5 times; \\n is a line end",
        read=_stop,
        repeats=True,
        check=check_stop_sequences,
    )
    out: str | None = _option("o", "NAME", "put the reply into a variable; also: NAME << …", read=_identifier)
    tool: tuple[str, ...] = _option(
        "t",
        "NAME",
        "a function of the notebook that the model may call; several times for several",
        read=_word,
        names="function",
        repeats=True,
    )
    tool_choice: str | None = _option(
        "",
        "auto|any|none",
        "whether it calls tools: as it likes, at least one first, or none",
        read=_choice("auto", "any", "none"),
        offers=("auto", "any", "none"),
    )
    max_steps: int | None = _option(
        "", "N", "most rounds of tool calls, 10 by default; then it has to answer", read=_count
    )
    schema: str | None = _option(
        "",
        "TYPE",
        "the reply fills this model, dataclass, TypedDict, list[…] of one, or JSON Schema",
        read=_word,
        names="model",
    )
    search: int | None = _option(
        "",
        "[N]",
        "let the server search the web, at most N times (5); each search is billed",
        read=_count,
        offers=("1", "3", "5", "10"),
        alone="5",
    )
    conversation: str | None = _option(
        "c", "NAME", "go on with another conversation of this notebook", read=_word, names="conversation"
    )
    new: bool = _option("", "", "start the conversation afresh")
    once: bool = _option("", "", "neither read nor write history", excludes=("conversation", "new", "append"))
    append: bool = _option("", "", "add a turn, even though this cell already has one")
    background: bool = _option("", "", "return at once; the reply comes while other cells run")
    replay: str | None = _option(
        "",
        "off|auto|only",
        "show what was recorded for the same request: never, else ask, or nothing else",
        read=_choice("off", "auto", "only"),
        offers=("off", "auto", "only"),
    )
    raw: bool = _option("", "", "insert nothing: {{ … }} goes out as it is written")
    dry_run: bool = _option("", "", "show the request and its size, send nothing")


OPTIONS: tuple[Option, ...] = tuple(
    dataclasses.replace(field.metadata["option"], name=field.name.replace("_", "-"))
    for field in dataclasses.fields(CellOptions)
)
_BY_FLAG = {f"--{o.name}": o for o in OPTIONS} | {f"-{o.short}": o for o in OPTIONS if o.short}


# --- reading ------------------------------------------------------------------------------------


def parse_cell(line: str) -> CellOptions:
    """The options of a `%%kimi` line, which has nothing else. Raises `OptionError`."""
    options, rest = parse_line(line)
    if not rest:
        return options
    first = rest.split()[0]
    if first[0] in "–—":  # what a word processor makes of `--`
        raise OptionError(f"{first!r} begins with a dash, and options begin with hyphens: - or --.")
    shown = textwrap.shorten(rest, 40, placeholder=" …")
    raise OptionError(
        f"The prompt goes below the %%kimi line, not on it: {shown!r}.",
        hint=f"To ask on one line, use %kimi with a single %. {_SEE_HELP}",
    )


def parse_line(line: str) -> tuple[CellOptions, str]:
    """The options at the beginning of a `%kimi` line, and the prompt behind them as it is written.

    Raises `OptionError`.
    """
    values: dict[str, Any] = {}
    name, pos = assignment(line)
    if name:
        _put(values, _BY_FLAG["--out"], name)
    while line.startswith("-", pos := skip_space(line, pos)):
        word = read_word(line, pos)
        assert word is not None  # a character stands there
        if word.text == "--":
            pos = skip_space(line, word.end)
            break
        option, value = option_of(word)
        pos = word.end
        if option.metavar and value is None:
            value, pos = _next_value(option, line, pos)
        _put(values, option, value)
    for option in OPTIONS:
        _check_exclusions(option, values)
    return CellOptions(**values), line[pos:]


def assignment(line: str) -> tuple[str, int]:
    """NAME of `NAME <<` at the beginning of a line ("" for none), and the position behind it."""
    match = re.match(r"\s*([^\s<'\"-][^\s<]*)\s*<<(?=\s|$)", line)
    return (match[1], match.end()) if match else ("", 0)


def find(flag: str) -> Option | None:
    """The option of `--name` or `-x`, or None."""
    return _BY_FLAG.get(flag)


def option_of(word: Word) -> tuple[Option, str | None]:
    """The option that a word names, and the value in the same word, if there is one.

    Raises `OptionError` for a word that names none.
    """
    flag, equals, value = word.text.partition("=")
    if not word.text.startswith("--") and f"-{flag}" not in _BY_FLAG:
        flag, value = word.text[:2], word.text[2:].removeprefix("=")
        equals = word.text[2:]
    option = _BY_FLAG.get(flag)
    if option is None:
        raise _unknown(word.text.partition("=")[0])
    if not option.metavar and equals:
        raise OptionError(f"{option.label}: takes no value, and {value!r} was given.")
    return option, value if equals else None


def _unknown(flag: str) -> OptionError:
    near = difflib.get_close_matches(f"--{flag.lstrip('-')}", [f for f in _BY_FLAG if f[1] == "-"], n=1)
    meant = f"Did you mean {near[0]}? " if near else ""
    return OptionError(f"There is no option {flag}.", hint=f"{meant}{_SEE_HELP}")


def _see(option: Option) -> str:
    return f"%kimi help {option.name} says more."


def takes(option: Option, word: Word | None) -> bool:
    """Whether the word behind an option that can stand alone is its value."""
    if word is None or not word.plain:
        return False
    try:
        option.read(word.text)
    except ValueError:
        return False
    return True


def _next_value(option: Option, line: str, pos: int) -> tuple[str, int]:
    word = read_word(line, pos)
    if option.alone and not takes(option, word):
        return option.alone, pos
    if word is None or (word.plain and (word.text == "--" or word.text.partition("=")[0] in _BY_FLAG)):
        raise OptionError(f"{option.label}: needs a value, {option.metavar}.", hint=_see(option))
    return word.text, word.end


def _put(values: dict[str, Any], option: Option, text: str | None) -> None:
    """One occurrence of an option into the values so far."""
    if option.field in values and not option.repeats:
        raise OptionError(f"{option.label}: stands twice.", hint="Give it once.")
    try:
        value = option.read(text) if text is not None else True
        if option.repeats:
            value = (*values.get(option.field, ()), value)
        if option.check:
            option.check(value)
    except ValueError as error:
        raise OptionError(f"{option.label}: {error}", hint=_see(option)) from None
    except RequestError as error:
        raise OptionError(f"{option.label}: {error.message.partition(': ')[2]}", hint=error.hint) from None
    values[option.field] = value


def _check_exclusions(option: Option, values: Mapping[str, Any]) -> None:
    for name in option.excludes if option.field in values else ():
        other = _BY_FLAG[f"--{name}"]
        if other.field in values:
            raise OptionError(
                f"{option.label} and {other.label} exclude each other.",
                hint=f"--{option.name}: {option.help}.",
            )


# --- help ---------------------------------------------------------------------------------------


def describe_options() -> str:
    """A line or two of help per option, 100 characters wide at most."""
    lines: list[str] = []
    for option in OPTIONS:
        flags = f"  {f'-{option.short},' if option.short else '   '} --{option.name} {option.metavar}"
        lines += textwrap.wrap(option.help, 100, initial_indent=f"{flags:<27} ", subsequent_indent=" " * 28)
    return "\n".join(lines)
