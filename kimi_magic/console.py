"""Terminals whose encoding lacks a character (GBK, Latin-1, ASCII) show a mark in its place.

Without that, one emoji in a reply would end it with a `UnicodeEncodeError` in the middle.
"""

from __future__ import annotations


def forgive(*streams: object) -> None:
    """Let text streams replace what they cannot encode. Those that are no files, as a kernel's, are left as
    they are, and so is what somebody has set already."""
    for stream in streams:
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None and getattr(stream, "errors", None) == "strict":
            reconfigure(errors="replace")
