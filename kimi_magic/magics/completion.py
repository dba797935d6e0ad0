"""What Tab offers on a `%%kimi` or `%kimi` line: options, their values, names of the notebook.

Made from the tables in `options` and `commands`, so that what exists is offered.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ..errors import OptionError
from ..paths import user_path
from ..prompt import is_array, shows_picture
from ..wire import MODELS
from .commands import COMMANDS, Command
from .help import TOPICS
from .named import is_function, is_model
from .options import OPTIONS, Option, find
from .reading import assignment, option_of, takes
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
_SEPARATORS = os.sep + (os.altsep or "")


@dataclass(frozen=True, slots=True)
class Completion:
    """What can stand at `line[start:cursor]`."""

    start: int
    matches: tuple[str, ...]
    is_prompt: bool = field(default=False, compare=False)
    """The prompt has begun, so anything can stand there; else nothing but the matches can."""


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
        return Completion(cursor, (), is_prompt=True)
    if begin is None:
        return Completion(cursor, (), is_prompt=True)
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
    line: str, cursor: int, namespace: Mapping[str, object], known: Mapping[str, Sequence[str]] | None = None
) -> Completion:
    """`complete` for what stands behind `%kimi `: subcommands and their words, too.

    known: kind of word (`NAME`, `TURN`, `JOB`) → those that there are.
    """
    text = line[:cursor]
    words = text.split()
    begin = len(text) if not text or text[-1].isspace() else len(text) - len(words.pop())
    known = known or {}
    if not words and not text[begin:].startswith("-"):
        return Completion(begin, tuple(name for name in COMMANDS if name.startswith(text[begin:])))
    command = COMMANDS.get(words[0]) if words else None
    if command is None:
        return complete(line, cursor, namespace, known.get("NAME", ()))
    return _argument(command, words[1:], text[begin:], begin, known)


def _argument(
    command: Command, before: Sequence[str], typed: str, begin: int, known: Mapping[str, Sequence[str]]
) -> Completion:
    """What can stand behind a command's name and the words before the one that is typed."""
    flag, equals, value = typed.partition("=")
    if equals and command.options.get(flag):
        offered = _words(command.options[flag], value, known)
        return Completion(begin + len(flag) + 1, tuple(word for word in offered if word.startswith(value)))
    if before and command.options.get(before[-1]):
        offered = _words(command.options[before[-1]], typed, known)
    else:
        offered = [name for name in command.options if name not in before]
        offered += [
            word for place in command.takes[len(before) :][:1] for word in _words(place, typed, known)
        ]
    return Completion(begin, tuple(word for word in offered if word.startswith(typed)))


def _words(place: str, typed: str, known: Mapping[str, Sequence[str]]) -> list[str]:
    """The words of one place, which a command's table describes (`Command.usage`)."""
    words: list[str] = []
    for each in place.removesuffix("…").split("|"):
        if not each.isupper():
            words += [each] if each else []
        elif each == "FILE":
            words += _paths(".", typed)
        else:
            words += {"TOPIC": tuple(TOPICS), "MODEL": MODELS}.get(each) or map(quote, known.get(each, ()))
    return words


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
    folder, begin = parted(typed)
    try:
        entries = sorted(user_path(folder or ".").iterdir())
        names = [f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries]
    except (OSError, ValueError):  # no such folder, a zero byte
        return []
    fits = [n for n in names if n.startswith(begin) and (n[-1] == "/" or re.search(pattern, n))]
    return [quote(f"{folder}{n}") for n in fits if begin or not n.startswith(".")][:_MOST_PATHS]


def parted(typed: str, separators: str = _SEPARATORS) -> tuple[str, str]:
    """A path as it is typed → its folder with the separator behind it, and the beginning of a name. Windows
    has two separators, and offers of folders end with the one that every system knows."""
    end = max(typed.rfind(separator) for separator in separators) + 1
    return typed[:end], typed[end:]
