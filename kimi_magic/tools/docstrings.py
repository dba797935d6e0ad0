"""What a docstring says of a function and of each parameter: Google, NumPy and Sphinx style.

The sections about parameters go to the parameters; everything else stays in the description, in the
author's words.
"""

from __future__ import annotations

import re

_HEADS = (
    "args",
    "arguments",
    "parameters",
    "params",
    "keyword args",
    "keyword arguments",
    "other parameters",
)
_SPHINX = re.compile(r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:\n]*\s)?\*{0,2}(\w+)\s*:\s*(.*)")
_FIELD = re.compile(r"\s*:\w")
_GOOGLE = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)\n]*(?:\([^)\n]*\)[^)\n]*)*\))?\s*:\s*(.*)")
_NUMPY = re.compile(r"\*{0,2}(\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")


def read(docstring: str | None) -> tuple[str, dict[str, str]]:
    """The description, and the text of each parameter on one line. docstring: without its margin, as
    `inspect.getdoc` gives it."""
    lines = (docstring or "").splitlines()
    kept: list[str] = []
    found: dict[str, str] = {}
    n = 0
    while n < len(lines):
        head = lines[n].strip().rstrip(":").lower()
        underlined = n + 1 < len(lines) and re.fullmatch(r"\s*-{3,}\s*", lines[n + 1]) is not None
        if head in _HEADS and underlined:
            n = _numpy(lines, n + 2, found)
        elif head in _HEADS and lines[n].rstrip().endswith(":"):
            n = _google(lines, n + 1, _indent(lines[n]), found)
        elif match := _SPHINX.match(lines[n].strip()):
            n = _sphinx(lines, n, match, found)
        else:
            if not re.match(r"\s*:(?:r?type)\b", lines[n]):
                kept.append(lines[n])
            n += 1
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip(), found


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _google(lines: list[str], n: int, margin: int, found: dict[str, str]) -> int:
    """`name (type): text`, each indented, its further lines indented more."""
    level, name = 0, ""
    while n < len(lines) and (not lines[n].strip() or _indent(lines[n]) > margin):
        indent, line = _indent(lines[n]), lines[n].strip()
        if line and not level:
            level = indent
        match = _GOOGLE.match(line) if line and indent <= level else None
        if match:
            name = match[1]
            found[name] = match[2].strip()
        elif line and name:
            found[name] = f"{found[name]} {line}".strip()
        n += 1
    return n


def _numpy(lines: list[str], n: int, found: dict[str, str]) -> int:
    """`name : type`, the text below it, indented; the section ends at the next underlined head."""
    names: list[str] = []
    while n < len(lines):
        line = lines[n].strip()
        if n + 1 < len(lines) and line and re.fullmatch(r"\s*-{3,}\s*", lines[n + 1]):
            return n
        match = _NUMPY.match(line) if line and _indent(lines[n]) == 0 else None
        if match:
            names = [part.strip().lstrip("*") for part in match[1].split(",")]
            found.update(dict.fromkeys(names, ""))
        elif line and _indent(lines[n]) == 0:
            return n
        elif line:
            for name in names:
                found[name] = f"{found[name]} {line}".strip()
        n += 1
    return n


def _sphinx(lines: list[str], n: int, match: re.Match[str], found: dict[str, str]) -> int:
    """`:param type name: text`, further lines indented."""
    name, margin = match[1], _indent(lines[n])
    found[name] = match[2].strip()
    n += 1
    while n < len(lines) and lines[n].strip() and _indent(lines[n]) > margin and not _FIELD.match(lines[n]):
        found[name] = f"{found[name]} {lines[n].strip()}".strip()
        n += 1
    return n
