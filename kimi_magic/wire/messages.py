"""Replies: `Message` and its `Usage`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from .blocks import Block, TextBlock, ThinkingBlock, ToolUseBlock, content_blocks
from .limits import Json


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
        """The message of `to_dict`, or of a reply's JSON; what is missing is empty."""
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
