"""`%kimi status` and `%kimi tools`: what is set up here."""

from __future__ import annotations

from collections.abc import Sequence

from ..api import Kimi
from ..conversation import Conversation
from ..counts import counted
from ..keys import SET_A_KEY
from .stage import Stage, shortened


def status(kimi: Kimi, stage: Stage, words: Sequence[str]) -> None:
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


def tools(kimi: Kimi, stage: Stage, words: Sequence[str]) -> None:
    rows = [
        {
            "tool": tool.name,
            "what it does": shortened(tool.description),
            "parameters": ", ".join(tool.input_schema.get("properties", ())),
            "asks first": "yes" if tool.confirm else "",
        }
        for tool in sorted(kimi.tools.values(), key=lambda tool: tool.name)
    ]
    stage.table(rows, f"Registered with @kimi.tool: {len(rows)}. -t also takes the name of any function.")
