"""The loop over requests that one turn may take, as a generator. It yields

    a `Request`                     and is sent the `Message` that came of it
    a tuple of `ToolUseBlock`s      and is sent their `ToolResultBlock`s, one each, in their order

and adds each message of the turn to `said` as soon as it is whole.

- A `pause_turn` (the server interrupted a long search) is answered by the same request with the
  assistant's content behind it, unchanged (`sendable`) and as the last message; a bounded number of times.
- Results stand in the very next message. After `max_steps` rounds of calls the model is asked once
  more, and may call nothing then, so that it answers with what it has.
- A call where no function was offered ends the turn: nobody could answer it.
- `tool_choice: any` holds for the first round only, or it would never end.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace

from ..conversation import sendable
from ..wire import Block, Json, Message, Request, ToolResultBlock, ToolUseBlock, assistant, user

MAX_PAUSES = 8
MAX_STEPS = 10
"""Rounds of tool calls in one turn, by default."""

_UNFINISHED = ("max_tokens", "model_context_window_exceeded", "refusal", "pause_turn")
"""Stop reasons after which a call is not run: it may be cut, or is not meant."""

Step = Request | tuple[ToolUseBlock, ...]
Answer = Message | tuple[ToolResultBlock, ...]


@dataclass(slots=True)
class Said:
    """One message of a turn, after the user's."""

    role: str
    content: list[Block]

    def to_json(self) -> Json:
        return assistant(self.content) if self.role == "assistant" else user(self.content)


def steps(request: Request, said: list[Said], max_steps: int = MAX_STEPS) -> Generator[Step, Answer, None]:
    """The requests and calls of a turn. said: grows."""
    offered = any("input_schema" in tool for tool in request.tools)
    for step in range(max_steps + 1):
        reply = Said("assistant", [])
        stopped = yield from _reply(request, reply, said)
        calls = tuple(b for b in reply.content if type(b) is ToolUseBlock)
        if not calls or not offered or stopped in _UNFINISHED or step == max_steps:
            return
        results = yield calls
        assert isinstance(results, tuple)
        said.append(Said("user", list(results)))
        request = replace(
            request,
            messages=(*request.messages, sendable(reply.to_json()), said[-1].to_json()),
            tool_choice=_choice(request.tool_choice, is_last=step + 1 == max_steps),
        )


def _reply(request: Request, reply: Said, said: list[Said]) -> Generator[Step, Answer, str | None]:
    """One reply, with the continuations of a paused one; its last stop reason."""
    stopped: str | None = "pause_turn"
    for pause in range(MAX_PAUSES + 1):
        message = yield _continued(request, reply) if pause else request
        assert isinstance(message, Message)
        if message.content and not reply.content:
            said.append(reply)
        reply.content += message.content
        stopped = message.stop_reason
        if stopped != "pause_turn":
            break
    return stopped


def _continued(request: Request, reply: Said) -> Request:
    return replace(request, messages=(*request.messages, sendable(reply.to_json())))


def _choice(choice: str | None, *, is_last: bool) -> str | None:
    return "none" if is_last else None if choice == "any" else choice
