"""A line cut into words as a shell would cut it, for the options of a cell.

- Words are parted by white space of any kind, the full-width space too.
- `'…'` keeps everything; in `"…"` a backslash keeps the `"` or `\\` behind it. Outside quotes it keeps
  a space, quote or backslash. Before anything else it is a plain character, so `\\alpha` and `C:\\data`
  stay what they are. So do the two at the beginning of a path to a Windows share.
- A `{{ … }}` that is an expression of the prompt's language is taken whole wherever it stands, so
  `--system "{{ d["key"] }}"` and `--system {{ name }}` mean what they say. So is a JSON object outside
  quotes: `--schema {"a": 1}`.
- `$`, `*`, `#`, `~` and single braces are plain characters.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from ..errors import OptionError
from ..prompt import placeholder_at

_ESCAPED = {'"': '\\"', "\\": "\\\\"}
_SHARE = re.compile(r"""\\\\[^\s\\"'{]{2,}\\[^\s\\"']""")
"""`\\\\server\\share`: who escapes backslashes escapes all of them, so this is no escape."""
_PIECE = re.compile(r"""(?:(?<![^\s=])(?:"[^"]*"|'[^']*')|\S)+""")


@dataclass(frozen=True, slots=True)
class Word:
    """One word: `line[start:end]`, and its text without the quotes."""

    text: str
    start: int
    end: int
    plain: bool
    """Nothing in it was quoted."""


def read_word(line: str, start: int) -> Word | None:
    """The first word at or after this position, or None. Raises `OptionError` for an open quote."""
    pos = begin = skip_space(line, start)
    parts: list[str] = []
    plain = True
    while pos < len(line) and not line[pos].isspace():
        if line[pos] in "'\"":
            text, pos = _quoted(line, pos)
            plain = False
        elif _SHARE.match(line, pos) and (pos == begin or line[pos - 1] == "="):
            text, pos = line[pos : pos + 2], pos + 2
        elif _keeps(line, pos, "'\"\\") or (line[pos] == "\\" and line[pos + 1 : pos + 2].isspace()):
            text, pos = line[pos + 1], pos + 2
            plain = False
        else:
            text, pos = _piece(line, pos, _json_end(line, pos))
        parts.append(text)
    return Word("".join(parts), begin, pos, plain) if pos > begin else None


def skip_space(line: str, pos: int) -> int:
    """The position of the first character at or after this one that is no white space."""
    while pos < len(line) and line[pos].isspace():
        pos += 1
    return pos


def pieces(line: str) -> list[str]:
    """The words of a subcommand, which may be a sentence. Quotes around a word or a value make it one, and
    stay; any other quote is a character."""
    return _PIECE.findall(line)


def quote(text: str) -> str:
    """The text as one word that `read_word` reads back."""
    behind = text[2:] if _SHARE.match(text) else text  # where a backslash could be an escape
    is_plain = not any(c.isspace() or c in "'\"{" for c in text) and "\\\\" not in behind
    if text and is_plain and not text.startswith("-") and not text.endswith("\\"):
        return text
    parts: list[str] = []
    pos = 0
    while pos < len(text):
        piece, end = _piece(text, pos)
        if end > pos + 1:
            parts.append(piece)
        elif text.startswith("{{", pos):  # text: parted, lest a backslash behind make it an expression
            parts.append('{""')
        else:
            parts.append(_ESCAPED.get(piece, piece))
        pos = end
    return f'"{"".join(parts)}"'


def _quoted(line: str, start: int) -> tuple[str, int]:
    """The text between the quotes that open here, and the position behind them."""
    mark, pos = line[start], start + 1
    parts: list[str] = []
    if mark == '"' and _SHARE.match(line, pos):
        parts, pos = [line[pos : pos + 2]], pos + 2
    while pos < len(line):
        if line[pos] == mark:
            return "".join(parts), pos + 1
        if mark == '"' and _keeps(line, pos, '"\\'):
            text, pos = line[pos + 1], pos + 2
        else:
            text, pos = _piece(line, pos)
        parts.append(text)
    raise OptionError(
        f"The quote {mark} before {line[start + 1 : start + 21]!r} is not closed.",
        hint=f"Close it, or write \\{mark} for the character itself.",
    )


def _piece(line: str, pos: int, end: int | None = None) -> tuple[str, int]:
    """One character, or what is taken whole (up to `end`, or a `{{ … }}`), and the position behind it."""
    if end is None:
        found = placeholder_at(line, pos)
        end = found.end if found else pos + 1
    return line[pos:end], end


def _keeps(line: str, pos: int, characters: str) -> bool:
    """A backslash before one of the characters."""
    return line[pos] == "\\" and pos + 1 < len(line) and line[pos + 1] in characters


def _json_end(line: str, pos: int) -> int | None:
    """Where a JSON object that begins here ends."""
    if line[pos] != "{" or line.startswith("{{", pos):
        return None
    try:
        return json.JSONDecoder().raw_decode(line, pos)[1]
    except (ValueError, RecursionError):
        return None
