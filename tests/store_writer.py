"""A process that appends turns to a conversation of a store, and says each when it is kept.

python tests/store_writer.py STORE NOTEBOOK NAME COUNT     turns NAME-0, NAME-1 …; COUNT 0 is for ever
"""

from __future__ import annotations

import itertools
import sys
from datetime import UTC, datetime
from pathlib import Path

from kimi_magic.conversation import Conversation, Turn
from kimi_magic.store import Store
from kimi_magic.usage import Record
from kimi_magic.wire import user

WORDS = "深圳🚀 "


def turn(name: str, parent: str | None = None, words: str = WORDS) -> Turn:
    """A complete turn whose texts depend on its name only."""
    reply = {"role": "assistant", "content": [{"type": "text", "text": f"{name} {words}"}]}
    time = datetime(2026, 11, 30, 12, tzinfo=UTC)
    return Turn(id=name, parent=parent, messages=(user(name), reply), prompt=name, time=time)


def write(path: Path, notebook: str, name: str, count: int) -> None:
    store = Store(path)
    conversation = store.load(notebook).conversations.get("main", Conversation())
    parent = conversation.head if conversation.head and conversation.head.startswith(name) else None
    start = sum(key.startswith(f"{name}-") for key in conversation.turns)
    for n in itertools.count(start):
        if count and n == count:
            return
        # A long one is followed by short ones: no tail of it may stay.
        made = turn(f"{name}-{n}", parent, WORDS * (2_000 if n % 7 == 0 else 3))
        conversation = conversation.with_turn(made)
        store.keep(notebook, conversation, [made], [Record(time=made.time, turn=made.id)])
        print(made.id, flush=True)
        parent = made.id


if __name__ == "__main__":
    write(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))
