"""What Tab offers on a `%%kimi` or `%kimi` line: options, their values, names of the notebook.

Made from the tables in `options` and `commands`, so that what exists is offered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import OptionError
from ..prompt import is_array, shows_picture
from .commands import COMMANDS
from .help import TOPICS
from .named import is_function, is_model
from .options import OPTIONS, Option, assignment, find, option_of, takes
from .words import quote, read_word

KINDS: dict[str, Callable[[object], bool]] = {
    "text": lambda value: isinstance(value, str),
    "function": is_function,
    "model": is_model,
    "image": lambda value: shows_picture(value) or is_array(value),
}
"""Kind of names (`Option.names`) → is a variable with this value one of them? Texts are offered as
`@name`."""

_MOST_PATHS = 200


@dataclass(frozen=True, slots=True)
class Completion:
    """What can stand at `line[start:cursor]`."""

    start: int
    matches: tuple[str, ...]


def complete(
    line: str, cursor: int, namespace: Mapping[str, object], conversations: Sequence[str] = ()
) -> Completion:
    """The completions at a cursor.

    line: what stands behind `%%kimi `; cursor: a position in it; namespace: the notebook's variables;
    conversations: names of its conversations.
    """
    text = line[:cursor]
    try:
        given, waiting, begin = _before(text)
    except OptionError:  # an open quote, or no option at all
        return Completion(cursor, ())
    if begin is None:
        return Completion(cursor, ())
    typed = text[begin:]
    flag, equals, value = typed.partition("=")
    named = find(flag) if equals else None
    if waiting is None and named is not None:
        waiting, begin, typed = named, cursor - len(value), value
    offered = _values(waiting, typed, namespace, conversations) if waiting else []
    if waiting is None or waiting.alone:
        offered += _options(given)
    return Completion(begin, tuple(name for name in offered if name.startswith(typed)))


def complete_line(
    line: str, cursor: int, namespace: Mapping[str, object], conversations: Sequence[str] = ()
) -> Completion:
    """`complete` for what stands behind `%kimi `: subcommands and their arguments, too."""
    text = line[:cursor]
    words = text.split()
    begin = len(text) if not text or text[-1].isspace() else len(text) - len(words[-1])
    if not text[:begin].strip() and not text[begin:].startswith("-"):
        return Completion(begin, tuple(name for name in COMMANDS if name.startswith(text[begin:])))
    behind = {"use": conversations, "help": tuple(TOPICS), "doctor": ("--online",)}
    if words[0] in behind and text[:begin].split() == words[:1]:
        return Completion(begin, tuple(name for name in behind[words[0]] if name.startswith(text[begin:])))
    return complete(line, cursor, namespace, conversations)


def _before(text: str) -> tuple[list[Option], Option | None, int | None]:
    """The options before the word under the cursor (at the end of the text), the one that waits for its
    value there, and where that word begins; None where the prompt has begun."""
    given: list[Option] = []
    waiting: Option | None = None
    pos = assignment(text)[1]
    while (word := read_word(text, pos)) is not None and word.end < len(text):
        pos = word.end
        if waiting is not None and (not waiting.alone or takes(waiting, word)):
            waiting = None
        elif word.text == "--" or not text.startswith("-", word.start):
            return given, None, None
        else:
            option, value = option_of(word)
            given.append(option)
            waiting = option if option.metavar and value is None else None
    return given, waiting, word.start if word else len(text)


def _options(given: Sequence[Option]) -> list[str]:
    """Flags that may still come."""
    names = {option.name for option in given}
    barred = {name for option in given for name in option.excludes}
    return [
        f"--{option.name}"
        for option in OPTIONS
        if (option.repeats or option.name not in names)
        and option.name not in barred
        and names.isdisjoint(option.excludes)
    ]


def _values(
    option: Option, typed: str, namespace: Mapping[str, object], conversations: Sequence[str]
) -> list[str]:
    if option.names == "conversation":
        return [quote(name) for name in conversations]
    found = []
    if option.names:
        fits = KINDS[option.names]
        mark = "@" if option.names == "text" else ""
        found = sorted(
            f"{mark}{n}" for n, value in namespace.items() if not n.startswith("_") and fits(value)
        )
    return [*found, *option.offers, *(_paths(option.paths, typed) if option.paths else ())]


def _paths(pattern: str, typed: str) -> list[str]:
    """Folders, and files whose names match, in the folder that has been typed."""
    folder, slash, begin = typed.rpartition("/")
    try:
        entries = sorted(Path(f"{folder}{slash}" or ".").expanduser().iterdir())
        names = [f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries]
    except (OSError, ValueError, RuntimeError):  # no such folder, a zero byte, no home
        return []
    fits = [n for n in names if n.startswith(begin) and (n[-1] == "/" or re.search(pattern, n))]
    return [quote(f"{folder}{slash}{n}") for n in fits if begin or not n.startswith(".")][:_MOST_PATHS]
