"""The prefix cache: what of a request is read from cache, and what is written to it.

The rules, from the page ("三段输入互斥", "仅顶层 cache_control 控制写入 TTL … 默认 5m") and, where it is
silent, as servers of this protocol do it:

- A request is a row of pieces (each tool, each system block, each block of each message), hashed
  cumulatively, apart for each model. The longest row that is in the cache is read, the rest written.
- A prefix below the minimum is neither written nor read.
- A read gives every piece that it covers its whole time to live again, as it was written (5m or 1h).
- The few tokens that open the assistant's turn are never cached: they are the plain input.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from ..wire import Json
from . import tokens

TTL_SECONDS = {"5m": 300.0, "1h": 3600.0}
OPENING_TOKENS = 4

Piece = tuple[bytes, int]
"""The bytes that identify a piece of the request, and its tokens."""


@dataclass(frozen=True, slots=True)
class InputTokens:
    """The input of one request in three parts that exclude each other, in tokens."""

    plain: int
    read: int
    written: int
    ttl: str
    """5m or 1h: the time to live of what was written."""

    @property
    def total(self) -> int:
        return self.plain + self.read + self.written


class PrefixCache:
    """minimum: tokens below which a prefix is not cached."""

    def __init__(self, minimum: int) -> None:
        self.minimum = minimum
        self._expiry: dict[bytes, tuple[float, str]] = {}

    def account(self, request: Json, now: float) -> InputTokens:
        """Read and write the cache for one request at the time `now` (seconds)."""
        ttl = (request.get("cache_control") or {}).get("ttl") or "5m"
        prefixes = list(_prefixes(request))
        self._expiry = {key: entry for key, entry in self._expiry.items() if entry[0] > now}
        hit = max((n for n, (key, _) in enumerate(prefixes) if key in self._expiry), default=-1)
        for n, (key, size) in enumerate(prefixes):
            if size >= self.minimum:
                kept = self._expiry[key][1] if n <= hit and key in self._expiry else ttl
                self._expiry[key] = (now + TTL_SECONDS[kept], kept)
        total = prefixes[-1][1]
        if total < self.minimum:
            return InputTokens(total + OPENING_TOKENS, 0, 0, ttl)
        read = prefixes[hit][1] if hit >= 0 else 0
        return InputTokens(OPENING_TOKENS, read, total - read, ttl)


def _prefixes(request: Json) -> Iterator[tuple[bytes, int]]:
    """The running hash and the running token count after each piece."""
    digest, size = hashlib.sha256(str(request["model"]).encode()), 0
    for data, amount in pieces(request):
        digest.update(len(data).to_bytes(8, "big") + data)
        size += amount
        yield digest.digest(), size


def pieces(request: Json) -> Iterator[Piece]:
    """The request in the order in which the cache reads it: tools, system, messages."""
    for tool in request.get("tools") or ():
        yield msgspec.json.encode(tool), tokens.of_json(tool)
    for block in as_blocks(request.get("system") or ()):
        yield b"system " + _identity(block), tokens.of_block(block)
    for message in request["messages"]:
        role = str(message["role"]).encode()
        for block in as_blocks(message["content"]):
            yield role + b" " + _identity(block), tokens.of_block(block)


def as_blocks(content: object) -> list[Json]:
    """Text or blocks, as blocks."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return (
        [block for block in content if isinstance(block, dict)] if isinstance(content, (list, tuple)) else []
    )


def _identity(block: Json) -> bytes:
    # A block's own mark says nothing about its text, and clients move it from turn to turn.
    return msgspec.json.encode({key: value for key, value in block.items() if key != "cache_control"})
