"""Requests: what is sent, checked before it goes, and always as the same bytes.

- `encode()` is deterministic, and a longer conversation repeats the bytes before it: the server caches
  by prefix.
- `check()` refuses what the API page rules out (`checks`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import msgspec

from ..errors import RequestError
from .checks import (
    check_messages,
    check_number,
    check_stop_sequences,
    check_system,
    check_tools,
    require,
    require_one,
)
from .limits import CACHE_TTLS, CONTEXT_WINDOW, EFFORT_LEVELS, EFFORTS, MODELS, TOOL_CHOICES, Json
from .runs import Run, Said, runs


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
        if not any_model:
            require_one("model", MODELS, self.model)
        require(isinstance(self.model, str), "model", "text", self.model)
        check_number("max_tokens", self.max_tokens, CONTEXT_WINDOW)
        require(isinstance(self.stream, bool), "stream", "true or false", self.stream)
        if self.effort not in (None, *EFFORTS):
            require_one("effort", EFFORT_LEVELS, self.effort)
        if self.cache_ttl is not None:
            require_one("cache_control.ttl", CACHE_TTLS, self.cache_ttl)
        if self.tool_choice is not None:
            require_one("tool_choice", TOOL_CHOICES, self.tool_choice)
        schema = self.schema if self.schema is not None else {}
        require(isinstance(schema, dict), "output_config.format.schema", "a JSON Schema object", schema)
        check_stop_sequences(self.stop_sequences)
        check_system(self.system)
        check_tools(self.tools)
        check_messages(self.messages)


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
