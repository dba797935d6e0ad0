"""Model text for those who read source: `text/markdown` for exporters, and plain text.

A notebook's outputs are trusted while they are live, and JupyterLab then runs raw HTML that it finds
in `text/markdown`. So the markdown is not patched but written anew from the parsed text, in a plain
form which every renderer reads alike. Only code and formulas keep their literal content, and those
are fenced so that no renderer, with or without math, can see anything in them:

- All code fences of one text have the same length, longer than any run of backticks inside them.
- All other text is escaped. There are no reference definitions, footnote marks are text, and links
  lead where `safe_url` lets them.
- A formula with something that a renderer without math would take for markup gets a space there,
  which TeX ignores; one with backticks becomes code.
- Full-width punctuation moves out of emphasis (`**提醒**：`), and a hair space parts emphasis that ends
  in a mark from the next letter, as CommonMark wants it.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable, Sequence
from urllib.parse import unquote

from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode

from .code import language
from .markdown import parse
from .sanitise import clean
from .tex import stands_alone, typesettable

_ESCAPED = {"\\": "&#92;", "[": "&#91;", "<": "&lt;", "`": "&#96;", "*": r"\*", "$": r"\$", "~": r"\~"}
_SPECIAL = re.compile(
    r"[\\<`*$~]|&(?=[#A-Za-z])|(?<![^\W_])_|_(?![^\W_])|\](?=[(\[:]|$)|!(?=\[|$)|\[(?=\^)"
    r"|\^(?=\[|[^\s^]+\^)",
    re.MULTILINE,
)
_LINE_START = re.compile(r"^([#+=>|:%-]|\d{1,9}(?=[.)]))", re.MULTILINE)
_MARKUP_IN_TEX = re.compile(r"<(?=[A-Za-z/!?])|\](?=[(\[:])|&(?=#?\w+;)")
_FULL_STOPS = "：，。！？；、…—·（）“”‘’「」『』《》〈〉【】"
_PUNCTUATED = re.compile(rf"([{_FULL_STOPS}]*)(.*?)([{_FULL_STOPS}]*)", re.DOTALL)
_HAIR_SPACE = "\u200a"
_IN_URL = {"(": "%28", ")": "%29", "|": "%7C", "$": "%24", "<": "%3C", ">": "%3E", "`": "%60", '"': "%22"}


def plain_text(text: str) -> str:
    """The markdown as it was written, without characters that a terminal or an editor would obey."""
    return clean(text)


_MARKUP = re.compile(r"[^\w\s.,;:?'\"()%/]|_|^\s*\d|\n\s|://|www", re.MULTILINE)
"""What may be markup: anything but words, and their usual punctuation within a line."""


def one_line(text: str) -> str:
    """The words of a markdown text in one line, without its markup."""
    if _MARKUP.search(text) is None:  # as the beginnings of most replies are
        return " ".join(text.split())
    groups, _ = parse(text)
    blocks = [_words(token) for group in groups for token in group]
    return " ".join(" ".join(blocks).split())


def _words(token: Token) -> str:
    if token.children is None:
        return token.content
    return "".join(child.content or " " * (child.nesting == 0) for child in token.children)  # a line's end


def safe_markdown(text: str) -> str:
    """Markdown with the meaning of `text` that is inert in any renderer, raw HTML allowed or not."""
    groups, _ = parse(text)
    blocks = [token for group in groups if group[0].type != "footnote_open" for token in group]
    notes = [token for group in groups if group[0].type == "footnote_open" for token in group]
    writer = _Writer(_fence_for([*blocks, *notes]))
    parts = writer.blocks(SyntaxTreeNode(blocks).children)
    if notes:
        parts += ["***", *writer.blocks(SyntaxTreeNode(notes).children)]
    return "\n\n".join(parts) + "\n" if parts else ""


def _fence_for(tokens: Sequence[Token]) -> str:
    """Backticks for every fence of the text: more than any of its blocks holds in a row."""
    runs = [run for token in tokens if not token.children for run in re.findall("`+", token.content)]
    return "`" * max([3, *(len(run) + 1 for run in runs)])


def escape_text(text: str) -> str:
    """`text` so that no markdown renderer sees markup in it, wherever in a line it stands."""
    return _SPECIAL.sub(lambda match: _escape_one(match.group()), text)


def _escape_one(char: str) -> str:
    return "&amp;" if char == "&" else _ESCAPED.get(char, "\\" + char)


def code_span(content: str) -> str:
    """`content` between backticks, more of them than it holds in a row."""
    ticks = "`" * (max(map(len, re.findall("`+", content)), default=0) + 1)
    pad = " " if content.strip(" ") and {content[0], content[-1]} & {"`", " "} else ""
    return f"{ticks}{pad}{content}{pad}{ticks}"


class _Writer:
    """Parsed nodes → markdown: one method per kind of node, found by its type."""

    def __init__(self, fence: str) -> None:
        self.fence = fence
        self.in_table = False
        self.beside: tuple[str, str] = "", ""  # the text of the nodes before and after an inline one

    def blocks(self, nodes: Sequence[SyntaxTreeNode]) -> list[str]:
        written = (self._method(node, "block")(node) for node in nodes)
        return [text for text in written if text]

    def inline(self, nodes: Sequence[SyntaxTreeNode]) -> str:
        text = ""
        contents = ["", *(node.content if node.type == "text" else "" for node in nodes), ""]
        for node, *beside in zip(nodes, contents, contents[2:], strict=False):
            self.beside = beside[0], beside[1]
            piece = self._method(node, "inline")(node)
            if piece[:1] in ("`", "$") and text.endswith(piece[0]):
                text += _HAIR_SPACE  # two code spans or formulas in a row would be read as one
            if piece[:1] == "{" and text[-1:] in ("`", ")", ">", "]"):
                text += "\\"  # attributes to pandoc: `…`{=latex} goes into LaTeX as it is
            text += piece
        return text

    def _method(self, node: SyntaxTreeNode, level: str) -> Callable[[SyntaxTreeNode], str]:
        method: Callable[[SyntaxTreeNode], str] = getattr(self, f"{level}_{node.type}")
        return method

    def _line(self, node: SyntaxTreeNode) -> str:
        """The inline content of a block, on one line or several, none of which begins a block."""
        text = self.inline([child for inline in node.children for child in inline.children])
        lines = "\n".join(line.strip() for line in text.strip().split("\n"))
        return _LINE_START.sub(_start_escaped, lines)

    # blocks

    def block_paragraph(self, node: SyntaxTreeNode) -> str:
        return self._line(node)

    def block_heading(self, node: SyntaxTreeNode) -> str:
        text = self._line(node).replace("\\\n", " ").replace("\n", " ")
        return f"{'#' * int(node.tag[1])} {re.sub('#+$', _start_escaped, text)}"

    def block_hr(self, node: SyntaxTreeNode) -> str:
        return "***"

    def block_fence(self, node: SyntaxTreeNode) -> str:
        return self._fenced(node.content, language(node.info))

    def block_code_block(self, node: SyntaxTreeNode) -> str:
        return self._fenced(node.content)

    def _fenced(self, content: str, info: str = "") -> str:
        return f"{self.fence}{info}\n{content.removesuffix(chr(10))}\n{self.fence}"

    def block_math_block(self, node: SyntaxTreeNode) -> str:
        tex = node.content.strip()
        if not node.meta["closed"] or _must_be_code(tex):
            return self._fenced(tex, "latex")
        if stands_alone(tex):  # LaTeX has no displayed environment between `$$` and `$$`
            return _inert(tex)
        return f"$$\n{_inert(tex)}\n$$" if tex else ""

    def block_blockquote(self, node: SyntaxTreeNode) -> str:
        text = "\n\n".join(self.blocks(node.children))
        return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))

    def block_footnote(self, node: SyntaxTreeNode) -> str:
        return "\n\n".join(self.blocks(node.children))

    def block_bullet_list(self, node: SyntaxTreeNode) -> str:
        return self._list(node, [f"{node.markup} "] * len(node.children))

    def block_ordered_list(self, node: SyntaxTreeNode) -> str:
        first = int(node.attrs.get("start", 1))
        return self._list(node, [f"{first + n}{node.markup} " for n in range(len(node.children))])

    def _list(self, node: SyntaxTreeNode, markers: list[str]) -> str:
        tight = all(child.hidden for item in node.children for child in item.children[:1])
        items = [self._item(*pair) for pair in zip(node.children, markers, strict=True)]
        return ("\n" if tight else "\n\n").join(items)

    def _item(self, node: SyntaxTreeNode, marker: str) -> str:
        gap = "\n\n"
        if [child.type for child in node.children[1:]] in (["bullet_list"], ["ordered_list"]):
            gap = "\n" if node.children[0].hidden else gap
        text = gap.join(self.blocks(node.children))
        indented = text.replace("\n", "\n" + " " * len(marker))
        return "\n".join(line.rstrip() for line in f"{marker}{indented}".split("\n"))

    def block_table(self, node: SyntaxTreeNode) -> str:
        self.in_table = True
        rows = [
            [self._cell(cell) for cell in row.children] for part in node.children for row in part.children
        ]
        self.in_table = False
        header = node.children[0].children[0].children
        rows.insert(1, [_RULES.get(str(cell.attrs.get("style", "")), "---") for cell in header])
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)

    def _cell(self, node: SyntaxTreeNode) -> str:
        return self.inline([child for inline in node.children for child in inline.children]).strip()

    # inside a block

    def inline_text(self, node: SyntaxTreeNode) -> str:
        text = escape_text(node.content)
        return text.replace("|", r"\|") if self.in_table else text

    def inline_softbreak(self, node: SyntaxTreeNode) -> str:
        return "\n"

    def inline_hardbreak(self, node: SyntaxTreeNode) -> str:
        return "<br>" if self.in_table else "\\\n"

    def inline_code_inline(self, node: SyntaxTreeNode) -> str:
        return code_span(node.content.replace("|", r"\|") if self.in_table else node.content)

    def inline_strong(self, node: SyntaxTreeNode) -> str:
        return self._emphasised(node, "**")

    def inline_em(self, node: SyntaxTreeNode) -> str:
        return self._emphasised(node, "*")

    def inline_s(self, node: SyntaxTreeNode) -> str:
        return self._emphasised(node, "~~")

    def _emphasised(self, node: SyntaxTreeNode, mark: str) -> str:
        previous, following = self.beside
        match = _PUNCTUATED.fullmatch(self.inline(node.children))
        assert match is not None
        before, text, after = match.groups()
        if not text:
            return before + after
        before = before or _gap(previous[-1:], text.lstrip("*~")[:1])
        after = after or _gap(following[:1], text.rstrip("*~")[-1:])
        return f"{before}{mark}{text}{mark}{after}"

    def inline_link(self, node: SyntaxTreeNode) -> str:
        text = self.inline(node.children)
        if node.tag != "a":
            return text
        href = "".join(_IN_URL.get(char, char) for char in str(node.attrs["href"]))
        shown = unquote(href)  # as some renderers show a bare address
        if node.info == "auto" and href.lower().startswith("http") and clean(shown) == shown:
            return f"<{href}>"
        return f"[{text}]({href.replace('&', '&amp;')})"

    def inline_math_inline(self, node: SyntaxTreeNode) -> str:
        tex, mark = node.content.strip().replace("\n", " "), "$$" if node.meta["display"] else "$"
        if self.in_table:
            tex = tex.replace("|", r"\vert ")
        return code_span(tex) if _must_be_code(tex) else f"{mark}{_inert(tex)}{mark}"

    def inline_footnote_mark(self, node: SyntaxTreeNode) -> str:
        return rf"&#91;^{escape_text(node.meta['label'])}\]"

    def inline_task(self, node: SyntaxTreeNode) -> str:
        return "[x] " if node.meta["done"] else "[ ] "


_RULES = {"text-align:left": ":--", "text-align:center": ":-:", "text-align:right": "--:"}


def _gap(neighbour: str, edge: str) -> str:
    """What must part emphasis that ends in a punctuation mark or a symbol (`edge`) from a letter."""
    is_mark = edge != "" and unicodedata.category(edge)[0] in "PS"
    return _HAIR_SPACE if is_mark and neighbour and not _is_border(neighbour) else ""


def _is_border(char: str) -> bool:
    return char.isspace() or char in string.punctuation or unicodedata.category(char).startswith("P")


def _start_escaped(match: re.Match[str]) -> str:
    start = match.group()
    return start + "\\" if start[0].isdigit() else "\\" + start


def _must_be_code(tex: str) -> bool:
    """Whether a formula could end before its end, or hold what opens a code block elsewhere."""
    return not typesettable(tex) or "`" in tex or "~~~" in tex or bool(re.search(r"(?<!\\)\$", tex))


def _inert(tex: str) -> str:
    """`tex` with a space where a renderer that knows no math would see a tag, a link, a reference."""
    return _MARKUP_IN_TEX.sub(lambda match: match.group() + " ", tex)
