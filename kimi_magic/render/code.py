"""Code blocks: source → escaped text with a class for each kind of token.

Pygments names some eighty kinds of token. A reader tells about ten apart, so the spans carry ten
classes, neighbours of one class share a span, and the HTML stays small. The text inside the spans is
always exactly the source: what is selected and copied is what the model wrote.

Pygments is imported when the first block closes.
"""

from __future__ import annotations

import re
from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pygments.lexer import Lexer

MAX_HIGHLIGHTED = 20_000
"""Characters; a longer block is shown plain, as lexing is the slowest step of all."""

LANGUAGES = frozenset(
    re.findall(
        r"\S+",
        """
        bash bat batch bib bibtex c c# c++ clojure cmake console cpp cs csharp css cuda cython dart diff
        docker dockerfile elixir erlang f90 fortran fsharp go golang graphql groovy haskell hs html http
        ini ipython ipython3 java javascript jl js json json5 jsx julia kotlin latex less lua make
        makefile markdown mathematica matlab md mysql nim nix numpy objective-c ocaml octave perl
        php pl plpgsql postgres postgresql powershell prolog protobuf ps1 py py3 pycon pytb python python3
        pyx r rb rconsole rs rst ruby rust sas scala scheme scss sh shell shell-session sparql sql
        sqlite3 stan stata swift tcl tex toml ts tsx typescript vb.net verilog vhdl xml yaml yml zig zsh
        """,
    )
)
"""Languages to colour. Not all that Pygments knows: some of its lexers need minutes for a line that was
made to stop them (measured: LilyPond, 200 s for 3,000 letters), and the text is not ours."""

CLASSES = {
    "Comment": "kimi-comment",
    "Comment.Preproc": "kimi-meta",
    "Generic.Deleted": "kimi-deleted",
    "Generic.Heading": "kimi-keyword",
    "Generic.Inserted": "kimi-inserted",
    "Generic.Prompt": "kimi-comment",
    "Generic.Subheading": "kimi-keyword",
    "Keyword": "kimi-keyword",
    "Literal.Number": "kimi-number",
    "Literal.String": "kimi-string",
    "Name.Attribute": "kimi-name",
    "Name.Builtin": "kimi-builtin",
    "Name.Class": "kimi-name",
    "Name.Decorator": "kimi-meta",
    "Name.Exception": "kimi-name",
    "Name.Function": "kimi-name",
    "Name.Tag": "kimi-keyword",
    "Operator": "kimi-operator",
    "Operator.Word": "kimi-keyword",
}
"""Token type (Pygments' names) → class; a type that is not here has its parent's class."""

STYLE = """
.kimi-comment { color: var(--jp-mirror-editor-comment-color, #408080); font-style: italic }
.kimi-keyword { color: var(--jp-mirror-editor-keyword-color, #008000); font-weight: bold }
.kimi-string { color: var(--jp-mirror-editor-string-color, #ba2121) }
.kimi-number { color: var(--jp-mirror-editor-number-color, #008080) }
.kimi-operator { color: var(--jp-mirror-editor-operator-color, #7800c2) }
.kimi-name { color: var(--jp-mirror-editor-def-color, #0055cc) }
.kimi-builtin { color: var(--jp-mirror-editor-builtin-color, #008000) }
.kimi-meta { color: var(--jp-mirror-editor-meta-color, #aa22ff) }
.kimi-inserted { background: rgba(46, 160, 67, 0.2) }
.kimi-deleted { background: rgba(248, 81, 73, 0.2) }
"""
"""Rules for the classes, to be put below a scope of the caller's."""

_ODD = re.compile(r"[^\n]{1001}|\n{50}")
"""Endless lines and endless gaps: no code has them, and many lexers are quadratic there."""

_LANGUAGE = re.compile(r"[{.\s]*([A-Za-z0-9][\w+#.-]{0,39})", re.ASCII)


def language(info: str) -> str:
    """The language of a fence by its info string (`python`, `{r}`, `js title=x`), or ''."""
    match = _LANGUAGE.match(info)
    return match.group(1).rstrip(".").lower() if match else ""


def code_html(source: str, info: str = "", *, closed: bool = True) -> str:
    """A block of code as HTML; `closed` says that no more of it will come, so it is worth colouring."""
    name = language(info)
    inner = highlight(source, name) if closed and name else escape(source)
    label = f' class="language-{escape(name)}"' if name else ""
    return f'<pre class="kimi-code"><code{label}>{inner}</code></pre>\n'


@lru_cache(maxsize=64)
def highlight(source: str, name: str) -> str:
    """`source` escaped, with spans by `CLASSES` where `name` is one of `LANGUAGES`."""
    known = name in LANGUAGES and len(source) <= MAX_HIGHLIGHTED and not _ODD.search(source)
    lexer = _lexer(name) if known else None
    if lexer is None:
        return escape(source)
    runs: list[tuple[str, list[str]]] = []
    for kind, text in lexer.get_tokens(source):
        label = _class_of(str(kind)) if text.strip() else ""
        if not runs or runs[-1][0] != label:
            runs.append((label, []))
        runs[-1][1].append(text)
    if "".join("".join(texts) for _, texts in runs) != source:  # a lexer that rewrites its input
        return escape(source)
    return "".join(_span(label, "".join(texts)) for label, texts in runs)


def _span(label: str, text: str) -> str:
    return f'<span class="{label}">{escape(text)}</span>' if label else escape(text)


@lru_cache(maxsize=256)
def _class_of(kind: str) -> str:
    """The class for `Token.Keyword.Type` and the like."""
    parts = kind.split(".")[1:]
    while parts:
        if label := CLASSES.get(".".join(parts)):
            return label
        parts.pop()
    return ""


@lru_cache(maxsize=128)
def _lexer(name: str) -> Lexer | None:
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        known = "yaml" if name == "yml" else name  # Pygments knows the short form from 2.21 on
        return get_lexer_by_name(known, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
