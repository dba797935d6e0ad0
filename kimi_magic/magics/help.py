"""`%kimi help`, `%kimi help TOPIC` and `%%kimi?`, made from the tables of options, commands and settings.

A topic is a few sentences and the names of what belongs to it; what that does stands in its table. A new
topic is one entry of `TOPICS`, and every option, command and setting belongs to one.
"""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..config import KimiMagic
from ..errors import OptionError
from .options import OPTIONS, describe_options, in_columns

WIDTH = 100
Commands = Mapping[str, tuple[str, str]]
"""Name of a subcommand → how it is written, and what it does."""


@dataclass(frozen=True, slots=True)
class Topic:
    """What to know of one thing. options, commands, settings: names of the tables."""

    title: str
    text: str
    options: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()


TOPICS: dict[str, Topic] = {
    "key": Topic(
        "the key and the server",
        """
        Set KIMI_API_KEY (or EVOLINK_API_KEY) in the environment in which Jupyter starts, or put the key into
        the system's keyring: service kimi_magic, user api_key. Never write it into a notebook.
        KIMI_BASE_URL names another server of the same API. Without a key a simulator answers, and says so;
        KIMI_MAGIC_SIMULATOR=never makes that an error.
        """,
        commands=("status", "doctor"),
        settings=("simulator", "simulator_speed"),
    ),
    "model": Topic(
        "model, effort and length",
        """
        The model thinks before it answers; low effort is quicker and cheaper than max, the default.
        Thinking counts as output, and into --max-tokens. The server also takes medium, which works as high,
        xhigh (as max), minimal and none (both as low): none does not turn thinking off.
        """,
        options=("model", "effort", "max-tokens", "system", "stop"),
        commands=("system",),
        settings=("model", "effort", "max_tokens"),
    ),
    "conversation": Topic(
        "what is sent along, and how to go back",
        """
        A turn belongs to its cell: run the cell again, and the new turn takes the place of the old one;
        those after it are stale until their cells run again. Nothing is lost: history shows every turn, and
        use goes back to any. What was interrupted, refused or broken off is never sent; a reply that ends at
        -n in its text is, and says so. Turns are on disk, and in the notebook's own outputs, from which
        restore reads them. save writes over no file but its own. Cells that were moved keep the place of
        their turn: --new in the first one, and Run All, asks them in their order.
        """,
        options=("conversation", "new", "once", "append"),
        commands=(
            "history", "show", "new", "undo", "use", "compact", "branches", "save", "load", "restore"
        ),
        settings=("store",),
    ),
    "values": Topic(
        "values of the notebook in a prompt",
        """
        {{ name }} puts a value in: a name, then attributes, indexes and keys, with a format if you like
        ({{ x:.2f }}). DataFrames, arrays and figures go in as a model reads them best. No code runs. Single
        braces, $ and backslashes are text, and what was perhaps meant as a value is said. NAME << before the
        options, -o NAME, or x = %kimi question puts the reply into a variable: .text .thinking .value
        .sources .tool_calls .usage .cost. In Python, kimi.map inserts the columns of each row; kimi.ask
        sends its prompt as it is, so write an f-string.
        """,
        options=("out", "raw", "dry-run"),
    ),
    "images": Topic(
        "images and files",
        """
        What is too large is scaled or cut, and that is said. {{ figure }} puts an image in its place in the
        text.
        """,
        options=("image", "file"),
        settings=("image_max_bytes", "image_max_side", "file_max_chars"),
    ),
    "tools": Topic(
        "functions that the model may call",
        """
        Hints, defaults and docstring tell it how to call a function; arguments are checked before each call.
        Tools run your code with what the model chose: @kimi.tool(confirm=True) asks before each call.
        """,
        options=("tool", "tool-choice", "max-steps"),
        commands=("tools",),
    ),
    "schema": Topic(
        "replies of a type",
        """
        Takes a pydantic model, dataclass, TypedDict, enum, list[…] of one, scalar or JSON Schema. The value
        is reply.value, and pd.DataFrame(reply.rows) a table of it. A reply that does not fill it is an error.
        """,
        options=("schema",),
    ),
    "search": Topic(
        "web search",
        "The server searches; queries and results are shown, and what is cited is linked: reply.sources",
        options=("search",),
    ),
    "usage": Topic(
        "tokens, cache and cost",
        """
        kimi.usage has one row for each request: pd.DataFrame(kimi.usage). What the server did not say is
        missing, never 0. Costs come from a price table, which price shows and sets. What is set holds in
        every notebook, until %kimi price MODEL off.
        """,
        options=("cache",),
        commands=("usage", "price"),
        settings=("cache",),
    ),
    "budget": Topic(
        "the most to be spent",
        """
        Once it is spent nothing is sent, not even the next request of a tool loop; a request under way can go
        over it, and a line says when it could. kimi.map leaves the rows open that would. What is simulated or
        replayed costs nothing. Set for a class by KIMI_MAGIC_BUDGET.
        """,
        commands=("budget",),
        settings=("budget",),
    ),
    "replay": Topic(
        "recorded replies instead of new ones",
        """
        auto shows what was recorded for the very same request and asks where there is nothing; only never
        asks. So Run All costs nothing while nothing changes, and a class needs no key.
        """,
        options=("replay",),
        commands=("record", "replay"),
        settings=("replay", "replay_speed", "cassette"),
    ),
    "batch": Topic(
        "the same prompt for many rows",
        """
        kimi.map("Classify: {{ text }}", df, schema=Label) returns df with the replies as columns. Equal rows
        are asked once, failed ones carry their error, and running it again asks for what is missing.
        kimi.estimate says what it may cost. kimi.map? has all options.
        """,
    ),
    "panel": Topic(
        "the chat in a panel, and replies in the background",
        "What is asked in the panel is a turn of the notebook, and the other way round.",
        options=("background",),
        commands=("panel", "jobs", "stop", "wait"),
        settings=("display",),
    ),
    "headless": Topic(
        "without a front end: nbclient, papermill, CI",
        """
        KIMI_MAGIC_NOTEBOOK names the notebook, so that its conversation is found again; without it each
        run is alone. KIMI_MAGIC_REPLAY=only runs without a key and a network, KIMI_MAGIC_STORE=off leaves
        nothing behind, KIMI_MAGIC_HOME names a folder for the store. Errors end the run.
        """,
        commands=("doctor",),
        settings=("simulator", "replay", "store"),
    ),
    "settings": Topic(
        "what holds for cells that say nothing else",
        """
        %config KimiMagic lists the settings with their values; %config KimiMagic.effort = "low" sets one
        until the kernel ends. For every notebook: a line c.KimiMagic.effort = "low" in ipython_config.py, or
        the environment variable KIMI_MAGIC_EFFORT, which the other two go before. What a cell says goes
        before all of them.
        """,
    ),
    "privacy": Topic(
        "what is sent, and what is kept where",
        """
        The prompt, the values in it, the conversation so far and what tools return are sent to the server
        that status names, and to nobody else. Turns and usage are kept in kimi_magic.db, where doctor says:
        delete it, and what is beside it under that name, to delete them. Outputs that were saved carry their
        turns, too. The key is in no output, error, log or file.
        """,
        commands=("status", "doctor"),
        settings=("store",),
    ),
    "errors": Topic(
        "when something goes wrong",
        "An error is one line: what happened, and the next step. %kimi doctor looks at the installation.",
        commands=("fix", "code", "doctor", "help"),
    ),
}  # fmt: skip


def text(commands: Commands, topic: str = "") -> str:
    """The help on a topic, or on what a command, an option or a variable belongs to; the overview without
    one. Raises `OptionError`."""
    if not topic:
        return overview(commands)
    name = topic.lower().lstrip("-%")
    found = [key for key in TOPICS if key == name] or [key for key, t in TOPICS.items() if name in _words(t)]
    if not found:
        near = difflib.get_close_matches(name, [*TOPICS, *commands], n=1)
        meant = f"Did you mean {near[0]}? " if near else ""
        raise OptionError(f"There is no help on {topic}.", hint=f"{meant}Topics: {', '.join(TOPICS)}.")
    return "\n\n".join(_page(key, TOPICS[key], commands) for key in found)


def overview(commands: Commands) -> str:
    """One screen: options, commands, topics."""
    return "\n".join(
        [
            "%%kimi [options]             ask: the prompt is the rest of the cell",
            "name << at its beginning puts the reply into a variable;"
            " {{ name }} puts a value into the prompt.",
            "",
            describe_options(),
            "",
            "%kimi some question          ask on one line",
            *(line for usage, does in commands.values() for line in _row(f"%kimi {usage}", does)),
            "",
            "%kimi help TOPIC             more on one thing:",
            *(f"  {name:<14} {topic.title}" for name, topic in TOPICS.items()),
        ]
    )


def _words(topic: Topic) -> set[str]:
    shorts = {o.short for o in OPTIONS if o.name in topic.options and o.short}
    variables = {*re.findall(r"\w+_\w+", topic.text.lower()), *(f"kimi_magic_{s}" for s in topic.settings)}
    return {*topic.options, *topic.commands, *topic.settings, *shorts, *variables}


def _page(name: str, topic: Topic, commands: Commands) -> str:
    """A topic with the lines of the tables that belong to it."""
    words = " ".join(topic.text.split())
    lines = [f"{name}: {topic.title}", "", *textwrap.wrap(words, WIDTH, break_on_hyphens=False)]
    for rows in (_options(topic), _commands(topic, commands), _settings(topic)):
        lines += ["", *(line for left, right in rows for line in _row(left, right))]
    return "\n".join(lines).replace("\n\n\n", "\n\n").rstrip()


def _row(left: str, right: str) -> list[str]:
    return in_columns(f"  {left}", right, 31)


def _options(topic: Topic) -> Iterator[tuple[str, str]]:
    yield from ((f"{o.label} {o.metavar}", o.help) for o in OPTIONS if o.name in topic.options)


def _commands(topic: Topic, commands: Commands) -> Iterator[tuple[str, str]]:
    yield from ((f"%kimi {commands[name][0]}", commands[name][1]) for name in topic.commands)


def _settings(topic: Topic) -> Iterator[tuple[str, str]]:
    traits = KimiMagic.class_traits(config=True)
    yield from ((f"KIMI_MAGIC_{name.upper()}", str(traits[name].help)) for name in topic.settings)
