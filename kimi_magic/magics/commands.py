"""The subcommands of `%kimi`: a table of names, what they are for, and what they do."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from ..api import Kimi
from ..conversation import Turn
from ..errors import OptionError
from ..keys import SET_A_KEY
from ..render import money as amount
from ..usage import Record
from . import background, carrying, health, help, money, showing
from . import fix as fixing
from .carrying import shortened as _short
from .stage import Stage


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand. usage: its name and the words that it takes, `…` for any number of them. run: gets
    the chat, the stage and the words behind the name; what it returns is the value of the line."""

    usage: str
    help: str
    run: Callable[[Kimi, Stage, list[str]], Any]


def _status(kimi: Kimi, stage: Stage, words: list[str]) -> None:
    session = kimi.session
    client, conversation = session.client, session.conversation()
    key = f"set, from {client.key_source}" if client.key_source else "none"
    if kimi.simulated:
        server, key = "the embedded simulator (no model is asked)", f"none. {SET_A_KEY}"
    else:
        server = ", then ".join(client.base_urls)
    settings = kimi.settings
    rows = {
        "server": server,
        "key": key,
        "model": f"{settings.model}, effort {settings.effort or 'max'}",
        "conversation": f"{conversation.name}, {len(conversation.path())} turns",
        "system prompt": conversation.system or "none",
        "requests so far": str(len(session.records)),
    }
    stage.table([{"": name, "kimi_magic": value} for name, value in rows.items()], "")


def _history(kimi: Kimi, stage: Stage, words: list[str]) -> None:
    conversation = kimi.conversation
    active = {turn.id: n for n, turn in enumerate(conversation.path(), 1)}
    states = conversation.states()
    used: dict[str | None, list[Record]] = {}
    for record in kimi.session.records:
        used.setdefault(record.turn, []).append(record)
    now = kimi.session.now()
    rows = [
        {"#": str(active.get(key, "")), "turn": key[:6], "state": states[key]}
        | _turn_row(turn, used.get(key, []), now)
        for key, turn in conversation.turns.items()
    ]
    stage.table(rows, f"Conversation {conversation.name}: {len(active)} turns are sent along.")


def _turn_row(turn: Turn, records: list[Record], now: datetime) -> dict[str, str]:
    costs = [record.cost for record in records if record.cost is not None]
    return {
        "prompt": _short(turn.prompt),
        "reply": _short(turn.error or turn.text),
        "cell": (turn.cell or "")[:12],
        "in": f"{sum(record.prompt_tokens or 0 for record in records):,}",
        "out": f"{sum(record.output or 0 for record in records):,}",
        "cost": amount(sum(costs, Decimal(0)), records[-1].currency) if costs else "?",
        "age": age(now - turn.time),
    }


def age(passed: timedelta) -> str:
    """How long ago, in one unit."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if passed.total_seconds() >= size:
            return f"{passed.total_seconds() / size:.0f} {unit}"
    return f"{max(0.0, passed.total_seconds()):.0f} s"


def _new(kimi: Kimi, stage: Stage, words: list[str]) -> None:
    conversation = kimi.conversation
    kimi.session.change(conversation.fresh())
    stage.say(
        f"Conversation {conversation.name!r} begins afresh; its {len(conversation.path())} turns"
        " stay in %kimi history."
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
    if len(words) != 1:
        raise OptionError(
            "%kimi use needs one thing, a turn or a conversation.", hint="%kimi history lists the turns."
        )
    found = [t for t in kimi.conversation.turns.values() if t.id.startswith(words[0])]
    if len(words[0]) >= 4 and len(found) == 1:
        kimi.session.change(kimi.conversation.use(found[0].id))
        stage.say(f"The conversation goes on from turn {found[0].id[:6]}: {_short(found[0].prompt)!r}.")
        return
    kimi.session.conversation(words[0])
    kimi.session.current = words[0]
    stage.say(
        f"Cells without -c are in conversation {words[0]!r} now;"
        f" it has {len(kimi.conversation.path())} turns."
    )


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
    "help": Command("help TOPIC", "this page, or more on one thing", _help),
    "status": Command("status", "server, key, model, conversation", _status),
    "doctor": Command(
        "doctor --online",
        "what is wrong with this installation, and how to mend it; --online asks the server, too",
        health.doctor,
    ),
    "history": Command("history", "the turns of the conversation, and which are sent along", _history),
    "show": Command("show N", "the last reply once more, or the one of that number or turn", showing.show),
    "new": Command("new", "begin the conversation afresh; the turns so far are kept", _new),
    "undo": Command("undo", "take the last turn out of the conversation", _undo),
    "use": Command("use TURN|NAME", "go on from that turn, or in the conversation of that name", _use),
    "compact": Command(
        "compact",
        "let the model sum the conversation up, and go on from that; undo brings all back",
        carrying.compact,
    ),
    "branches": Command("branches", "the ways that the conversation went", carrying.branches),
    "system": Command(
        "system …", 'the system prompt that stays: show it, set it; "" for none', carrying.system
    ),
    "save": Command("save FILE…", "the conversation as .json, as .md to read, as .py to run", carrying.save),
    "load": Command("load FILE…", "go on from a saved conversation", carrying.load),
    "restore": Command(
        "restore FILE…", "go on from the outputs of this notebook, or of the one named", carrying.restore
    ),
    "record": Command("record FILE…", "write replies to a cassette; off ends it", carrying.record),
    "replay": Command(
        "replay off|auto|only FILE…", "show recorded replies instead of asking", carrying.replay
    ),
    "panel": Command("panel", "the chat in a panel: ask, read and follow it in one place", background.panel),
    "jobs": Command(
        "jobs", "replies that run in the background (--background), and that ran", background.jobs
    ),
    "stop": Command("stop JOB", "end a reply in the background, or all; what arrived stays", background.stop),
    "wait": Command("wait JOB", "wait for a reply in the background, or for all", background.wait),
    "fix": Command("fix …", "explain the last exception, and propose the cell mended", fixing.fix),
    "code": Command("code N", "the last reply's code, or its N-th block, into the next cell", fixing.code),
    "tools": Command("tools", "the functions that @kimi.tool registered", _tools),
    "usage": Command(
        "usage …",
        "tokens and cost of each request; --by day|model|conversation|notebook, --since 7d, --all, --plot,"
        " --cache, --save FILE",
        money.usage,
    ),
    "price": Command("price …", "what tokens cost; MODEL input=2.00 output=10.00 … sets it", money.price),
    "budget": Command(
        "budget …", "the most to be spent: 2.00 --per day|notebook|total; off ends it", money.budget
    ),
}


def find(line: str) -> Command | None:
    """The command that a `%kimi` line calls; None for a question.

    A line that begins with the name of a command is never a question, so that no slip changes the
    conversation or costs money: it has the words that the command takes (`usage`), or it is an
    `OptionError` that says how to ask. So is a single word that is nearly a name.
    """
    words = line.split() or ["help"]
    command = COMMANDS.get(words[0])
    if command is not None:
        takes = command.usage.split()[1:]
        if len(words) - 1 > len(takes) and "…" not in command.usage:
            raise OptionError(
                f"%kimi {words[0]} takes {f'only {takes[0]}' if takes else 'nothing'} behind it.",
                hint=f"To ask the model: %kimi -- {_short(line)}",
            )
        return command
    near = difflib.get_close_matches(words[0].lower(), COMMANDS, n=1, cutoff=0.75) if len(words) == 1 else []
    if near:
        raise OptionError(
            f"There is no %kimi {words[0]}.", hint=f"Did you mean %kimi {near[0]}? %kimi help lists all."
        )
    return None


def described() -> help.Commands:
    """The table in the words of `help`."""
    return {name: (command.usage, command.help) for name, command in COMMANDS.items()}
