"""Subcommands that carry conversations: branches, system, compact, save, load, restore, record, replay.

All paths are those of the kernel; `~` is the home folder. Every one of them changes only what goes
on from here: turns that were there stay in `%kimi history`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..api import Kimi
from ..errors import OptionError, StoreError
from ..store import export_markdown, export_script, load_conversation, read_twins, save_conversation
from ..store.files import write_text
from .stage import Stage


def branches(kimi: Kimi, stage: Stage, words: Sequence[str]) -> None:
    """The ways that the conversation went, each by its last turn."""
    conversation = kimi.conversation
    rows = [
        {
            "turn": turn.id[:6],
            "active": "yes" if turn.id == conversation.head else "",
            "turns": str(len(conversation.path_to(turn.id))),
            "last prompt": shortened(turn.prompt),
            "time": turn.time.astimezone().strftime("%Y-%m-%d %H:%M"),
        }
        for turn in conversation.branches()
    ]
    stage.table(rows, f"Conversation {conversation.name}: %kimi use TURN goes on from another branch.")


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
    kimi.compact(stage.view(alone=False))
    stage.say(
        f"From now on this summary is sent in the place of {before} turns; %kimi undo brings them back."
    )


def save(kimi: Kimi, stage: Stage, words: Sequence[str]) -> None:
    path = _path(words, "%kimi save FILE")
    if path.suffix == ".md":
        write_text(path, export_markdown(kimi.conversation))
    elif path.suffix == ".py":
        write_text(path, export_script(kimi.conversation))
    else:
        save_conversation(kimi.conversation, path)
    stage.say(f"Conversation {kimi.conversation.name!r} is in {path}: {len(kimi.conversation.path())} turns.")


def load(kimi: Kimi, stage: Stage, words: Sequence[str]) -> None:
    path = _path(words, "%kimi load FILE")
    loaded = load_conversation(path)
    kimi.session.change(kimi.session.conversation(loaded.name).joined(loaded))
    kimi.session.current = loaded.name
    stage.say(f"Conversation {loaded.name!r} goes on from {path}: {len(loaded.path())} turns.")


def restore(kimi: Kimi, stage: Stage, words: Sequence[str]) -> None:
    """From the outputs of a notebook: this one, or the file that is named."""
    path = _path(words, "") if words else _own_notebook(kimi)
    twins = read_twins(path)
    for problem in twins.problems:
        stage.say(problem)
    if not any(found.turns for found in twins.conversations.values()):
        raise StoreError(
            f"There are no turns in the outputs of {path}.",
            hint="Outputs may have been cleared; %kimi history shows what the store has.",
        )
    kimi.session.add_records(twins.records)
    for name, found in twins.conversations.items():
        kimi.session.change(kimi.session.conversation(name).joined(found))
        stage.say(f"Conversation {name!r} is restored from {path.name}: {len(found.path())} turns.")


def record(kimi: Kimi, stage: Stage, words: Sequence[str]) -> None:
    """Write replies to a cassette, until `%kimi record off`."""
    if list(words) == ["off"]:
        kimi.record(None)
        stage.say("Replies are no longer recorded.")
        return
    path = _path(words, "%kimi record FILE.jsonl, or %kimi record off.")
    kimi.record(path)
    stage.say(f"Replies are recorded in {path} from now on; %kimi record off ends it.")


def replay(kimi: Kimi, stage: Stage, words: Sequence[str]) -> None:
    """Show or set whether recorded replies are shown; a file adds its recordings."""
    rest = list(words)
    if rest and rest[0] in ("off", "auto", "only"):
        kimi.settings.replay = rest.pop(0)
    if rest:
        path = _path(rest, "%kimi replay off|auto|only [FILE]")
        stage.say(f"{kimi.play(path)} recordings of {path} can be replayed.")
    stage.say(f"Replay is {kimi.settings.replay}.")


def _own_notebook(kimi: Kimi) -> Path:
    path = kimi.notebook_file()
    if path is None:
        known = "is not known here" if kimi.notebook is None else f"is not at {kimi.notebook} any more"
        raise StoreError(f"This notebook's file {known}.", hint="Name it: %kimi restore FILE.ipynb.")
    return path


def _path(words: Sequence[str], usage: str) -> Path:
    if not words:
        raise OptionError("A file is needed.", hint=usage)
    return Path(" ".join(words).strip("\"'")).expanduser()


def shortened(text: str, width: int = 48) -> str:
    """One line of at most `width` characters."""
    line = " ".join(text[: 8 * width].split())  # more is not worth looking at
    return line if len(line) <= width else f"{line[: width - 1]}…"
