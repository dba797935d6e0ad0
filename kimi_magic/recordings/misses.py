"""Why a request finds no recording: what is nearest to it, and what differs."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from typing import Any

from ..wire import Json

_COMPARED = 20  # recordings that are looked at closely
_READ = 2_000  # characters of them
_SHOWN = 80  # characters of a value


def nearest(question: str, questions: Sequence[str]) -> int | None:
    """Where in `questions` the one stands that is most like `question`; the newest, which is the last, of
    equals. None where all are empty."""
    newest_first = [n for n in range(len(questions) - 1, -1, -1) if questions[n]]
    same = next((n for n in newest_first if questions[n] == question), None)
    if same is not None:
        return same
    matcher = difflib.SequenceMatcher(None, "", question[:_READ], autojunk=False)

    def likeness(number: int) -> float:
        matcher.set_seq1(questions[number][:_READ])
        return matcher.ratio()

    def rough_likeness(number: int) -> float:
        matcher.set_seq1(questions[number][:_READ])
        return matcher.quick_ratio()

    close = sorted(newest_first, key=rough_likeness, reverse=True)[:_COMPARED]
    return max(close, key=likeness, default=None)


def last_text(request: Json) -> str:
    messages = request.get("messages") or [{}]
    return text_of(messages[-1].get("content", ""))


def text_of(content: Any) -> str:
    """The text of a message, and what else is in it by its kind."""
    if isinstance(content, str):
        return content
    return "".join(str(b.get("text", f"[{b.get('type')}]")) for b in content if isinstance(b, dict))


def difference(here: Json, recorded: Json) -> str:
    """The first difference of two requests, in the words of a cell's options: the effort, what was said,
    then all else; the room for the reply comes last, since it follows from the effort where nobody set it."""
    ours, theirs = _parts(here), _parts(recorded)
    said = _messages_differ(here.get("messages", []), recorded.get("messages", []))
    if ours["effort"] == theirs["effort"] and said:
        return said
    for name in sorted(dict.fromkeys([*ours, *theirs]), key=lambda name: name == "max_tokens"):
        our, their = ours.get(name), theirs.get(name)
        if our != their:
            return f"{_WORDS.get(name, name)}: {_differ(our, their)}"
    return "the order of its fields"  # equal as JSON, and yet other bytes


_WORDS = {
    "cache_control": "--cache",
    "stop_sequences": "--stop",
    "system": "the system prompt",
    "max_tokens": "max_tokens (-n), the most that the reply may have",
}
"""Fields whose name in a request says too little."""


def _parts(request: Json) -> Json:
    """What decides a reply besides the messages: the first is named first. A default that is written out is
    another request."""
    config = request.get("output_config") or {}
    rest = {k: v for k, v in request.items() if k not in ("messages", "stream", "output_config")}
    return {"effort": config.get("effort") or "max by default", "schema": config.get("format"), **rest}


def _messages_differ(ours: Sequence[Json], theirs: Sequence[Json]) -> str:
    for number, (our, their) in enumerate(zip(ours, theirs, strict=False), 1):
        if our != their:
            is_prompt = number == len(ours) and "tool_result" not in text_of(our.get("content", ""))
            place = "the prompt" if is_prompt else f"message {number} of {len(ours)}"
            return f"{place}: {_contents_differ(our.get('content'), their.get('content'))}"
    if len(ours) != len(theirs):
        return f"the number of messages: {len(ours)} here, {len(theirs)} there"
    return ""


def _contents_differ(ours: Any, theirs: Any) -> str:
    our_text, their_text = text_of(ours), text_of(theirs)
    if our_text != their_text:
        return _differ(our_text, their_text)
    if isinstance(ours, list) and isinstance(theirs, list):
        for number, (a, b) in enumerate(zip(ours, theirs, strict=False), 1):
            if a != b:
                return f"block {number}, {a.get('type')}: {_differ(_value(a, b), _value(b, a))}"
    return "the same text in other blocks"


def _value(block: Json, other: Json) -> Any:
    """What of a block is not as in the other one."""
    return {k: v for k, v in block.items() if v != other.get(k)}


def _differ(ours: Any, theirs: Any) -> str:
    if isinstance(ours, str) and isinstance(theirs, str):
        return f"{around(ours, theirs)} here, {around(theirs, ours)} there"
    return f"{_short(ours)} here, {_short(theirs)} there"


def around(text: str, other: str) -> str:
    """A short text; of a long one the place where it goes another way than `other`."""
    if len(text) <= _SHOWN:
        return repr(text)
    pairs = zip(text, other, strict=False)
    at = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(text), len(other)))
    begin, end = max(0, at - 20), at + 40
    return f"{'… ' * bool(begin)}{text[begin:end]!r}{' …' * (end < len(text))}"


def _short(value: Any) -> str:
    if isinstance(value, str):
        return repr(value[:_SHOWN])
    text = "none" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
