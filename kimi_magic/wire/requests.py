"""Requests: what is sent, checked before it goes, and always as the same bytes.

- `encode()` is deterministic, and a longer conversation repeats the bytes before it: the server caches
  by prefix.
- `check()` refuses what the API page rules out, naming the field, its limit and its value.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import msgspec

from ..errors import RequestError
from .limits import (
    CACHE_TTLS,
    CONTEXT_WINDOW,
    EFFORT_LEVELS,
    EFFORTS,
    MAX_STOP_BYTES,
    MAX_STOP_SEQUENCES,
    MODELS,
    WEB_SEARCH,
    Json,
)
from .runs import Run, Said, known, pairs, runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One `POST /v1/messages` (`CreateMessageRequest`); None means that the field is not sent."""

    messages: tuple[Json, ...]
    model: str = MODELS[0]
    max_tokens: int = 32_768
    """Tokens, 1…1,048,576; thinking counts too."""
    system: str | list[Json] | None = None
    effort: str | None = None
    """`output_config.effort`; the server's default is max."""
    schema: Json | None = None
    """JSON Schema for `output_config.format`: the reply is JSON that follows it."""
    cache_ttl: str | None = None
    """`cache_control.ttl`, 5m or 1h; the server's default is 5m."""
    stop_sequences: tuple[str, ...] = ()
    tools: tuple[Json, ...] = ()
    tool_choice: str | None = None
    """auto, any or none."""
    stream: bool = True

    def to_dict(self) -> Json:
        """The request's JSON object. Fields in the order in which the server's cache reads them
        (tools, system, messages), so that a longer conversation repeats the bytes before it."""
        return {**self._head(stream=self.stream), "messages": list(self.messages)}

    def _head(self, *, stream: bool) -> Json:
        config: Json = {}
        if self.effort is not None:
            config["effort"] = self.effort
        if self.schema is not None:
            config["format"] = {"type": "json_schema", "schema": self.schema}
        fields: Json = {
            "model": self.model,
            "max_tokens": self.max_tokens,
            "output_config": config or None,
            "cache_control": self.cache_ttl and {"type": "ephemeral", "ttl": self.cache_ttl},
            "stop_sequences": list(self.stop_sequences) or None,
            "stream": stream or None,
            "tool_choice": self.tool_choice and {"type": self.tool_choice},
            "tools": list(self.tools) or None,
            "system": self.system or None,
        }
        return {key: value for key, value in fields.items() if value is not None}

    def encode(self) -> bytes:
        """UTF-8 JSON of `to_dict`, the same bytes for an equal request."""
        return b"".join(self.pieces())

    def pieces(self) -> list[bytes]:
        """`encode` in pieces; what went out with earlier requests is neither encoded again nor copied."""
        head, begun, rest = self._parts(stream=self.stream)
        return [head, *chain.from_iterable(run.groups for run in begun), *rest]

    def fingerprint(self) -> str:
        """Hash of all that decides the reply: equal requests have equal ones, streamed or whole."""
        head, begun, rest = self._parts(stream=False)
        digest = hashlib.sha256(head)
        for run in begun:
            digest = run.hashed(digest)
        digest = digest.copy()
        for piece in rest:
            digest.update(piece)
        return digest.hexdigest()

    def _parts(self, *, stream: bool) -> tuple[bytes, list[Run], list[bytes]]:
        """The bytes ahead of the messages, the runs that these begin with, and the bytes behind."""
        with _writing():
            head = msgspec.json.encode(self._head(stream=stream))[:-1] + b',"messages":['
            begun = runs(self.messages)
            rest = [_encoded(message) for message in self.messages[sum(map(len, begun)) :]]
        pieces = [piece for encoded in rest for piece in (encoded, b",")]
        return head, begun, [*pieces[:-1], b"]}"]

    def check(self, *, any_model: bool = False) -> None:
        """Raise `RequestError` for what the API page rules out.

        any_model: let other model names pass, for a server of one's own.
        """
        if not any_model and self.model not in MODELS:
            raise RequestError(f"model: must be one of {', '.join(MODELS)}, not {self.model!r}.")
        _check_number("max_tokens", self.max_tokens, 1, CONTEXT_WINDOW)
        if self.effort is not None and self.effort not in EFFORTS:
            raise RequestError(f"effort: must be one of {', '.join(EFFORT_LEVELS)}, not {self.effort!r}.")
        if self.cache_ttl is not None and self.cache_ttl not in CACHE_TTLS:
            raise RequestError(f"cache_control.ttl: must be 5m or 1h, not {self.cache_ttl!r}.")
        if self.tool_choice is not None and self.tool_choice not in ("auto", "any", "none"):
            raise RequestError(f"tool_choice: must be auto, any or none, not {self.tool_choice!r}.")
        check_stop_sequences(self.stop_sequences)
        _check_tools(self.tools)
        _check_messages(self.messages)


@contextmanager
def _writing() -> Iterator[None]:
    """What cannot be written as JSON is the user's to mend."""
    try:
        yield
    except UnicodeEncodeError:
        raise RequestError(
            "messages: the text holds half a surrogate pair, which UTF-8 cannot write.",
            hint="Repair it: s.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace').",
        ) from None
    except (TypeError, msgspec.EncodeError) as error:
        raise RequestError(f"The request is not JSON: {error}.") from None


def _encoded(message: Json) -> bytes:
    return message.encoded() if isinstance(message, Said) else msgspec.json.encode(message)


def fingerprint(request: Mapping[str, Any]) -> str:
    """`Request.fingerprint` for a request's JSON object, its fields in the order of `to_dict`."""
    decisive = {key: value for key, value in request.items() if key != "stream"}
    return hashlib.sha256(msgspec.json.encode(decisive)).hexdigest()


def _check_number(name: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise RequestError(f"{name}: must be a whole number from {low:,} to {high:,}, not {value!r}.")


def check_stop_sequences(sequences: Sequence[str]) -> None:
    """At most 5, each 1 to 32 bytes of UTF-8 (`CreateMessageRequest.stop_sequences`)."""
    if len(sequences) > MAX_STOP_SEQUENCES:
        raise RequestError(f"stop_sequences: at most {MAX_STOP_SEQUENCES}, not {len(sequences)}.")
    for text in sequences:
        size = len(text.encode("utf-8", "surrogatepass"))
        if not 1 <= size <= MAX_STOP_BYTES:
            raise RequestError(f"stop_sequences: each has 1 to {MAX_STOP_BYTES} bytes; {text!r} has {size}.")


def _check_tools(tools: Sequence[Json]) -> None:
    seen: set[str] = set()
    for n, tool in enumerate(tools):
        name = tool.get("name")
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_.:-]{1,128}", name):
            raise RequestError(f"tools[{n}].name: must be 1 to 128 letters, digits, _ or -, not {name!r}.")
        if name in seen:
            raise RequestError(f"tools[{n}].name: {name!r} stands there twice.")
        seen.add(name)
        if tool.get("type") == WEB_SEARCH["type"]:
            if tool.get("max_uses") is not None:
                _check_number(f"tools[{n}].max_uses", tool["max_uses"], 1, 1_000_000)
        elif not isinstance(tool.get("input_schema"), dict):
            raise RequestError(f"tools[{n}].input_schema: must be a JSON Schema object.")


def _check_messages(messages: Sequence[Json]) -> None:
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
    if not isinstance(message, dict):
        raise RequestError(f"messages[{n}]: must be an object with role and content.")
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant"):
        raise RequestError(f"messages[{n}].role: must be user or assistant, not {role!r}.")
    if not isinstance(content, (str, list)):
        raise RequestError(f"messages[{n}].content: must be text or a list of blocks.")
    if not content or (isinstance(content, str) and content.isspace()):
        raise RequestError(f"messages[{n}].content: is empty.")
    for k, item in enumerate(content if isinstance(content, list) else ()):
        if not isinstance(item, dict) or not isinstance(item.get("type"), str):
            raise RequestError(f"messages[{n}].content[{k}]: must be an object with a type.")
        if item["type"] == "text" and not item.get("text"):
            raise RequestError(f"messages[{n}].content[{k}].text: is empty.")


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
