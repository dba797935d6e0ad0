"""Counts as a person writes and reads them.

Written: `8192`, `8_192`, `8,192`, `8k` (1,024 each), `1M` (1,048,576 each). Shown: `1 row`, `2,000 rows`.
"""

from __future__ import annotations

import re

_WRITTEN = re.compile(r"(\d+|\d{1,3}(?:[_,]\d{3})+)([kKmM]?)")
_FACTORS = {"": 1, "k": 1024, "m": 1024**2}
_LONGEST = 30  # characters; reading far longer ones would take a while


def read_count(written: str, most: int) -> int:
    """The number that is meant, from 1 to `most`. Raises ValueError, with a message, for anything else."""
    match = _WRITTEN.fullmatch(written.strip()) if len(written) < _LONGEST else None
    value = int(re.sub("[_,]", "", match[1])) * _FACTORS[match[2].lower()] if match else 0
    if not 1 <= value <= most:
        raise ValueError(f"must be a whole number from 1 to {most:,}, not {written!r}.")
    return value


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun. plural: where it is not the noun with an `s`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {plural or f'{noun}s'}"
