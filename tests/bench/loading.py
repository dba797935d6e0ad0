"""What loading and the first cells cost, side by side. See README.md here.

Each figure comes from kernels of its own: CPU time of the kernel process for a line, and the time between
the start of a cell (its busy status) and its first output that says anything of the reply: on the wall, and
of the kernel's CPU, which is what the wall shows where nothing else runs. Modules come from their bytecode,
as they do everywhere but in the very first process after an installation: a run of each kernel that does
not count writes it, whatever the environment says.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import statistics
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

HERE = Path(__file__).parent
BYTECODE = HERE.parent.parent / ".artifacts/bytecode"
PEER = HERE.parent.parent / ".artifacts/venvs/jupyter-ai-magics/bin/python"
CPU = (
    "import time as _t, sys as _s; _c = _t.process_time()\n{}\nprint('CPU', (_t.process_time() - _c) * 1000)"
)


class Kernel:
    """A kernel of that Python. Without a key; the simulator does not wait."""

    def __init__(self, python: str) -> None:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("KIMI", "JPY", "EVOLINK"))}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        env |= {"PYTHONPYCACHEPREFIX": str(BYTECODE)}
        env |= {"KIMI_MAGIC_SIMULATOR_SPEED": "0", "KIMI_MAGIC_STORE": "off", "LANGSMITH_TRACING": "false"}
        self._manager = KernelManager()
        self._manager._kernel_spec = KernelSpec(  # the one way to start a Python of one's choice
            argv=[python, "-m", "ipykernel_launcher", "-f", "{connection_file}"], language="python"
        )
        self._manager.start_kernel(env=env, stderr=subprocess.DEVNULL)
        self._client = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=60)

    def __enter__(self) -> Kernel:
        return self

    def __exit__(self, *exc: object) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)

    def _now(self) -> tuple[float, float]:
        """ms on the wall, and of the kernel's CPU (in steps of 10 ms)."""
        pid = self._manager.provisioner.process.pid  # type: ignore[union-attr]  # that of a local kernel
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return time.perf_counter() * 1e3, (int(words[11]) + int(words[12])) * 1e3 / os.sysconf("SC_CLK_TCK")

    def run(self, code: str) -> tuple[str, tuple[float, float] | None]:
        """What a cell printed, and ms of wall and of CPU to its first rich output (None without one)."""
        began = self._now()
        key = self._client.execute(code)
        printed, first = "", None
        while True:
            got = self._client.get_iopub_msg(timeout=60)
            if got["parent_header"].get("msg_id") != key:
                continue
            kind, content = got["msg_type"], got["content"]
            if kind == "error":
                raise RuntimeError("\n".join(content["traceback"]))
            if kind == "stream":
                printed += content["text"]
            elif kind in ("display_data", "update_display_data") and _says_something(content):
                now = self._now()
                first = first or (now[0] - began[0], now[1] - began[1])
            elif kind == "status" and content["execution_state"] == "busy":
                began = self._now()
            elif kind == "status":
                return printed, first

    def cpu(self, code: str) -> float:
        """CPU ms of a line."""
        printed, _ = self.run(CPU.format(code))
        return float(printed.rpartition("CPU ")[2])


def _says_something(content: dict[str, Any]) -> bool:
    data = str(content["data"].get("text/html", "")) + str(content["data"].get("text/plain", ""))
    return "Waiting for" not in data


WRITING = 1.0
"""Seconds: few people write a prompt in less."""


def _median(values: list[float]) -> str:
    return f"{statistics.median(values):.0f} ({min(values):.0f} to {max(values):.0f})"


def loading(runs: int) -> list[str]:
    contenders = {"kimi_magic": (sys.executable, "%load_ext kimi_magic")}
    if PEER.exists():
        contenders["jupyter_ai_magics"] = (str(PEER), "%load_ext jupyter_ai_magics")
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for run in range(runs + 1):
        for name, (python, line) in contenders.items():
            with Kernel(python) as kernel:
                cpu = kernel.cpu(line)
            if run:
                taken[name].append(cpu)
    lines = ["| `%load_ext` in a fresh kernel | CPU, ms |", "| --- | ---: |"]
    return lines + [f"| {name} | {_median(values)} |" for name, values in taken.items()]


def first_output(runs: int) -> list[str]:
    """Of a cell that comes with the one that loads, as in Run All; of one that somebody writes first; and of
    one after it."""
    lines = [
        "| the first `%%kimi` output, ms after the cell starts | first cell, at once after loading"
        f" | of it CPU | first cell, {WRITING:.0f} s after loading | of it CPU | second cell | of it CPU |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for display in ("static", "live"):
        taken: list[tuple[tuple[float, float], ...]] = []
        for _ in range(runs + 1):
            at_once, _ = _cells(display, 0.0)
            taken.append((at_once, *_cells(display, WRITING)))
        columns = [
            _median(list(ms)) for column in zip(*taken[1:], strict=True) for ms in zip(*column, strict=True)
        ]
        lines.append(f"| {display} | {' | '.join(columns)} |")
    return lines


def _cells(display: str, wait: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """ms of wall and of CPU of the first two cells of a kernel. wait: seconds between loading and them."""
    with Kernel(sys.executable) as kernel:
        kernel.run(f"%load_ext kimi_magic\n%config KimiMagic.display = {display!r}")
        time.sleep(wait)
        _, first = kernel.run("%%kimi\nSay hello.")
        _, second = kernel.run("%%kimi\nSay hello.")
    assert first is not None
    assert second is not None
    return first, second


def about() -> str:
    cpus = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    cpu = f"{cpus[0].partition(': ')[2].strip()} × {len(cpus)}" if cpus else platform.processor()
    names = ", ".join(f"{name} {version(name)}" for name in ("ipython", "ipykernel", "httpx", "anywidget"))
    peer = ", jupyter_ai_magics 2.31.7" if PEER.exists() else ""
    return f"{datetime.date.today()}, {cpu}, Python {platform.python_version()}, {names}{peer}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    print("\n\n".join("\n".join(lines) for lines in (loading(runs), first_output(runs))))
    print(f"\nMedian of {runs} (least to most). {about()}")


if __name__ == "__main__":
    main()
