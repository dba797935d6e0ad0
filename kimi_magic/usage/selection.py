"""Which records: by time, notebook, conversation, model."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

from ..notebook import label
from ..paths import user_path
from .records import Record

Moment = datetime | date | timedelta | str
"""A point in time. Without a zone it is one on this machine's clock; a `timedelta` and texts like `7d`,
`12h`, `30min` are so long ago; `today` is the last midnight."""

_AGO = re.compile(r"(\d+(?:\.\d+)?)\s*(min|h|d|w)")
_UNIT = {
    "min": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}


def moment(value: Moment, now: datetime) -> datetime:
    """The point in time, UTC. Raises ValueError for a text that is none, and for one without a date."""
    try:
        return _moment(value, now)
    except OverflowError:
        raise ValueError(f"{value!r} has no date.") from None


def _moment(value: Moment, now: datetime) -> datetime:
    if isinstance(value, str):
        value = _read(value.strip())
    if isinstance(value, timedelta):
        return now - value
    if isinstance(value, datetime):  # pandas' Timestamp does not take a time without a zone for one of here
        value = datetime.combine(value.date(), value.timetz())
    else:
        value = datetime.combine(value, time())
    if value.tzinfo is None and not 1971 <= value.year < 3000:  # of such times not every system has a clock
        value = value.replace(tzinfo=UTC)
    return value.astimezone(UTC)


def _read(text: str) -> datetime | date | timedelta:
    if text == "today":
        return datetime.now().astimezone().date()
    if found := _AGO.fullmatch(text):
        return float(found[1]) * _UNIT[found[2]]
    try:
        return date.fromisoformat(text)
    except ValueError:
        return datetime.fromisoformat(text)


@dataclass(frozen=True, slots=True)
class Selection:
    """None means any."""

    since: datetime | None = None
    """The first moment, UTC."""
    until: datetime | None = None
    """The first moment that no longer belongs to it, UTC."""
    notebook: str | Path | None = None
    """As records have it, or its path from here."""
    conversation: str | None = None
    model: str | None = None
    """The whole name, or what stands behind `kimi-`."""

    @classmethod
    def of(
        cls,
        *,
        since: Moment | None = None,
        until: Moment | None = None,
        now: datetime | None = None,
        **names: Any,
    ) -> Selection:
        """A selection with times as people write them. names: notebook, conversation, model. Raises
        ValueError for a text that is no time, and TypeError for another name."""
        now = now if now is not None else datetime.now(UTC)
        first = moment(since, now) if since is not None else None
        last = moment(until, now) if until is not None else None
        return cls(first, last, **names)

    def models(self) -> tuple[str, ...]:
        """The names that `model` may mean."""
        return () if self.model is None else (self.model, f"kimi-{self.model}")

    def notebooks(self) -> tuple[str, ...]:
        """The names that `notebook` may mean."""
        return () if self.notebook is None else (str(self.notebook), label(str(user_path(self.notebook))))

    def of_all(self, records: Iterable[Record]) -> list[Record]:
        """Those of the records that it takes."""
        notebooks, models = self.notebooks(), self.models()
        return [
            record
            for record in records
            if (self.since is None or record.time >= self.since)
            and (self.until is None or record.time < self.until)
            and (self.notebook is None or record.notebook in notebooks)
            and (self.conversation is None or record.conversation == self.conversation)
            and (self.model is None or record.model in models)
        ]
