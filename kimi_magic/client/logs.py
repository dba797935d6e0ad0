"""Keeping the key out of what httpx and httpcore log: at DEBUG they write down whatever a server sends
back, and a server may send back the key."""

from __future__ import annotations

import logging

from ..keys import Key

LOGGERS = ("httpx", *(f"httpcore.{name}" for name in ("connection", "http11", "http2", "proxy", "socks")))
"""All that they log to; a filter counts only where a record is made."""


class _Scrubber(logging.Filter):
    """Takes every key that was ever used here out of the records."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: set[Key] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        said = text = record.getMessage()
        for key in tuple(self.keys):
            text = key.scrub(text)
        if text != said:
            record.msg, record.args = text, ()
        return True


_SCRUBBER = _Scrubber()


def keep_out(key: Key) -> None:
    """From now on no log record of the two libraries has a piece of this key."""
    _SCRUBBER.keys.add(key)
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_SCRUBBER)  # once, however often it is added
