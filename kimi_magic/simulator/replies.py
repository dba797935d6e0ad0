"""The reply as a whole: thinking first, then tool calls, searches, structured output or text."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from ..wire import Json
from . import calls, prose, searches, signing
from .hints import Hints
from .reading import Reading
from .schema import example


@dataclass(frozen=True, slots=True)
class Draft:
    """What the model would say with no limit: whole content blocks and why it stops."""

    blocks: list[Json]
    stop_reason: str


def compose(reading: Reading) -> Draft:
    """The draft for a request, a pure function of it.

    Raises `BadRequestError` where a schema has no value.
    """
    if reading.wish("empty"):
        return Draft([], "end_turn")
    blocks, stop_reason = _said(reading)
    wish = reading.wish("stop-reason")
    if reading.wish("unknown"):
        blocks.insert(0, {"type": "future_block", "note": "A block of a kind that nobody knows."})
    # A resumed reply has done its thinking before the pause.
    return Draft(
        ([] if reading.paused else _thinking(reading)) + blocks,
        wish.word(stop_reason) if wish else stop_reason,
    )


def _said(reading: Reading) -> tuple[list[Json], str]:
    if reading.wish("refusal"):
        return [_text(prose.phrases(reading).refusal)], "refusal"
    pause = reading.wish("pause")
    so_far = sum(block["type"] == "server_tool_use" for block in reading.paused)
    if pause is not None and so_far < (pause.times or 1):
        return searches.paused(reading), "pause_turn"
    if so_far:
        return searches.resumed(reading), "end_turn"
    tool_uses = calls.planned(reading)
    if tool_uses:
        names = ", ".join(f"`{block['name']}`" for block in tool_uses)
        return [_text(prose.phrases(reading).calling.format(names=names)), *tool_uses], "tool_use"
    if reading.schema is not None:
        return _structured(reading), "end_turn"
    if reading.search is not None and not reading.results:
        return searches.blocks(reading), "end_turn"
    return [_text(prose.text(reading))], "end_turn"


def _structured(reading: Reading) -> list[Json]:
    value = example(reading.schema, Hints(reading.prompt), seed=reading.seed)
    found = searches.blocks(reading) if reading.search is not None and not reading.results else []
    return [
        *(block for block in found if block["type"] != "text"),
        _text(msgspec.json.encode(value).decode()),
    ]


def _thinking(reading: Reading) -> list[Json]:
    text = prose.thinking(reading)
    block: Json = {"type": "thinking", "thinking": text}
    if not reading.wish("unsigned"):
        block["signature"] = signing.sign(text)
    if reading.wish("redacted"):
        return [
            block,
            {"type": "redacted_thinking", "data": signing.token(reading.seed, "redacted", size=52)},
        ]
    return [block]


def _text(text: str) -> Json:
    return {"type": "text", "text": text}
