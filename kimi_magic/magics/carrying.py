"""Subcommands that carry conversations: system, compact, save, load, restore, record, replay.

All paths are those of the kernel; `~` is the home folder. Every one of them changes only what goes
on from here: turns that were there stay in `%kimi history`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

from ..api import OFFER, Kimi
from ..conversation import Conversation
from ..counts import counted
from ..display import Ending, Progress
from ..errors import OptionError, StoreError
from ..paths import user_path
from ..store import check_ours, export, load_conversation, read_twins
from ..transports import read_cassette
from .stage import Stage


def system(kimi: Kimi, stage: Stage, words: Sequence[str]) -> None:
    """Show the system prompt that stays, set it, or take it away with two quotes."""
    conversation, text = kimi.conversation, " ".join(words)
    if text:
        if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
            text = text[1:-1]
        kimi.session.change(replace(conversation, system=text or None))
    stays = kimi.conversation.system
    stage.say(f"System prompt of {conversation.name!r}: {stays or 'none'}")


def compact(kimi: Kimi, stage: Stage, words: Sequence[str]) -> None:
    """Ask the model for a summary that is sent in the place of the turns so far."""
    before = len(kimi.conversation.path())
    with closing(_Counted(stage, f"Summing up {counted(before, 'turn')}")) as view:
        kimi.compact(view)
    stage.say(
        f"From now on this summary is sent in the place of {counted(before, 'turn')};"
        f" %kimi undo brings {'it' if before == 1 else 'them'} back."
    )


class _Counted:
    """A reply, and beside it how many characters have come, thinking included; a terminal, which shows
    each as it comes, needs no count."""

    def __init__(self, stage: Stage, what: str) -> None:
        from ..batch.progress import Count

        self._view = stage.view(alone=False)
        self._count = None if stage.is_terminal else Count(what, " characters")

    def update(self, progress: Progress) -> float:
        if self._count is not None:
            self._count.show(sum(len(str(b.json.get(b.type) or "")) for b in progress.content))
        return self._view.update(progress)

    def finish(self, ending: Ending) -> None:
        self._view.finish(ending)

    def close(self) -> None:
        if self._count is not None:
            self._count.close()


def save(kimi: Kimi, stage: Stage, words: Sequence[str]) -> None:
    path = _path(words, "%kimi save FILE")
    export(kimi.conversation, path)
    turns = counted(len(kimi.conversation.path()), "turn")
    stage.say(f"Conversation {kimi.conversation.name!r} is in {path}: {turns}.")


def load(kimi: Kimi, stage: Stage, words: Sequence[str]) -> None:
    path = _path(words, "%kimi load FILE")
    loaded = load_conversation(path)
    turns = _go_on(kimi, loaded)
    kimi.session.current = loaded.name
    stage.say(f"Conversation {loaded.name!r} goes on from {path}: {turns}")


def restore(kimi: Kimi, stage: Stage, words: Sequence[str]) -> None:
    """From the outputs of a notebook: this one, or the file that is named."""
    path = _path(words, "") if words else _own_notebook(kimi)
    from ..batch.progress import walked

    twins = read_twins(path, partial(walked, unit="turn"))
    for problem in twins.problems:
        stage.say(problem)
    if not any(found.turns for found in twins.conversations.values()):
        raise StoreError(
            f"There are no turns in the outputs of {path}.",
            hint="Outputs may have been cleared; %kimi history shows what the store has.",
        )
    own = kimi.notebook_file()
    if own is not None and own.samefile(path):
        kimi.session.warnings = [line for line in kimi.session.warnings if line != OFFER]
    kimi.session.add_records(twins.records)
    for name, found in twins.conversations.items():
        stage.say(f"Conversation {name!r} is restored from {path.name}: {_go_on(kimi, found)}")


def _go_on(kimi: Kimi, found: Conversation) -> str:
    """Go on from the head of `found`; how many turns it has, and how many left for it."""
    before = kimi.session.conversation(found.name)
    joined = before.joined(found)
    kimi.session.change(joined)
    on_path = {turn.id for turn in joined.path()}
    left = sum(turn.id not in on_path for turn in before.path())
    turns = f"{counted(len(found.path()), 'turn')}."
    if not left:
        return turns
    return f"{turns} {counted(left, 'turn')} that it had so far left it; %kimi history lists all."


def record(kimi: Kimi, stage: Stage, words: Sequence[str]) -> None:
    """Write replies to a cassette, until `%kimi record off`."""
    if list(words) == ["off"]:
        kimi.record(None)
        stage.say("Replies are no longer recorded.")
        return
    path = _path(words, "%kimi record FILE.jsonl, or %kimi record off.")
    check_ours(path, read_cassette)
    kimi.record(path)
    stage.say(f"Replies are recorded in {path} from now on; %kimi record off ends it.")


def replay(kimi: Kimi, stage: Stage, words: Sequence[str]) -> None:
    """Show or set whether recorded replies are shown; a file adds its recordings."""
    modes, rest = ("off", "auto", "only"), list(words)
    mode = rest.pop(0) if rest and rest[0] in modes else kimi.settings.replay
    if rest:
        path = _path(rest, "%kimi replay off|auto|only [FILE]")
        if not path.suffix and not path.exists():
            raise OptionError(
                f"{path} is no mode of replay, and no file.", hint="%kimi replay off|auto|only FILE"
            )
        stage.say(f"{counted(kimi.play(path), 'recording')} of {path} can be replayed.")
    kimi.settings.replay = mode
    stage.say(f"Replay is {mode}.")


def _own_notebook(kimi: Kimi) -> Path:
    path = kimi.notebook_file()
    if path is None:
        known = "is not known here" if kimi.notebook is None else f"is not at {kimi.notebook} any more"
        raise StoreError(f"This notebook's file {known}.", hint="Name it: %kimi restore FILE.ipynb.")
    return path


def _path(words: Sequence[str], usage: str) -> Path:
    if not words:
        raise OptionError("A file is needed.", hint=usage)
    return user_path(" ".join(words).strip("\"'"))
