r"""What of a formula may be typeset, by MathJax in a page and by LaTeX in an export.

A formula with a macro that reaches outside typesetting (links, HTML, files, definitions that outlive the
formula), or that does not close what it opens, is shown as its source instead.
"""

from __future__ import annotations

import re

MAX_FORMULA = 10_000
"""Characters; a longer formula is shown as its source."""

DISPLAY = r"(?:equation|align|alignat|gather|multline|eqnarray|flalign)\*?"
"""Environments that display a formula by themselves."""
_STANDS_ALONE = re.compile(rf"\s*\\begin\{{{DISPLAY}\}}")
_LABEL = re.compile(r"\\label\s*\{[^{}]*\}")

_FORBIDDEN = re.compile(
    r"\\(?:href|url|require|autoload|html\w*|data|class|cssId|style|bbox|unicode|mmlToken|mathtip|texttip|toggle"
    r"|[gex]?def|let|futurelet|global|long|newcommand|renewcommand|providecommand|newenvironment|renewenvironment"
    r"|Declare\w+|definecolor|Newextarrow|newcolumntype|mathtoolsset|setOptions|mathchardef|newtagform|usetagform"
    r"|(?:eq|auto)?ref|char|special|catcode|csname|[A-Za-z]*[Ii]nput[A-Za-z]*|include|scantokens|directlua"
    r"|includegraphics|write|openin|openout|read|loop|repeat|everymath|textmacros|breakAlign)(?![A-Za-z])|\^\^"
)
"""Macros, and `^^5c`, which is a backslash to LaTeX."""
_GROUPS = re.compile(r"\\(begin|end)\s*\{([^{}]*)\}|\\.|([{}])", re.DOTALL)


def typesettable(tex: str) -> bool:
    """Whether a formula may go to MathJax: not endless, whole, and no macro that reaches outside it."""
    return len(tex) <= MAX_FORMULA and not _FORBIDDEN.search(tex) and _is_whole(tex)


def _is_whole(tex: str) -> bool:
    """Whether all that it opens closes; else LaTeX goes on reading behind its end."""
    opened: list[str] = []
    for mark, name, brace in _GROUPS.findall(tex):
        if mark == "begin" or brace == "{":
            opened.append(name)
        elif (mark == "end" or brace == "}") and (not opened or opened.pop() != name):
            return False
    return not opened and (len(tex) - len(tex.rstrip("\\"))) % 2 == 0


def stands_alone(tex: str) -> bool:
    r"""Whether `tex` is an environment that must not stand between `\[` and `\]`."""
    return _STANDS_ALONE.match(tex) is not None


_COMMENT = re.compile(r"(\\.)|%", re.DOTALL)
_PERCENT = re.compile(r"(\\.)|(?<=\d)%", re.DOTALL)


def without_comments(tex: str, *, inline: bool) -> str:
    """`tex` with its percent signs escaped, as TeX leaves out what follows them. inline: all of them; else
    those behind a digit, as a formula of several lines may have comments."""
    pattern = _COMMENT if inline else _PERCENT
    return pattern.sub(lambda match: match[1] or r"\%", tex) if "%" in tex else tex


def without_labels(tex: str) -> str:
    """A label set twice is an error, and an output is typeset often."""
    return _LABEL.sub("", tex)
