"""What is said under a reply about its place in the conversation, as it stands now."""

from __future__ import annotations

from collections.abc import Mapping

from ..conversation import COMPLETE, Place, Turn

STALE = (
    "Stale: a turn before this one was asked again, so this one is no part of the conversation. Run this cell"
    " again."
)
LEFT = "Left: the conversation goes on without this turn. %kimi use {} goes back to it."
REPLACED = "Replaced: this was asked again, and the new turn took its place. %kimi use {} goes back to it."
COMPACTED = "Summed up: a later turn is sent in the place of this one. %kimi use {} goes back to it."
STANDS = (
    "The earlier turn of this cell is still part of the conversation: %kimi undo takes the last turn off."
)


def notes(states: Mapping[str, str], turn: Turn, place: Place) -> tuple[str, ...]:
    """Lines about a turn that was put at `place`: what it replaced, what waits to be run again, or
    that it left the path itself. states: `Conversation.states`."""
    state = states.get(turn.id, turn.status)
    if state == "stale":
        return (STALE,)
    if state == "left":
        return (LEFT.format(turn.id[:6]),)
    if state == "replaced":
        return (REPLACED.format(turn.id[:6]),)
    if state == "compacted":
        return (COMPACTED.format(turn.id[:6]),)
    if state != "active":
        stands = place.replaces is not None and states.get(place.replaces.id) == "active"
        return (STANDS,) if turn.status != COMPLETE and stands else ()
    lines = []
    if place.replaces is not None and place.replaces.prompt != turn.prompt:
        old = place.replaces.id[:6]
        lines.append(f"The earlier turn of this cell was replaced; %kimi use {old} brings it back.")
    waiting = [t for t in place.stale if states.get(t.id) == "stale"]
    if len(waiting) == 1:
        lines.append("A later turn is stale: run its cell again to have it back.")
    elif waiting:
        lines.append(f"{len(waiting)} later turns are stale: run their cells again to have them back.")
    return tuple(lines)
