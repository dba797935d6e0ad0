"""A text for a regular expression: the shortest way through its parse tree.

Look-arounds and back references are beyond it; the caller tests what comes out.
"""

from __future__ import annotations

import importlib
from typing import Any

# Python's own parser has no public name; writing a second one would be longer and less exact.
_parser: Any = importlib.import_module("re._parser")


def text_for(pattern: str, extra: int = 0) -> str:
    """A text that the pattern should match; each open-ended repeat goes `extra` rounds longer."""
    return "".join(_node(str(op), value, extra) for op, value in _parser.parse(pattern))


def _sequence(nodes: Any, extra: int) -> str:
    return "".join(_node(str(op), value, extra) for op, value in nodes)


def _node(op: str, value: Any, extra: int) -> str:
    if op == "LITERAL":
        return chr(value)
    if op == "NOT_LITERAL":
        return "a" if value != ord("a") else "b"
    if op == "ANY":
        return "a"
    if op == "IN":
        return _one_of(value)
    if op == "BRANCH":
        return _sequence(value[1][0], extra)
    if op == "SUBPATTERN":
        return _sequence(value[-1], extra)
    if op == "ATOMIC_GROUP":
        return _sequence(value, extra)
    if op in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        low, high, body = value
        return "".join(_sequence(body, extra) for _ in range(min(low + extra, int(high))))
    return ""  # anchors and look-arounds take no characters


_SAMPLES = (
    "aA1_- .,:;/@#+*!?()[]{}\n\u4e2d\u00e9" + "bcdefghijklmnopqrstuvwxyzBCDEFGHIJKLMNOPQRSTUVWXYZ023456789"
)


def _one_of(items: Any) -> str:
    negated = str(items[0][0]) == "NEGATE"
    if not negated and str(items[0][0]) == "LITERAL":
        return chr(items[0][1])
    if not negated and str(items[0][0]) == "RANGE":
        return chr(items[0][1][0])
    return next((c for c in _SAMPLES if any(_holds(item, c) for item in items) != negated), "a")


def _holds(item: Any, char: str) -> bool:
    op, value = str(item[0]), item[1]
    if op == "LITERAL":
        return bool(ord(char) == value)
    if op == "RANGE":
        return bool(value[0] <= ord(char) <= value[1])
    if op == "CATEGORY":
        name = str(value).removeprefix("CATEGORY_")
        kind = name.removeprefix("NOT_")
        tests = {"DIGIT": char.isdigit(), "SPACE": char.isspace(), "WORD": char.isalnum() or char == "_"}
        return (kind in tests and tests[kind]) is not name.startswith("NOT_")
    return False
