"""A `%%kimi` or `%kimi` line read by the table of `options`.

    [NAME <<] [-x VALUE | -xVALUE | --long VALUE | --long=VALUE | --flag]… [--] [prompt]

- Quotes are those of a shell (`words`). A word that begins with an unquoted `-` is an option up to
  the first word that is none, or up to `--`.
- An option may stand once, unless the table says that it repeats.
- A known option is never taken for the value of the one before it; `--system=--new` forces it.
- A `%%kimi` line has no prompt. So a word there behind an option that can stand alone is its value, and
  what is left over is a slip, named for what it is.
- `--once` neither reads nor writes history, so it excludes `-c`, `--new` and `--append`, which say
  what to do with history. `--new` goes with both others: `-c b --new` starts `b` afresh.
"""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Mapping
from typing import Any

from ..errors import OptionError, RequestError
from .options import OPTIONS, CellOptions, Option, find
from .words import Word, read_word, skip_space

_SEE_HELP = "%kimi help lists the options."
_NEAR = 0.7
"""How like a name a word must be to be taken for a slip of it: `efort` is, `budget` is not like `out`."""


def parse_cell(line: str) -> CellOptions:
    """The options of a `%%kimi` line, which has nothing else. Raises `OptionError`."""
    if re.search(r"(?:^|\s)\\$", line.rstrip()):
        raise OptionError(
            "A %%kimi line does not go on below: a backslash stands at its end.",
            hint="Write all options on one line; what is below it is the prompt.",
        )
    options, rest = _read(line, in_cell=True)
    if not rest:
        return options
    shown = repr(textwrap.shorten(rest, 40, placeholder=" …"))
    if rest[0] in "–—":  # what a word processor makes of `--`
        raise OptionError(f"{rest.split()[0]!r} begins with a dash, and options begin with hyphens: - or --.")
    if rest[0] == "#":
        raise OptionError(
            f"A %%kimi line has no comments: {shown}.", hint="Take it off; the prompt goes below the line."
        )
    raise OptionError(
        f"The prompt goes below the %%kimi line, not on it: {shown}.",
        hint=f"To ask on one line, use %kimi with a single %. {_SEE_HELP}",
    )


def parse_line(line: str) -> tuple[CellOptions, str]:
    """The options at the beginning of a `%kimi` line, and the prompt behind them as it is written.

    Raises `OptionError`.
    """
    return _read(line, in_cell=False)


def _read(line: str, *, in_cell: bool) -> tuple[CellOptions, str]:
    given: dict[str, Any] = {}
    name, pos = assignment(line)
    if name:
        _put(given, _option("--out"), name)
    ended = False
    while not ended and line.startswith("-", pos := skip_space(line, pos)):
        word = read_word(line, pos)
        assert word is not None  # a character stands there
        if ended := word.text == "--":
            pos = skip_space(line, word.end)
            break
        option, value = option_of(word)
        pos = word.end
        if option.metavar and value is None:
            value, pos = _next_value(option, line, pos, in_cell)
        _put(given, option, value)
    if given and not ended:
        _check_late_name(line, pos)
    for option in OPTIONS:
        _check_exclusions(option, given)
    return CellOptions(**given), line[pos:]


def assignment(line: str, start: int = 0) -> tuple[str, int]:
    """NAME of `NAME <<` at this place of a line ("" for none), and the position behind it."""
    match = re.compile(r"\s*([^\s<'\"-][^\s<]*)\s*<<(?=\s|$|--?[a-z])").match(line, start)
    return (match[1], match.end()) if match else ("", start)


def _check_late_name(line: str, pos: int) -> None:
    """`NAME <<` behind the options would go out as the prompt."""
    name, _ = assignment(line, pos)
    if name.isidentifier():
        raise OptionError(
            f"{name} << stands behind the options, and goes before them.",
            hint=f"Write {textwrap.shorten(f'{name} << {line[:pos].strip()}', 80, placeholder=' …')}",
        )


def _option(flag: str) -> Option:
    option = find(flag)
    assert option is not None  # the table has it
    return option


def option_of(word: Word) -> tuple[Option, str | None]:
    """The option that a word names, and the value in the same word, if there is one.

    Raises `OptionError` for a word that names none.
    """
    flag, equals, value = word.text.partition("=")
    if not word.text.startswith("--") and find(f"-{flag}") is None:
        flag, value = word.text[:2], word.text[2:].removeprefix("=")
        equals = word.text[2:]
    option = find(flag)
    if option is None:
        raise _unknown(word.text.partition("=")[0])
    if not option.metavar and equals:
        raise OptionError(f"{option.label}: takes no value, and {value!r} was given.")
    return option, value if equals else None


def _unknown(flag: str) -> OptionError:
    from .help import TOPICS  # a line without slips does without it

    name = flag.lstrip("-")
    near = difflib.get_close_matches(name, [option.name for option in OPTIONS], n=1, cutoff=_NEAR)
    meant = f"Did you mean --{near[0]}? " if near else ""
    if any(name in topic.commands for topic in TOPICS.values()):
        meant = f"It is a command: %kimi {name}. "
    return OptionError(f"There is no option {flag}.", hint=f"{meant}{_SEE_HELP}")


def _see(option: Option) -> str:
    return f"%kimi help {option.name} says more."


def takes(option: Option, word: Word | None) -> bool:
    """Whether the word behind an option that can stand alone is its value, or a number that is meant as
    one and out of its range."""
    if word is None or not word.plain:
        return False
    try:
        option.read(word.text)
    except ValueError:
        return word.text.isdecimal()
    return True


def _next_value(option: Option, line: str, pos: int, in_cell: bool) -> tuple[str, int]:
    word = read_word(line, pos)
    if option.alone and not (takes(option, word) or (in_cell and _is_value(word, line))):
        return option.alone, pos
    if word is None or (word.plain and (word.text == "--" or find(word.text.partition("=")[0]) is not None)):
        raise OptionError(f"{option.label}: needs a value, {option.metavar}.", hint=_see(option))
    return word.text, word.end


def _is_value(word: Word | None, line: str) -> bool:
    """Whether a word of a line without a prompt can only be meant as a value."""
    if word is None or (word.plain and word.text[0] in "-–—#"):
        return False
    return not assignment(line, word.start)[0]


def _put(given: dict[str, Any], option: Option, text: str | None) -> None:
    """One occurrence of an option into the values so far."""
    if option.field in given and not option.repeats:
        raise OptionError(f"{option.label}: stands twice.", hint="Give it once.")
    try:
        value = option.read(text) if text is not None else True
        if option.repeats:
            value = (*given.get(option.field, ()), value)
        if option.check:
            option.check(value)
    except ValueError as error:
        raise OptionError(f"{option.label}: {error}", hint=_see(option)) from None
    except RequestError as error:
        raise OptionError(f"{option.label}: {error.message.partition(': ')[2]}", hint=error.hint) from None
    given[option.field] = value


def _check_exclusions(option: Option, given: Mapping[str, Any]) -> None:
    for name in option.excludes if option.field in given else ():
        other = _option(f"--{name}")
        if other.field in given:
            raise OptionError(
                f"{option.label} and {other.label} exclude each other.",
                hint=f"--{option.name}: {option.help}.",
            )
