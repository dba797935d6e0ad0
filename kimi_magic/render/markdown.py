"""Markdown → safe HTML, whole or while it streams in.

Rules of the file:

- A text is a list of top-level blocks, and each is rendered and sanitised by itself. `Incremental`
  and `render_markdown` do this with the same functions, so their results are equal byte for byte.
- A block is *closed* when no further text can change it. Closed blocks are rendered once. The rest
  (mostly one block) is parsed again whenever somebody asks for it; feeding only stores the text.
- What a block takes from elsewhere are definitions (`[label]: url`, `[^note]: …`). Each block
  remembers the labels that it asked for, found or not, and is rendered again if one of them changes.
- Nothing is lost: what may not be a link or an image is still shown as text, and so is what is
  nested too deeply.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

from .cjk import cjk_plugin
from .dialect import MAX_DEPTH, Definitions, dialect_plugin
from .math import math_plugin
from .sanitise import clean, held_back, sanitise

Tokens = list[Token]


@lru_cache(maxsize=1)
def parser() -> MarkdownIt:
    """CommonMark without raw HTML, with tables, `~~`, task lists, footnotes, bare links and formulas.

    The core chain has no `normalize` and no `block` step: text is cleaned before, and blocks are
    parsed by `split`.
    """
    md = MarkdownIt("commonmark", {"html": False, "maxNesting": MAX_DEPTH + 4})
    md.enable(["table", "strikethrough"])
    md.core.ruler.disable(["normalize", "block"])
    cjk_plugin(md)
    math_plugin(md)
    dialect_plugin(md)
    return md


def render_markdown(text: str) -> str:
    """Markdown as HTML that is safe to show: blocks in a row, without an element around them."""
    defined = Definitions()
    groups = split(clean(text), defined)
    return _document((_is_note(group), render(group, defined)) for group in groups)


def parse(text: str) -> tuple[list[Tokens], Definitions]:
    """The top-level blocks of `text` as tokens with their inline content, and its definitions."""
    defined = Definitions()
    groups = split(clean(text), defined)
    return [_finish(group, defined) for group in groups], defined


def split(source: str, defined: Definitions) -> list[Tokens]:
    """The tokens of each top-level block of a cleaned text; definitions go into `defined`.

    The first token of a group has the group's lines in `map`.
    """
    tokens: Tokens = []
    md = parser()
    md.block.parse(source, md, {"references": defined}, tokens)
    groups: list[Tokens] = []
    for token in tokens:
        if token.level == 0 and token.nesting >= 0 and token.map:
            groups.append([])
        groups[-1].append(token)
    return groups


def render(group: Tokens, defined: Definitions) -> str:
    """One block as sanitised HTML."""
    md = parser()
    tokens = _finish(group, defined)
    return sanitise(md.renderer.render(tokens, md.options, {"references": defined}))


def _finish(group: Tokens, defined: Definitions) -> Tokens:
    """The inline half of parsing, for one block."""
    state = StateCore("", parser(), {"references": defined}, group)
    for rule in parser().core.ruler.getRules(""):
        rule(state)
    return state.tokens


def _is_note(group: Tokens) -> bool:
    return group[0].type == "footnote_open"


def _document(parts: Iterable[tuple[bool, str]]) -> str:
    blocks: list[str] = []
    notes: list[str] = []
    for is_note, html in parts:
        (notes if is_note else blocks).append(html)
    return "".join(blocks) + _section(notes)


def _section(notes: Sequence[str]) -> str:
    if not notes:
        return ""
    opening = '<section class="kimi-notes" role="doc-endnotes" aria-label="Footnotes">'
    return f"{opening}\n<hr>\n{''.join(notes)}</section>\n"


# --- while it streams ---------------------------------------------------------------------------


@dataclass(slots=True)
class _Block:
    """A closed block: its markdown, whether it is a footnote, and its HTML."""

    source: str
    is_note: bool
    html: str = ""


class Incremental:
    """A growing text as blocks that are done and a rest that is not.

    `"".join(frozen) + tail()` is `html()`, and equals `render_markdown` of everything fed so far,
    wherever the text was cut. Feeding costs next to nothing; each of the others parses what has come
    since, together with the last open block.
    """

    revision: int
    """Counts how often HTML in `frozen` changed: only when a definition came after its use."""

    def __init__(self) -> None:
        self.revision = 0
        self._fed: list[str] = []
        self._held = ""
        self._source = ""
        self._blocks: list[_Block] = []
        self._askers: dict[str, set[int]] = {}
        self._committed = Definitions()
        self._defined = Definitions()
        self._open: list[tuple[bool, str]] = []

    def feed(self, text: str) -> None:
        """Append `text`, cut anywhere."""
        self._fed.append(text)

    @property
    def frozen(self) -> list[str]:
        """HTML of the closed blocks; it only grows, but for what `revision` counts."""
        self._catch_up()
        return [block.html for block in self._blocks if not block.is_note]

    def tail(self) -> str:
        """HTML of the open rest, and of the footnotes, which stand at the end."""
        self._catch_up()
        notes = [(True, block.html) for block in self._blocks if block.is_note]
        return _document([*notes, *self._open])

    def html(self) -> str:
        """The whole text so far."""
        return "".join(self.frozen) + self.tail()

    def _catch_up(self) -> None:
        if not self._fed:
            return
        text = self._held + "".join(self._fed)
        self._fed.clear()
        keep = len(text) - held_back(text)
        self._held = text[keep:]
        self._source += clean(text[:keep])
        self._parse(self._source + clean(self._held))

    def _parse(self, source: str) -> None:
        """Freeze what is closed in `source` and render what is not."""
        defined = Definitions(self._committed)
        groups, lines = split(source, defined), source.split("\n")
        self._redefine(defined)
        closed, cut = _closed(groups, lines), 0
        for group in groups[:closed]:
            end = _lines(group)[1]
            self._blocks.append(_Block("\n".join(lines[cut:end]) + "\n", _is_note(group)))
            self._render(len(self._blocks) - 1, group)
            cut = end
        self._commit(cut)
        self._source = self._source[sum(map(len, lines[:cut])) + cut :]
        self._open = [(_is_note(group), render(group, self._defined)) for group in groups[closed:]]

    def _render(self, index: int, group: Tokens) -> None:
        """Render a closed block, and keep what it asked for."""
        self._defined.asked.clear()
        self._blocks[index].html = render(group, self._defined)
        for label in self._defined.asked:
            self._askers.setdefault(label, set()).add(index)

    def _redefine(self, defined: Definitions) -> None:
        """Take over the definitions of all the text; render again what asked for one that changed."""
        changed = self._defined.differences(defined)
        self._defined = defined
        stale = sorted({index for label in changed for index in self._askers.get(label, ())})
        for index in stale:
            for group in split(self._blocks[index].source, Definitions(defined)):
                self._render(index, group)
        self.revision += bool(stale)

    def _commit(self, cut: int) -> None:
        """Keep the definitions of the first `cut` lines, which are behind us now."""
        for label, definition in self._defined.items():
            if label not in self._committed and definition["map"][0] < cut:
                self._committed[label] = definition


def _lines(group: Tokens) -> list[int]:
    lines = group[0].map
    assert lines is not None
    return lines


def _closed(groups: list[Tokens], lines: list[str]) -> int:
    """How many blocks no further text can change. The last line counts as unfinished.

    A block is closed by a next block whose own nature is sure, which takes one line beyond its first
    (a table is known by its second line); and by a blank line, if it is of a kind that ends there.
    """
    whole = len(lines) - 1
    for index in range(len(groups) - 1, -1, -1):
        if index + 1 < len(groups) and _lines(groups[index + 1])[0] + 2 <= whole:
            return index + 1
        first, end = groups[index][0], _lines(groups[index])[1]
        if end < whole and (
            _ends_itself(first) or (first.type in _END_AT_BLANK and not lines[end].strip(" \t"))
        ):
            return index + 1
    return 0


_END_AT_BLANK = ("paragraph_open", "table_open", "blockquote_open", "math_block")


def _ends_itself(token: Token) -> bool:
    if token.type in ("fence", "math_block"):
        return bool(token.meta.get("closed"))
    return token.type in ("heading_open", "hr")
