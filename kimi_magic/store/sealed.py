"""A value as JSON text with the hash of it, so that any change of the text shows."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import msgspec


def seal(value: Any) -> tuple[str, str]:
    """The value's JSON, and the hash of that text.

    Half a surrogate pair, which no file can hold, is written as an escape.
    """
    try:
        text = msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        text = json.dumps(value, separators=(",", ":"))
    return text, digest(text)


def parse(text: str) -> Any:
    """The value of `seal`. Raises ValueError."""
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError:  # it does not read half a surrogate pair
        return json.loads(text)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
