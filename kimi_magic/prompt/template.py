"""The `{{ … }}` of a prompt: which braces are an expression (`lookup` gives its value), and which are text.

    {{ name }}  {{ df.shape }}  {{ row[0] }}  {{ xs[:10] }}  {{ d["key"] }}  {{ df[["a", "b"]] }}  {{ x:.2f }}

What is an expression, and what is text:

- `{{ … }}` is an expression if there is no brace between (other than inside a quoted key), it begins
  with a name, and Python could read it as an expression, with an optional `:format` behind. Anything
  else is text and goes out as it stands: single braces, `{{}}`, `{{"a": 1}}`, `{{a} b}`, `{{\\bf x}}`,
  `{{The Art of Programming}}`, `{{#each}}`. So do `$`, backslashes and line ends.
- An expression is a name of the notebook, then attributes, and keys in brackets: numbers, strings,
  slices, and lists or tuples of those. Everything else that Python could read (calls, operators,
  Jinja filters, `!r`) is refused before anything is sent, and so are names and attributes that begin
  with an underscore, and attributes of modules, functions, generators, frames: a prompt runs no code
  and does not walk into the inside of things.
- Of three braces the inner two count: `{{{ n }}}` gives `{5}`, as LaTeX wants it.
- `{{ "…" }}`, a quoted text that itself has `{{` or `}}` in it, stands for that text: the way to
  write double braces literally. `raw` turns everything into text.
- One pass: what was inserted is not looked at again.

Text that looks meant, because a variable of the notebook stands in it, goes out as well, but not without a
word (`overlooked`): `{{ 2*x }}`, `{{ (x) }}`, and the `{{ x` that is never closed.
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<mark>[\[\](){}:!"'])|[^\[\](){}:!"']+"""
)
_NO_BRACE = re.compile(r"[^{}]*")
_OPEN_NAME = re.compile(r"\{\{[ \t]*([^\W\d]\w*)[\w.\[\]\"':, \t]*\}?[ \t]*$", re.MULTILINE)
_LONGEST = 1_000  # characters of text that is looked at as if it were Python
_DOUBTS = 3


@dataclass(frozen=True, slots=True)
class Placeholder:
    """One `{{ … }}` of a template, which stands at `template[start:end]`."""

    start: int
    end: int
    source: str
    """What stands between the braces, without the format."""
    spec: str
    tree: ast.expr | None
    """None: `source` is not of the language, though meant (`x!r`)."""

    @property
    def literal(self) -> str | None:
        """The text of the `{{ "…" }}` form."""
        match self.tree:
            case ast.Constant(value=str() as text):
                return text
        return None


def placeholders(template: str) -> Iterator[Placeholder]:
    """Every expression of a template, from left to right."""
    start = template.find("{{")
    while start >= 0:
        found = placeholder_at(template, start)
        if found:
            yield found
        start = template.find("{{", found.end if found else start + 1)


def placeholder_at(template: str, start: int) -> Placeholder | None:
    """The expression that begins at this position, or None where the braces are text."""
    if not template.startswith("{{", start):
        return None
    mark, pos = _scan(template, start + 2)
    source = template[start + 2 : pos].strip()
    spec = ""
    if mark in (":", "!"):
        end = _NO_BRACE.match(template, pos)
        assert end is not None  # the pattern matches everywhere
        spec = template[pos + 1 : end.end()].rstrip()
        pos = end.end()
    if not template.startswith("}}", pos):
        return None
    tree = _parse(source)
    if tree is None:
        return None
    return Placeholder(start, pos + 2, source, spec, None if mark == "!" else tree)


def _scan(template: str, pos: int) -> tuple[str, int]:
    """The first brace, lone quote, or colon or `!` outside brackets, and where it stands."""
    depth = 0
    for token in _TOKEN.finditer(template, pos):
        mark = token["mark"]
        if mark in ("[", "("):
            depth += 1
        elif mark in ("]", ")"):
            depth -= 1
        elif mark and not (mark in ":!" and (depth or template.startswith("!=", token.start()))):
            return mark, token.start()
    return "", len(template)


def _parse(source: str) -> ast.expr | None:
    """The tree of an expression that begins with a name, or of the `"{{"` form; else None."""
    if not re.match(r"[^\W\d]", source) and not re.search(r"^[\"'].*(\{\{|\}\}).*[\"']$", source, re.DOTALL):
        return None
    tree = _python(source)
    if source[0] in "\"'":
        return tree if isinstance(tree, ast.Constant) and isinstance(tree.value, str) else None
    return tree


def _python(source: str) -> ast.expr | None:
    """What Python would read, or None."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a text that only looks like Python ("1or 2")
            return ast.parse(f"({source})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


# --- text that looks meant ----------------------------------------------------------------------


def overlooked(template: str, namespace: Mapping[str, object]) -> list[str]:
    """What of the text was perhaps meant as an expression, each as it is written: Python could read it and
    a variable stands in it, or it begins with one and its braces are never closed."""
    opened = _never_closed(template)
    found: dict[str, None] = {}
    start = template.find("{{")
    while start >= 0:
        meant = placeholder_at(template, start)
        if meant is not None:
            start = template.find("{{", meant.end)
            continue
        names, written = _open_name(template, start) if start in opened else _loose(template, start)
        if any(name in namespace for name in names):
            found[written] = None
        start = template.find("{{", start + 1)
    return list(found)


def doubts(templates: Iterable[str], namespace: Mapping[str, object]) -> list[str]:
    """Lines for the user about what was `overlooked`; a few at most."""
    found = [each for template in templates for each in overlooked(template, namespace)]
    return [
        f"{textwrap.shorten(each, 60, placeholder=' …')} went out as it is written: only a name with"
        " attributes and keys is inserted."
        for each in found[:_DOUBTS]
    ]


def _loose(template: str, start: int) -> tuple[set[str], str]:
    """The names in braces that Python could read, though they do not begin with one; and all of it."""
    mark, pos = _scan(template, start + 2)
    source = template[start + 2 : pos].strip()
    if mark == ":":
        end = _NO_BRACE.match(template, pos)
        assert end is not None  # the pattern matches everywhere
        pos = end.end()
    tree = _python(source) if template.startswith("}}", pos) and len(source) <= _LONGEST else None
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} if tree is not None else set()
    return names, template[start : pos + 2]


def _open_name(template: str, start: int) -> tuple[set[str], str]:
    """The name behind braces that are never closed, with nothing else in its line; and all of it."""
    found = _OPEN_NAME.match(template, start)
    return ({found[1]}, found[0].rstrip()) if found is not None else (set(), "")


def _never_closed(template: str) -> set[int]:
    """Positions of the opening braces that no closing one belongs to."""
    opened: list[int] = []
    for brace in re.finditer(r"[{}]", template):
        if brace[0] == "{":
            opened.append(brace.start())
        elif opened:
            opened.pop()
    return set(opened)
