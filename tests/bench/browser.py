"""What streaming a long reply costs the browser: how busy its main thread is, and how late the end is.

JupyterLab in Chromium, a real kernel, and a server that sends 200 KB and 20 KB of thinking in 8,000 deltas
over 24 seconds. Busy is the `TaskDuration` of the DevTools protocol's `Performance.getMetrics`, in CPU time
of the main thread, so that what else runs on the machine does not count. See README.md here.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "browser"), str(HERE.parent)]

from conftest import ARGUMENTS, CHROMIUM, SIZE  # noqa: E402  # they are beside it only now
from front_end import FrontEnd, Server  # noqa: E402
from long_reply import serve  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402

SETUP = """import os
os.environ |= {{'KIMI_BASE_URL': {url!r}, 'KIMI_API_KEY': 'sk-bench', 'KIMI_MAGIC_STORE': 'off'}}
%load_ext kimi_magic
%config KimiMagic.display = {display!r}"""
SENT = """() => { window.got = 0; window.idle = 0; window.ended = 0;
  const kernel = [...window.jupyterapp.shell.widgets('main')].find(w => w.content?.widgets)
    .sessionContext.session.kernel;
  kernel.iopubMessage.connect((_, m) => { window.got += JSON.stringify(m).length;
    if (m.header.msg_type === 'status' && m.content.execution_state === 'idle'
        && m.parent_header.msg_type === 'execute_request') window.idle = performance.now(); });
  const footers = document.getElementsByClassName('kimi-footer');
  const look = () => { if (footers.length) window.ended = performance.now(); else setTimeout(look, 100); };
  look(); }"""


def measure(front: FrontEnd, url: str, display: str, seconds: float) -> dict[str, float]:
    front.open([SETUP.format(url=url, display=display), "%%kimi\nWrite it."])
    front.run(0)
    devtools = front.page.context.new_cdp_session(front.page)
    devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
    front.page.evaluate(SENT)
    before, began = _busy(devtools), time.monotonic()
    front.start(1)
    front.page.wait_for_timeout(seconds * 1000)  # waiting otherwise would keep the page busy
    front.page.wait_for_function("() => window.idle && window.ended", timeout=120_000, polling=200)
    after, ended = _busy(devtools), time.monotonic()
    late = front.page.evaluate("window.ended - window.idle") / 1e3
    outputs = front.outputs(1)
    assert len(outputs) == 1
    assert len(outputs[0]["data"]["text/plain"]) >= 200_000
    return {
        "busy": after - before,
        "seconds": ended - began,
        "late": max(0.0, late),
        "sent": front.page.evaluate("window.got") / 1e6,
    }


def _busy(devtools: Any) -> float:
    metrics = devtools.send("Performance.getMetrics")["metrics"]
    return float(next(m["value"] for m in metrics if m["name"] == "TaskDuration"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=24.0)
    parser.add_argument("--runs", type=int, default=1)
    options = parser.parse_args()
    url = serve(options.seconds)
    print(
        f"| 200 KB in 8,000 deltas over {options.seconds:.0f} s | main thread busy, s | received, MB", end=""
    )
    print(" | end shown after the kernel is idle, s | seconds in all |\n| --- | ---: | ---: | ---: | ---: |")
    with (
        tempfile.TemporaryDirectory() as folder,
        Server(Path(folder), "lab") as server,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page(viewport=SIZE)  # type: ignore[arg-type]  # a dict of the right keys
        page.set_default_timeout(120_000)
        front = FrontEnd(server, page)
        for _ in range(options.runs):
            for display in ("static", "live"):
                got = measure(front, url, display, options.seconds)
                cells = [f"{got[name]:.2f}" for name in ("busy", "sent", "late", "seconds")]
                print(f"| {display} | {' | '.join(cells)} |", flush=True)
        engine = browser.version
        browser.close()
    cpus = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    cpu = f"{cpus[0].partition(': ')[2].strip()} × {len(cpus)}" if cpus else platform.processor()
    names = ", ".join(f"{n} {version(n)}" for n in ("jupyterlab", "ipykernel", "anywidget"))
    print(f"\n{datetime.date.today()}, {cpu}, Python {platform.python_version()}, Chromium {engine}, {names}")


if __name__ == "__main__":
    main()
