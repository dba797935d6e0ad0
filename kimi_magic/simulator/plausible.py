"""Texts that look right for a field of a schema: by its format, its pattern or its name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date
from ipaddress import IPv4Address, IPv6Address
from uuid import UUID

from ..wire import Json
from .patterns import text_for

_FORMATS = {
    "date": "2026-11-{:02d}",
    "date-time": "2026-11-{:02d}T12:00:00Z",
    "time": "12:{:02d}:00Z",
    "duration": "P{}D",
    "email": "person{}@example.org",
    "idn-email": "person{}@example.org",
    "hostname": "host{}.example.org",
    "idn-hostname": "host{}.example.org",
    "uri": "https://example.org/{}",
    "iri": "https://example.org/{}",
    "url": "https://example.org/{}",
    "uri-reference": "/page/{}",
    "iri-reference": "/page/{}",
    "uri-template": "https://example.org/{{id}}/{}",
    "uuid": "00000000-0000-4000-8000-0000000000{:02d}",
    "ipv4": "192.0.2.{}",
    "ipv6": "2001:db8::{}",
    "json-pointer": "/items/{}",
    "relative-json-pointer": "{}/name",
    "regex": "^item{}$",
}
_NAMES = {
    "name": ("Ada Lovelace", "Emmy Noether", "Chen Ning Yang", "Rosalind Franklin"),
    "city": ("Shanghai", "Oslo", "Nairobi", "Lima"),
    "country": ("China", "Norway", "Kenya", "Peru"),
    "language": ("English", "Chinese", "French"),
    "email": ("person@example.org",),
    "url": ("https://example.org/page",),
    "date": ("2026-11-30",),
    "unit": ("mm", "g", "s"),
    "currency": ("USD", "CNY", "EUR"),
    "color": ("blue", "green", "amber"),
}


def texts(schema: Json, name: str, pick: int) -> Iterator[str]:
    """Candidates, best first. pick: a number that chooses among equals."""
    low, high = schema.get("minLength", 0), schema.get("maxLength")
    form = _FORMATS.get(str(schema.get("format")))
    if form is not None:
        made = [form.format(1 + (pick + n) % 28) for n in range(28)]
        yield from (text.rjust(low, "a") if "@" in text else text.ljust(low, "a") for text in made)
    if "pattern" in schema:
        for extra in (0, 1, 2, 3, 5, 8, low - 1, low):
            core = text_for(schema["pattern"], max(extra, 0))
            yield from (core, core.ljust(low, "a"), core.rjust(low, "a"))
        core = text_for(schema["pattern"])
        yield from (core + "a" * n for n in range(1, 9))
        yield from (sized("Aa1!" * 4, low, high), "a", "0")  # what a look-ahead may ask for
    words = re.sub(r"[_\s-]+", " ", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)).strip().lower()
    known = _NAMES.get(words) or _NAMES.get(words.rpartition(" ")[2]) or ()
    yield from (sized(known[(pick + n) % len(known)], low, high) for n in range(len(known)))
    for n in range(40):
        yield sized(f"sample {words or 'text'}" + (f" {n + 1}" if n else ""), low, high)
    yield from (sized(chr(0x61 + n), low, high) for n in range(26))


_READERS: dict[str, tuple[str, Callable[[str], object]]] = {
    "date": (r"\d{4}-\d\d-\d\d", date.fromisoformat),
    "email": (r"[\w.+-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+", str),
    "uuid": (r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", UUID),
    "ipv4": (r"[\d.]+", IPv4Address),
    "ipv6": (r"[0-9A-Fa-f:.]+", IPv6Address),
}
"""Format → the characters of such a text, and what reads it or raises."""


def has_format(text: str, name: object) -> bool:
    """Whether a text that a prompt gave has the format that its field wants. Formats that are not read
    here are taken for missed: then a plausible text is better."""
    if not isinstance(name, str) or name not in _FORMATS:
        return True
    shape, reader = _READERS.get(name, ("", str))
    if not re.fullmatch(shape, text, re.ASCII):
        return False
    try:
        reader(text)
    except ValueError:
        return False
    return True


def sized(text: str, low: int, high: int | None) -> str:
    return text.ljust(low, ".")[: high if high is not None else None]
