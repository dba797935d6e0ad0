"""Lists, dicts, sets, dataclasses … as JSON-like text for a model.

JSON's literals (`null`, `true`, text in double quotes, characters as they are), with freedoms: keys
keep their own form, tuples have parentheses, a dataclass or named tuple is its class name before its
fields. A container of plain values or of few characters stands on one line, others have one item a
line. Sets are sorted, so that the same value always gives the same text. Beyond the budget items are
left out in the middle, and a mark in their place says how many.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Set
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any

from ..counts import counted
from ..errors import PromptError
from .arrays import array_text, is_array
from .fit import BUDGET, cut, fit, shown
from .frames import as_frame, frame_text
from .images import is_image, origins

_DEFAULT_REPR = re.compile(r"<.* at 0x[0-9a-fA-F]+>", re.DOTALL)
_SCALARS = (str, int, float, complex, type(None), Decimal, Fraction, date, time, timedelta, Enum, bytes)
_DEEPEST = 100
_LINE = 100


def is_container(value: object) -> bool:
    """What this module writes: mappings, sequences, sets, dataclasses."""
    plain = isinstance(value, (Mapping, list, tuple, Set)) or type(value).__name__ == "deque"
    return plain or (dataclasses.is_dataclass(value) and not isinstance(value, type))


def listing(value: Any, budget: int) -> tuple[str, str]:
    """The text of a container (or of what stands inside one), and a note of what was left out."""
    pieces: list[str] = []
    used = 0
    for piece in _pieces(value, ()):
        pieces.append(piece)
        used += len(piece)
        if used > budget:
            return _sample(value, budget)
    return "".join(pieces), ""


def own_text(value: object) -> str | None:
    """An object's `repr`, or its `str` where only that is its class's own; None if it has neither."""
    for text in (repr(value), str(value)):
        if not _DEFAULT_REPR.fullmatch(text):
            return text
    return None


def _sample(value: Any, budget: int) -> tuple[str, str]:
    """Items from both ends, each itself within a quarter of the budget."""
    if not is_container(value):
        return cut(_leaf(value), budget)
    opening, items, closing = _parts(value)
    cut_inside: set[int] = set()

    def item(n: int) -> str:
        key, content = items[n]
        text, inner = listing(content, max(budget // 4, 1))
        if inner:
            cut_inside.add(n)
        return key + text.replace("\n", "\n  ")

    head, tail = fit(len(items), item, budget, gap=2 if _is_flat(items) else 4)
    missing = len(items) - len(head) - len(tail)
    note = "inner parts left out where marked" if cut_inside else ""
    if missing:
        note = f"{counted(missing, 'item')} left out, {shown(len(head), len(tail))} of {len(items):,} shown"
        head.append(f"[{counted(missing, 'item')} left out here]")
    if _is_flat(items):
        return f"{opening}{', '.join([*head, *tail])}{closing}", note
    lines = ",\n  ".join([*head, *tail])
    return f"{opening}\n  {lines}\n{closing}", note


def _pieces(value: Any, above: tuple[int, ...], one_line: bool = False) -> Iterator[str]:
    """The text in pieces, so that a caller may stop when it has enough.

    above: ids of the containers that hold this one; one_line: without line ends.
    """
    if not is_container(value):
        yield _leaf(value)
        return
    if id(value) in above:
        yield '"[contains itself]"'
        return
    if len(above) >= _DEEPEST:
        raise PromptError(f"it is nested more than {_DEEPEST} levels deep.", hint="Insert a part of it.")
    opening, items, closing = _parts(value)
    one_line = one_line or _is_flat(items) or _is_short(value, above)
    indent = "" if one_line else "\n" + "  " * (len(above) + 1)
    comma = ", " if one_line else ","
    yield opening
    for n, (key, content) in enumerate(items):
        yield f"{comma if n else ''}{indent}{key}"
        yield from _pieces(content, (*above, id(value)), one_line)
    yield f"{indent[:-2]}{closing}"


def _is_flat(items: list[tuple[str, Any]]) -> bool:
    return all(isinstance(content, _SCALARS) for _, content in items)


def _is_short(value: Any, above: tuple[int, ...]) -> bool:
    used = 0
    for piece in _pieces(value, above, one_line=True):
        used += len(piece)
        if used > _LINE:
            return False
    return True


def _parts(value: Any) -> tuple[str, list[tuple[str, Any]], str]:
    """Opening, (key with its colon or "", content) of each item, closing."""
    if dataclasses.is_dataclass(value):
        fields = [f.name for f in dataclasses.fields(value) if f.repr]
        pairs = [(f"{_quoted(name)}: ", getattr(value, name)) for name in fields]
        return f"{type(value).__name__} {{", pairs, "}"
    if isinstance(value, Mapping):
        return "{", [(f"{_key(key)}: ", content) for key, content in value.items()], "}"
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        pairs = [(f"{_quoted(name)}: ", content) for name, content in zip(value._fields, value, strict=True)]
        return f"{type(value).__name__} {{", pairs, "}"
    if isinstance(value, tuple):
        return "(", [("", content) for content in value], ",)" if len(value) == 1 else ")"
    items = sorted(value, key=_order) if isinstance(value, Set) else value
    return "[", [("", content) for content in items], "]"


def _order(item: object) -> tuple[str, float, str]:
    """Sort key for the items of a set, of any types."""
    number = float(item) if isinstance(item, float) or (isinstance(item, int) and abs(item) < 2**53) else 0.0
    return type(item).__name__, number, str(item)


def _key(key: object) -> str:
    return _quoted(key) if isinstance(key, str) else str(key)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _leaf(value: Any) -> str:
    """What stands inside a container and is none itself."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return _quoted(str.__str__(value))
    if isinstance(value, (Enum, date, time, timedelta)):
        return _quoted(str(value))
    if isinstance(value, (int, float, complex, Decimal)) or ("numpy", "number") in origins(value):
        return str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _quoted(f"[{len(value):,} bytes]")
    if is_image(value):
        raise PromptError(
            f"it holds a {type(value).__name__}, and an image cannot stand inside other data.",
            hint="Insert the image by its own {{ }}, for example by its index or key.",
        )
    if frame := as_frame(value):
        return _quoted(frame_text(frame, BUDGET)[0])
    if is_array(value):
        return _quoted(array_text(value, BUDGET)[0])
    text = own_text(value)
    return _quoted(text if text is not None else f"[{type(value).__name__} object]")
