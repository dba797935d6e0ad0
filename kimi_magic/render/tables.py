"""Rows as tables, as HTML and as text that lines up in any terminal."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from html import escape

from .sanitise import clean
from .style import wrapped_wide

Rows = Sequence[Mapping[str, str]]


def table_html(rows: Rows, caption: str = "") -> str:
    """A table to publish: that of `bare_table`, in an element of its own."""
    return wrapped_wide(bare_table(rows, caption))


def bare_table(rows: Rows, caption: str = "") -> str:
    """An HTML table, everything in it escaped; wide ones scroll. Numbers stand at the right, and a
    first column without a name holds the names of the rows."""
    if not rows:
        return f"<p>{escape(clean(caption))}</p>"
    styles = {name: _style([row[name] for row in rows]) for name in rows[0]}
    head = "".join(
        f'<th scope="col" style="{style}">{escape(clean(name))}</th>' for name, style in styles.items()
    )
    body = "".join(
        "<tr>" + "".join(_cell(name, row[name], style) for name, style in styles.items()) + "</tr>"
        for row in rows
    )
    title = f'<p style="margin:.3em 0">{escape(clean(caption))}</p>' if caption else ""
    return (
        f'{title}<div style="overflow-x:auto"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cell(name: str, value: str, style: str) -> str:
    if name:
        return f'<td style="{style}">{escape(clean(value))}</td>'
    return f'<th scope="row" style="{style};font-weight:normal;opacity:.75">{escape(clean(value))}</th>'


def _style(values: Sequence[str]) -> str:
    """Of a column: amounts at the right, and short values on one line."""
    align = "right" if any(values) and all(_NUMERIC.fullmatch(value) for value in values) else "left"
    wrap = "nowrap" if all(len(value) <= SHORT for value in values) else "normal"
    return f"text-align:{align};vertical-align:top;white-space:{wrap}"


SHORT = 24
_NUMERIC = re.compile(r"[$€¥]?[\d,.]+( s| min \d+ s|%| [A-Z]{3})?( \+ \?)?|\?|")
"""An amount with its unit, or a gap."""


def table_text(rows: Rows, caption: str = "") -> str:
    """The same in columns of text; full-width characters count as two."""
    caption = clean(caption)
    if not rows:
        return caption
    lines = [[clean(v).replace("\n", " ") for v in line] for line in (rows[0], *(r.values() for r in rows))]
    sizes = [[_width(cell) for cell in line] for line in lines]
    widths = [max(column) for column in zip(*sizes, strict=True)]
    table = [
        "  ".join(
            cell + " " * (width - size) for cell, size, width in zip(line, own, widths, strict=True)
        ).rstrip()
        for line, own in zip(lines, sizes, strict=True)
    ]
    table.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([caption, *table] if caption else table)


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    high = [c for c in text if c >= "\u1100"]  # nothing below is wide
    return len(text) + sum(unicodedata.east_asian_width(c) in "WF" for c in high)
