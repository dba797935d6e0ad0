"""A turn → what a front end shows: HTML, markdown, plain text, and the bundle of all of them.

`ReplyView` is all that is known of a reply, running or finished; the functions are pure. Model text
goes through `markdown` (sanitised) or is escaped, once, here: never raw into a rich type. The saved
output is static and complete in each of its types, and says when a simulator made it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from ..counts import counted
from ..usage import Price, Record
from ..wire import Block
from . import style
from .calls import call_html, call_line
from .data import data_html, data_markdown
from .footer import details, ends_in_the_middle, footer, seconds, stop_words
from .images import sent_html, sent_line
from .markdown import render_markdown
from .pieces import Call, Data, Piece, Search, Text, Thinking, pieces, sources
from .sanitise import clean, safe_url
from .source import code_span, escape_text, plain_text, safe_markdown
from .style import wrapped as wrapped  # whoever shows replies wraps them as they are wrapped here

BADGE = "Simulated reply: no model was asked. Set KIMI_API_KEY (and no KIMI_BASE_URL)."
"""Of either simulator, that of this process or one that KIMI_BASE_URL names: a saved reply is also read
where nobody knows which it was."""
REPLAYED = "Replayed: this reply was recorded earlier, and nothing was asked now."
REPLAYED_SIMULATED = "Replayed: this simulated reply was recorded earlier; no model was asked, then or now."


@dataclass(frozen=True, slots=True)
class ReplyView:
    """All that is shown of one reply."""

    content: tuple[Block, ...]
    records: tuple[Record, ...] = ()
    price: Price | None = None
    notes: tuple[str, ...] = ()
    """Lines for the user: a turn was replaced, later cells are stale …"""
    failure: str = ""
    """Why the reply is not whole; empty for one that is."""
    simulated: bool = False
    thinking_seconds: float | None = None
    call_seconds: tuple[float, ...] = ()
    """How long each tool call took, in order."""
    structured: bool = False
    """Its text is JSON that follows a schema."""
    raised: bool = True
    """A failure is also the cell's error, which stands right below."""
    images: tuple[Block, ...] = ()
    """Those of the prompt."""
    max_tokens: int | None = None
    """What the request allowed, where it is known."""
    seconds: float | None = None
    """How long the turn took, tools included; else as its requests tell."""

    @property
    def badge(self) -> str:
        """What has to be said of where the reply comes from; empty for one that a model gave now."""
        if any(record.replayed for record in self.records):
            return REPLAYED_SIMULATED if self.simulated else REPLAYED
        return BADGE if self.simulated else ""

    @property
    def told(self) -> list[str]:
        """The notes, and ahead of them that the text ends in the middle."""
        return [note for note in (self._cut, *self.notes) if note]

    @property
    def _cut(self) -> str:
        return "" if self.failure else ends_in_the_middle(self.records, self.max_tokens)

    @property
    def line(self) -> str:
        """The footer."""
        return footer(self.records, self.price, self.seconds)

    @property
    def remarks(self) -> list[str]:
        """What a reader of the bare text has to be told, each in a line."""
        sent = [sent_line(self.images)] if self.images else []
        why = "" if self._cut else stop_words(self.records)
        return [line for line in (*sent, self.failure, why, *self.told) if line]

    def pieces(self) -> list[Piece]:
        return pieces(self.content, self.call_seconds, structured=self.structured)


def bundle(view: ReplyView) -> dict[str, Any]:
    """The mimebundle to save, complete in each of its types."""
    return {"text/html": html(view), "text/markdown": markdown(view), "text/plain": text(view)}


# --- HTML ---------------------------------------------------------------------------------------


def html(view: ReplyView, *, sheet: bool = True) -> str:
    """The whole reply, finished. Of one that failed before it began there is the footer alone: the
    error stands right below it. sheet: with the style sheet."""
    shown = [piece_html(piece, view) for piece in view.pieces()]
    if not shown and view.failure:
        return wrapped(ending_html(replace(view, failure="") if view.raised else view), sheet=sheet)
    body = [badge_html(view.badge)] if view.badge else []
    body += shown or [f'<p style="{style.QUIET}">The reply is empty.</p>']
    body += [sources_html(view.content), sent_html(view.images)]
    body.append(ending_html(view))
    return wrapped("".join(body), sheet=sheet)


def badge_html(badge: str = BADGE) -> str:
    return f'<div class="kimi-badge" role="note" style="{style.BADGE}">{escape(badge)}</div>'


def piece_html(piece: Piece, view: ReplyView) -> str:
    """One finished piece."""
    match piece:
        case Thinking(thought, redacted):
            return thinking_html(thought, _thought_about(view), redacted=redacted)
        case Text(source):
            return f'<div class="kimi-text">{render_markdown(source)}</div>'
        case Data(source):
            return data_html(source)
        case Call():
            return call_html(piece)
        case Search():
            return search_html(piece)


def thinking_html(thought: str, facts: str, *, redacted: bool = False) -> str:
    """The thinking, collapsed. facts: behind the word in its summary."""
    body = "The server sends this thinking encrypted." if redacted else clean(thought)
    label = f"Thinking · {escape(facts)}" if facts else "Thinking"
    return (
        f'<details class="kimi-thinking" style="{style.BOX}">'
        f'<summary style="{style.SUMMARY}">{label}</summary>'
        f'<div style="{style.THINKING}">{escape(body)}</div></details>'
    )


def _thought_about(view: ReplyView) -> str:
    if sum(isinstance(piece, Thinking) for piece in view.pieces()) > 1:
        return ""  # what is known is known of all of them together
    tokens = sum(r.thinking or 0 for r in view.records)
    parts = [seconds(view.thinking_seconds)] if view.thinking_seconds is not None else []
    return " · ".join(parts + ([f"{tokens:,} tokens"] if tokens else []))


def search_html(search: Search, *, runs: bool = False) -> str:
    """A search: the query, and what was found or why nothing was. runs: the reply is under way."""
    rows = "".join(f"<li>{_link(r)}</li>" for r in search.results)
    return (
        f'<details class="kimi-search" style="{style.BOX}"><summary style="{style.SUMMARY}">'
        f"{escape(clean(_search_line(search, runs=runs)))}</summary>"
        f"{f'<ol>{rows}</ol>' if rows else ''}</details>"
    )


def _search_line(search: Search, *, runs: bool = False) -> str:
    """What was searched for, and what came of it, in a line."""
    found = counted(len(search.results), "result") if search.results else "nothing found"
    if search.error:
        found = f"failed: {search.error}"
    elif not search.ended:
        found = "searching …" if runs else "not finished"
    return " · ".join(part for part in ("Web search", search.query, found) if part)


def sources_html(content: Iterable[Block]) -> str:
    """The numbered list of what the text cites."""
    rows = "".join(f"<li>{_link(source)}</li>" for source in sources(content))
    return f'<div class="kimi-sources" style="{style.QUIET}">Sources<ol>{rows}</ol></div>' if rows else ""


def _link(source: Mapping[str, Any]) -> str:
    url, title = str(source.get("url") or ""), str(source.get("title") or source.get("url") or "")
    if not safe_url(url):
        return escape(clean(title))
    return f'<a href="{escape(url)}" target="_blank" rel="noopener noreferrer">{escape(clean(title))}</a>'


def ending_html(view: ReplyView) -> str:
    """What stands below the reply: why it is not whole, notes, the footer with its details."""
    out = [f'<div class="kimi-failure" style="{style.FAILURE}">{escape(clean(view.failure))}</div>'] * bool(
        view.failure
    )
    out += [f'<div class="kimi-note" style="{style.NOTE}">{escape(clean(note))}</div>' for note in view.told]
    if view.records:
        rows = "".join(
            f'<tr><th scope="row" style="{style.CELL}">{escape(name)}</th>'
            f'<td style="{style.CELL}">{escape(clean(value))}</td></tr>'
            for name, value in details(view.records)
        )
        out.append(
            f'<details class="kimi-footer" style="{style.FOOTER}"><summary style="{style.FOLDED}">'
            f"{escape(clean(view.line))}</summary><table>{rows}</table></details>"
        )
    return "".join(out)


# --- markdown and plain text --------------------------------------------------------------------


def markdown(view: ReplyView) -> str:
    """Markdown for exporters: the text, without thinking, raw HTML escaped and unsafe links gone. A call
    of a tool and a search are a line each."""
    parts = [f"*{view.badge}*"] if view.badge else []
    parts += [_piece_markdown(piece) for piece in view.pieces()]
    cited = sources(view.content)
    parts += ["\n".join(f"{n}. {_link_markdown(s)}" for n, s in enumerate(cited, 1))] if cited else []
    parts += [f"*{escape_text(_one_line(clean(line)))}*" for line in view.remarks]
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _piece_markdown(piece: Piece) -> str:
    match piece:
        case Text(source):
            return safe_markdown(source)
        case Data(source):
            return safe_markdown(data_markdown(source))
        case Call():
            return f"> Tool: {code_span(_one_line(call_line(piece)))}"
        case Search():
            return "> " + escape_text(_one_line(clean(_search_line(piece))))
        case _:
            return ""


def text(view: ReplyView) -> str:
    """Plain text: the markdown as the model wrote it, without thinking, calls and searches."""
    parts = [f"[{view.badge}]"] if view.badge else []
    found = view.pieces()
    parts += [plain_text(p.markdown) for p in found if isinstance(p, Text)]
    parts += [plain_text(p.json) for p in found if isinstance(p, Data)]
    cited = sources(view.content)
    parts += [
        "\n".join(
            f"[{n}] {plain_text(_one_line(s['title']))} {plain_text(_one_line(s['url']))}"
            for n, s in enumerate(cited, 1)
        )
    ] * bool(cited)
    parts += [f"[{plain_text(_one_line(line))}]" for line in view.remarks]
    return "\n\n".join(part.strip("\n") for part in parts if part)


def closing_lines(view: ReplyView) -> list[str]:
    """What stands under a reply in a terminal: badge, sources, notes, footer."""
    lines = [f"[{n}] {_one_line(s['title'])} {s['url']}" for n, s in enumerate(sources(view.content), 1)]
    lines += [view.badge] if view.badge else []
    lines += [_one_line(view.failure)] if view.failure and not view.raised else []
    lines += [_one_line(line) for line in view.told]
    return [*lines, view.line]


def _link_markdown(source: Mapping[str, Any]) -> str:
    title = escape_text(_one_line(clean(str(source["title"]))))
    return f"{title} <{source['url']}>" if safe_url(str(source["url"])) else title


def _one_line(line: str) -> str:
    return " ".join(line.split())
