"""What our markdown has beyond CommonMark, and what it refuses.

- Footnotes show their own label, not a running number: so no block depends on those before it.
- Task items get a box character, which needs no form element and is read aloud.
- Links that are not http, https or mailto become plain text with the target as a title. Images become
  links, as loading one tells its server who reads what and when.
- `<br>` breaks the line (models write it in table cells); all other HTML is text.
- Blocks nested too deeply are shown as text; the parser by itself would drop them. So are the marks of
  emphasis that is nested too deeply.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, fence, paragraph
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from .code import code_html
from .sanitise import clean, safe_url

MAX_DEPTH = 20
"""Levels of nested blocks, where a list counts two and a quote one; and of emphasis inside a block."""

_NOTE = re.compile(r"\[\^([^\s\[\]]{1,64})\]")
_NOTE_DEFINITION = re.compile(_NOTE.pattern + r":[ \t]*")
_BREAK = re.compile(r"<br[ \t]*/?>", re.IGNORECASE)
_TASK = re.compile(r"\[([ xX])\][ \t\n]+")
_MAX_TITLE = 200
_INTERRUPTS = ["paragraph", "reference", "blockquote", "list"]


class Definitions(dict[str, dict[str, Any]]):
    """Link definitions by label, and footnotes by `note_key(label)`; `asked` has all labels looked up."""

    def __init__(self, known: dict[str, dict[str, Any]] | None = None) -> None:
        super().__init__(known or {})
        self.asked: set[str] = set()

    def get(self, label: str, default: Any = None) -> Any:
        self.asked.add(label)
        return super().get(label, default)

    def differences(self, other: Definitions) -> set[str]:
        """Labels that mean something else in `other`."""
        return {
            label
            for label in self.keys() | other.keys()
            if _meaning(dict.get(self, label)) != _meaning(dict.get(other, label))
        }


def _meaning(definition: dict[str, Any] | None) -> tuple[str, str] | None:
    return (definition["href"], definition["title"]) if definition else None


def note_key(label: str) -> str:
    """A footnote's key among the link labels: no label can hold the NUL."""
    return "\0" + label


def dialect_plugin(md: MarkdownIt) -> None:
    """Everything above; links are checked on tokens, so that a refused one keeps its text."""
    md.validateLink = lambda url: True  # type: ignore[method-assign]  # see `_links`
    md.block.ruler.before("table", "too_deep", _too_deep)
    md.block.ruler.at("fence", _fence, {"alt": _INTERRUPTS})
    md.block.ruler.before("reference", "footnote", _footnote, {"alt": _INTERRUPTS})
    md.inline.ruler.before("link", "footnote_mark", _footnote_mark)
    md.inline.ruler.before("autolink", "line_break", _line_break)
    md.core.ruler.after("inline", "dialect", _dialect)
    md.add_render_rule("fence", _render_fence)
    md.add_render_rule("code_block", _render_fence)
    md.add_render_rule("footnote_mark", _render_footnote_mark)
    md.add_render_rule("task", _render_task)
    md.add_render_rule("table_open", _render_table_open)
    md.add_render_rule("table_close", _render_table_close)


# --- blocks -------------------------------------------------------------------------------------


def _too_deep(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    return not silent and state.level >= MAX_DEPTH and paragraph(state, start, end, False)


def _fence(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A fence that knows whether its end was seen, in `meta["closed"]`."""
    if not fence(state, start, end, silent):
        return False
    if not silent:
        token = state.tokens[-1]
        lines = token.content.count("\n") + (not token.content.endswith("\n") and token.content != "")
        token.meta["closed"] = state.line - start == lines + 2
    return True


def _footnote(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """`[^label]: text`, and the lines after it that are indented by four."""
    match = _NOTE_DEFINITION.match(state.src, state.bMarks[start] + state.tShift[start], state.eMarks[start])
    if not match or state.is_code_block(start):
        return False
    if silent or state.level > 0:  # it ends any block, but is a footnote only at the top
        return silent
    label = match.group(1)
    token = state.push("footnote_open", "div", 1)
    token.block, token.meta = True, {"label": label}
    token.attrs = {"class": "kimi-footnote"}
    _tokenize_note(state, start, end, match.end())
    token.map = [start, state.line]
    state.push("footnote_close", "div", -1).block = True
    definition = {"title": "", "href": "", "map": [start, state.line]}
    state.env["references"].setdefault(note_key(label), definition)
    return True


def _tokenize_note(state: StateBlock, start: int, end: int, content: int) -> None:
    saved = state.bMarks[start], state.tShift[start], state.sCount[start], state.blkIndent, state.parentType
    state.bMarks[start], state.tShift[start], state.sCount[start] = content, 0, 4
    state.blkIndent, state.parentType = 4, "footnote"
    state.md.block.tokenize(state, start, end)
    state.bMarks[start], state.tShift[start], state.sCount[start], state.blkIndent, state.parentType = saved


# --- inside a paragraph -------------------------------------------------------------------------


def _footnote_mark(state: StateInline, silent: bool) -> bool:
    if not state.src.startswith("[^", state.pos):
        return False
    match = _NOTE.match(state.src, state.pos, state.posMax)
    if not match or not state.env["references"].get(note_key(match.group(1))):
        return False
    if not silent:
        state.push("footnote_mark", "sup", 0).meta = {"label": match.group(1)}
    state.pos = match.end()
    return True


def _line_break(state: StateInline, silent: bool) -> bool:
    match = _BREAK.match(state.src, state.pos, state.posMax)
    if not match:
        return False
    if not silent:
        state.push("hardbreak", "br", 0)
    state.pos = match.end()
    return True


# --- after parsing ------------------------------------------------------------------------------


def _dialect(state: StateCore) -> None:
    _mark_note(state.tokens)
    for index, token in enumerate(state.tokens):
        if token.type == "inline":
            token.children = [_inert(child) for child in _links(token.children or [])]
            _task(state.tokens, index)


def _mark_note(tokens: list[Token]) -> None:
    """The label at the head of a footnote, inside its first paragraph."""
    if not tokens or tokens[0].type != "footnote_open":
        return
    mark = Token("footnote_mark", "sup", 0, meta=tokens[0].meta)
    space = Token("text", "", 0, content=" ")
    if tokens[1].type == "paragraph_open":
        tokens[2].children = [mark, space, *(tokens[2].children or [])]
    else:
        ends = Token("paragraph_open", "p", 1, block=True), Token("paragraph_close", "p", -1, block=True)
        tokens[1:1] = [ends[0], Token("inline", "", 0, children=[mark]), ends[1]]


def _task(tokens: list[Token], index: int) -> None:
    """`- [x] done`: the item's first text loses its brackets and gets a box."""
    token = tokens[index]
    match = _TASK.match(token.content)
    children = token.children or []
    if not match or index < 2 or tokens[index - 2].type != "list_item_open" or not children:
        return
    if children[0].type != "text" or not children[0].content.startswith(match.group()[:3]):
        return
    tokens[index - 2].attrs = {"class": "kimi-task", "style": "list-style-type:none"}
    children[0].content = children[0].content[3:].lstrip()
    children.insert(0, Token("task", "span", 0, meta={"done": match.group(1) != " "}))
    token.children = children


def _inert(token: Token) -> Token:
    """Clean again, as character references and `%` in a bare address are decoded by now; and emphasis
    below the deepest level as the marks that it is written with."""
    if token.nesting and token.markup and token.level >= MAX_DEPTH and token.tag != "a":
        return Token("text", "", 0, content=token.markup)
    token.content = clean(token.content)
    if "title" in token.attrs:
        token.attrs["title"] = clean(str(token.attrs["title"]))
    return token


def _links(children: Iterable[Token]) -> Iterator[Token]:
    """Links in their final form, images as links, neither inside the other."""
    link: Token | None = None
    for token in children:
        if token.type == "link_open":
            link = token
            _settle(token)
        elif token.type == "link_close":
            token.tag, link = (link.tag if link else "a"), None
        elif token.type == "image":
            yield from _image(token, inside=link is not None)
            continue
        yield token


def _settle(token: Token) -> None:
    """A link to follow (in a new tab), or a span that only tells where it would have led."""
    href, title = str(token.attrGet("href") or ""), str(token.attrGet("title") or "")
    if safe_url(href):
        token.attrs = {"href": href, **({"title": title} if title else {}), "target": "_blank"}
    else:
        token.tag, token.attrs = "span", {"class": "kimi-nolink", "title": href[:_MAX_TITLE]}


def _image(token: Token, *, inside: bool) -> Iterator[Token]:
    source = str(token.attrGet("src") or "")
    alt = _as_text(token.children or [])
    text = Token("text", "", 0, content=alt or ("image" if inside or not safe_url(source) else source))
    if inside:
        yield text
        return
    opening, closing = Token("link_open", "a", 1), Token("link_close", "a", -1)
    opening.attrs = {"href": source, "title": str(token.attrGet("title") or "")}
    _settle(opening)
    opening.attrJoin("class", "kimi-image")
    closing.tag = opening.tag
    yield from (opening, text, closing)


def _as_text(tokens: Iterable[Token]) -> str:
    """What an image's description says, without its markup."""
    return "".join(_as_text(token.children) if token.children else token.content for token in tokens)


# --- HTML ---------------------------------------------------------------------------------------


def _render_fence(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    token = tokens[index]
    return code_html(token.content, token.info, closed=token.meta.get("closed", False))


def _render_footnote_mark(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    return f'<sup class="kimi-footnote">[{escape(tokens[index].meta["label"])}]</sup>'


def _render_task(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    box, label = ("☑", "done") if tokens[index].meta["done"] else ("☐", "to do")
    return f'<span class="kimi-box" role="img" aria-label="{label}">{box}</span> '


def _render_table_open(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    return '<div class="kimi-table" style="overflow-x:auto">\n<table>\n'


def _render_table_close(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    return "</table>\n</div>\n"
