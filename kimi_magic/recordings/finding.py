"""Recordings from a store, from a notebook's outputs and from cassettes, by what they answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..conversation import Turn
from ..errors import ReplayError
from ..wire import Json, Message, fingerprint
from .cassettes import Recording, from_message
from .misses import around, difference, last_text, nearest, text_of


@dataclass(frozen=True, slots=True)
class _Entry:
    """A recording that is made when it is needed."""

    source: str
    question: str
    """Text of the request's last message; empty where only its hash is known."""
    request: Callable[[], Json]
    """The request's JSON; empty where only its hash is known."""
    recording: Callable[[], Recording]


class Library:
    """Recordings by what they answered. Adding a turn costs next to nothing until it is asked for."""

    def __init__(self, recordings: Iterable[Recording] = ()) -> None:
        self._found: dict[str, _Entry] = {}
        for recording in recordings:
            self.add(recording)

    def add(self, recording: Recording) -> None:
        """The latest recording of a request counts."""
        self._put(
            fingerprint(recording.request),
            _Entry(
                recording.source, last_text(recording.request), lambda: recording.request, lambda: recording
            ),
        )

    def add_turn(
        self, turn: Turn, source: str, before: Callable[[], Iterable[Json] | None] = lambda: None
    ) -> None:
        """The replies of a turn. before: gives the messages ahead of it, where they are known."""
        recorded = turn.recorded()
        asked = _asked(turn, len(recorded))
        for number, (found, message) in enumerate(recorded):

            def request(number: int = number) -> Json:
                ahead = before()
                if ahead is None or not asked[number]:
                    return {}
                return {**turn.settings, "messages": [*ahead, *asked[number]]}

            def recording(message: Message = message) -> Recording:
                return from_message(message, source, simulated=turn.simulated)

            question = text_of(asked[number][-1]["content"]) if asked[number] else ""
            self._put(found, _Entry(source, question, request, recording))

    def _put(self, found: str, entry: _Entry) -> None:
        self._found.pop(found, None)
        self._found[found] = entry

    def __contains__(self, request_fingerprint: str) -> bool:
        return request_fingerprint in self._found

    def find(self, request_fingerprint: str) -> Recording | None:
        entry = self._found.get(request_fingerprint)
        return entry.recording() if entry is not None else None

    def __len__(self) -> int:
        return len(self._found)

    def miss(self, request: Json) -> ReplayError:
        """The error for a request that nothing answers: that nothing has its question, or what differs."""
        entries, question = list(self._found.values()), last_text(request)
        place = nearest(question, [entry.question for entry in entries])
        if place is None:
            return ReplayError(
                f"Nothing is recorded for this request ({len(self)} recordings are known).",
                hint="Run it once with --replay auto and a key, or name a cassette: %kimi replay only FILE.",
            )
        found, hint = entries[place], "Change it back, or ask it once with --replay auto and a key."
        if found.question != question and "[tool_result]" not in question:
            near = f"the nearest ({found.source}) is {around(found.question, question)}"
            return ReplayError(f"No recording has this question; {near}.", hint=hint)
        recorded = found.request()
        differs = difference(request, recorded) if recorded else "what came before the prompt, or a setting"
        return ReplayError(
            f"Nothing is recorded for this request. The nearest recording ({found.source}) differs in"
            f" {differs}.",
            hint=hint,
        )


def _asked(turn: Turn, requests: int) -> list[tuple[Json, ...]]:
    """Of each request that the turn took, the turn's messages in it; empty where that cannot be told (a
    paused reply is one message of several requests)."""
    replies = [n for n, message in enumerate(turn.messages) if message["role"] == "assistant"]
    if len(replies) != requests:
        return [turn.sent[:1], *[()] * (requests - 1)]
    return [turn.sent[:n] for n in replies]
