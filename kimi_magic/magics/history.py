"""`%kimi history`: the turns of the conversation as a table, those that are sent along numbered."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal

from ..api import Kimi
from ..conversation import Turn
from ..counts import counted
from ..errors import OptionError
from ..render import money, one_line
from ..render.usage import added
from ..usage import Record
from .reading import parse_line
from .stage import Stage, shortened

_BADGE = re.compile(r"\A\*[^*\n]+\*[^\n]*\n\n")
"""The paragraph in which the simulator says what it is, and repeats the prompt."""
_LOOKED_AT = 200
"""Characters of a reply of which the first 48 are shown: links and tables lose many."""


def history(kimi: Kimi, stage: Stage, words: Sequence[str]) -> None:
    conversation = kimi.conversation
    active = {turn.id: n for n, turn in enumerate(conversation.path(), 1)}
    states, cells = conversation.states(), _cells(conversation.turns, _asked(stage))
    used: dict[str | None, list[Record]] = defaultdict(list)
    for record in kimi.session.records:
        used[record.turn].append(record)
    now = kimi.session.now()
    rows = [
        {"#": str(active.get(key, "")), "turn": key[:6], "state": states[key]}
        | {"prompt": shortened(turn.prompt), "reply": _reply(turn), "cell": cells[key]}
        | _used(used[key])
        | {"age": age(now - turn.time)}
        for key, turn in conversation.turns.items()
    ]
    sent = f"{counted(len(active), 'turn')} {'is' if len(active) == 1 else 'are'} sent along"
    stage.table(rows, f"Conversation {conversation.name}: {sent}.")


def _reply(turn: Turn) -> str:
    """The error, or the reply's first words without markup."""
    if turn.error:
        return shortened(turn.error)
    text = _BADGE.sub("", turn.text) if turn.simulated else turn.text
    return shortened(one_line(text[:_LOOKED_AT]))


def _used(records: Sequence[Record]) -> dict[str, str]:
    """Tokens and cost: `?` where they are not known, nothing where nothing was sent."""
    costs = [record.cost for record in records if record.cost is not None]
    unknown = "?" if records else ""
    return {
        "in": added([record.prompt_tokens for record in records]),
        "out": added([record.output for record in records]),
        "cost": money(sum(costs, Decimal(0)), records[-1].currency) if costs else unknown,
    }


def _asked(stage: Stage) -> dict[str, int]:
    """Each prompt that a cell of this kernel asked → the number of the last that did."""
    found: dict[str, int] = {}
    for number, source in enumerate(stage.shell.history_manager.input_hist_raw):
        first, _, body = source.strip().partition("\n")
        if first.startswith("%%kimi"):
            found[body.strip()] = number
        elif first.startswith("%kimi ") and not body:
            with suppress(OptionError):
                found[parse_line(first.removeprefix("%kimi"))[1].strip()] = number
    return found


def _cells(turns: Mapping[str, Turn], asked: Mapping[str, int]) -> dict[str, str]:
    """Turn → its cell: `[3]`, as it stands beside the cell, where no other cell asks the same; else the
    beginning of its id."""
    asking: dict[str, set[str]] = defaultdict(set)
    for turn in turns.values():
        asking[turn.prompt.strip()].add(turn.cell or turn.id)
    return {key: _cell(turn, asked, asking[turn.prompt.strip()]) for key, turn in turns.items()}


def _cell(turn: Turn, asked: Mapping[str, int], asking: set[str]) -> str:
    number = asked.get(turn.prompt.strip())
    if number is not None and len(asking) == 1:
        return f"[{number}]"
    cell = turn.cell or ""
    return cell if " " in cell else cell[:6]  # `panel 2`, `question 3`


def age(passed: timedelta) -> str:
    """How long ago, in one unit."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if passed.total_seconds() >= size:
            return f"{passed.total_seconds() / size:.0f} {unit}"
    return f"{max(0.0, passed.total_seconds()):.0f} s"
