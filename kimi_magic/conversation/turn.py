"""One turn, as it is kept: a user message, all that was done for it, and how it goes back over the wire."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from ..errors import ConversationError
from ..wire import Block, ImageBlock, Json, Message, Said, TextBlock, content_blocks

COMPLETE = "complete"
INTERRUPTED = "interrupted"
FAILED = "failed"
CUT = "cut"
"""The reply ended without anything that could be sent back (no text, or an unanswered call)."""
REFUSED = "refused"

TWIN_VERSION = 1
EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request of a turn, so that the same request can be answered again from what was said."""

    request: str
    """Hash of the request (`Request.fingerprint`)."""
    blocks: int
    """How many blocks of the turn's reply came of it, after those of the requests before."""
    message: Json
    """The reply without its content: id, model, stop_reason, usage …"""


@dataclass(frozen=True, slots=True)
class Turn:
    """One user message and all that was done for it."""

    id: str
    parent: str | None
    """The turn before it, None for the first."""
    messages: tuple[Json, ...]
    """As they go over the wire: user, assistant, and with tools their results and more replies."""
    status: str = COMPLETE
    """complete, interrupted, failed, cut or refused; only the first is ever sent again."""
    cell: str | None = None
    prompt: str = ""
    """As the user wrote it, before values were put in."""
    model: str = ""
    effort: str | None = None
    stop_reason: str | None = None
    error: str | None = None
    """The line that the user saw, where it failed."""
    time: datetime = EPOCH
    simulated: bool = False
    settings: Json = field(default_factory=dict)
    """The request without its messages: model, max_tokens, system, tools …"""
    exchanges: tuple[Exchange, ...] = ()
    """The requests that it took, and what of `reply` came of each."""
    compacts: str | None = None
    """The last of the turns that it sums up: they leave the path with it, and `undo` brings them back."""
    thinking_seconds: float | None = None
    """How long it thought before it said anything; None where it did not, or nobody knows."""
    call_seconds: tuple[float, ...] = ()
    """How long each call of a tool took, in order, as far as is known."""
    sent: tuple[Json, ...] = field(init=False, repr=False, compare=False)
    """`messages` as they go back: made once, since every later request has them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "sent", tuple(sendable(message) for message in self.messages))

    def __repr__(self) -> str:
        return f"<Turn {self.id[:6]}: {_short(self.prompt)!r}, {self.status}>"

    @property
    def reply(self) -> list[Block]:
        """Everything that the assistant said, in order."""
        return [b for m in self.messages if m["role"] == "assistant" for b in content_blocks(m["content"])]

    @property
    def images(self) -> list[Block]:
        """Those of the user's message."""
        return [b for b in content_blocks(self.messages[0]["content"]) if isinstance(b, ImageBlock)]

    @property
    def content(self) -> list[Block]:
        """Everything that follows the user's message, in order: the reply, and the results of its calls."""
        return [b for m in self.messages[1:] for b in content_blocks(m["content"])]

    @property
    def text(self) -> str:
        """The reply's text; what was said before and after a tool call stands apart."""
        said = [content_blocks(m["content"]) for m in self.messages if m["role"] == "assistant"]
        texts = ["".join(b.text for b in blocks if isinstance(b, TextBlock)) for blocks in said]
        return "\n\n".join(text for text in texts if text)

    def recorded(self) -> list[tuple[str, Message]]:
        """Each request's hash, and the whole message that answered it."""
        found, content = [], self.reply
        for exchange in self.exchanges:
            blocks, content = content[: exchange.blocks], content[exchange.blocks :]
            message = Message.from_dict({**exchange.message, "content": blocks})
            found.append((exchange.request, message))
        return found

    def to_json(self) -> Json:
        """JSON that holds the turn whole, blocks verbatim."""
        return {
            "version": TWIN_VERSION,
            "id": self.id,
            "parent": self.parent,
            "cell": self.cell,
            "status": self.status,
            "time": self.time.astimezone(UTC).isoformat(timespec="microseconds"),
            "model": self.model,
            "effort": self.effort,
            "stop_reason": self.stop_reason,
            "error": self.error,
            "simulated": self.simulated,
            "prompt": self.prompt,
            "settings": self.settings,
            "exchanges": [asdict(exchange) for exchange in self.exchanges],
            "compacts": self.compacts,
            "thinking_seconds": self.thinking_seconds,
            "call_seconds": list(self.call_seconds),
            "messages": list(self.messages),
        }

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> Turn:
        """The turn of `to_json`. Raises `ConversationError` for anything else."""
        try:
            if json["version"] > TWIN_VERSION:
                raise ConversationError(
                    f"The turn was written by a newer kimi_magic (version {json['version']}).",
                    hint="Upgrade kimi_magic to read it.",
                )
            values = {k: json[k] for k in cls.__dataclass_fields__ if k in json}
            values["messages"] = tuple(json["messages"])
            values["exchanges"] = tuple(Exchange(**e) for e in json.get("exchanges", ()))
            values["time"] = datetime.fromisoformat(json["time"])
            thought = json.get("thinking_seconds")
            values["thinking_seconds"] = None if thought is None else _seconds(thought)
            values["call_seconds"] = tuple(map(_seconds, json.get("call_seconds", ())))
            return cls(**values)
        except (KeyError, TypeError, ValueError) as error:
            raise ConversationError(f"This is not a turn of a conversation ({error!r}).") from None


def sendable(message: Json) -> Said:
    """The message as it goes back: without empty text blocks, which the API sends and does not take."""
    content = message["content"]
    if isinstance(content, str) or not any(_is_empty(block) for block in content):
        return message if isinstance(message, Said) else Said(message)
    return Said({**message, "content": [block for block in content if not _is_empty(block)]})


def _seconds(value: Any) -> float:
    """Raises TypeError or ValueError for what is no time."""
    if not 0 <= float(value) < math.inf:
        raise ValueError(f"{value} seconds")
    return float(value)


def _is_empty(block: Json) -> bool:
    return block["type"] == "text" and not block.get("text")


def _short(text: str) -> str:
    """One line of at most 40 characters."""
    line = " ".join(text[:400].split())
    return line if len(line) <= 40 else f"{line[:39]}…"
