"""What was found where turns are kept: in the store, or in a notebook's outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ..conversation import COMPLETE, Conversation, Turn, sendable
from ..errors import ConversationError, RequestError
from ..usage import Record
from ..wire import Json, Request, TextBlock, ToolResultBlock, content_blocks, user


@dataclass(frozen=True, slots=True)
class Found:
    """Conversations by name, usage records, and what could not be read."""

    conversations: dict[str, Conversation] = field(default_factory=dict)
    turns: tuple[Turn, ...] = ()
    """All that could be read of a notebook, also those that are in no conversation."""
    records: tuple[Record, ...] = ()
    problems: tuple[str, ...] = ()
    """What was left out, and why; a line each."""

    def before(self, turn: Turn) -> tuple[Json, ...] | None:
        """The messages ahead of one of `turns`; None where those are lost."""
        last = turn.parent or turn.compacts
        if last is None:
            return ()
        found = (c for c in self.conversations.values() if last in c.turns)
        return next((conversation.messages(last) for conversation in found), None)


def rooted(turns: Mapping[str, Turn]) -> dict[str, Turn]:
    """The turns whose whole way back is there; no others can be walked. What a turn sums up may be lost:
    then it stands for itself."""
    known: dict[str | None, bool] = {None: True}
    for turn in turns.values():
        way: dict[str | None, bool] = {}
        here: str | None = turn.id
        while here is not None and here not in known and here in turns and here not in way:
            way[here] = True
            here = turns[here].parent
        known.update(dict.fromkeys(way, known.get(here, False)))
    whole = {key: turn for key, turn in turns.items() if known[key]}
    lost = [t for t in whole.values() if t.compacts is not None and t.compacts not in whole]
    return {**whole, **{turn.id: replace(turn, compacts=None) for turn in lost}}


def newest(turns: Iterable[Turn], undone: frozenset[str] = frozenset()) -> Turn | None:
    """The complete turn that was made last, of those that were not undone; of equals the last one."""
    usable = [t for t in turns if t.status == COMPLETE and t.id not in undone]
    return max(reversed(usable), key=lambda turn: turn.time, default=None)


def check_turn(turn: Turn) -> None:
    """Raise `ConversationError` for a turn from a file that somebody may have written by hand, and that
    no conversation could go on from."""
    try:
        _check_types(turn)
        sent = tuple(sendable(message) for message in turn.messages)
        if turn.status == COMPLETE:
            Request(messages=(*sent, user("…")), model=turn.model).check(any_model=True)
        if turn.time.tzinfo is None:
            raise ConversationError("its time has no zone.")
    except RequestError as error:
        raise ConversationError(f"its turn could not be sent again ({error.message})") from None
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise ConversationError(f"it cannot be read ({error!r}).") from None


_TEXT, _TEXT_OR_NONE = (str,), (str, type(None))
_TYPES: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("id", "status", "prompt", "model"), _TEXT),
    **dict.fromkeys(("parent", "cell", "effort", "stop_reason", "error", "compacts"), _TEXT_OR_NONE),
    "simulated": (bool,),
    "settings": (dict,),
}


def _check_types(turn: Turn) -> None:
    """Raise TypeError, or what reading raises, for what `Turn.from_json` takes as it comes."""
    for name, types in _TYPES.items():
        if not isinstance(getattr(turn, name), types):
            raise TypeError(name)
    for name, kind in (("max_tokens", int), ("output_config", dict)):
        if not isinstance(turn.settings.get(name, kind()), kind):
            raise TypeError(f"settings: {name}")
    if not all(isinstance(e.request, str) and isinstance(e.blocks, int) for e in turn.exchanges):
        raise TypeError("exchanges")
    turn.recorded()
    for block in (*content_blocks(turn.messages[0]["content"]), *turn.content):
        list(block.citations if isinstance(block, TextBlock) else ())
        list(block.content if isinstance(block, ToolResultBlock) else ())
