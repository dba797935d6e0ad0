"""A reply's content blocks → the pieces that a reader sees, in order.

Text blocks that follow each other are one piece: a search cuts a paragraph into many blocks, one for
each set of citations. Citations become numbered links in the markdown itself, so that every way of
showing the text (HTML, markdown, terminal) has them. Pure, and the same while a reply streams and
after: a piece only ever grows at its end, and pieces are only ever added.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ..wire import (
    Block,
    Json,
    RedactedThinkingBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    WebSearchResultBlock,
)
from .sanitise import safe_url


@dataclass(frozen=True, slots=True)
class Thinking:
    text: str
    redacted: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    markdown: str


@dataclass(frozen=True, slots=True)
class Data:
    """Text that is JSON, by a schema."""

    json: str


@dataclass(frozen=True, slots=True)
class Call:
    """The model's call of a tool of ours."""

    id: str
    name: str
    input: Json
    raw_input: str | None = None
    result: tuple[Block, ...] | None = None
    """Text and images; None where it has not come."""
    is_error: bool = False
    seconds: float | None = None
    """How long it took, where that is known."""
    waits: bool = False
    """Another call comes first."""


@dataclass(frozen=True, slots=True)
class Search:
    """A search that the server ran, with its results once they are there."""

    query: str
    results: tuple[Json, ...] = ()
    error: str | None = None
    ended: bool = False
    """Its results have come, be there none."""


Piece = Thinking | Text | Data | Call | Search


def pieces(
    content: Iterable[Block], call_seconds: Sequence[float] = (), *, structured: bool = False
) -> list[Piece]:
    """The pieces of a reply, or of a reply so far, the results of its calls among the content. Blocks of
    unknown kinds show nothing. call_seconds: of the calls, in order. structured: text is JSON."""
    out: list[Piece] = []
    calls: dict[str, list[int]] = {}  # id of a call → the places of those without a result; ids may repeat
    timed = iter(call_seconds)
    sources: dict[str, int] = {}
    searches: dict[str, int] = {}  # id of the server's call → its place in `out`
    for block in content:
        match block:
            case TextBlock() if structured:
                if out and isinstance(out[-1], Data):
                    out[-1] = Data(out[-1].json + block.text)
                elif block.text:
                    out.append(Data(block.text))
            case TextBlock():
                text = block.text + _marks(block, sources)
                if out and isinstance(out[-1], Text):
                    out[-1] = Text(out[-1].markdown + text)
                elif text:
                    out.append(Text(text))
            case ThinkingBlock():
                out.append(Thinking(block.thinking))
            case RedactedThinkingBlock():
                out.append(Thinking("", redacted=True))
            case ServerToolUseBlock():
                searches[block.id] = len(out)
                out.append(Search(str(block.input.get("query", ""))))
            case ToolUseBlock():
                calls.setdefault(block.id, []).append(len(out))
                out.append(Call(block.id, block.name, block.input, block.raw_input))
            case ToolResultBlock() if calls.get(block.tool_use_id):
                asked = calls[block.tool_use_id].pop(0)
                out[asked] = _answered(out[asked], block, next(timed, None))
            case WebSearchResultBlock():
                found = Search("", tuple(block.results), block.error_code, ended=True)
                place = searches.get(block.tool_use_id)
                if place is None:
                    out.append(found)
                else:
                    called = out[place]
                    assert isinstance(called, Search)
                    out[place] = replace(found, query=called.query)
    return _in_turn(out)


def _in_turn(found: list[Piece]) -> list[Piece]:
    """Calls run one after the other: of those without a result, all but the first one wait."""
    places = [n for n, piece in enumerate(found) if isinstance(piece, Call) and piece.result is None]
    for place in places[1:]:
        call = found[place]
        assert isinstance(call, Call)
        found[place] = replace(call, waits=True)
    return found


def call_records(found: Iterable[Piece]) -> list[Json]:
    """The calls as flat records: id, name, input, result (its text; an image says what it is), is_error,
    seconds."""
    return [
        {
            "id": piece.id,
            "name": piece.name,
            "input": piece.input,
            "result": None if piece.result is None else "\n".join(map(_result_text, piece.result)),
            "is_error": None if piece.result is None else piece.is_error,
            "seconds": piece.seconds,
        }
        for piece in found
        if isinstance(piece, Call)
    ]


def _result_text(block: Block) -> str:
    return block.text if isinstance(block, TextBlock) else f"[{block.type}]"


def _answered(call: Piece, result: ToolResultBlock, seconds: float | None) -> Call:
    assert isinstance(call, Call)
    return replace(call, result=tuple(result.content), is_error=result.is_error, seconds=seconds)


def sources(content: Iterable[Block]) -> list[Json]:
    """The cited sources in the order of their numbers: url and title each."""
    found: dict[str, Json] = {}
    for block in content:
        for citation in block.citations if isinstance(block, TextBlock) else ():
            url = str(citation.get("url", ""))
            found.setdefault(url, {"url": url, "title": str(citation.get("title") or url)})
    return list(found.values())


def _marks(block: TextBlock, numbers: dict[str, int]) -> str:
    """`[1]`, linked to the source where its address is safe, once for each source of a block."""
    urls = dict.fromkeys(str(c.get("url", "")) for c in block.citations)
    marks = "".join(_mark(url, numbers.setdefault(url, len(numbers) + 1)) for url in urls)
    return f" {marks}" if marks and block.text.endswith(("!", "\\")) else marks  # else an image, or no link


def _mark(url: str, number: int) -> str:
    if not safe_url(url):
        return f"[{number}]"
    address = re.sub(r"[<>\s\\]", lambda m: f"%{ord(m[0]):02X}", url)
    return f"[[{number}]](<{address}>)"
