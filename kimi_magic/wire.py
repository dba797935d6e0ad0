"""The Messages API's JSON as typed values, and back.

The rules of the file:

- A `Block` *is* the JSON object that came over the wire; its properties only read it. So whatever
  a block holds (a signature, encrypted content, a field or a kind that nobody has heard of) goes
  back verbatim and in order, which the API page asks for ("保留完整的思考与工具调用历史").
- Values are not changed after they are made. The dicts inside are shared, never edited.
- `Request.encode()` is deterministic: the same conversation gives the same bytes, since the server
  caches by prefix.
- `Request.check()` refuses what the API page rules out, naming the field, its limit and its value,
  before anything is sent.
- `api_error` is the one place where the server's errors become ours.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec

from .errors import (
    APIError,
    AuthenticationError,
    BadRequestError,
    OverloadedError,
    QuotaError,
    RateLimitError,
    RequestError,
    ServerError,
)

Json = dict[str, Any]
"""A JSON object as Python has it."""

MODELS = ("kimi-k3.1-pro", "kimi-k3.1-pro-highspeed")
"""`CreateMessageRequest.model`, the first one the default."""

EFFORTS = {
    "low": "low",
    "high": "high",
    "max": "max",
    "medium": "high",
    "xhigh": "max",
    "minimal": "low",
    "none": "low",
}
"""`output_config.effort` → what the server makes of it (none does not turn thinking off)."""

CONTEXT_WINDOW = 1_048_576
"""Tokens: the model's context window, and the upper limit of `max_tokens`."""

MAX_STOP_SEQUENCES = 5
MAX_STOP_BYTES = 32
CACHE_TTLS = ("5m", "1h")
IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
MAX_IMAGE_BYTES = 5 * 1024**2
"""Characters of an image in base64, and below the pixels of its longer side: the API page names no
limits, these are the field's."""
MAX_IMAGE_SIDE = 8_000

WEB_SEARCH: Json = {"type": "web_search_20250305", "name": "web_search"}


# --- content blocks -----------------------------------------------------------------------------


class Block:
    """A content block of any kind, known or not: `json` is the object as it stands on the wire."""

    kind: ClassVar[str] = ""
    __slots__ = ("json",)

    def __init__(self, json: Mapping[str, Any]) -> None:
        self.json: Json = dict(json)

    @property
    def type(self) -> str:
        return str(self.json.get("type", ""))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Block) and self.json == other.json

    __hash__ = None  # type: ignore[assignment]  # the JSON inside is not hashable

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.json!r})"

    def _text(self, key: str) -> str:
        value = self.json.get(key)
        return value if isinstance(value, str) else ""


class TextBlock(Block):
    kind = "text"
    __slots__ = ()

    @classmethod
    def of(cls, text: str) -> TextBlock:
        return cls({"type": "text", "text": text})

    @property
    def text(self) -> str:
        return self._text("text")

    @property
    def citations(self) -> list[Json]:
        """`web_search_result_location` objects: cited_text, encrypted_index, title, url."""
        return [c for c in self.json.get("citations") or [] if isinstance(c, dict)]


class ThinkingBlock(Block):
    kind = "thinking"
    __slots__ = ()

    @property
    def thinking(self) -> str:
        return self._text("thinking")

    @property
    def signature(self) -> str | None:
        """Absent for some servers, and then it stays absent when the block goes back."""
        return self.json.get("signature")


class RedactedThinkingBlock(Block):
    kind = "redacted_thinking"
    __slots__ = ()

    @property
    def data(self) -> str:
        return self._text("data")


class ImageBlock(Block):
    """An image in a prompt or a tool result: `source` is base64 with a media type, or a URL."""

    kind = "image"
    __slots__ = ()

    @classmethod
    def of(cls, media_type: str, data: str) -> ImageBlock:
        """media_type: one of `IMAGE_TYPES`; data: base64 without a `data:` prefix."""
        return cls({"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}})

    @classmethod
    def at(cls, url: str) -> ImageBlock:
        return cls({"type": "image", "source": {"type": "url", "url": url}})

    @property
    def source(self) -> Json:
        source = self.json.get("source")
        return source if isinstance(source, dict) else {}


class ToolUseBlock(Block):
    """The model's call of one of our tools. `input` is `{}` where `raw_input` is set."""

    kind = "tool_use"
    __slots__ = ("raw_input",)

    def __init__(self, json: Mapping[str, Any], raw_input: str | None = None) -> None:
        super().__init__(json)
        self.raw_input = raw_input
        """The arguments' text where it was not a JSON object (cut by max_tokens, or malformed)."""

    @property
    def id(self) -> str:
        return self._text("id")

    @property
    def name(self) -> str:
        return self._text("name")

    @property
    def input(self) -> Json:
        value = self.json.get("input")
        return value if isinstance(value, dict) else {}


class ToolResultBlock(Block):
    kind = "tool_result"
    __slots__ = ()

    @classmethod
    def of(
        cls, tool_use_id: str, content: str | Sequence[Block], *, is_error: bool = False
    ) -> ToolResultBlock:
        """content: text, or text and image blocks."""
        body: Any = content if isinstance(content, str) else [b.json for b in content]
        json: Json = {"type": "tool_result", "tool_use_id": tool_use_id, "content": body}
        if is_error:
            json["is_error"] = True
        return cls(json)

    @property
    def tool_use_id(self) -> str:
        return self._text("tool_use_id")

    @property
    def content(self) -> list[Block]:
        return content_blocks(self.json.get("content") or [])

    @property
    def is_error(self) -> bool:
        return self.json.get("is_error") is True


class ServerToolUseBlock(ToolUseBlock):
    """A tool that the server runs itself (web search): never run here."""

    kind = "server_tool_use"
    __slots__ = ()


class WebSearchResultBlock(Block):
    kind = "web_search_tool_result"
    __slots__ = ()

    @property
    def tool_use_id(self) -> str:
        return self._text("tool_use_id")

    @property
    def results(self) -> list[Json]:
        """`web_search_result` objects: url, title, encrypted_content, page_age."""
        content = self.json.get("content")
        return [r for r in content if isinstance(r, dict)] if isinstance(content, list) else []

    @property
    def error_code(self) -> str | None:
        """`max_uses_exceeded`, `unavailable` … where the search failed, else None."""
        content = self.json.get("content")
        return str(content.get("error_code", "unknown")) if isinstance(content, dict) else None


_KINDS: dict[str, type[Block]] = {
    cls.kind: cls
    for cls in (
        TextBlock,
        ThinkingBlock,
        RedactedThinkingBlock,
        ImageBlock,
        ToolUseBlock,
        ToolResultBlock,
        ServerToolUseBlock,
        WebSearchResultBlock,
    )
}


def block(json: Mapping[str, Any]) -> Block:
    """The block for a JSON object; a kind that nobody knows is a plain `Block`."""
    return _KINDS.get(str(json.get("type")), Block)(json)


def content_blocks(content: Any) -> list[Block]:
    """`content` of a message or tool result (text, or an array of objects) as blocks."""
    if isinstance(content, str):
        return [TextBlock.of(content)] if content else []
    return [b if isinstance(b, Block) else block(b) for b in content]


# --- messages -----------------------------------------------------------------------------------


class Usage:
    """Token counts of one reply, as the API reports them (`MessageUsage`).

    `input_tokens`, `cache_read_input_tokens` and `cache_creation_input_tokens` exclude each other;
    `output_tokens` includes thinking. The two that every reply has are 0 until they arrive, the
    others None: `json` has what was really sent.
    """

    __slots__ = ("json",)

    def __init__(self, json: Mapping[str, Any] | None = None) -> None:
        self.json: Json = dict(json or {})

    def merged(self, later: Mapping[str, Any] | None) -> Usage:
        """These counts overwritten by later ones: totals run on, so nothing is added up; what is
        absent or null later keeps its earlier value."""
        return Usage(_overwrite(self.json, later or {}))

    @property
    def input_tokens(self) -> int:
        return self._count("input_tokens") or 0

    @property
    def output_tokens(self) -> int:
        return self._count("output_tokens") or 0

    @property
    def cache_read_input_tokens(self) -> int | None:
        return self._count("cache_read_input_tokens")

    @property
    def cache_creation_input_tokens(self) -> int | None:
        return self._count("cache_creation_input_tokens")

    @property
    def ephemeral_5m_input_tokens(self) -> int | None:
        return self._count("cache_creation", "ephemeral_5m_input_tokens")

    @property
    def ephemeral_1h_input_tokens(self) -> int | None:
        return self._count("cache_creation", "ephemeral_1h_input_tokens")

    @property
    def thinking_tokens(self) -> int | None:
        return self._count("output_tokens_details", "thinking_tokens")

    @property
    def web_search_requests(self) -> int | None:
        return self._count("server_tool_use", "web_search_requests")

    def _count(self, *path: str) -> int | None:
        value: Any = self.json
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Usage) and self.json == other.json

    __hash__ = None  # type: ignore[assignment]  # the JSON inside is not hashable

    def __repr__(self) -> str:
        return f"Usage({self.json!r})"


def _overwrite(old: Json, new: Mapping[str, Any]) -> Json:
    merged = dict(old)
    for key, value in new.items():
        if value is None:
            merged.setdefault(key, None)
        elif isinstance(value, dict) and isinstance(merged.get(key), dict):
            merged[key] = _overwrite(merged[key], value)
        else:
            merged[key] = value
    return merged


@dataclass(frozen=True, slots=True)
class Message:
    """One reply (`MessageResponse`), whole or as far as it has come."""

    id: str = ""
    model: str = ""
    content: tuple[Block, ...] = ()
    stop_reason: str | None = None
    """end_turn, max_tokens, tool_use, refusal, stop_sequence, pause_turn, or a value kept as it
    came; None while the reply is not finished."""
    stop_sequence: str | None = None
    usage: Usage = field(default_factory=Usage)
    request_id: str | None = None
    """The server's name for the request, from the `request-id` header."""
    extra: Json = field(default_factory=dict)
    """Top-level fields of the reply that this class does not name."""

    role: ClassVar[str] = "assistant"

    @property
    def text(self) -> str:
        """All text blocks, joined."""
        return "".join(b.text for b in self.content if isinstance(b, TextBlock))

    @property
    def thinking(self) -> str:
        """All thinking blocks, one after the other on lines of their own."""
        return "\n\n".join(b.thinking for b in self.content if isinstance(b, ThinkingBlock))

    @property
    def is_empty(self) -> bool:
        """No reader could have seen anything of it: no block, or only text and thinking without a
        character."""
        return all(
            (isinstance(b, TextBlock) and not b.text) or (isinstance(b, ThinkingBlock) and not b.thinking)
            for b in self.content
        )

    @property
    def tool_uses(self) -> list[ToolUseBlock]:
        """The calls of our own tools, not those that the server runs."""
        return [b for b in self.content if type(b) is ToolUseBlock]

    def to_dict(self) -> Json:
        """The JSON object of the API page, blocks verbatim."""
        return {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [b.json for b in self.content],
            "stop_reason": self.stop_reason,
            "stop_sequence": self.stop_sequence,
            "usage": self.usage.json,
            **self.extra,
        }

    @classmethod
    def from_dict(cls, json: Mapping[str, Any], request_id: str | None = None) -> Message:
        known = {"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"}
        return cls(
            id=str(json.get("id") or ""),
            model=str(json.get("model") or ""),
            content=tuple(content_blocks(json.get("content") or [])),
            stop_reason=_str_or_none(json.get("stop_reason")),
            stop_sequence=_str_or_none(json.get("stop_sequence")),
            usage=Usage(json.get("usage")),
            request_id=request_id,
            extra={k: v for k, v in json.items() if k not in known},
        )


def _str_or_none(value: Any) -> str | None:
    return None if value is None else str(value)


def user(content: str | Iterable[Block]) -> Json:
    """A user message of the request: text, or blocks."""
    return {"role": "user", "content": content if isinstance(content, str) else [b.json for b in content]}


def assistant(content: Iterable[Block]) -> Json:
    """An assistant message of the request, its blocks verbatim."""
    return {"role": "assistant", "content": [b.json for b in content]}


# --- requests -----------------------------------------------------------------------------------


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
            "stream": self.stream or None,
            "tool_choice": self.tool_choice and {"type": self.tool_choice},
            "tools": list(self.tools) or None,
            "system": self.system or None,
            "messages": list(self.messages),
        }
        return {key: value for key, value in fields.items() if value is not None}

    def encode(self) -> bytes:
        """UTF-8 JSON, the same bytes for an equal request."""
        try:
            return msgspec.json.encode(self.to_dict())
        except UnicodeEncodeError:
            raise RequestError(
                "messages: the text holds half a surrogate pair, which UTF-8 cannot write.",
                hint="Repair it: s.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace').",
            ) from None
        except (TypeError, msgspec.EncodeError) as error:
            raise RequestError(f"The request is not JSON: {error}.") from None

    def fingerprint(self) -> str:
        """Hash of all that decides the reply: equal requests have equal ones, streamed or whole."""
        return fingerprint(self.to_dict())

    def check(self, *, any_model: bool = False) -> None:
        """Raise `RequestError` for what the API page rules out.

        any_model: let other model names pass, for a server of one's own.
        """
        if not any_model and self.model not in MODELS:
            raise RequestError(f"model: must be one of {', '.join(MODELS)}, not {self.model!r}.")
        _check_number("max_tokens", self.max_tokens, 1, CONTEXT_WINDOW)
        if self.effort is not None and self.effort not in EFFORTS:
            raise RequestError(f"effort: must be one of {', '.join(EFFORTS)}, not {self.effort!r}.")
        if self.cache_ttl is not None and self.cache_ttl not in CACHE_TTLS:
            raise RequestError(f"cache_control.ttl: must be 5m or 1h, not {self.cache_ttl!r}.")
        if self.tool_choice is not None and self.tool_choice not in ("auto", "any", "none"):
            raise RequestError(f"tool_choice: must be auto, any or none, not {self.tool_choice!r}.")
        check_stop_sequences(self.stop_sequences)
        _check_tools(self.tools)
        _check_messages(self.messages)


def fingerprint(request: Mapping[str, Any]) -> str:
    """`Request.fingerprint` for a request's JSON object."""
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
    before = None
    for n, message in enumerate(messages):
        if not isinstance(message, dict):
            raise RequestError(f"messages[{n}]: must be an object with role and content.")
        role = message.get("role")
        if role not in ("user", "assistant"):
            raise RequestError(f"messages[{n}].role: must be user or assistant, not {role!r}.")
        if role == before:
            raise RequestError(f"messages[{n}].role: roles alternate, and {role!r} stands twice in a row.")
        before = role
        content = message.get("content")
        if not isinstance(content, (str, list)):
            raise RequestError(f"messages[{n}].content: must be text or a list of blocks.")
        if not content or (isinstance(content, str) and content.isspace()):
            raise RequestError(f"messages[{n}].content: is empty.")
        for k, item in enumerate(content if isinstance(content, list) else ()):
            if not isinstance(item, dict) or not isinstance(item.get("type"), str):
                raise RequestError(f"messages[{n}].content[{k}]: must be an object with a type.")
            if item["type"] == "text" and not item.get("text"):
                raise RequestError(f"messages[{n}].content[{k}].text: is empty.")
    if messages[0]["role"] != "user":
        raise RequestError("messages[0].role: the first message is the user's.")
    _check_pairs(messages)


def _check_pairs(messages: Sequence[Json]) -> None:
    """Each tool_use is answered by exactly one tool_result in the very next message."""
    waiting: list[str] = []
    for n, message in enumerate(messages):
        blocks = message["content"] if isinstance(message["content"], list) else []
        results = [b.get("tool_use_id") for b in blocks if b["type"] == "tool_result"]
        if sorted(map(str, results)) != sorted(waiting):
            raise RequestError(
                f"messages[{n}].content: tool_result blocks answer {results}, the calls before are {waiting}."
            )
        waiting = [str(b.get("id")) for b in blocks if b["type"] == "tool_use"]
    if waiting:
        raise RequestError(f"messages: the tool calls {waiting} have no tool_result.")


# --- errors -------------------------------------------------------------------------------------

_BY_STATUS: dict[int, type[APIError]] = {
    402: QuotaError,
    401: AuthenticationError,
    403: AuthenticationError,
    429: RateLimitError,
    529: OverloadedError,
}
_BY_TYPE: dict[str, type[APIError]] = {
    "authentication_error": AuthenticationError,
    "permission_error": AuthenticationError,
    "rate_limit_error": RateLimitError,
    "overloaded_error": OverloadedError,
    "api_error": ServerError,
    "invalid_request_error": BadRequestError,
    "not_found_error": BadRequestError,
    "request_too_large": BadRequestError,
    "billing_error": QuotaError,
}
_HINTS: dict[type[APIError], str] = {
    AuthenticationError: "Check KIMI_API_KEY (%kimi status says where the key comes from).",
    RateLimitError: "Wait a little and run the cell again.",
    QuotaError: "The account's quota is spent: top it up; trying again will not help.",
    OverloadedError: "The server is busy: run the cell again in a moment.",
    ServerError: "The fault is the server's: run the cell again in a moment.",
}
_QUOTA = ("exceeded_current_quota", "insufficient_quota", "insufficient_balance", "insufficient balance")


def api_error(
    status: int | None,
    body: Any,
    *,
    request_id: str | None = None,
    retry_after: float | None = None,
) -> APIError:
    """The error that a reply's JSON body tells of, in the page's shape (`ErrorResponse`) or in
    the one that OpenAI-like gateways send. status: None for an `error` event in a 200 stream."""
    body = body if isinstance(body, dict) else {}
    inner = body.get("error", body)
    inner = inner if isinstance(inner, dict) else {"message": inner}
    kind = _printable(inner.get("type") or inner.get("code"), 80) or None
    text = _printable(inner.get("message") or body.get("detail"), 500) or "no message"
    cls = _error_class(status, kind, text)
    hint = _HINTS.get(cls, "")
    if "reasoning_content" in text or ("thinking" in text and cls is BadRequestError):
        hint = "Thinking blocks of earlier turns must go back unchanged: start afresh with %kimi new."
    where = f"{status} {kind}" if status and kind else str(status or kind or "error")
    error = cls(f"The server answered {where}: {text.rstrip('.')}.", hint=hint, status=status, type=kind)
    error.request_id = request_id or _printable(body.get("request_id"), 200) or None
    error.retry_after = retry_after
    return error


def _printable(value: Any, longest: int) -> str:
    """The server's words without what would steer a terminal."""
    text = " ".join(str(value or "")[: 2 * longest].split())
    return "".join(c for c in text if c.isprintable())[:longest]


def _error_class(status: int | None, kind: str | None, text: str) -> type[APIError]:
    quota = any(mark in f"{kind} {text}".lower() for mark in _QUOTA)
    if quota and status in (None, 402, 403, 429):
        return QuotaError
    if status is None and kind in _BY_TYPE:
        return _BY_TYPE[kind]
    if status is None:  # some gateways put a status where the type belongs
        status = int(kind) if kind and kind.isascii() and kind.isdigit() and len(kind) == 3 else 500
    return _BY_STATUS.get(status, ServerError if status >= 500 else BadRequestError)
