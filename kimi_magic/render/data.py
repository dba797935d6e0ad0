"""A structured reply, as far as it has come: JSON → a table for a list of records, else indented JSON.

While it streams, what is there is shown: open strings, lists and objects count as closed, and a member
without its value is left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .markdown import render_markdown
from .sanitise import clean
from .tables import bare_table

_CLOSING = {"{": "}", "[": "]"}
MAX_DEPTH = 200
"""Levels; what is nested more deeply is shown as text."""
KEY = "value"
"""The one key of an object that only wraps what the schema asked for."""


def data_html(text: str) -> str:
    """What is there of a structured reply; text that is no JSON as it stands."""
    value = read(text)
    if value is None and text.strip():
        return f'<div class="kimi-text">{render_markdown(text)}</div>'
    rows = records(value)
    if rows is not None:
        return f'<div class="kimi-data">{bare_table(rows)}</div>'
    return f'<div class="kimi-data">{render_markdown(data_markdown(text))}</div>'


def data_markdown(text: str) -> str:
    """The value as a code block; text that is no JSON as it stands."""
    value = read(text)
    if value is None and text.strip():
        return text
    written = clean(json.dumps(_unwrapped(value), ensure_ascii=False, indent=2))
    fence = "```"
    while fence in written:
        fence += "`"
    return f"{fence}json\n{written}\n{fence}"


def read(text: str) -> Any:
    """The value of a JSON text, or of the beginning of one; None where there is none yet, or none that
    can be shown as it is nested without end."""
    whole = _scanned(text)
    if whole.deepest > MAX_DEPTH:
        return None
    last = _scanned(text[: whole.safe])
    rest = text[:-1] if whole.escaped else text
    for candidate in (text, rest + '"' * whole.in_string + whole.closing, text[: whole.safe] + last.closing):
        try:
            return json.loads(candidate, strict=False)
        except ValueError:
            continue
    return None


@dataclass(slots=True)
class _Scanned:
    """Where a beginning of JSON stands. safe: the last place where all that is open could be closed."""

    open: list[str] = field(default_factory=list)
    in_string: bool = False
    escaped: bool = False
    safe: int = 0
    deepest: int = 0

    @property
    def closing(self) -> str:
        return "".join(reversed(self.open))


def _scanned(text: str) -> _Scanned:
    at = _Scanned()
    for place, character in enumerate(text):
        if at.in_string:
            at.in_string = at.escaped or character != '"'
            at.escaped = character == "\\" and not at.escaped
        elif character == '"':
            at.in_string = True
        elif character in "{[":
            at.open.append(_CLOSING[character])
            at.safe, at.deepest = place + 1, max(at.deepest, len(at.open))
        elif character in "}]" and at.open:
            at.open.pop()
        elif character == ",":
            at.safe = place
    return at


def records(value: Any) -> list[dict[str, str]] | None:
    """The rows of a list of objects, also of one that stands alone in an object; None for others."""
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    if not isinstance(value, list) or not value or not all(isinstance(row, dict) for row in value):
        return None
    columns = list(dict.fromkeys(str(name) for row in value for name in row))
    return [{name: _cell(row, name) for name in columns} for row in value] if columns else None


def _cell(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _unwrapped(value: Any) -> Any:
    return value[KEY] if isinstance(value, dict) and list(value) == [KEY] else value
