"""Which server a client talks to, where it was not told everything: the one that a key or a base URL
names, a cassette, or else the embedded simulator, which says in every reply that it is none.

`KIMI_MAGIC_SIMULATOR=never` turns a missing key into an error (for papers and automatic runs), and
`always` lets the simulator answer whatever else is set.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..keys import SIMULATOR_MODES, Key, find_key, key_of_server, would_simulate
from ..paths import user_path
from .hosts import base_urls

SIMULATOR_URL = "http://simulator.invalid"
"""Base URL of what answers in process: a name that no network can resolve."""

NO_KEY = "sk-no"
"""The key of what answers in process, which asks for one as the API does. It is so short that `Key.scrub`
leaves all texts alone: it is no secret, and its words stand in prompts."""

_IN_PROCESS = Key(NO_KEY, "nowhere: none is needed")


@dataclass(frozen=True, slots=True)
class Server:
    """What answers."""

    key: Key | None
    urls: tuple[str, ...]
    transport: Any = None
    """An httpx transport, None for the network."""


def choose_server(
    api_key: str | Key | None,
    base_url: str | Sequence[str] | None,
    transport: Any,
    replay: str | Path | None,
    environ: Mapping[str, str] | None = None,
) -> Server:
    """The server for a client's arguments. Raises `ConfigError`, or `ReplayError` for a cassette that
    cannot be read."""
    environ = os.environ if environ is None else environ
    if replay is not None:
        return Server(_IN_PROCESS, (SIMULATOR_URL,), _played(replay))
    told = transport is not None or api_key is not None or base_url is not None
    if told:
        return Server(find_key(api_key, environ), base_urls(base_url, environ), transport)
    if would_simulate(_mode(environ), environ):
        return Server(_IN_PROCESS, (SIMULATOR_URL,), _simulated(environ))
    return Server(key_of_server(environ), base_urls(None, environ))


def _mode(environ: Mapping[str, str]) -> str:
    mode = environ.get("KIMI_MAGIC_SIMULATOR", "").strip() or "auto"
    if mode not in SIMULATOR_MODES:
        raise ConfigError(
            f"KIMI_MAGIC_SIMULATOR={mode!r} is not usable.", hint=f"It is {', '.join(SIMULATOR_MODES)}."
        )
    return mode


def _simulated(environ: Mapping[str, str]) -> Any:
    from ..simulator import Simulator
    from ..transports import SimulatorTransport

    speed = environ.get("KIMI_MAGIC_SIMULATOR_SPEED", "").strip()
    try:
        return SimulatorTransport(Simulator(speed=float(speed)) if speed else Simulator())
    except ValueError:
        raise ConfigError(f"KIMI_MAGIC_SIMULATOR_SPEED={speed!r} is no number of tokens a second.") from None


def _played(path: str | Path) -> Any:
    from ..recordings import Library
    from ..transports import ReplayTransport, read_cassette

    return ReplayTransport(Library(read_cassette(user_path(path))))
