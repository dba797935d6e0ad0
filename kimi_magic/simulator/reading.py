"""What a request asks for, read once: the prompt, what came before it, tools, images, wishes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ..wire import EFFORTS, Json
from . import directives
from .cache import as_blocks
from .directives import Directive

_CJK = r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]"  # takes milliseconds to compile
_WORD = re.compile(r"[A-Za-z]+")
_ATTACHED = re.compile(
    r"\A(?:File `[^\n]*:\n(?P<fence>`{3,}).*?\n(?P=fence)\n+|Image `[^\n]*`:\n+)+", re.DOTALL
)
_TABLE_LINE = re.compile(r"^\s*\|.*$|^.*,.*,.*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    request: Json
    seed: str
    """Follows from the request's content alone."""
    prompt: str
    """Text of the user's last message, without directives."""
    question: str
    """The prompt without the files and the names of images that stand ahead of it (`prompt.attach`)."""
    earlier: tuple[str, ...]
    """The questions before it, oldest first."""
    images: tuple[Json, ...]
    """Image blocks of the last prompt and of the last tool results."""
    results: tuple[Json, ...]
    """The tool_result blocks of the last message."""
    rounds: int
    """Rounds of tool calls since the prompt."""
    paused: tuple[Json, ...]
    """The assistant's blocks where the request goes on with a paused reply."""
    wishes: tuple[Directive, ...]
    """Directives of the prompt and of the model's suffix."""
    fresh: tuple[Directive, ...]
    """Those that concern this very request: not repeated in the rounds after the prompt."""

    def wish(self, name: str) -> Directive | None:
        return next((directive for directive in self.wishes if directive.name == name), None)

    @property
    def effort(self) -> str:
        """low, high or max: what the server makes of the field."""
        return EFFORTS[(self.request.get("output_config") or {}).get("effort") or "max"]

    @property
    def schema(self) -> Json | None:
        return ((self.request.get("output_config") or {}).get("format") or {}).get("schema")

    @property
    def choice(self) -> Json:
        return self.request.get("tool_choice") or {"type": "auto"}

    @property
    def tools(self) -> list[Json]:
        """The tools of the caller that may be called."""
        allowed = [] if self.choice["type"] == "none" else self.request.get("tools") or []
        return [tool for tool in allowed if "input_schema" in tool]

    @property
    def search(self) -> Json | None:
        """The server's search tool, where it may be used."""
        allowed = [] if self.choice["type"] == "none" else self.request.get("tools") or []
        return next((tool for tool in allowed if tool.get("type") == "web_search_20250305"), None)

    @property
    def first_line(self) -> str:
        """The question's first line that is words rather than a table, shortened."""
        lines = [line.strip() for line in self.question.splitlines() if line.strip()]
        words = [line for line in lines if not line.startswith(("|", "```"))]
        return shorten((words or lines or [""])[0])

    @property
    def chinese(self) -> bool:
        """Whether the question is written in Chinese or Japanese characters for a good part."""
        prose = _TABLE_LINE.sub("", self.question) or self.question
        return not prose.isascii() and len(re.findall(_CJK, prose)) > len(_WORD.findall(prose))


def read(request: Json, seed: str) -> Reading:
    """The reading of a request that has been checked."""
    messages = request["messages"]
    asked = [n for n, message in enumerate(messages) if message["role"] == "user" and _text(message)]
    last, final = messages[-1], as_blocks(messages[-1]["content"])
    prompt = _text(messages[asked[-1]]) if asked else ""
    began = last["role"] == "assistant" and any(block["type"] == "server_tool_use" for block in final)
    suffix = str(request["model"]).partition(":")[2]
    by_model = (directives.one(suffix),) if suffix and directives.one(suffix).known else ()
    by_prompt = directives.read(prompt)
    results = [block for block in final if block["type"] == "tool_result"] if last["role"] == "user" else []
    is_prompt = bool(asked) and asked[-1] == len(messages) - 1
    images = [*_images(messages[asked[-1]]["content"] if is_prompt else ()), *_images(results)]
    after = messages[asked[-1] + 1 :] if asked else messages
    return Reading(
        request=request,
        seed=seed,
        prompt=directives.without(prompt) or prompt,
        question=_question(prompt),
        earlier=tuple(_question(_text(messages[n])) for n in asked[:-1]),
        images=tuple(images),
        results=tuple(results),
        rounds=sum(message["role"] == "user" for message in after),
        paused=tuple(final) if began else (),
        wishes=by_prompt + by_model,
        fresh=(by_prompt if is_prompt else ()) + by_model,
    )


def _text(message: Json) -> str:
    blocks = as_blocks(message["content"])
    return "\n".join(block["text"] for block in blocks if block["type"] == "text").strip(" \r\n")


def _question(text: str) -> str:
    asked = directives.without(_ATTACHED.sub("", text)).strip(" \r\n")
    return asked or directives.without(text) or text


def _images(content: object) -> Iterable[Json]:
    """Image blocks, those inside tool results too."""
    for block in as_blocks(list(content) if isinstance(content, (list, tuple)) else ()):
        if block["type"] == "image":
            yield block
        elif block["type"] == "tool_result":
            yield from _images(block["content"])


def shorten(text: str, size: int = 90) -> str:
    return text if len(text) <= size else text[: size - 1].rstrip() + "…"
