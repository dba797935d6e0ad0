"""A conversation as a file: JSON that is read back, markdown to read, a Python script to run.

Always UTF-8, whatever the machine's own encoding. A file is written beside its place and then moved
there, so that it is whole or not there.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path

from ..conversation import Conversation, Turn
from ..errors import ConversationError, StoreError
from ..wire import Json, content_blocks

FORMAT = "kimi_magic conversation"
VERSION = 1


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
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError:
        value = None
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise StoreError(f"{path} is not a conversation that %kimi save wrote.")
    if value.get("version", 0) > VERSION:
        raise StoreError(f"{path} was written by a newer kimi_magic.", hint="Upgrade kimi_magic to read it.")
    try:
        turns = [Turn.from_json(turn) for turn in value["turns"]]
        found = {turn.id: turn for turn in turns}
        conversation = Conversation(
            str(value["name"]), found, value["head"], frozenset(value["undone"]), value["system"]
        )
        conversation.path()
        return conversation
    except (KeyError, TypeError, ConversationError) as error:
        raise StoreError(f"{path} is damaged ({error!r}); nothing was loaded.") from None


def export_markdown(conversation: Conversation) -> str:
    """The active path to read: a heading and a fence-safe body for each message."""
    parts = [f"# {conversation.name}"]
    if conversation.system:
        parts += ["## System", _quoted(conversation.system)]
    for turn in conversation.path():
        parts += ["## You", _quoted(_shown(turn.messages[0])), f"## {turn.model}", _quoted(turn.text)]
    return "\n\n".join(parts) + "\n"


def export_script(conversation: Conversation) -> str:
    """A script that sends the active path's last question again, with all that came before it."""
    path = conversation.path()
    if not path:
        raise ConversationError(f"Conversation {conversation.name!r} has no turns to export.")
    sent = [*conversation.messages(path[-1].parent), path[-1].messages[0]]
    fields = {**path[-1].settings, "messages": sent}
    fields.pop("stream", None)
    fields.setdefault("model", path[-1].model)
    fields.setdefault("max_tokens", 32_768)
    body = json.dumps(fields, ensure_ascii=False, indent=4)
    return (
        '"""A conversation with Kimi; the key comes from KIMI_API_KEY."""\n\n'
        "import json\n\nfrom kimi_magic import Client\n\n"
        f"request = json.loads({_raw(body)})\n\n"
        "with Client() as client, client.stream(**request) as stream:\n"
        "    for event in stream:\n"
        '        if event.type == "content_block_delta" and event.delta.type == "text_delta":\n'
        '            print(event.delta.text, end="", flush=True)\n'
        "print()\n"
    )


def _raw(text: str) -> str:
    """A literal of `text` that a person can read, if quoting allows."""
    readable = "'''" not in text and not text.endswith(("'", "\\"))
    return f"r'''{text}'''" if readable else ascii(text)


def _shown(message: Json) -> str:
    blocks = content_blocks(message["content"])
    return "\n\n".join(b.json.get("text") or f"[{b.type}]" for b in blocks)


def _quoted(text: str) -> str:
    """In a fence longer than any in it, so that nothing of it leaks into what follows."""
    runs = [len(run) for run in re.findall("`{3,}", text)]
    fence = "`" * (max(runs, default=2) + 1)
    return f"{fence}markdown\n{text}\n{fence}"


def write_text(path: Path, text: str) -> None:
    """Write a file whole, or leave what was there. Raises `StoreError`."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}.") from None
