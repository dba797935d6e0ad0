"""A reply as news: what a front end that keeps what it has does not have yet.

Each message says where its parts begin, and a full snapshot goes out each time the reply has doubled in
size, so a message that was lost or came twice heals. `parts.js` is the other end.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..render import running
from ..render.pieces import Piece, Text, Thinking
from ..render.sanitise import clean
from ..session import tokens
from .growing import GrowingText
from .show import Progress
from .waiting import waiting

FIRST_SNAPSHOT = 4_000  # characters

SCRIPT = Path(__file__).with_name("parts.js")
"""The front end's end of it, to be put ahead of a widget's own script."""


class Deltas:
    """The news of one reply."""

    def __init__(self) -> None:
        self._parts: list[_Part] = []
        self._size = FIRST_SNAPSHOT  # of the reply at the last snapshot
        self._waiting = ""

    def news(self, progress: Progress, *, whole: bool = False) -> tuple[dict[str, Any], int]:
        """A message for `parts.js`, and its size in characters; an empty one where there is no news.
        whole: all there is, for a front end that has nothing."""
        found = progress.pieces()
        if not found:
            return self._wait(waiting(progress), whole=whole)
        for place in range(len(self._parts), len(found)):
            self._parts.append(_Part(place))
        began_again = [
            part.take(piece, progress.thinking_seconds)
            for part, piece in zip(self._parts, found, strict=True)
        ]
        size = sum(part.size for part in self._parts)
        if whole or any(began_again) or size > 2 * self._size:
            self._size = max(size, FIRST_SNAPSHOT)
            for part in self._parts:
                part.forget()
        news = [news for part in self._parts if (news := part.news())]
        message = {"parts": news, "reset": any(began_again)} if news else {}
        return message, sum(_size(part) for part in news)

    def _wait(self, line: str, *, whole: bool) -> tuple[dict[str, Any], int]:
        if line == self._waiting and not whole:
            return {}, 0
        self._waiting = line
        return {"parts": [], "waiting": line}, len(line)


@dataclass(slots=True)
class _Part:
    """One piece: what it is now, and how much of it was sent."""

    place: int
    kind: str = ""
    text: str = ""
    label: str = ""
    html: str = ""
    piece: Piece | None = None  # that the HTML is of
    grown: GrowingText | None = None
    sent: int = 0  # characters of a thinking, blocks of a text
    sent_last: str | None = None  # the label, the tail or the HTML that was sent last

    @property
    def size(self) -> int:
        return len(self.text) + len(self.html)

    def take(self, piece: Piece, thought_for: float | None) -> bool:
        """The piece as it is now. True where it is not a continuation of what it was."""
        if isinstance(piece, Thinking) and not piece.redacted:
            self.kind, self.text = "thinking", clean(piece.text)
            self.label = running.thinking_label(thought_for, tokens(self.text))
            return False
        if isinstance(piece, Text):
            self.kind, self.text = "text", piece.markdown
            self.grown = self.grown or GrowingText()
            return self.grown.grow(piece.markdown)
        if piece != self.piece:  # a result may be large, and an image is
            self.kind, self.html, self.piece = "html", running.piece(piece, thought_for), piece
        return False

    def forget(self) -> None:
        """Nothing of it was sent: the next news are all of it."""
        self.sent, self.sent_last = 0, None

    def news(self) -> dict[str, Any] | None:
        """What the front end does not have yet."""
        if self.kind == "thinking":
            return self._changed("label", self.label, "text", self.text)
        if self.kind == "text":
            assert self.grown is not None
            return self._changed("tail", self.grown.tail, "blocks", self.grown.frozen)
        return self._changed("html", self.html, "", "")

    def _changed(self, last_name: str, last: str, grown_name: str, grown: Any) -> dict[str, Any] | None:
        news: dict[str, Any] = {}
        if len(grown) > self.sent:
            news = {"at": self.sent, grown_name: grown[self.sent :]}
            self.sent = len(grown)
        if last != self.sent_last:
            self.sent_last = news[last_name] = last
        if not news:
            return None
        head = running.thinking_box() if self.kind == "thinking" else ""
        return {"place": self.place, "kind": self.kind, "head": head, **news}


def _size(news: dict[str, Any]) -> int:
    texts = [v for v in news.values() if not isinstance(v, int)]
    return sum(len(v) if isinstance(v, str) else sum(map(len, v)) for v in texts)
