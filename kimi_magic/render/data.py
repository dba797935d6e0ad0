"""A structured reply, as far as it has come: JSON → a table for a list of records, else indented JSON.

While it streams, what is there is shown: open strings, lists and objects count as closed, and a member
without its value is left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from .markdown import render_markdown
from .sanitise import clean
from .tables import bare_table

_CLOSING = {"{": "}", "[": "]"}
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
    """The value of a JSON text, or of the beginning of one; None where there is none yet."""
    for candidate in (text, *_completions(text)):
        try:
            return json.loads(candidate, strict=False)
        except (ValueError, RecursionError):
            continue
    return None


def _completions(text: str) -> Sequence[str]:
    """The text with all that is open closed: as it stands, and cut back to the last whole member."""
    open_ones: list[str] = []
    in_string = escaped = False
    safe, closing = 0, ""  # the last place where all could be closed, and with what
    for place, character in enumerate(text):
        if in_string:
            in_string = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            in_string = True
        elif character in "{[":
            open_ones.append(_CLOSING[character])
            safe, closing = place + 1, "".join(reversed(open_ones))
        elif character in "}]" and open_ones:
            open_ones.pop()
        elif character == ",":
            safe, closing = place, "".join(reversed(open_ones))
    rest = text[:-1] if escaped else text
    return (rest + '"' * in_string + "".join(reversed(open_ones)), text[:safe] + closing)


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
