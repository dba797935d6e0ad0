"""The subcommands of `%kimi`: a table of names, what they are for, and what they do."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..api import Kimi
from ..conversation import Conversation, Turn
from ..counts import counted
from ..errors import OptionError
from ..keys import SET_A_KEY
from . import background, carrying, health, help, history, money, showing
from . import fix as fixing
from .carrying import shortened as _short
from .stage import Stage
from .words import quote


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


def _status(kimi: Kimi, stage: Stage, words: list[str]) -> None:
    session = kimi.session
    client, conversation = session.client, session.conversation()
    key = f"set, from {client.key_source}" if client.key_source else "none"
    settings = kimi.settings
    if settings.replay == "only":
        server, key = "recordings only (nothing is asked)", "none is needed"
    elif kimi.simulated:
        server, key = "the embedded simulator (no model is asked)", f"none. {SET_A_KEY}"
    else:
        server = ", then ".join(client.base_urls)
    rows = {
        "server": server,
        "key": key,
        "model": f"{settings.model}, effort {settings.effort or 'max'}",
        "conversation": _length(conversation),
        "others": "; ".join(_length(c) for c in session.conversations.values() if c.name != session.current),
        "system prompt": conversation.system or "none",
        "replay": settings.replay,
        "recording": "off" if kimi.cassette is None else str(kimi.cassette),
        "requests so far": str(len(session.records)),
    }
    stage.table([{"": name, "kimi_magic": value} for name, value in rows.items() if value], "")


def _length(conversation: Conversation) -> str:
    return f"{conversation.name}, {counted(len(conversation.path()), 'turn')}"


def _new(kimi: Kimi, stage: Stage, words: list[str]) -> None:
    conversation = kimi.conversation
    kimi.session.change(conversation.fresh())
    stage.say(
        f"Conversation {conversation.name!r} begins afresh; its turns so far"
        f" ({len(conversation.path()):,}) stay in %kimi history."
    )


def _undo(kimi: Kimi, stage: Stage, words: list[str]) -> None:
    conversation = kimi.conversation
    kimi.session.change(conversation.undo())
    gone = conversation.path()[-1]
    stage.say(
        f"Turn {gone.id[:6]} left the conversation: {_short(gone.prompt)!r}."
        f" %kimi use {gone.id[:6]} undoes this."
    )


def _use(kimi: Kimi, stage: Stage, words: list[str]) -> None:
    """A turn, by the first letters of its id, or a conversation by its name."""
    quoted = re.fullmatch(r"""(["'])(.+)\1""", " ".join(words))
    name = quoted[2] if quoted else " ".join(words)
    if not name or (len(words) > 1 and not quoted):
        raise OptionError(
            "%kimi use needs one thing, a turn or a conversation.", hint="%kimi history lists the turns."
        )
    turn = _turn_named(kimi.conversation, name)
    if turn is not None and name not in kimi.conversations:
        kimi.session.change(kimi.conversation.use(turn.id))
        stage.say(f"The conversation goes on from turn {turn.id[:6]}: {_short(turn.prompt)!r}.")
        return
    is_new = _check_name(kimi, name)
    kimi.session.conversation(name)
    kimi.session.current = name
    turns = "it is new" if is_new else f"it has {counted(len(kimi.conversation.path()), 'turn')}"
    stage.say(
        f"Cells without -c are in conversation {name!r} until the kernel restarts; {turns}."
        f" -c {quote(name)} in a cell stays with the cell."
    )


def _turn_named(conversation: Conversation, word: str) -> Turn | None:
    found = [turn for turn in conversation.turns.values() if turn.id.startswith(word)]
    return found[0] if len(word) >= 4 and len(found) == 1 else None


def _check_name(kimi: Kimi, name: str) -> bool:
    """Whether no conversation has the name yet. Raises `OptionError` for one that is nearly something."""
    if name in kimi.conversations:
        return False
    is_id = re.fullmatch(r"[0-9a-f]{4,16}", name) is not None
    turns = [turn.id[: max(6, len(name))] for turn in kimi.conversation.turns.values()] if is_id else []
    near = difflib.get_close_matches(name, [*turns, *kimi.conversations], n=1, cutoff=0.75)
    if near or is_id:
        meant = f"Did you mean {near[0]}? " if near else ""
        raise OptionError(
            f"There is no turn and no conversation {name!r}.",
            hint=f"{meant}%kimi history lists the turns; -c {quote(name)} begins a conversation.",
        )
    return True


def _tools(kimi: Kimi, stage: Stage, words: list[str]) -> None:
    rows = [
        {
            "tool": tool.name,
            "what it does": _short(tool.description),
            "parameters": ", ".join(tool.input_schema.get("properties", ())),
            "asks first": "yes" if tool.confirm else "",
        }
        for tool in sorted(kimi.tools.values(), key=lambda tool: tool.name)
    ]
    stage.table(rows, f"Registered with @kimi.tool: {len(rows)}. -t also takes the name of any function.")


def _help(kimi: Kimi, stage: Stage, words: list[str]) -> None:
    stage.say(help.text(described(), *words))


COMMANDS: dict[str, Command] = {
    "help": Command(
        "help TOPIC", "this page, or more on one thing", _help, also=("options", "commands", "man")
    ),
    "status": Command(
        "status",
        "server, key, model, conversation",
        _status,
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
        _new,
        also=("clear", "reset", "restart", "forget"),
    ),
    "undo": Command(
        "undo",
        "take the last turn out of the conversation",
        _undo,
        also=("delete", "remove", "pop", "back", "revert"),
    ),
    "use": Command(
        "use TURN|NAME",
        "go on from that turn, or in the conversation of that name",
        _use,
        also=("switch", "conversations", "checkout", "goto"),
    ),
    "compact": Command(
        "compact",
        "let the model sum the conversation up, and go on from that; undo brings all back",
        carrying.compact,
        also=("summary", "summarize", "summarise", "compress"),
    ),
    "branches": Command("branches", "the ways that the conversation went", carrying.branches, also=("tree",)),
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
    "tools": Command("tools", "the functions that @kimi.tool registered", _tools, also=("functions",)),
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
    words = line.split() or ["help"]
    command = COMMANDS.get(words[0])
    if command is not None:
        takes = command.takes
        if len(words) - 1 > len(takes) and "…" not in command.usage:
            raise OptionError(
                f"%kimi {words[0]} takes {f'only {takes[0]}' if takes else 'nothing'} behind it.",
                hint=f"To ask the model: %kimi -- {_short(line)}",
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
