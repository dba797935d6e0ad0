"""Content blocks: the JSON objects that messages are made of, with properties that read them.

A `Block` *is* the JSON object that came over the wire. So whatever it holds (a signature, encrypted
content, a field or a kind that nobody has heard of) goes back verbatim and in order, which the API
page asks for ("保留完整的思考与工具调用历史"). The dicts inside are shared, never edited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from .limits import Json


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
