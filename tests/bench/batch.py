"""What a row of a batch costs, and a query of the ledger: `python tests/bench/batch.py [SDK_PYTHON]`.

1,000 rows, 64 at once, on the simulator without any wait, everything kept in a store. SDK_PYTHON is a
Python that has the anthropic SDK: its AsyncAnthropic with a semaphore asks the same, against the same
server on loopback. CPU seconds are those of the process that asks; each contender runs in its own.
Prints a table in markdown.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

ROWS, AT_ONCE, LEDGER = 1_000, 64, 100_000
WORDS = [f"word {n}" for n in range(ROWS)]
PROMPT = "Say {{ x }}"


def in_process(url: str) -> float:
    """`kimi.map`, the simulator in the same process: its CPU is in the number."""
    os.environ["KIMI_MAGIC_SIMULATOR"] = "always"
    return _ours()


def on_loopback(url: str) -> float:
    """`kimi.map` against a server on loopback: replies, columns, ledger and store."""
    os.environ |= {"KIMI_BASE_URL": url, "KIMI_API_KEY": "k"}
    return _ours()


def _ours() -> float:
    from kimi_magic.api import Kimi
    from kimi_magic.config import KimiMagic

    kimi = Kimi(KimiMagic(simulator_speed=0.0, simulator=os.environ.get("KIMI_MAGIC_SIMULATOR", "auto")))
    ask = {"effort": "low", "progress": False, "concurrency": AT_ONCE}
    kimi.map(PROMPT, ["warm"], **ask)
    before = time.process_time()
    rows = kimi.map(PROMPT, WORDS, **ask)
    used = time.process_time() - before
    assert all(row["kimi_status"] == "asked" for row in rows)
    kimi.close()
    return used


def sdk(url: str) -> float:
    """AsyncAnthropic.messages.stream with a semaphore: the texts, and nothing kept."""
    import anthropic

    async def main() -> float:
        client = anthropic.AsyncAnthropic(base_url=url, auth_token="k", api_key=None)
        gate = asyncio.Semaphore(AT_ONCE)

        async def ask(word: str) -> str:
            message = {"role": "user", "content": f"Say {word}"}
            more = {"output_config": {"effort": "low"}}
            async with (
                gate,
                client.messages.stream(
                    model="kimi-k3.1-pro", max_tokens=16_384, messages=[message], extra_body=more
                ) as stream,
            ):
                return await stream.get_final_text()

        await ask("warm")
        before = time.process_time()
        texts = await asyncio.gather(*map(ask, WORDS))
        assert all(texts)
        return time.process_time() - before

    return asyncio.run(main())


def ledger(url: str) -> float:
    """A query of the whole ledger, from the file to a DataFrame."""
    import pandas as pd

    from kimi_magic.store import Store
    from kimi_magic.usage import Record, UsageTable

    store = Store(Path(os.environ["KIMI_MAGIC_HOME"]) / "ledger.db")
    begun = datetime(2026, 1, 1, tzinfo=UTC)
    store.keep_records(
        "a.ipynb",
        (
            Record(
                begun + timedelta(minutes=n),
                notebook="a.ipynb",
                conversation="main",
                turn=f"turn{n}",
                model="kimi-k3.1-pro",
                effort="low",
                stop_reason="end_turn",
                request_id=f"req_{n}",
                input=n,
                cache_read=0,
                cache_write_5m=3,
                cache_write_1h=0,
                output=5,
                thinking=None if n % 2 else 3,
                seconds=1.5,
                cost=Decimal("0.00012"),
            )
            for n in range(LEDGER)
        ),
    )
    UsageTable((), store.records).all(since="1min").df()
    pd.DataFrame()
    before = time.process_time()
    frame = UsageTable((), store.records).all().df()
    used = time.process_time() - before
    assert len(frame) == LEDGER
    return used


def measure(name: str, url: str, python: str = sys.executable) -> float:
    """CPU seconds of one contender in a process of its own: the least of three."""
    found = []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as home:
            ran = subprocess.run(
                [python, __file__, "--run", name, url],
                env={**os.environ, "KIMI_MAGIC_HOME": home},
                capture_output=True,
                text=True,
                check=False,
            )
        if ran.returncode:
            raise SystemExit(f"{name}: {ran.stderr}")
        found.append(float(json.loads(ran.stdout)))
    return min(found)


async def serve() -> None:
    """The simulator in one loop: threads that take turns would keep the ends of replies waiting."""
    from kimi_magic.simulator import Simulator

    simulator = Simulator(speed=0, lenient=True)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            except asyncio.IncompleteReadError:
                writer.close()
                return
            headers = dict(line.split(": ", 1) for line in head[1:] if line)
            size = next(int(v) for k, v in headers.items() if k.lower() == "content-length")
            reply = simulator.reply(await reader.readexactly(size), headers)
            lines = [f"HTTP/1.1 {reply.status} OK", *(f"{k}: {v}" for k, v in reply.headers.items())]
            writer.write("\r\n".join([*lines, "transfer-encoding: chunked", "", ""]).encode())
            for _, chunk in reply.chunks:
                writer.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            writer.write(b"0\r\n\r\n")
            await writer.drain()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


def main(sdk_python: str | None = None) -> None:
    server = subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    url = server.stdout.readline().strip()
    try:
        print(f"| {ROWS:,} rows, {AT_ONCE} at once | CPU ms a row |\n| --- | ---: |")
        for name, what in (("in_process", "kimi.map, simulator included"), ("on_loopback", "kimi.map")):
            print(f"| {what} | {measure(name, url) * 1000 / ROWS:.2f} |", flush=True)
        if sdk_python:
            print(f"| AsyncAnthropic and a semaphore | {measure('sdk', url, sdk_python) * 1000 / ROWS:.2f} |")
        print(f"\n| ledger of {LEDGER:,} requests | CPU s |\n| --- | ---: |")
        print(f"| to a DataFrame | {measure('ledger', url):.2f} |", flush=True)
    finally:
        server.terminate()
        server.wait()


CONTENDERS: dict[str, Callable[[str], float]] = {
    "in_process": in_process,
    "on_loopback": on_loopback,
    "sdk": sdk,
    "ledger": ledger,
}

if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        print(CONTENDERS[sys.argv[2]](sys.argv[3]))
    elif sys.argv[1:2] == ["--serve"]:
        asyncio.run(serve())
    else:
        main(*sys.argv[1:])
