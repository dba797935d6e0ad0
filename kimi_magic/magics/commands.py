"""The subcommands of `%kimi`: a table of names, what they are for, and what they do."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..api import Kimi
from ..errors import OptionError
from . import background, branching, carrying, health, help, history, money, showing, status
from . import fix as fixing
from .stage import Stage, shortened
from .words import pieces


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand. usage: its name and the words that it takes, a place each: `a|b` is one of those words,
    `FILE` what it says, `…` any number. run: gets the chat, the stage and the words behind the name; what
    it returns is the value of the line. options: those that may stand anywhere behind the name → what the
    value of each is, as in `usage`; "" for none. also: words under which somebody may look for it."""

    usage: str
    help: str
    run: Callable[[Kimi, Stage, list[str]], Any]
    options: Mapping[str, str] = field(default_factory=dict)
    also: tuple[str, ...] = ()

    @property
    def takes(self) -> list[str]:
        """The places behind its name."""
        return self.usage.split()[1:]


def _help(kimi: Kimi, stage: Stage, words: list[str]) -> None:
    stage.say(help.text(described(), *words))


COMMANDS: dict[str, Command] = {
    "help": Command(
        "help TOPIC", "this page, or more on one thing", _help, also=("options", "commands", "man")
    ),
    "status": Command(
        "status",
        "server, key, model, conversation",
        status.status,
        also=("info", "model", "key", "server", "config"),
    ),
    "doctor": Command(
        "doctor --online",
        "what is wrong with this installation, and how to mend it; --online asks the server, too",
        health.doctor,
        also=("check", "debug", "test", "version"),
    ),
    "history": Command(
        "history",
        "the turns of the conversation, and which are sent along",
        history.history,
        also=("list", "ls", "turns", "log", "messages", "conversation"),
    ),
    "show": Command(
        "show N|TURN",
        "the last reply once more, or the one of that number or turn",
        showing.show,
        also=("last", "again", "repeat", "print"),
    ),
    "new": Command(
        "new",
        "begin the conversation afresh; the turns so far are kept",
        branching.new,
        also=("clear", "reset", "restart", "forget"),
    ),
    "undo": Command(
        "undo",
        "take the last turn out of the conversation",
        branching.undo,
        also=("delete", "remove", "pop", "back", "revert"),
    ),
    "use": Command(
        "use N|TURN|NAME",
        "go on from the turn of that number or id, or in the conversation of that name",
        branching.use,
        also=("switch", "conversations", "checkout", "goto"),
    ),
    "compact": Command(
        "compact",
        "let the model sum the conversation up, and go on from that; undo brings all back",
        carrying.compact,
        also=("summary", "summarize", "summarise", "compress"),
    ),
    "branches": Command(
        "branches", "the ways that the conversation went", branching.branches, also=("tree",)
    ),
    "system": Command(
        "system …", 'the system prompt that stays: show it, set it; "" for none', carrying.system
    ),
    "save": Command(
        "save FILE…",
        "the conversation as .json, as .md to read, as .py to run",
        carrying.save,
        also=("export", "write", "download"),
    ),
    "load": Command(
        "load FILE…", "go on from a saved conversation", carrying.load, also=("import", "open", "read")
    ),
    "restore": Command(
        "restore FILE…", "go on from the outputs of this notebook, or of the one named", carrying.restore
    ),
    "record": Command("record off|FILE…", "write replies to a cassette; off ends it", carrying.record),
    "replay": Command(
        "replay off|auto|only FILE…", "show recorded replies instead of asking", carrying.replay
    ),
    "panel": Command(
        "panel",
        "the chat in a panel: ask, read and follow it in one place",
        background.panel,
        also=("chat", "gui", "ui"),
    ),
    "jobs": Command(
        "jobs",
        "replies that run in the background (--background), and that ran",
        background.jobs,
        also=("ps", "running"),
    ),
    "stop": Command(
        "stop JOB",
        "end a reply in the background, or all; what arrived stays",
        background.stop,
        also=("cancel", "abort", "kill", "interrupt"),
    ),
    "wait": Command(
        "wait JOB", "wait for a reply in the background, or for all", background.wait, also=("join",)
    ),
    "fix": Command(
        "fix …",
        "explain the last exception, and propose the cell mended",
        fixing.fix,
        also=("explain", "error", "repair"),
    ),
    "code": Command("code N", "the last reply's code, or its N-th block, into the next cell", fixing.code),
    "tools": Command("tools", "the functions that @kimi.tool registered", status.tools, also=("functions",)),
    "usage": Command(
        "usage …",
        "tokens and cost of each request; --by day|model|conversation|notebook, --since 7d, --all, --plot,"
        " --cache, --save FILE",
        money.usage,
        options=money.USAGE_OPTIONS,
        also=("cost", "costs", "tokens", "stats", "bill"),
    ),
    "price": Command(
        "price MODEL …",
        "what tokens cost; MODEL input=2.00 output=10.00 … sets it everywhere, MODEL off takes it back",
        money.price,
        options=money.PRICE_OPTIONS,
    ),
    "budget": Command(
        "budget off|AMOUNT …",
        "the most to be spent: 2.00 --per day|notebook|total; off ends it",
        money.budget,
        options=money.BUDGET_OPTIONS,
        also=("limit",),
    ),
}


def find(line: str) -> Command | None:
    """The command that a `%kimi` line calls; None for a question.

    A line that begins with the name of a command is never a question, so that no slip changes the
    conversation or costs money: it has the words that the command takes (`usage`), or it is an
    `OptionError` that says how to ask. So is a single word that looks like a command's name; a word of
    another script, or with a question mark, is a question.
    """
    words = pieces(line) or ["help"]
    command = COMMANDS.get(words[0])
    if command is not None:
        takes = command.takes
        if len(words) - 1 > len(takes) and "…" not in command.usage:
            raise OptionError(
                f"%kimi {words[0]} takes {f'only {takes[0]}' if takes else 'nothing'} behind it.",
                hint=f"To ask the model: %kimi -- {shortened(line)}",
            )
        return command
    if len(words) == 1:
        near = _near(words[0].lower())
        if near or re.fullmatch(r"[a-z][a-z0-9_-]*", words[0]):
            meant = f"Did you mean %kimi {' or %kimi '.join(near)}?" if near else "%kimi help lists all."
            raise OptionError(
                f"There is no %kimi {words[0]}.", hint=f"{meant} To ask the model: %kimi -- {words[0]}"
            )
    return None


def _near(word: str) -> list[str]:
    """The commands that somebody looks for under a word, and those whose names are nearly the same."""
    named = [name for name, command in COMMANDS.items() if word in command.also]
    return named or difflib.get_close_matches(word, COMMANDS, n=2, cutoff=0.75)


def described() -> help.Commands:
    """The table in the words of `help`."""
    return {name: (command.usage, command.help) for name, command in COMMANDS.items()}
