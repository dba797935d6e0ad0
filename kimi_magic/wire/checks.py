"""What the API page rules out in a request, found before anything is sent. Each refusal names the field, its
limit and its value.

A reply's own message (`runs.assistant`) goes back as it came: of its blocks only those are refused that break
a conversation. Whatever else stands in a request is held against the page's schemas; kinds of blocks that it
does not list pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..errors import RequestError
from .limits import (
    IMAGE_TYPES,
    MAX_STOP_BYTES,
    MAX_STOP_SEQUENCES,
    WEB_SEARCH,
    Json,
)
from .runs import Run, Said, known, pairs


def require(good: bool, field: str, wanted: str, value: object) -> None:
    """Raise `RequestError` unless `good`. wanted: what the field must be."""
    if not good:
        shown = repr(value)
        shown = shown if len(shown) <= 100 else f"{shown[:99]}…"
        raise RequestError(f"{field}: must be {wanted}, not {shown}.")


def require_one(field: str, allowed: Sequence[str], value: object) -> None:
    """Raise `RequestError` unless the value is one of `allowed`."""
    *most, last = allowed
    require(value in allowed, field, f"{', '.join(most)} or {last}" if most else last, value)


def check_number(field: str, value: Any, high: int | None = None) -> None:
    """Raise `RequestError` unless the value is a whole number from 1 to `high`."""
    good = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    good = good and (high is None or value <= high)
    require(good, field, f"a whole number from 1 {'on' if high is None else f'to {high:,}'}", value)


def check_stop_sequences(sequences: Sequence[str]) -> None:
    """At most 5, each 1 to 32 bytes of UTF-8 (`CreateMessageRequest.stop_sequences`)."""
    if len(sequences) > MAX_STOP_SEQUENCES:
        raise RequestError(f"stop_sequences: at most {MAX_STOP_SEQUENCES}, not {len(sequences)}.")
    for n, text in enumerate(sequences):
        require(isinstance(text, str), f"stop_sequences[{n}]", "text", text)
        size = len(text.encode("utf-8", "surrogatepass"))
        if not 1 <= size <= MAX_STOP_BYTES:
            raise RequestError(f"stop_sequences: each has 1 to {MAX_STOP_BYTES} bytes; {text!r} has {size}.")


def check_system(system: Any) -> None:
    """Text, or text blocks."""
    if system is None or isinstance(system, str):
        return
    require(isinstance(system, list), "system", "text or a list of text blocks", system)
    for n, block in enumerate(system):
        _check_kind(block, f"system[{n}]", ("text",))
        _check_block(block, f"system[{n}]")


def check_tools(tools: Sequence[Any]) -> None:
    """`Tool` and `WebSearchTool` of the page; no name twice."""
    seen: set[str] = set()
    for n, tool in enumerate(tools):
        field = f"tools[{n}]"
        require(isinstance(tool, dict), field, "an object with name and input_schema", tool)
        name = tool.get("name")
        good = isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9_.:-]{1,128}", name) is not None
        require(good, f"{field}.name", "1 to 128 letters, digits, _ or -", name)
        if name in seen:
            raise RequestError(f"{field}.name: {name!r} stands there twice.")
        seen.add(name)
        if tool.get("type") == WEB_SEARCH["type"]:
            require(name == WEB_SEARCH["name"], f"{field}.name", WEB_SEARCH["name"], name)
            check_number(f"{field}.max_uses", tool.get("max_uses", 1))
            continue
        about, schema = tool.get("description", ""), tool.get("input_schema")
        require(isinstance(about, str), f"{field}.description", "text", about)
        require(isinstance(schema, dict), f"{field}.input_schema", "a JSON Schema object", schema)


def check_messages(messages: Sequence[Json]) -> None:
    """Each message by itself and where it stands; what was found good with an earlier request is not
    looked at again."""
    if not messages:
        raise RequestError("messages: at least one is needed.")
    begun = list(known(messages))
    for n in _unchecked(begun, len(messages)):
        message = messages[n]
        if not isinstance(message, Said):
            _check_message(n, message)
        elif not message.is_checked:
            _check_message(n, message)
            message.is_checked = True
        _check_place(n, message, messages[n - 1] if n else None)
    waiting = _pairs(messages[-1])[1]
    if waiting:
        raise RequestError(f"messages: the tool calls {waiting} have no tool_result.")
    for run in begun:
        run.is_checked = True


def _unchecked(begun: Iterable[Run], count: int) -> Iterator[int]:
    """The places of messages that may be wrong there: in a checked run only the first, whatever stands
    before it."""
    at = 0
    for run in begun:
        yield from (at,) if run.is_checked else range(at, at + len(run))
        at += len(run)
    yield from range(at, count)


def _check_message(n: int, message: Any) -> None:
    """What is wrong with one message by itself."""
    field = f"messages[{n}]"
    require(isinstance(message, dict), field, "an object with role and content", message)
    role, content = message.get("role"), message.get("content")
    require_one(f"{field}.role", ("user", "assistant"), role)
    require(isinstance(content, (str, list)), f"{field}.content", "text or a list of blocks", content)
    if not content or (isinstance(content, str) and content.isspace()):
        raise RequestError(f"{field}.content: is empty.")
    is_reply = isinstance(message, Said) and role == "assistant"
    for k, block in enumerate(content if isinstance(content, list) else ()):
        place = f"{field}.content[{k}]"
        _check_kind(block, place)
        if not is_reply:
            _check_block(block, place)
        elif block["type"] == "text" and not block.get("text"):
            raise RequestError(f"{place}.text: is empty.")


def _check_kind(block: Any, place: str, kinds: tuple[str, ...] = ()) -> None:
    """kinds: those that may stand there, none for any."""
    kind = block.get("type") if isinstance(block, dict) else None
    require(isinstance(kind, str) and kind != "", place, "an object with a type", block)
    if kinds:
        require(kind in kinds, f"{place}.type", " or ".join(kinds), kind)


_CALL = {"id": str, "name": str, "input": dict}
_NEEDED: dict[str, dict[str, Any]] = {
    "text": {"text": str},
    "image": {"source": dict},
    "thinking": {"thinking": str},
    "redacted_thinking": {"data": str},
    "tool_use": _CALL,
    "server_tool_use": _CALL,
    "tool_result": {"tool_use_id": str, "content": (str, list)},
    "web_search_tool_result": {"tool_use_id": str, "content": (list, dict)},
}
"""Kind of block → the fields that it has to have, and their types."""
_NAMES: dict[Any, str] = {
    str: "text",
    dict: "an object",
    (str, list): "text or a list of blocks",
    (list, dict): "a list of results or an error object",
}


def _check_block(block: Json, place: str) -> None:
    """`ContentBlock` of the page."""
    kind = block["type"]
    for name, types in _NEEDED.get(kind, {}).items():
        if not isinstance(block.get(name), types):
            require(False, f"{place}.{name}", _NAMES[types], block.get(name))
    if kind == "text" and not block["text"]:
        raise RequestError(f"{place}.text: is empty.")
    if kind == "thinking":  # some servers send null
        signature = block.get("signature")
        require(signature is None or isinstance(signature, str), f"{place}.signature", "text", signature)
    elif kind == "image":
        _check_source(block["source"], f"{place}.source")
    elif kind == "tool_result":
        failed = block.get("is_error", False)
        require(isinstance(failed, bool), f"{place}.is_error", "true or false", failed)
        for k, inner in enumerate(block["content"] if isinstance(block["content"], list) else ()):
            _check_kind(inner, f"{place}.content[{k}]", ("text", "image"))
            _check_block(inner, f"{place}.content[{k}]")
    elif kind == "web_search_tool_result" and isinstance(block["content"], list):
        for k, page in enumerate(block["content"]):
            require(isinstance(page, dict), f"{place}.content[{k}]", "an object", page)


def _check_source(source: Json, place: str) -> None:
    kind = source.get("type")
    require_one(f"{place}.type", ("base64", "url"), kind)
    if kind == "url":
        url = source.get("url")
        require(isinstance(url, str) and url != "", f"{place}.url", "the image's address", url)
        return
    data = source.get("data")
    require_one(f"{place}.media_type", IMAGE_TYPES, source.get("media_type"))
    good = isinstance(data, str) and data != "" and not data.startswith("data:")
    require(good, f"{place}.data", "base64 without a data: prefix", data)


def _check_place(n: int, message: Json, before: Json | None) -> None:
    """What is wrong with a message where it stands: roles alternate, the user's first, and each tool_use is
    answered by exactly one tool_result in the very next message."""
    role = message["role"]
    if before is None and role != "user":
        raise RequestError("messages[0].role: the first message is the user's.")
    if before is not None and role == before["role"]:
        raise RequestError(f"messages[{n}].role: roles alternate, and {role!r} stands twice in a row.")
    answered = _pairs(message)[0]
    waiting = _pairs(before)[1] if before is not None else []
    if answered != waiting:
        raise RequestError(
            f"messages[{n}].content: tool_result blocks answer {answered}, calls before are {waiting}."
        )


def _pairs(message: Json) -> tuple[list[str], list[str]]:
    return message.pairs() if isinstance(message, Said) else pairs(message)
