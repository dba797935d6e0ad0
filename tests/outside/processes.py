"""Servers as processes on loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def running(command: list[str], port: int, log: Path, **env: str) -> Iterator[str]:
    """A server process; yields its URL once it listens on `port`, and ends it."""
    clean = {k: v for k, v in os.environ.items() if "proxy" not in k.lower() and not k.startswith("KIMI")}
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=clean | env)
    try:
        until = time.monotonic() + 60
        while not listens(port):
            if process.poll() is not None or time.monotonic() > until:
                pytest.fail(f"{command[0]} did not start: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def listens(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0
