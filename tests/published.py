"""What may stand in anything that is published, whatever a model wrote: judged by parsers of their own.

faults(bundle)     what a mimebundle has beyond it, as lines; none is good
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any

import mistune
from markdown_it import MarkdownIt

from kimi_magic.panel.transcript import NO_WIDGET
from kimi_magic.render import style

TAGS = set(
    re.findall(
        r"\w+",
        "a blockquote br code details div em h1 h2 h3 h4 h5 h6 hr img li ol p pre s section span strong "
        "style summary sup table tbody td th thead tr ul",
    )
)
VOID = ("br", "hr", "img")
CLASS = re.compile(
    r"kimi|kimi-[a-z-]+|language-[\w+#.-]+|jp-RenderedHTMLCommon|(mathjax|tex2jax)_(ignore|process)"
)
DECLARATION = re.compile(r"[a-z-]+\s*:\s*[\w\s.,%()-]+")
LINK = re.compile(r"(https?://[^/]|mailto:.)", re.IGNORECASE)
IMAGE = re.compile(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}")
FREE = {"alt", "aria-label", "title"}  # words, which the parser has unescaped
FIXED = {
    "open": {""},
    "rel": {"noopener noreferrer"},
    "role": {"note", "img", "doc-endnotes", "math"},
    "scope": {"col", "row"},
    "target": {"_blank"},
}
RULES = {style.rules(), NO_WIDGET}
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Judge(HTMLParser):
    """Reads HTML, and finds what is beyond the allowlist. tags: instead of all that may be published."""

    def __init__(self, tags: set[str] = TAGS) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self._tags = tags

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self._tags:
            self.found.append(f"<{tag}>")
        if tag not in VOID:
            self.open.append(tag)
        self.found += [
            f"<{tag} {name}={value!r}>" for name, value in attrs if not self.is_allowed(name, value or "")
        ]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.found.append(f"</{tag}> that closes nothing")

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["style"] and data.strip() not in RULES:
            self.found.append(f"style: {data!r}")
        self.text.append(data)

    def handle_comment(self, data: str) -> None:
        self.found.append(f"<!--{data}-->")

    def handle_decl(self, decl: str) -> None:
        self.found.append(f"<!{decl}>")

    def handle_pi(self, data: str) -> None:
        self.found.append(f"<?{data}>")

    def unknown_decl(self, data: str) -> None:
        self.found.append(f"<![{data}]>")

    @staticmethod
    def is_allowed(name: str, value: str) -> bool:
        if name == "class":
            return all(CLASS.fullmatch(word) for word in value.split())
        if name == "style":
            return all(DECLARATION.fullmatch(part.strip()) and "url" not in part for part in value.split(";"))
        if name == "href":
            return LINK.match(value) is not None
        if name == "src":
            return IMAGE.fullmatch(value) is not None
        if name == "start":
            return value.isdigit()
        return name in FREE or value in FIXED.get(name, ())


def judged(html: str, judge: Judge) -> Judge:
    """The judge, after it has read all of `html`."""
    judge.feed(html)
    judge.close()
    judge.found += [f"<{tag}> that stays open" for tag in judge.open]
    return judge


class Outside(HTMLParser):
    """Finds words that MathJax would look for formulas in: those outside of an element that keeps it out."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self._open: list[bool] = []  # whether each open element, or one around it, keeps it out

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            classes = (dict(attrs).get("class") or "").split()
            kept = {"mathjax_ignore", "tex2jax_ignore"} <= set(classes)
            self._open.append(kept or self._open[-1:] == [True] or tag == "style")

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and self._open:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if data.strip() and self._open[-1:] != [True]:
            self.found.append(f"MathJax reads {data!r}")


def to_mathjax(html: str) -> list[str]:
    """What of an output MathJax would read as if it were a text with formulas."""
    outside = Outside()
    outside.feed(html)
    outside.close()
    return outside.found


def in_html(html: str) -> list[str]:
    """What `html` has beyond the allowlist."""
    return judged(html, Judge()).found + [f"character {c!r}" for c in OBEYED.findall(html)]


_COMMON = MarkdownIt("commonmark", {"html": True})
_GFM = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
_GFM.validateLink = lambda url: True  # type: ignore[method-assign]  # as JupyterLab's renderer has it
_NBCONVERT = mistune.create_markdown(
    escape=False, plugins=["table", "strikethrough", "footnotes", "math", "url"]
)
_NBCONVERT.renderer.safe_url = lambda url: url  # type: ignore[union-attr, method-assign]  # nothing of its own


def in_markdown(markdown: str) -> list[str]:
    """What renderers that let raw HTML and any link through make of `markdown` beyond the allowlist."""
    found = [f"character {c!r}" for c in OBEYED.findall(markdown)]
    for read in (_COMMON.render, _GFM.render, lambda text: str(_NBCONVERT(text))):
        html = re.sub(r"<(/?)del>", r"<\1s>", read(markdown))
        html = re.sub(r'<(div|span) class="math">', r"<\1>", html)
        found += in_html(html)
    return found


def faults(bundle: Mapping[str, Any]) -> list[str]:
    """What a mimebundle has beyond what may be published; MIME types that nobody judges are one."""
    found: list[str] = []
    for kind, value in bundle.items():
        if kind == "text/html":
            found += in_html(value) + to_mathjax(value)
        elif kind == "text/markdown":
            found += in_markdown(value)
        elif kind == "text/plain":
            found += [f"character {c!r}" for c in OBEYED.findall(value)]
        else:
            found.append(f"a bundle of {kind}")
    return found
