"""The turns of a conversation, the active path, and what running a cell again does.

- A `Conversation` is all its turns and a head; the *active path*, from the first turn to the head,
  is what is sent. Nothing is ever overwritten: a turn leaves the path, it does not leave.
- A turn belongs to its cell. Running the cell again puts the new turn in the old one's place; the
  turns after it leave the path until their cells run again (they are *stale*).
- Only complete turns join the path. So whatever failed, was cut or interrupted, roles alternate,
  every tool_use has its result, and no text is empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from ..errors import ConversationError
from ..wire import Json
from .turn import COMPLETE, Turn


@dataclass(frozen=True, slots=True)
class Place:
    """Where a new turn will stand."""

    parent: str | None
    replaces: Turn | None = None
    """The turn of the same cell that it puts off the path."""
    stale: tuple[Turn, ...] = ()
    """The turns after that one, which leave the path with it."""
    compacts: str | None = None
    """The last of the turns that it sums up; then it has no parent."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """A named conversation of a notebook."""

    name: str = "main"
    turns: Mapping[str, Turn] = field(default_factory=dict)
    """All that ever were, oldest first, by id."""
    head: str | None = None
    """The last turn of the active path."""
    undone: frozenset[str] = frozenset()
    """Turns that `undo` or `fresh` took off the path; with `fresh` also those that are not complete."""
    system: str | None = None
    """The system prompt that stays."""
    _paths: dict[str | None, tuple[Turn, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """Paths that were asked for: each is walked once, since a conversation never changes. `with_turn` hands
    on what it knows, so that a turn costs the same however many are before it."""
    _sent: dict[str | None, tuple[Json, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """`messages` that were asked for."""
    _states: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)
    """`states`, once they were asked for."""

    def __repr__(self) -> str:
        active, all_ = len(self.path()), len(self.turns)
        state = "with a system prompt" if self.system else "no system prompt"
        return f"<Conversation {self.name}: {active} of {all_} turns are sent along, {state}>"

    def path(self) -> tuple[Turn, ...]:
        """The active path, first turn first."""
        return self.path_to(self.head)

    def path_to(self, turn_id: str | None) -> tuple[Turn, ...]:
        """The turns from the first one to `turn_id`."""
        if turn_id not in self._paths:
            turns: list[Turn] = []
            at = turn_id
            while at is not None:
                turns.append(self.turns[at])
                at = turns[-1].parent
            self._paths[turn_id] = tuple(reversed(turns))
        return self._paths[turn_id]

    def messages(self, upto: str | None) -> tuple[Json, ...]:
        """What is sent ahead of a new turn that follows `upto`."""
        if upto not in self._sent:
            self._sent[upto] = tuple(chain.from_iterable(turn.sent for turn in self.path_to(upto)))
        return self._sent[upto]

    def place(self, cell: str | None = None, *, append: bool = False) -> Place:
        """Where the turn of `cell` goes: in its old turn's place, or (without a cell id, with
        `append`, or where the cell has no turn on the path) after the head. A turn that was summed up
        keeps its place, too: ahead of the summary, which leaves the path with what follows."""
        if cell is None or append:
            return Place(self.head)
        way = self._way()
        summed_up = len(way) - len(self.path())
        for n in (*range(summed_up, len(way)), *range(summed_up)):
            if way[n].cell == cell:
                return Place(way[n].parent or way[n].compacts, way[n], way[n + 1 :])
        return Place(self.head)

    def _way(self) -> tuple[Turn, ...]:
        """The active path, and ahead of it all that it sums up."""
        way = path = self.path()
        while path and path[0].compacts is not None and path[0].compacts not in {t.id for t in way}:
            path = self.path_to(path[0].compacts)
            way = (*path, *way)
        return way

    def with_turn(self, turn: Turn) -> Conversation:
        """The turn joins; a complete one becomes the head."""
        turns = {**self.turns, turn.id: turn}
        joined = replace(self, turns=turns, head=turn.id if turn.status == COMPLETE else self.head)
        if turn.parent in self._paths:
            joined._paths[turn.id] = (*self._paths[turn.parent], turn)
        if turn.parent in self._sent:
            joined._sent[turn.id] = (*self._sent[turn.parent], *turn.sent)
        if self._states and not self._moves_others(turn):
            state = "active" if turn.status == COMPLETE else turn.status
            joined._states.update({**self._states, turn.id: state})
        return joined

    def with_ended(self, turn: Turn) -> Conversation:
        """`with_turn` for a turn that ran while the path may have changed: where the path has left the turn
        that it was asked after (`undo`, `fresh`, `use`, `joined`), it stands beside the path."""
        joined, before = self.with_turn(turn), turn.parent or turn.compacts
        if before in (None, self.head) or any(known.id == before for known in self._way()):
            return joined
        return replace(joined, head=self.head)

    def _moves_others(self, turn: Turn) -> bool:
        """Whether a turn that joins may change the state of others: behind the head only that of one which
        it may replace; one that is not complete changes none."""
        replaceable = not {"stale", "left"}.isdisjoint(self._states.values())
        return turn.status == COMPLETE and (turn.parent != self.head or replaceable)

    def undo(self) -> Conversation:
        """The head's turn leaves the path. Raises `ConversationError` where there is none."""
        if self.head is None and self.branches():
            raise ConversationError(
                f"Nothing to undo: conversation {self.name!r} is at its beginning.",
                hint="%kimi branches lists the ways that it went, and %kimi use goes back to one.",
            )
        if self.head is None:
            raise ConversationError(f"Nothing to undo: conversation {self.name!r} has no turns.")
        gone = self.turns[self.head]
        return replace(self, head=gone.parent or gone.compacts, undone=self.undone | {gone.id})

    def use(self, turn_id: str) -> Conversation:
        """Go on from that turn. Raises `ConversationError` where it is unknown or not complete."""
        turn = self.turns.get(turn_id)
        if turn is None:
            raise ConversationError(f"Conversation {self.name!r} has no turn {turn_id!r}.")
        if turn.status != COMPLETE:
            raise ConversationError(
                f"Turn {turn_id[:6]} is {turn.status}: a conversation cannot go on from it."
            )
        on_path = {t.id for t in self.path_to(turn_id)}
        return replace(self, head=turn_id, undone=self.undone - on_path)

    def joined(self, other: Conversation) -> Conversation:
        """The turns of both, going on from the head of `other`: what a restore or a load does. A turn
        that both have stays as it is here."""
        both = self.with_others(other.turns)
        return replace(
            both,
            head=other.head,
            undone=(self.undone | other.undone) - {t.id for t in both.path_to(other.head)},
            system=other.system if other.system is not None else self.system,
        )

    def with_others(self, turns: Mapping[str, Turn]) -> Conversation:
        """Turns from elsewhere stand beside those that are here; the path stays."""
        return replace(self, turns={**self.turns, **{k: t for k, t in turns.items() if k not in self.turns}})

    def compaction(self) -> Place:
        """Where a turn goes that sums up the path. Raises `ConversationError` where that would save
        nothing."""
        if len(self.path()) < 2:
            raise ConversationError(
                f"Nothing to compact: conversation {self.name!r} has fewer than two turns."
            )
        return Place(None, compacts=self.head)

    def branches(self) -> list[Turn]:
        """The last turn of each way that the conversation went: complete turns that no other
        complete turn follows, newest first."""
        complete = [t for t in self.turns.values() if t.status == COMPLETE]
        followed = {t.parent for t in complete}
        return [t for t in reversed(complete) if t.id not in followed]

    def fresh(self) -> Conversation:
        """An empty path; its turns so far are undone, and those that never were on it."""
        broken = {key for key, turn in self.turns.items() if turn.status != COMPLETE}
        return replace(self, head=None, undone=self.undone | broken | {turn.id for turn in self.path()})

    def state(self, turn: Turn) -> str:
        """active, or why it is off the path: compacted (a turn on the path sums it up), replaced (its cell
        has a newer turn), stale (it stood behind one that was replaced), left (the conversation goes on
        without it since `undo`, `fresh`, `use` or `joined`), or its status."""
        return self.states().get(turn.id, turn.status)

    def states(self) -> dict[str, str]:
        """The `state` of each turn, by id: one pass over all. Not to be edited."""
        if not self._states:
            self._states.update(self._stated())
        return self._states

    def _stated(self) -> dict[str, str]:
        active = {turn.id for turn in self.path()}
        compacted = {turn.id for turn in self._way()} - active
        complete = [turn for turn in self.turns.values() if turn.status == COMPLETE]
        newest: dict[str | None, str] = {t.cell: t.id for t in complete if t.cell is not None}
        states = {key: turn.status for key, turn in self.turns.items()}
        for turn in complete:  # each behind its parent, whose state is so known
            states[turn.id] = (
                "active"
                if turn.id in active
                else "left"
                if turn.id in self.undone
                else "compacted"
                if turn.id in compacted
                else "replaced"
                if newest.get(turn.cell, turn.id) != turn.id
                else "stale"
                if states.get(turn.parent or turn.compacts or "") in ("replaced", "stale")
                else "left"
            )
        return states
