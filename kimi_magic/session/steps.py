"""The loop over requests that one turn may take, as a generator: it yields a `Request` and is sent
the `Message` that came of it. It returns the messages of the turn that follow the user's.

A `pause_turn` (the server interrupted a long search) is answered by the same request with the
assistant's content behind it, unchanged (`sendable`) and as the last message; a bounded number of times.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

from ..conversation import sendable
from ..wire import Json, Message, Request

MAX_PAUSES = 8


def steps(request: Request) -> Generator[Request, Message, tuple[Json, ...]]:
    """The requests of a turn. The continuation of a paused reply belongs to the same message."""
    content: list[Json] = []
    for _ in range(MAX_PAUSES + 1):
        message = yield request if not content else _continued(request, content)
        content += [b.json for b in message.content]
        if message.stop_reason != "pause_turn":
            break
    return ({"role": "assistant", "content": content},) if content else ()


def _continued(request: Request, content: list[Json]) -> Request:
    message = {"role": "assistant", "content": list(content)}
    return replace(request, messages=(*request.messages, sendable(message)))
