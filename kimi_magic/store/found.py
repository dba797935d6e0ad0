"""What was found where turns are kept: in the store, or in a notebook's outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ..conversation import COMPLETE, Conversation, Turn, sendable
from ..errors import ConversationError, RequestError
from ..usage import Record
from ..wire import Json, Request, user


@dataclass(frozen=True, slots=True)
class Found:
    """Conversations by name, usage records, and what could not be read."""

    conversations: dict[str, Conversation] = field(default_factory=dict)
    turns: tuple[Turn, ...] = ()
    """All that could be read of a notebook, also those that are in no conversation."""
    records: tuple[Record, ...] = ()
    problems: tuple[str, ...] = ()
    """What was left out, and why; a line each."""

    def before(self, turn: Turn) -> tuple[Json, ...]:
        """The messages ahead of one of `turns`, as far as they are known."""
        for conversation in self.conversations.values():
            if turn.id in conversation.turns:
                return conversation.messages(turn.parent or turn.compacts)
        return ()


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
        sent = tuple(sendable(message) for message in turn.messages)
        if turn.status == COMPLETE:
            Request(messages=(*sent, user("…")), model=turn.model).check(any_model=True)
        if turn.time.tzinfo is None:
            raise ConversationError("its time has no zone.")
    except RequestError as error:
        raise ConversationError(f"its turn could not be sent again ({error.message})") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise ConversationError(f"its messages cannot be read ({error!r}).") from None
