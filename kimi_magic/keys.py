"""The API key: where it comes from, what is wrong with it, what answers without one, and keeping it out
of sight.

Order: the argument, `KIMI_API_KEY`, `EVOLINK_API_KEY`, the system keyring (service `kimi_magic`,
user `api_key`) where the `keyring` package is installed. A `Key` shows nothing of itself in any
repr, and `scrub` takes every piece of it out of a text that came from elsewhere, since servers echo
keys in their errors.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from .errors import ConfigError

SET_A_KEY = "Set the environment variable KIMI_API_KEY where Jupyter or Python starts, and start it again."
"""The next step for whoever has no key."""

SIMULATOR_MODES = ("auto", "always", "never")
"""When the embedded simulator answers: where neither a key nor a base URL names a server, or as said."""

ENVIRONMENT = ("KIMI_API_KEY", "EVOLINK_API_KEY")
_PIECE = 6  # characters: a shorter run of them gives nothing away
_SHORTEST = 3  # characters: a shorter "key" stands in every sentence


@dataclass(frozen=True, slots=True, repr=False)
class Key:
    """An API key and the name of the place that it came from."""

    secret: str = field(repr=False)
    source: str = "argument"

    def __repr__(self) -> str:
        return f"Key(set, from {self.source})"

    def authorization(self) -> str:
        """The value of the `Authorization` header (`bearerAuth` of the API page)."""
        return f"Bearer {self.secret}"

    def scrub(self, text: str) -> str:
        """`text` without any six characters of the key in a row (a shorter key: without all of it)."""
        body = self.secret.removeprefix("sk-")
        size = min(_PIECE, len(body))
        if size < _SHORTEST:
            return text
        pieces = {body[i : i + size] for i in range(len(body) - size + 1)}
        if not any(piece in text for piece in pieces):  # nearly always, and much quicker
            return text
        hidden = [False] * len(text)
        for start in range(len(text) - size + 1):
            if text[start : start + size] in pieces:
                hidden[start : start + size] = [True] * size
        shown: list[str] = []
        for character, secret in zip(text, hidden, strict=True):
            if not secret:
                shown.append(character)
            elif not shown or shown[-1] != "[key]":
                shown.append("[key]")
        return "".join(shown)


def find_key(given: str | Key | None = None, environ: Mapping[str, str] | None = None) -> Key | None:
    """The key to use, or None where there is none anywhere. given: the argument; a `Key` was found before.

    Raises `ConfigError` for one that no HTTP header can carry; the message never quotes it.
    """
    environ = os.environ if environ is None else environ
    if isinstance(given, Key):
        return given
    if given is not None:
        return _checked(given, "argument")
    for name in ENVIRONMENT:
        if name in environ:
            return _checked(environ[name], name)
    secret = _from_keyring(environ)
    return _checked(secret, "the system keyring") if secret else None


def would_simulate(mode: str, environ: Mapping[str, str] | None = None) -> bool:
    """Whether the embedded simulator answers. mode: one of `SIMULATOR_MODES`. Raises like `find_key`."""
    environ = os.environ if environ is None else environ
    if mode != "auto":
        return mode == "always"
    return not _names_a_server(environ) and find_key(None, environ) is None


def key_of_server(environ: Mapping[str, str] | None = None) -> Key | None:
    """The key for a server; None where a base URL alone names one. Raises `ConfigError` where nothing
    does, and like `find_key`."""
    environ = os.environ if environ is None else environ
    key = find_key(None, environ)
    if key is None and not _names_a_server(environ):
        raise ConfigError(
            "No API key, and the simulator is ruled out (KIMI_MAGIC_SIMULATOR=never).", hint=SET_A_KEY
        )
    return key


def _names_a_server(environ: Mapping[str, str]) -> bool:
    return bool(environ.get("KIMI_BASE_URL", "").strip())


def _checked(secret: str, source: str) -> Key:
    if not isinstance(secret, str):
        raise ConfigError(f"The API key in {source} is no text.", hint="Give it as a str.")
    padded, secret = secret, secret.strip(" \t\"'")  # Windows' `set` keeps quotes in a value
    if not secret:
        raise ConfigError(f"The API key in {source} is empty.", hint="Set it, or remove the variable.")
    if any(c in padded for c in "\r\n"):
        raise ConfigError(
            f"The API key in {source} has a line break in it.", hint="Copy it again as one line."
        )
    if not secret.isascii() or not secret.isprintable() or " " in secret:
        raise ConfigError(
            f"The API key in {source} has characters that no key has (spaces, quotes of another script …).",
            hint="Copy it again from the key page.",
        )
    return Key(secret, source)


def _from_keyring(environ: Mapping[str, str]) -> str | None:
    if environ is not os.environ:
        return None
    try:
        import keyring  # type: ignore[import-not-found]  # optional
    except ImportError:
        return None
    try:
        secret = keyring.get_password("kimi_magic", "api_key")
    except Exception:  # noqa: BLE001  # backends raise what they like; no usable keyring is as good as no key
        return None
    return str(secret) if secret else None
