"""What the wire costs: CPU per delta and per request, side by side. See README.md here."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
VENVS = HERE.parent.parent / ".artifacts/venvs"
SDK = VENVS / "anthropic/bin/python"
PEERS = [name for name in ("chatlas", "claudette") if (VENVS / name).exists()]
"""Peers whose virtual environment is there."""


def measure(name: str, url: str) -> float:
    """CPU seconds of one contender's request, in a process of its own."""
    python = str(SDK) if "sdk" in name else sys.executable
    if name in PEERS:
        python = str(VENVS / name / "bin/python")
    env = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("ANTHROPIC", "KIMI")) and "proxy" not in k.lower()
    }
    out = subprocess.run(
        [python, str(HERE / "contenders.py"), name, url], capture_output=True, text=True, check=True, env=env
    ).stdout
    return float(json.loads(out)["cpu"])


def rounds(names: list[str], url: str, runs: int) -> dict[str, float]:
    """The median CPU seconds of each contender; they take turns."""
    taken: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(runs):
        for name in names:
            taken[name].append(measure(name, url))
    return {name: statistics.median(times) for name, times in taken.items()}


def table(base: str, runs: int, counts: list[int]) -> list[str]:
    sdk = ["sdk"] * SDK.exists()
    lines = [
        "| CPU | floor | `Client` | × floor | parser alone | `AsyncClient` | async floor | SDK | chatlas |"
        " claudette |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for n in counts:
        names = ["floor", "ours", "parse", "ours_async", "floor_async"]
        got = rounds(names, f"{base}/n={n}", runs)
        slow = runs if n < 50_000 else 1  # they are quadratic: half a minute each
        got |= rounds([*sdk, *PEERS], f"{base}/n={n}", slow)
        cell = {name: f"{seconds / n * 1e6:.1f}" for name, seconds in got.items()}
        row = [f"{n:,} deltas, µs each", cell["floor"], cell["ours"], f"{got['ours'] / got['floor']:.2f}"]
        row += [cell["parse"], cell["ours_async"], cell["floor_async"]]
        row += [cell.get(name, "–") for name in ("sdk", "chatlas", "claudette")]
        lines.append(f"| {' | '.join(row)} |")
    for size in (1_000_000, 8_000_000):
        got = rounds(["floor", "ours", "parse", *sdk], f"{base}/big={size}", runs)
        cell = {name: f"{seconds * 1e3:.1f}" for name, seconds in got.items()}
        row = [f"one event of {size // 1_000_000} MB, ms", cell["floor"], cell["ours"]]
        row += [f"{got['ours'] / got['floor']:.2f}", cell["parse"], "–", "–", cell.get("sdk", "–"), "–", "–"]
        lines.append(f"| {' | '.join(row)} |")
    return [*lines, "", *sending(base, runs, [f"send_{s}" for s in sdk])]


def sending(base: str, runs: int, sdk: list[str]) -> list[str]:
    """A history of 4 MB beside one message: the difference is what the history costs."""
    names = ["send_ready", "send_ours", "send_json", *sdk]
    got = rounds([name + short for name in names for short in ("", "_short")], f"{base}/n=1", runs)
    added = {name: got[name] - got[f"{name}_short"] for name in names}

    def row(title: str, cost: dict[str, float]) -> str:
        cells = [f"{cost[name] * 1e3:.2f}" if name in cost else "–" for name in (*names[:3], "send_sdk")]
        cells.insert(2, f"{cost['send_ours'] / cost['send_ready']:.2f}")
        return f"| {' | '.join([title, *cells])} |"

    return [
        "| ms | httpx, ready bytes | `Client` | × ready | httpx `json=` | SDK |",
        "| --- | --- | --- | --- | --- | --- |",
        row("a request with 4 MB of history, and its reply", got),
        row("of it the history", added),
    ]


def about() -> str:
    cpus = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    cpu = f"{cpus[0].partition(': ')[2].strip()} × {len(cpus)}" if cpus else platform.processor()
    names = ", ".join(f"{name} {version(name)}" for name in ("httpx", "httpcore", "h11", "msgspec"))
    sdk = ""
    if SDK.exists():
        code = "import anthropic; print(f', anthropic {anthropic.__version__}')"
        sdk = subprocess.run(
            [str(SDK), "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
    return f"{datetime.date.today()}, {cpu}, Python {platform.python_version()}, {names}{sdk}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="10,000 deltas only, 3 runs")
    options = parser.parse_args()
    server = subprocess.Popen([sys.executable, str(HERE / "server.py")], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        base = f"http://127.0.0.1:{int(server.stdout.readline())}"
        counts = [10_000] if options.quick else [10_000, 100_000]
        print("\n".join(table(base, 3 if options.quick else options.runs, counts)))
        print(f"\n{about()}")
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
