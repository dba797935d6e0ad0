"""Settings and environment → the client that asks: a server, or the embedded simulator."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..client import NO_KEY, SIMULATOR_URL, AsyncClient, base_urls
from ..config import KimiMagic
from ..errors import StoreError
from ..keys import key_of_server
from ..simulator import Simulator
from ..transports import RecordTransport, SimulatorTransport


def connect(
    settings: KimiMagic,
    environ: Mapping[str, str] | None = None,
    *,
    record: Path | None = None,
    missed: Callable[[StoreError], None] | None = None,
) -> tuple[AsyncClient, bool]:
    """The client that the settings and the environment ask for, and whether it is the simulator.

    record: a cassette that replies are written to; missed: told of those that cannot be. Raises
    `ConfigError` where there is no key and the simulator may not answer.
    """
    environ = os.environ if environ is None else environ
    if settings.would_simulate(environ):
        simulated = SimulatorTransport(Simulator(speed=settings.simulator_speed))
        inner = RecordTransport(record, async_inner=simulated, missed=missed) if record else simulated
        return AsyncClient(NO_KEY, SIMULATOR_URL, transport=inner), True
    key = key_of_server(environ)
    taped = RecordTransport(record, missed=missed) if record else None
    return AsyncClient(key, base_urls(None, environ), transport=taped), False


def client_elsewhere(base_urls: Sequence[str], speed: float | None) -> AsyncClient:
    """The client of another process: a simulator of its own, or a key that it finds there as it was found
    here. speed: the simulator's, None for a server."""
    if speed is None:
        return AsyncClient(None, base_urls)
    return AsyncClient(NO_KEY, SIMULATOR_URL, transport=SimulatorTransport(Simulator(speed=speed)))
