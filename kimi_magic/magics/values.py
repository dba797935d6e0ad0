"""What stands behind an option as text → its value. Each function raises ValueError with a message."""

from __future__ import annotations

import difflib
import keyword
import re
import unicodedata
from collections.abc import Callable, Iterable

from ..config import model_id
from ..counts import read_count
from ..wire import CONTEXT_WINDOW

_MOST = 9_999


def choice(*choices: str, also: Iterable[str] = ()) -> Callable[[str], str]:
    """One of the words. also: further ones, which pass and are not spoken of."""
    known = (*choices, *also)

    def read(text: str) -> str:
        if text in known:
            return text
        near = difflib.get_close_matches(text.lower(), known, n=1)
        meant = f" Did you mean {near[0]}?" if near else ""
        raise ValueError(f"must be {', '.join(choices[:-1])} or {choices[-1]}, not {text!r}.{meant}")

    return read


def model(text: str) -> str:
    return model_id(word(text))


def word(text: str) -> str:
    if not text.strip():
        raise ValueError("its value is empty.")
    return text


def max_tokens(text: str) -> int:
    return read_count(text, CONTEXT_WINDOW)


def count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,4}", text) or int(text) < 1:
        raise ValueError(f"must be a whole number from 1 to {_MOST:,}, not {text!r}.")
    return int(text)


def stop(text: str) -> str:
    """`\\n`, `\\t` and `\\\\` are a line end, a tab and a backslash: a line has no other way to say them."""
    marks = {"n": "\n", "t": "\t", "\\": "\\"}
    return re.sub(r"\\([nt\\])", lambda match: marks[match[1]], text)


def identifier(text: str) -> str:
    """A variable's name, in the form in which Python looks it up."""
    name = unicodedata.normalize("NFKC", text)
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"must be a Python name, not {text!r}.")
    return name
