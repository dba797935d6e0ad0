"""A conversation as a file: JSON that is read back, markdown to read, a Python script to run.

Always UTF-8, whatever the machine's own encoding. A file is written beside its place and then moved
there, so that it is whole or not there. What `export` has not written itself it does not write over.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import stat
import uuid
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path

from ..conversation import COMPLETE, Conversation, Turn
from ..errors import ConversationError, KimiError, StoreError
from ..wire import (
    Block,
    Json,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    WebSearchResultBlock,
    content_blocks,
)
from .found import check_turn, rooted

FORMAT = "kimi_magic conversation"
VERSION = 1
_MARKDOWN = f"<!-- {FORMAT} -->"
_SCRIPT = '"""A conversation with Kimi; the key comes from KIMI_API_KEY."""'
"""How the files to read and to run begin."""


def export(conversation: Conversation, path: Path) -> None:
    """Write the file that the suffix asks for: .json, .md or .py. Raises `StoreError` for any other, and
    where something else would be written over; `ConversationError` where there is nothing to run."""
    match path.suffix.lower():
        case ".json":
            check_ours(path, load_conversation)
            save_conversation(conversation, path)
        case ".md":
            check_ours(path, lambda there: _begins(there, _MARKDOWN))
            write_text(path, export_markdown(conversation))
        case ".py":
            check_ours(path, lambda there: _begins(there, _SCRIPT))
            write_text(path, export_script(conversation))
        case _:
            raise StoreError(
                f"{path}: a conversation is saved as .json, as .md to read, or as .py to run.",
                hint="Name one of the three.",
            )


def check_ours(path: Path, read: Callable[[Path], object]) -> None:
    """Raise `StoreError` where a file stands in the way that holds something else, or a notebook would be
    written. read: reads what may be there; raises `KimiError` for anything else."""
    if path.suffix.lower() == ".ipynb":
        raise StoreError(f"{path} is a notebook, and is left alone.", hint="Name another file.")
    try:
        there = path.is_file() and path.stat().st_size > 0
    except (OSError, ValueError):
        return  # writing says what is wrong with the name
    if not there:
        return
    try:
        read(path)
    except KimiError:
        raise StoreError(
            f"{path} is there already, and is nothing that was written here.",
            hint="Name another file, or move that one away.",
        ) from None


def _begins(path: Path, mark: str) -> None:
    """Raise `StoreError` where a file does not begin with the mark."""
    try:
        with path.open("rb") as file:
            begins = file.read(len(mark) + 3).removeprefix(codecs.BOM_UTF8).startswith(mark.encode())
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {_cause(error)}.") from None
    if not begins:
        raise StoreError(f"{path} does not begin with {mark}.")


def save_conversation(conversation: Conversation, path: Path) -> None:
    """Write all turns and the active path as JSON. Raises `StoreError`."""
    value = {
        "format": FORMAT,
        "version": VERSION,
        "name": conversation.name,
        "system": conversation.system,
        "head": conversation.head,
        "undone": sorted(conversation.undone),
        "turns": [turn.to_json() for turn in conversation.turns.values()],
    }
    write_text(path, json.dumps(value, ensure_ascii=False, indent=1) + "\n")


def load_conversation(path: Path) -> Conversation:
    """The conversation of `save_conversation`. Raises `StoreError` for anything else."""
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read: {_cause(error)}.") from None
    try:
        value = json.loads(data.decode("utf-8-sig"))
    except ValueError:
        value = None
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise StoreError(f"{path} is not a conversation that %kimi save wrote.")
    try:
        if value["version"] > VERSION:
            raise StoreError(
                f"{path} was written by a newer kimi_magic.", hint="Upgrade kimi_magic to read it."
            )
        return _conversation(value)
    except (KeyError, TypeError, ValueError, ConversationError) as error:
        raise StoreError(f"{path} is damaged ({error}); nothing was loaded.") from None


def _conversation(value: Json) -> Conversation:
    """Raises `ConversationError`, KeyError, TypeError or ValueError for one that cannot be gone on with."""
    turns: dict[str, Turn] = {}
    for json_turn in value["turns"]:
        turn = Turn.from_json(json_turn)
        check_turn(turn)
        turns[turn.id] = turn
    head, system = value["head"], value["system"]
    if len(rooted(turns)) < len(turns):
        raise ConversationError("a turn is missing")
    if head is not None and turns[head].status != COMPLETE:
        raise ConversationError("its last turn is not complete")
    if not isinstance(system, str | None):
        raise ConversationError("its system prompt is no text")
    return Conversation(str(value["name"]), turns, head, frozenset(value["undone"]), system)


def export_markdown(conversation: Conversation) -> str:
    """The active path to read: a heading of level 2 for each message. What was said is a block quote and
    everything else is in a fence longer than any in it, so nothing leaks into what follows."""
    parts = [_MARKDOWN, f"# {_one_line(conversation.name)}"]
    if conversation.system:
        parts += ["## System", _quoted(conversation.system)]
    for turn in conversation.path():
        for message in turn.messages:
            blocks = content_blocks(message["content"])
            parts += [f"## {_speaker(turn, message, blocks)}", *_body(message, blocks)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _speaker(turn: Turn, message: Json, blocks: list[Block]) -> str:
    if message["role"] == "assistant":
        return _one_line(turn.model) or "Assistant"
    return "Results" if any(isinstance(block, ToolResultBlock) for block in blocks) else "You"


def _body(message: Json, blocks: list[Block]) -> list[str]:
    """What stands below the heading: a cited reply comes in many texts, and is one."""
    if message["role"] != "assistant":
        return [_shown(block) for block in blocks]
    parts: list[str] = []
    sources: dict[str, str] = {}  # url → title, by number
    for is_text, some in groupby(blocks, lambda block: isinstance(block, TextBlock)):
        if is_text:
            parts.append(_quoted("".join(_cited(block, sources) for block in some)))
        else:
            parts += map(_shown, some)
    return [*parts, _listed("Sources", sources.items())]


def _cited(block: Block, sources: dict[str, str]) -> str:
    """The text with the numbers of what it cites."""
    if not isinstance(block, TextBlock):
        return ""
    for cite in block.citations:
        sources.setdefault(str(cite.get("url")), str(cite.get("title")))
    numbers = dict.fromkeys(list(sources).index(str(cite.get("url"))) + 1 for cite in block.citations)
    return block.text + "".join(f"[{number}]" for number in numbers)


def _listed(what: str, found: Iterable[tuple[str, str]]) -> str:
    """Numbered titles with their addresses; nothing where there are none."""
    lines = [_one_line(f"{number}. {title} {url}") for number, (url, title) in enumerate(found, 1)]
    return f"{what}:\n\n{_fenced('', chr(10).join(lines))}" if lines else ""


def _shown(block: Block) -> str:
    match block:
        case TextBlock():
            return _quoted(block.text)
        case ThinkingBlock():
            return _fenced("thinking", block.thinking) if block.thinking else ""
        case ToolUseBlock():
            call = json.dumps(block.input, ensure_ascii=False, indent=2)
            return f"Calls {_code(block.name)}:\n\n{_fenced('json', call)}"
        case ToolResultBlock():
            said = "Failed" if block.is_error else "Result"
            return "\n\n".join([f"{said}:", *(_fenced("", _plain(inner)) for inner in block.content)])
        case WebSearchResultBlock() if block.results:
            return _listed("Found", [(str(r.get("url")), str(r.get("title"))) for r in block.results])
    return f"[{_one_line(block.type)}]"


def _plain(block: Block) -> str:
    return block.text if isinstance(block, TextBlock) else f"[{block.type}]"


def _lines(text: str) -> list[str]:
    """Lines as markdown has them: it knows a lone carriage return as a line end, too."""
    return re.split(r"\r\n|\r|\n", text)


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" if line else ">" for line in _lines(text))


def _fenced(kind: str, text: str) -> str:
    runs = [len(run) for run in re.findall("`{3,}", text)]
    fence = "`" * (max(runs, default=2) + 1)
    return "\n".join([f"{fence}{kind}", *_lines(text), fence])


def _code(name: str) -> str:
    return f"`{_one_line(name).replace('`', '')}`"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def export_script(conversation: Conversation) -> str:
    """A script that sends the active path's last question again, with all that came before it. Raises
    `ConversationError` where there is none."""
    path = conversation.path()
    if not path:
        raise ConversationError(f"Conversation {conversation.name!r} has no turns to export.")
    last = path[-1]
    sent = [*conversation.messages(last.parent or last.compacts), last.messages[0]]
    fields = {**last.settings, "messages": sent}
    fields.pop("stream", None)
    fields.setdefault("model", last.model)
    fields.setdefault("max_tokens", 32_768)
    body = json.dumps(fields, ensure_ascii=False, indent=4)
    return (
        f"{_SCRIPT}\n\n"
        "import json\nimport sys\n\nfrom kimi_magic import Client\n\n"
        'sys.stdout.reconfigure(errors="replace")  # where it lacks a character\n'
        f"request = json.loads({_raw(body)})\n\n"
        "with Client() as client, client.stream(**request) as stream:\n"
        "    for event in stream:\n"
        '        if event.type == "content_block_delta" and event.delta.type == "text_delta":\n'
        '            print(event.delta.text, end="", flush=True)\n'
        "print()\n"
    )


def _raw(text: str) -> str:
    """A literal of `text` that a person can read, if quoting allows."""
    return ascii(text) if "'''" in text else f"r'''{text}'''"


def write_text(path: Path, text: str) -> None:
    """Write a file whole, or leave what was there. Raises `StoreError`.

    Half a surrogate pair, which UTF-8 cannot hold, is written as an escape.
    """
    try:
        place = path.resolve()  # a link stays a link
        part = place.with_name(f".{place.name[:80]}.{uuid.uuid4().hex[:8]}.part")
        try:
            with part.open("x", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            if place.exists():
                part.chmod(stat.S_IMODE(place.stat().st_mode))
            part.replace(place)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    except (OSError, ValueError) as error:  # a name may be none that a file can have
        raise StoreError(f"{path} cannot be written: {_cause(error)}.") from None


def _cause(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)
