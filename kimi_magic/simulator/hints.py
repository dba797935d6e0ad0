"""Values that a prompt holds for the fields of a schema: `name: value`, numbers, quoted texts.

A named value ("city = Oslo", "result equal to OK") is taken for the field of that name. Numbers and
quoted texts without a name are taken in their order, each once, for the arguments of a tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_NUMBER = re.compile(r"(?<![\w.])[-+−]?\d{1,15}(?:\.\d{1,15})?(?:[eE][-+]?\d{1,2})?(?![\w]|\.\d)")
_QUOTED = re.compile(
    r"\"([^\"\n]{1,400})\"|“([^”\n]{1,400})”|「([^」\n]{1,400})」|(?<!\w)'([^'\n]{1,400})'(?!\w)|`([^`\n]{1,400})`"
)
_VALUE = (
    r"[\"'`*]{0,3}\s*(?::|：|=|\b(?:is|equals|equal)\b(?:\s+to\b)?|为|是)\s*"
    r"(?:\"([^\"\n]*)\"|'([^'\n]*)'|`([^`\n]*)`|“([^”\n]*)”|(\[[^\]\n]*\]|[^\n;；，。]*))"
)


class Hints:
    """text: the prompt; loose: also offer numbers and quoted texts that have no name."""

    def __init__(self, text: str, *, loose: bool = False) -> None:
        self._text = text
        self._numbers = [number(m) for m in _NUMBER.findall(text)] if loose else []
        self._quoted = [next(filter(None, m)) for m in _QUOTED.findall(text)] if loose else []

    @property
    def rich(self) -> bool:
        """Whether there are numbers or quoted texts to take, or words that name a value."""
        return bool(self._numbers or self._quoted or re.search(r"\w\s*[:=]\s*\S", self._text))

    def says(self, word: str) -> bool:
        """Whether the prompt holds the word on its own."""
        return bool(word) and bool(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", self._text, re.IGNORECASE))

    def named(self, name: str) -> str | None:
        """The text after `name:`, up to the end of the line or sentence."""
        if not name:
            return None
        words = re.sub(r"[_\s-]+", r"[_\\s-]", re.escape(name).replace(r"\-", "-"))
        found = re.search(rf"(?<!\w){words}{_VALUE}", self._text, re.IGNORECASE)
        if not found:
            return None
        *quoted, bare = found.groups()
        exact = next((part for part in quoted if part is not None), None)
        return exact if exact is not None else (bare or "").strip() or None

    def values(self, name: str, kind: str) -> Iterator[Any]:
        """Candidates for a field of a JSON type, best first; `used` tells which one was taken."""
        raw = self.named(name)
        if raw is not None:
            yield from _typed(raw, kind)
        yield from {"integer": self._numbers, "number": self._numbers, "string": self._quoted}.get(kind, [])

    def used(self, value: Any) -> None:
        """A loose value was taken: it is not offered again."""
        for pool in (self._numbers, self._quoted):
            if value in pool:
                pool.remove(value)
                return


def number(text: str) -> int | float:
    text = text.replace("−", "-")
    return int(text) if re.fullmatch(r"[-+]?\d+", text) else float(text)


def _typed(raw: str, kind: str) -> Iterator[Any]:
    found = _NUMBER.search(raw)
    if kind in ("integer", "number") and found:
        yield number(found.group())
    elif kind == "boolean" and re.match(r"(true|yes|on|1|false|no|off|0)\b", raw, re.IGNORECASE):
        yield raw[:1].lower() in "ty1" or raw[:2].lower() == "on"
    elif kind == "string":
        clause = re.split(r",|\.(?:\s|$)|\s+and\s+(?=\w+\s*[:=])", raw, maxsplit=1)[0].strip(" *`\"'")
        yield from [part for part in dict.fromkeys((clause, raw)) if part]
    elif kind == "array":
        yield [part.strip(" \"'`[].") for part in raw.split(",") if part.strip(" \"'`[].")]
