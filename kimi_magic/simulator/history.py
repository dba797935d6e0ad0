"""The messages of a request judged: roles, blocks, and tool calls paired with their results."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from ..wire import IMAGE_TYPES, Json
from . import signing
from .refusals import bad_request, check_mark, require

_USER_BLOCKS = ("text", "image", "tool_result")
_THOUGHTS = ("thinking", "redacted_thinking")


def check_messages(messages: Any, lenient: bool) -> None:
    require(isinstance(messages, list) and bool(messages), "messages: at least one is needed.")
    before: Any = None
    waiting: list[str] = []
    blocks: list[Json] = []
    for n, message in enumerate(messages):
        field = f"messages[{n}]"
        require(isinstance(message, dict), f"{field}: must be an object.")
        role = message.get("role")
        require(role in ("user", "assistant"), f"{field}.role: must be user or assistant, not {role!r}.")
        require(
            lenient or role != before, f"{field}.role: roles must alternate, {role!r} stands twice in a row."
        )
        before = role
        blocks = _check_content(message.get("content"), field, role, lenient)
        _check_results(blocks, waiting, field)
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        require(len(set(waiting)) == len(waiting), f"{field}.content: a tool_use id stands there twice.")
        if role == "assistant" and not lenient:
            _check_answer(blocks, field)
    require(not waiting, f"messages[{len(messages) - 1}].content: tool_use {waiting} without tool_result.")
    require(
        lenient or messages[0]["role"] == "user", "messages[0].role: the first message must be the user's."
    )
    paused = before == "assistant" and any(block["type"] == "server_tool_use" for block in blocks)
    require(
        lenient or before == "user" or paused,
        f"messages[{len(messages) - 1}].role: the last message must be the user's, or a paused reply.",
    )


def _check_content(content: Any, field: str, role: str, lenient: bool) -> list[Json]:
    if isinstance(content, str):
        require(bool(content.strip()), f"{field}.content: must not be empty.")
        return [{"type": "text", "text": content}]
    require(isinstance(content, list), f"{field}.content: must be text or a list of blocks.")
    require(bool(content), f"{field}.content: must not be empty.")
    for k, block in enumerate(content):
        place = f"{field}.content[{k}]"
        good = isinstance(block, dict) and isinstance(block.get("type"), str)
        require(good, f"{place}: must be an object with a type.")
        known = role == "assistant" or block["type"] in _USER_BLOCKS
        require(known, f"{place}.type: a user message has no {block['type']!r} block.")
        check_mark(block, place, lenient)
        if block["type"] in _CHECKS:
            _CHECKS[block["type"]](block, place)
    return list(content)


def _check_results(blocks: list[Json], waiting: list[str], field: str) -> None:
    """Every tool_use of the message before has its one tool_result here, before any text."""
    results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    missing = [name for name in waiting if name not in results]
    require(not missing, f"{field}.content: tool_use {missing} without tool_result.")
    stray = [name for name in results if name not in waiting]
    require(not stray, f"{field}.content: tool_result {stray} answers no tool_use of the message before.")
    require(len(set(results)) == len(results), f"{field}.content: a tool_use has two tool_result blocks.")
    first = [block["type"] for block in blocks[: len(results)]]
    require(set(first) <= {"tool_result"}, f"{field}.content: tool_result blocks come before all others.")


def _check_answer(blocks: list[Json], field: str) -> None:
    kinds = {block["type"] for block in blocks}
    require(bool(kinds - {*_THOUGHTS}), f"{field}.content: must hold more than thinking.")
    require(
        "tool_use" not in kinds or bool(kinds & {*_THOUGHTS}),
        f"{field}.content: reasoning_content is missing: a message with tool_use keeps its thinking.",
    )


def _check_search_result(block: Json, place: str) -> None:
    name, content = block.get("tool_use_id"), block.get("content")
    require(isinstance(name, str) and bool(name), f"{place}.tool_use_id: this field is required.")
    pages = isinstance(content, list) and all(isinstance(page, dict) for page in content)
    require(pages or isinstance(content, dict), f"{place}.content: must be results or an error object.")


def check_text(block: Json, place: str) -> None:
    text = block.get("text")
    require(isinstance(text, str), f"{place}.text: must be text.")
    require(text != "", f"{place}.text: must not be empty.")


def _check_image(block: Json, place: str) -> None:
    source: Any = block.get("source")
    require(isinstance(source, dict), f"{place}.source: must be an object.")
    kind = source.get("type") if isinstance(source, dict) else None
    require(kind in ("base64", "url"), f"{place}.source.type: must be base64 or url, not {kind!r}.")
    if kind == "url":
        require(bool(source.get("url")), f"{place}.source.url: this field is required.")
        return
    media, data = source.get("media_type"), source.get("data")
    allowed = ", ".join(IMAGE_TYPES)
    require(media in IMAGE_TYPES, f"{place}.source.media_type: must be one of {allowed}, not {media!r}.")
    require(isinstance(data, str) and bool(data), f"{place}.source.data: this field is required.")
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise bad_request(f"{place}.source.data: is not base64.") from None


def _check_thinking(block: Json, place: str) -> None:
    thinking: Any = block.get("thinking")
    signature: Any = block.get("signature")
    require(isinstance(thinking, str), f"{place}.thinking: must be text.")
    good = signature is None or isinstance(signature, str)
    require(good, f"{place}.signature: must be text.")
    genuine = not signature or signing.genuine(thinking, signature)
    require(genuine, f"{place}.signature: does not belong to this thinking; send blocks back unchanged.")


def _check_tool_use(block: Json, place: str) -> None:
    for name in ("id", "name"):
        require(
            isinstance(block.get(name), str) and bool(block[name]), f"{place}.{name}: this field is required."
        )
    require(isinstance(block.get("input"), dict), f"{place}.input: must be an object.")


def _check_tool_result(block: Json, place: str) -> None:
    name, content = block.get("tool_use_id"), block.get("content")
    require(isinstance(name, str) and bool(name), f"{place}.tool_use_id: this field is required.")
    require(isinstance(content, (str, list)), f"{place}.content: must be text or a list of blocks.")
    for k, item in enumerate(content if isinstance(content, list) else ()):
        inner = f"{place}.content[{k}]"
        kind = item.get("type") if isinstance(item, dict) else None
        require(kind in ("text", "image"), f"{inner}.type: must be text or image, not {kind!r}.")
        _CHECKS[str(kind)](item, inner)


_CHECKS = {
    "text": check_text,
    "image": _check_image,
    "thinking": _check_thinking,
    "tool_use": _check_tool_use,
    "server_tool_use": _check_tool_use,
    "tool_result": _check_tool_result,
    "web_search_tool_result": _check_search_result,
}
