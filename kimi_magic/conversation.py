"""Turns, the active path, and what running a cell again does. Values only: nothing here waits,
stores or sends, and every change gives a new value.

- A `Turn` is one user message and everything that was done for it. It knows the turn before it.
- A `Conversation` is all its turns and a head; the *active path*, from the first turn to the head,
  is what is sent. Nothing is ever overwritten: a turn leaves the path, it does not leave.
- A turn belongs to its cell. Running the cell again puts the new turn in the old one's place; the
  turns after it leave the path until their cells run again (they are *stale*).
- Only complete turns join the path. So whatever failed, was cut or interrupted, roles alternate,
  every tool_use has its result, and no text is empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from .errors import ConversationError
from .wire import Block, ImageBlock, Json, Message, Said, TextBlock, content_blocks

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
            return cls(**values)
        except (KeyError, TypeError, ValueError) as error:
            raise ConversationError(f"This is not a turn of a conversation ({error!r}).") from None


def sendable(message: Json) -> Said:
    """The message as it goes back: without empty text blocks, which the API sends and does not take."""
    content = message["content"]
    if isinstance(content, str) or not any(_is_empty(block) for block in content):
        return message if isinstance(message, Said) else Said(message)
    return Said({**message, "content": [block for block in content if not _is_empty(block)]})


def _is_empty(block: Json) -> bool:
    return block["type"] == "text" and not block.get("text")


def _short(text: str) -> str:
    """One line of at most 40 characters."""
    line = " ".join(text[:400].split())
    return line if len(line) <= 40 else f"{line[:39]}…"


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
    """Turns that `undo` or `fresh` took off the path."""
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
        `append`, or where the cell has no turn on the path) after the head."""
        path = self.path()
        if cell is not None and not append:
            for n, turn in enumerate(path):
                if turn.cell == cell:
                    return Place(turn.parent, turn, path[n + 1 :])
        return Place(self.head)

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
        """An empty path; its turns so far are undone."""
        return replace(self, head=None, undone=self.undone | {turn.id for turn in self.path()})

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
        compacted = self._compacted()
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
                if states.get(turn.parent or "") in ("replaced", "stale")
                else "left"
            )
        return states

    def _compacted(self) -> set[str]:
        """The turns that the first of the path sums up, and those that they sum up."""
        gone: set[str] = set()
        path = self.path()
        while path and path[0].compacts is not None and path[0].compacts not in gone:
            path = self.path_to(path[0].compacts)
            gone |= {turn.id for turn in path}
        return gone
