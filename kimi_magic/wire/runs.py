"""The messages of a request, and their runs, which are checked, encoded and hashed once.

A request has the messages of the one before it, and a few more. So they are cut into runs, from the first
message on, and the first message of a run remembers it: where the very same messages stand behind it again,
the run's bytes are taken as they are. What a request costs is then what is new.

- Only `Said`s are in runs, which are never edited. The last message of a request is in none.
- A run has at least `ENOUGH` bytes, or it is the last one and grows. Fewer than `STEP` messages are
  left over behind it.
- A run gives the same bytes, and so the same hash, however the messages are cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import is_
from typing import TYPE_CHECKING, Any

import msgspec

from .blocks import Block
from .limits import Json

if TYPE_CHECKING:
    from hashlib import _Hash

ENOUGH = 1024 * 1024
"""Bytes of a run, and of a group."""
LITTLE = 64 * 1024
"""Bytes that are copied sooner than sent by a call of their own."""
STEP = 64
"""Messages that are worth a run."""


class Said(dict[str, Any]):
    """A message of a request that keeps its bytes: each turn is checked and encoded once, however
    many requests it goes out with (`runs`). Never edited after it is made."""

    __slots__ = ("_bytes", "_pairs", "is_checked", "run")

    def __init__(self, message: Mapping[str, Any]) -> None:
        super().__init__(message)
        self._bytes: bytes | None = None
        self._pairs: tuple[list[str], list[str]] | None = None
        self.is_checked = False
        """`Request.check` has found nothing wrong in it."""
        self.run: Run | None = None
        """The run that began with it last."""

    def __reduce__(self) -> tuple[type[Said], tuple[Json]]:
        """Another process gets the message alone."""
        return Said, (dict(self),)

    def encoded(self) -> bytes:
        """Its JSON, UTF-8. Raises what `msgspec.json.encode` raises."""
        encoded = self._bytes  # another thread may forget them
        if encoded is None:
            encoded = self._bytes = msgspec.json.encode(self)
        return encoded

    def forget(self) -> None:
        """Free the bytes: they are kept elsewhere."""
        self._bytes = None

    def pairs(self) -> tuple[list[str], list[str]]:
        """Ids of the calls that it answers, and of the calls that it makes, both sorted."""
        if self._pairs is None:
            self._pairs = pairs(self)
        return self._pairs


def pairs(message: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """`Said.pairs` for any message."""
    blocks = message["content"] if isinstance(message["content"], list) else []
    answered = [str(b.get("tool_use_id")) for b in blocks if b["type"] == "tool_result"]
    called = [str(b.get("id")) for b in blocks if b["type"] == "tool_use"]
    return sorted(answered), sorted(called)


def user(content: str | Iterable[Block]) -> Said:
    """A user message of the request: text, or blocks."""
    return Said(
        {"role": "user", "content": content if isinstance(content, str) else [b.json for b in content]}
    )


def assistant(content: Iterable[Block]) -> Said:
    """An assistant message of the request, its blocks verbatim."""
    return Said({"role": "assistant", "content": [b.json for b in content]})


class Run:
    """Messages in a row, each with a comma behind it."""

    __slots__ = ("_followers", "_hashed", "groups", "is_checked", "is_full")

    def __init__(self, messages: Sequence[Said]) -> None:
        joined = b",".join([*(message.encoded() for message in messages), b""])
        self.groups = tuple(grouped([joined]))
        """The bytes."""
        self.is_full = len(joined) >= ENOUGH
        self.is_checked = False
        """`Request.check` has found nothing wrong from its first message to its last."""
        self._followers = tuple(messages[1:])
        self._hashed: tuple[bytes, _Hash] | None = None
        for message in messages:
            message.forget()
        messages[0].run = self

    def __len__(self) -> int:
        """How many messages."""
        return 1 + len(self._followers)

    def stands_at(self, at: int, messages: Sequence[Json]) -> bool:
        """Whether its messages stand there, and more behind them. The first one does."""
        end = at + len(self)
        return end < len(messages) and all(map(is_, messages[at + 1 : end], self._followers))

    def hashed(self, before: _Hash) -> _Hash:
        """The hash of what stands before it, gone on with; not to be updated. The last one is kept."""
        name, hashed = before.digest(), self._hashed
        if hashed is None or hashed[0] != name:
            after = before.copy()
            for group in self.groups:
                after.update(group)
            hashed = self._hashed = name, after
        return hashed[1]


def runs(messages: Sequence[Json]) -> list[Run]:
    """The runs that the messages begin with, new ones made of what is worth it. Raises what
    `msgspec.json.encode` raises."""
    found = list(known(messages))
    at = sum(map(len, found))
    fresh = _said(messages[at:-1])
    if len(fresh) < STEP and sum(len(message.encoded()) for message in fresh) < ENOUGH:
        return found
    if found and not found[-1].is_full:
        at -= len(found.pop())
    return [*found, *_cut(_said(messages[at:-1]))]


def known(messages: Sequence[Json]) -> Iterator[Run]:
    """The runs that are there already."""
    at = 0
    while at < len(messages):
        first = messages[at]
        run = first.run if isinstance(first, Said) else None
        if run is None or not run.stands_at(at, messages):
            return
        yield run
        at += len(run)


def grouped(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in groups that suit a socket: each is a call, and what that does not take at once is
    copied again. Only what is little is joined."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        is_little = len(piece) < LITTLE
        if is_little:
            held.append(piece)
            size += len(piece)
        if held and (size >= ENOUGH or not is_little):
            yield b"".join(held)
            held, size = [], 0
        if not is_little:
            step = -(-len(piece) // max(1, len(piece) // ENOUGH))
            for start in range(0, len(piece), step):
                yield piece[start : start + step]
    if held:
        yield b"".join(held)


def _said(messages: Sequence[Json]) -> list[Said]:
    """Those ahead of the first that is none."""
    said = []
    for message in messages:
        if not isinstance(message, Said):
            break
        said.append(message)
    return said


def _cut(messages: Sequence[Said]) -> Iterator[Run]:
    start = size = 0
    for n, message in enumerate(messages, 1):
        size += len(message.encoded())
        if size >= ENOUGH:
            yield Run(messages[start:n])
            start, size = n, 0
    if start < len(messages):
        yield Run(messages[start:])
