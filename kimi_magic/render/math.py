r"""Formulas as models write them: `$…$`, `$$…$$`, `\(…\)`, `\[…\]` and `\begin{align}…\end{align}`.

A markdown-it plugin with three promises:

- Money, shell variables and R columns stay text (`$5 and $6`, `$HOME/bin:$PATH`, `df$x`), and so
  does code.
- A block formula ends at its closer, at a blank line, or at the end of its list item or quote: so no
  line changes the structure of the blocks before it, and a stream can be rendered block by block.
- Every scan is linear: an opener looks only as far as the next delimiter, or is known in advance
  to have none.

What leaves here is TeX between `\(…\)` or `\[…\]`, in an element that MathJax processes, where `tex`
lets it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from .cjk import is_cjk
from .code import code_html
from .tex import DISPLAY, stands_alone, typesettable, without_comments, without_labels

PROCESS = "mathjax_process tex2jax_process"
"""The classes that let MathJax into an element, below a wrapper with `mathjax_ignore tex2jax_ignore`."""

_BEGIN = re.compile(
    rf"\\begin\{{({DISPLAY}|aligned|alignedat|gathered|split|array|[dr]?cases|smallmatrix|[bBpvV]?matrix\*?|CD)\}}"
)
_SHELL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]+")
_WORD = re.compile(r"[A-Za-z]{3}")
_TEX = re.compile(r"[\\^_={}]")
_REFERENCE = re.compile(r"\s*\d+(\s*[,;–-]\s*\d+)*\s*")
_LONGEST_REFERENCE = 40
_PUNCTUATION = " \t.,;:，。；："
_ENDS = ")}）」』》】”’，。、；：？！"
_QUOTES = "\"'“‘「『《（【"


def math_plugin(md: MarkdownIt) -> None:
    """Block tokens `math_block` and inline tokens `math_inline`.

    `content` is the TeX without delimiters, or the whole source where `meta["closed"]` is False.
    `meta["display"]` says whether it stands on a line of its own.
    """
    alt = ["paragraph", "reference", "blockquote", "list"]
    md.block.ruler.before("fence", "math_block", _block, {"alt": alt})
    md.inline.ruler.before("escape", "math_inline", _inline)
    md.add_render_rule("math_block", _render_block)
    md.add_render_rule("math_inline", _render_inline)


# --- blocks -------------------------------------------------------------------------------------


def _block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    if state.is_code_block(start):
        return False
    pos, limit = state.bMarks[start] + state.tShift[start], state.eMarks[start]
    opener, closer = _opener(state.src, pos, limit)
    if not opener:
        return False
    found = state.src.find(closer, pos + len(opener), limit)
    if found >= 0 and state.src[found + len(closer) : limit].strip(_PUNCTUATION):
        return False  # text goes on behind the closer: a formula inside a sentence
    if not silent:
        _push_block(state, start, end, opener, closer)
    return True


def _opener(src: str, pos: int, limit: int) -> tuple[str, str]:
    """The delimiter that begins at `pos`, and the one that ends it; two empty strings for none."""
    if src.startswith(r"\[", pos):
        return r"\[", r"\]"
    if src.startswith("$$", pos) and not src.startswith("$$$", pos):
        return "$$", "$$"
    match = _BEGIN.match(src, pos, limit)
    return (match.group(), rf"\end{{{match.group(1)}}}") if match else ("", "")


def _push_block(state: StateBlock, start: int, end: int, opener: str, closer: str) -> None:
    source, rest, line = _collect(state, start, end, opener, closer)
    if rest is None and opener == "$$" and source.partition("\n")[0].strip() != "$$":
        _push_paragraph(state, source, [start, line])  # `$$` is also a shell's own number
        return
    token = state.push("math_block", "div", 0)
    token.block, token.map = True, [start, line]
    token.meta = {"display": True, "closed": rest is not None}
    token.content = source
    rest = rest or ""
    if token.meta["closed"] and not opener.startswith(r"\begin"):
        token.content = source[len(opener) : -len(closer)]
    if token.meta["closed"]:
        token.content = without_comments(token.content, inline=False)
    if mark := rest.strip() if not rest.strip(_PUNCTUATION) else "":
        token.content = _with_mark(token.content, mark, opener)
        rest = ""
    if rest.strip():
        _push_paragraph(state, rest.strip())
    state.line = line


def _push_paragraph(state: StateBlock, text: str, lines: list[int] | None = None) -> None:
    state.push("paragraph_open", "p", 1).map = lines
    inline = state.push("inline", "", 0)
    inline.content, inline.children = text, []
    state.push("paragraph_close", "p", -1)
    state.line = lines[1] if lines else state.line


def _with_mark(tex: str, mark: str, opener: str) -> str:
    """A full stop behind a displayed formula belongs into it, or it would stand on the next line."""
    return tex if opener.startswith(r"\begin") or stands_alone(tex) else f"{tex.rstrip()}{mark}"


def _collect(
    state: StateBlock, start: int, end: int, opener: str, closer: str
) -> tuple[str, str | None, int]:
    """The source up to and with the closer, what stands behind that (None: no closer), the line after."""
    parts: list[str] = []
    line, skip = start, len(opener)
    while line < end:
        inside = not state.isEmpty(line) and state.sCount[line] >= state.blkIndent
        if line > start and not inside:
            break
        pos, limit = state.bMarks[line] + state.tShift[line], state.eMarks[line]
        found = state.src.find(closer, pos + skip, limit)
        if found >= 0:
            stop = found + len(closer)
            parts.append(state.src[pos:stop])
            return "\n".join(parts), state.src[stop:limit], line + 1
        parts.append(state.src[pos:limit])
        line, skip = line + 1, 0
    return "\n".join(parts), None, line


# --- inside a paragraph -------------------------------------------------------------------------


def _inline(state: StateInline, silent: bool) -> bool:
    src, pos, limit = state.src, state.pos, state.posMax
    if src[pos] == "\\":
        start, stop, end = _bracketed(src, pos, limit)
    elif src[pos] == "$":
        start, stop, end = _dollars(src, pos, limit)
    else:
        return False
    if end < 0 or not src[start:stop].strip():
        return False
    if not silent:
        token = state.push("math_inline", "span", 0)
        token.content = without_comments(src[start:stop], inline=True)
        token.meta = {"display": src[pos : pos + 2] in (r"\[", "$$"), "closed": True}
    state.pos = end
    return True


_NONE = (-1, -1, -1)


def _bracketed(src: str, pos: int, limit: int) -> tuple[int, int, int]:
    r"""Start and stop of the content of `\(…\)` or `\[…\]`, and the position behind it. `\[1, 2\]` in a
    sentence is no formula but a reference whose brackets are escaped."""
    closer = {r"\(": r"\)", r"\[": r"\]"}.get(src[pos : pos + 2])
    if closer is None or _last(src, closer) <= pos:
        return _NONE
    stop = src.find(closer, pos + 2, limit)
    if stop < 0 or (
        closer == r"\]" and stop - pos < _LONGEST_REFERENCE and _REFERENCE.fullmatch(src, pos + 2, stop)
    ):
        return _NONE
    return pos + 2, stop, stop + 2


@lru_cache(maxsize=4)
def _last(src: str, needle: str) -> int:
    """The last place of `needle`: asked for at every opener of one text, so searched once."""
    return src.rfind(needle)


def _dollars(src: str, pos: int, limit: int) -> tuple[int, int, int]:
    """The same for `$…$` and `$$…$$`, which are money or a shell variable as often as not."""
    width = 2 if src.startswith("$$", pos) else 1
    start = pos + width
    stop = _next_dollar(src, start, limit)
    if stop < 0 or "`" in src[start:stop]:
        return _NONE
    before, after = src[max(0, pos - 1) : pos], src[stop + width : stop + width + 1]
    if after == "$" or (before == "$" and src[max(0, pos - 2)] != "\\"):  # `$$$` says how dear a place is
        return _NONE
    if width == 2:
        return (start, stop, stop + 2) if src.startswith("$$", stop, limit) else _NONE
    content = src[start:stop]
    if not _opens(before, content[0]) or not _closes(content, after) or _is_torn(before, content, after):
        return _NONE
    return start, stop, stop + 1


def _next_dollar(src: str, start: int, limit: int) -> int:
    """The next `$` without an odd number of backslashes before it, or -1."""
    stop = src.find("$", start, limit)
    while stop >= 0:
        run = stop
        while run > start and src[run - 1] == "\\":
            run -= 1
        if (stop - run) % 2 == 0:
            return stop
        stop = src.find("$", stop + 1, limit)
    return -1


def _opens(before: str, first: str) -> bool:
    r"""`df$x` and `US$5` open nothing; `10$^{-3}$` and `3$\times$4` do."""
    if first in " \t\n$":
        return False
    return not (before.isascii() and before.isalnum()) or first in "\\^_"


def _closes(content: str, after: str) -> bool:
    """No space before the closer, no digit after it, no name that runs on (`$HOME/bin:$PATH`, `$ab$c`)."""
    if content[-1:] in " \t\n" or after.isdigit() or _is_money(content):
        return False
    if after.isascii() and (after.isalpha() or after in ("_", "(")):
        return content[-1] not in ":/=,;+-.@<>&~" and not _SHELL_NAME.fullmatch(content)
    return True


def _is_torn(before: str, content: str, after: str) -> bool:
    """Both dollars stand in brackets or quotes of their own: `cost ($), price ($)`, `"$A" "$B"`, `${A}_${B}`,
    `f($a) + g($b)`."""
    if content[0] in _ENDS or (content[-1] in "([{" and content[-2:-1] != "\\"):
        return True
    if after == "{" or (content[0] == after == "("):
        return True
    return (
        before != ""
        and before in _QUOTES
        and content[-1] in _QUOTES
        and (content[-1] == before or content[-2:-1] == " ")
    )


def _is_money(content: str) -> bool:
    """`$5 for two or 6$`: a number, then words, and nothing of TeX."""
    words = _WORD.search(content) or any(map(is_cjk, content))
    return content[0].isdigit() and bool(words) and not _TEX.search(content)


# --- HTML ---------------------------------------------------------------------------------------


def formula_html(tex: str, *, display: bool, tag: str = "span") -> str:
    """TeX in the delimiters that every MathJax set-up knows, or its source where it must not run."""
    if not typesettable(tex):
        return f"<code>{escape(tex)}</code>"
    tex = escape(without_labels(tex))
    if not display:
        tex = rf"\({tex}\)"
    elif not stands_alone(tex):
        tex = rf"\[{tex}\]"
    return f'<{tag} class="{PROCESS}">{tex}</{tag}>'


def _render_block(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    token = tokens[index]
    if not token.meta["closed"]:
        return f"<p>{escape(token.content)}</p>\n"
    if not typesettable(token.content):
        return code_html(token.content.strip("\n") + "\n", "latex", closed=False)
    return formula_html(token.content, display=True, tag="div") + "\n"


def _render_inline(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    token = tokens[index]
    return formula_html(token.content, display=token.meta["display"])
