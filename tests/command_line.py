"""The command `kimi-magic`, run to its end or while it serves."""

from __future__ import annotations

import contextlib
import re
import select
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

KIMI_MAGIC = [sys.executable, "-m", "kimi_magic.cli"]
LAB_ADDRESS = r"(http://127\.0\.0\.1:\d+)/lab/tree/quickstart\.ipynb\?token=(\w+)"
"""What `kimi-magic lab` prints: the address with a token."""


def run(*arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run(
        [*KIMI_MAGIC, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert ran.returncode == status, ran.stdout + ran.stderr
    return ran


@contextlib.contextmanager
def running(*arguments: str, until: str) -> Iterator[re.Match[str]]:
    """The command while it runs, once it has printed what `until` matches; the match."""
    process = subprocess.Popen(
        [*KIMI_MAGIC, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
    )
    assert process.stdout is not None
    said, end = "", time.monotonic() + 300
    try:
        while (found := re.search(until, said)) is None:
            ready, _, _ = select.select([process.stdout], [], [], max(end - time.monotonic(), 0))
            more = process.stdout.read1() if ready else b""  # type: ignore[attr-defined]  # it is buffered
            assert more, f"it ended or kept silent, and said:\n{said}"
            said += more.decode()
        yield found
    finally:
        process.send_signal(signal.SIGTERM)
        process.stdout.close()
        process.wait(20)


def get(url: str, body: bytes | None = None) -> bytes:
    """What a server answers that may have printed its address a moment before it listens there."""
    headers = {"authorization": "Bearer anything", "content-type": "application/json"}
    for _ in range(50):
        try:
            with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=20) as reply:
                return bytes(reply.read())
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError):
                raise
            time.sleep(0.1)
    raise AssertionError(f"nobody listens at {url}")
