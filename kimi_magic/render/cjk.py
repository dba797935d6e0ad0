"""Chinese, Japanese and Korean in markdown: no spaces between words, and full-width punctuation.

CommonMark decides by the neighbours of `**` whether it opens or closes, and takes it for granted
that words are separated by spaces. `**提醒：**今晚` therefore keeps its stars. Here a CJK neighbour
counts as a word boundary, in both directions.

A bare link has no space after it either: it ends at full-width punctuation, and at a CJK letter
that does not begin a part of its own (`https://a.cn/docs查看` is a link and a verb,
`https://zh.wikipedia.org/wiki/深圳` is one link).
"""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.common.utils import isMdAsciiPunct, isPunctChar, isWhiteSpace
from markdown_it.parser_inline import ParserInline
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.state_inline import Scanned
from markdown_it.token import Token
from markdown_it.utils import EnvType

_LETTERS = (
    "\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c\u3041-\u3096"
    "\u309d-\u309f\u30a1-\u30fa\u30fc-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7fb"
    "\uf900-\ufaff\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\uff66-\uffdc\U00020000-\U0003fffd"
)
_CJK = f"[{_LETTERS}\u3000-\u303f\u3040-\u33ff\ufe30-\ufe6b\uff00-\uffef]"
_URL = (
    rf"[Hh][Tt][Tt][Pp][Ss]?://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~%@:-]+)"
    rf"(?:[/?#](?:[A-Za-z0-9\-._~%!&'()+,;=:@/?#$]|(?<=[/?#=&_%{_LETTERS}-])[{_LETTERS}])*)?"
)
"""Both are compiled where they are first needed: classes of so many ranges take milliseconds."""
_TRAILING = "?!.,:;_~'&$"
_ENTITY = re.compile(r"&[a-z0-9]+;$", re.IGNORECASE)
_MAX_URL = 2048
"""Characters; what is longer is no link, which bounds the work that a hostile text can cause."""


def cjk_plugin(md: MarkdownIt) -> None:
    """Emphasis and bare links by the rules above."""
    inline = CjkInline()
    inline.ruler.enableOnly([rule.name for rule in md.inline.ruler.__rules__ if rule.enabled])
    inline.ruler2.enableOnly([rule.name for rule in md.inline.ruler2.__rules__ if rule.enabled])
    md.inline = inline
    inline.ruler.after("text", "kimi_bare_link", bare_link)


class CjkState(StateInline):
    """`StateInline` whose delimiter runs know about CJK neighbours."""

    def scanDelims(self, start: int, canSplitWord: bool) -> Scanned:  # noqa: N802, N803 - the parser's names
        marker, end = self.src[start], start
        while end < self.posMax and self.src[end] == marker:
            end += 1
        before = self.src[start - 1] if start > 0 else " "
        after = self.src[end] if end < self.posMax else " "
        left, right = _flanks(before, after), _flanks(after, before)
        can_open = left and (canSplitWord or not right or _is_punct(before))
        can_close = right and (canSplitWord or not left or _is_punct(after))
        return Scanned(can_open, can_close, end - start)


class CjkInline(ParserInline):
    """The inline parser over `CjkState`."""

    def parse(self, src: str, md: MarkdownIt, env: EnvType, tokens: list[Token]) -> list[Token]:
        state = CjkState(src, md, env, tokens)
        self.tokenize(state)
        for rule in self.ruler2.getRules(""):
            rule(state)
        return state.tokens


def is_cjk(char: str) -> bool:
    return char > "\u10ff" and re.match(_CJK, char) is not None


def _flanks(outside: str, inside: str) -> bool:
    """CommonMark's left-flanking rule, seen from either side, with CJK as a word boundary."""
    if isWhiteSpace(ord(inside)):
        return False
    if not _is_punct(inside) or is_cjk(inside):
        return True
    return isWhiteSpace(ord(outside)) or _is_punct(outside) or is_cjk(outside)


def _is_punct(char: str) -> bool:
    return isMdAsciiPunct(ord(char)) or isPunctChar(char)


def bare_link(state: StateInline, silent: bool) -> bool:
    """`https://…` in running text, found at its colon as the parser stops at no letter."""
    if silent or state.linkLevel or not state.src.startswith("://", state.pos):
        return False
    scheme = re.search(r"(?<![A-Za-z0-9+.-])https?$", state.src[max(0, state.pos - 6) : state.pos], re.I)
    if not scheme or not state.pending.endswith(scheme.group()):
        return False
    start = state.pos - len(scheme.group())
    limit = min(state.posMax, start + _MAX_URL)
    match = re.compile(_URL).match(state.src, start, limit)
    if not match or match.end() == start + _MAX_URL:
        return False
    url = _without_trailing(match.group())
    if not re.fullmatch(_URL, url):
        return False
    state.pending = state.pending[: -len(scheme.group())]
    token = state.push("link_open", "a", 1)
    token.attrs = {"href": state.md.normalizeLink(url)}
    token.markup, token.info = "linkify", "auto"
    state.push("text", "", 0).content = url
    state.push("link_close", "a", -1)
    state.pos = start + len(url)
    return True


def _without_trailing(url: str) -> str:
    """`url` without the sentence's punctuation and without a bracket that it never opened."""
    spare = url.count(")") - url.count("(")
    while url:
        if entity := _ENTITY.search(url, max(0, len(url) - 12)):
            url = url[: entity.start()]
        elif url[-1] in _TRAILING:
            url = url[:-1]
        elif url[-1] == ")" and spare > 0:
            url, spare = url[:-1], spare - 1
        else:
            break
    return url
