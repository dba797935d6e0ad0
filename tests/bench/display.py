"""What showing a reply costs in the kernel, and what a Jupyter server lets through. See README.md here."""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jupyter_client.session import Session
from long_reply import DELTAS, deltas, serve, text, thought

from kimi_magic.api import Kimi, view_of
from kimi_magic.client import AsyncClient
from kimi_magic.config import KimiMagic
from kimi_magic.display import Ending, LiveFrontEnd, LiveView, Progress, StaticView
from kimi_magic.render import ReplyView, bundle
from kimi_magic.wire import Block, TextBlock, ThinkingBlock

HERE = Path(__file__).parent
CHATLAS = HERE.parent.parent / ".artifacts/venvs/chatlas/bin/python"
SECONDS = 24.0


class Wire:
    """Counts what would go out on iopub, each message packed and signed as ipykernel does it."""

    def __init__(self) -> None:
        self._session = Session(key=b"key")
        self.messages = self.bytes = 0
        self.seconds = 0.0
        """CPU time that went into the counting itself."""

    def count(self, kind: str, content: Mapping[str, Any]) -> None:
        began = time.process_time()
        message = self._session.msg(kind, dict(content), parent=self._session.msg("execute_request"))
        self.messages += 1
        self.bytes += sum(map(len, self._session.serialize(message)))
        self.seconds += time.process_time() - began

    # the outputs of a view

    def publish(self, data: Mapping[str, Any], display_id: str) -> None:
        self.count("display_data", _content(data, display_id))

    def update(self, data: Mapping[str, Any], display_id: str) -> None:
        self.count("update_display_data", _content(data, display_id))

    def clear(self) -> None:
        self.count("clear_output", {"wait": True})

    def cleared(self) -> bool:
        return False

    # the widget of a live view

    model_id = uuid.uuid4().hex

    def widget(self, **state: Any) -> Wire:
        self.count("comm_open", {"comm_id": self.model_id, "data": {"state": state}})
        return self

    def on_msg(self, callback: object) -> None: ...

    def send(self, message: Any) -> None:
        data = {"method": "custom", "content": message}
        self.count("comm_msg", {"comm_id": self.model_id, "data": data})

    def close(self) -> None:
        self.count("comm_close", {"comm_id": self.model_id, "data": {}})


def _content(data: Mapping[str, Any], display_id: str) -> dict[str, Any]:
    return {"data": dict(data), "metadata": {}, "transient": {"display_id": display_id}}


class Clock:
    """Seconds that pass with the deltas, and with the CPU time that showing them takes."""

    def __init__(self) -> None:
        self.now = 0.0
        self._began = time.process_time()

    def __call__(self) -> float:
        return self.now + time.process_time() - self._began


def run(kind: str, seconds: float, thinking: int, size: int, count: int) -> dict[str, float]:
    """One reply in a view of that kind, its deltas spread over so many seconds."""
    wire, clock = Wire(), Clock()
    final = bundle(ReplyView((_thinking(thought(thinking)), _text(text(size)))))
    view: StaticView | LiveView
    if kind == "static":
        view = StaticView(wire, lambda ending: final, clock=clock)
    else:
        view = LiveView(wire, LiveFrontEnd(clock), lambda ending: final, clock=clock, make=wire.widget)
    thoughts, texts = deltas(thinking, size, count)
    due, said, began, longest = 0.0, ["", ""], time.process_time(), 0.0
    for place, pieces in enumerate((thoughts, texts)):
        for piece in pieces:
            clock.now += seconds / count
            said[place] += piece
            if clock() >= due:
                content = (_thinking(said[0]), *([_text(said[1])] if place else []))
                at = time.process_time()
                due = clock() + view.update(Progress(content, clock(), "kimi-k3.1-pro"))
                longest = max(longest, time.process_time() - at)
    shown = time.process_time() - began - wire.seconds
    messages = wire.messages
    view.finish(None)  # type: ignore[arg-type]  # the final bundle is made already
    whole = Wire()
    whole.publish(final, "")
    return {
        "messages": messages,
        "beyond": wire.bytes - whole.bytes,
        "final": whole.bytes,
        "per_delta": shown / count,
        "longest": longest,
    }


def _thinking(said: str) -> Block:
    return ThinkingBlock({"type": "thinking", "thinking": said})


def _text(said: str) -> Block:
    return TextBlock({"type": "text", "text": said})


def views() -> list[str]:
    lines = [
        "| a reply of 200 KB, 8,000 deltas | messages | MB beyond the final output | × final"
        " | CPU per delta, ms | longest update, ms |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for kind in ("static", "live"):
        got = run(kind, SECONDS, 20_000, 200_000, DELTAS)
        lines.append(f"| {kind}, over {SECONDS:.0f} s{_costs(got)} | {got['longest'] * 1e3:.0f} |")
    url = serve()
    for kind in ("static", "live"):
        command = [sys.executable, __file__, "--ask", kind, url]
        got = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        lines.append(f"| {kind}, at full speed from the socket to the end{_costs(got)} | |")
    return lines + chatlas()


def _costs(got: Mapping[str, float]) -> str:
    return (
        f" | {got['messages']:.0f} | {got['beyond'] / 1e6:.2f} | {got['beyond'] / got['final']:.2f}"
        f" | {got['per_delta'] * 1e3:.3f}"
    )


def ask(kind: str, url: str) -> dict[str, float]:
    """The same reply from a server, asked and shown as a cell does it, its final output made as well. The
    second of two: the first one imports."""
    kimi = Kimi(KimiMagic(store="off"), AsyncClient("sk-bench", url))
    for _ in range(2):
        wire, final = Wire(), Wire()

        def end(ending: Ending, final: Wire = final) -> dict[str, Any]:
            data = bundle(view_of(ending))
            final.publish(data, "")
            return data

        view: StaticView | LiveView = StaticView(wire, end)
        if kind == "live":
            view = LiveView(wire, LiveFrontEnd(), end, make=wire.widget)
        began = time.process_time()
        kimi.ask("Write it.", view=view, once=True)
        taken = time.process_time() - began - wire.seconds - final.seconds
    kimi.close()
    return {
        "messages": wire.messages - 1,
        "beyond": wire.bytes - final.bytes,
        "final": final.bytes,
        "per_delta": taken / DELTAS,
    }


_PEER = """
import sys, time
sys.path.insert(0, sys.argv[1])
import chatlas._display as display
from chatlas._content import ContentThinkingDelta
from long_reply import deltas
class Counted(display.IPyMarkdownDisplay):
    sent = messages = 0
    def __init__(self):
        display.MarkdownDisplay.__init__(self, {"image_max_lines": 20, "tool_result_max_height": None})
    def _render(self):
        self.messages += 1
        self.sent += len(self._markdown().encode())
shown, (thoughts, texts), began = Counted(), deltas(), time.process_time()
for piece in thoughts: shown.echo(ContentThinkingDelta(thinking=piece))
for piece in texts: shown.echo(piece)
print(shown.messages, shown.sent, time.process_time() - began)
"""


def chatlas() -> list[str]:
    """What chatlas hands to `update_display` for the same deltas, without packing and signing it."""
    if not CHATLAS.exists():
        return []
    done = subprocess.run(
        [CHATLAS, "-c", _PEER, HERE], capture_output=True, text=True, check=False, env={"PATH": "/usr/bin"}
    )
    if done.returncode:
        return [f"| chatlas: {done.stderr.strip().splitlines()[-1]} | | | | | |"]
    messages, sent, seconds = map(float, done.stdout.split())
    final = len(text()) + len(thought())
    return [
        f"| chatlas, whatever the pace | {messages:.0f} | {sent / 1e6:.0f} | {sent / final:.0f}"
        f" | {seconds / DELTAS * 1e3:.3f} (unsent) | |"
    ]


def sizes() -> list[str]:
    lines = [
        "| CPU per delta of 25 characters, 333 a second, ms | 10 KB | 100 KB | 200 KB | 1 MB |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for kind in ("static", "live"):
        cells = []
        for size in (10_000, 100_000, 200_000, 1_000_000):
            count = size // 25
            got = run(kind, count * 0.003, min(20_000, size // 10), size, count)
            cells.append(f"{got['per_delta'] * 1e3:.3f}")
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return lines


# --- through a server ---------------------------------------------------------------------------


def through_a_server() -> list[str]:
    """At full speed through a default Jupyter server: what arrives at a client of its websocket."""
    sys.path.insert(0, str(HERE.parent / "browser"))
    from front_end import Server

    lines = [
        "| through a Jupyter server at full speed | messages | MB | whole final output | idle after it, s"
        " | seconds |",
        "| --- | ---: | ---: | --- | ---: | ---: |",
    ]
    url = serve()
    with tempfile.TemporaryDirectory() as folder, Server(Path(folder), "lab") as server:
        for display in ("static", "live"):
            got = _ask(server, url, display)
            lines.append(
                f"| {display} | {got['messages']} | {got['bytes'] / 1e6:.2f} | {got['whole']}"
                f" | {got['idle']:.2f} | {got['seconds']:.1f} |"
            )
        log = (Path(folder) / "server.log").read_text()
        lines.append(f"\nRate limit reached: {'rate exceeded' in log}")
    return lines


def _ask(server: Any, url: str, display: str) -> dict[str, Any]:
    import websocket  # websocket-client comes with jupyter-server

    kernel = json.loads(server.request("POST", "/api/kernels"))["id"]
    ws = websocket.create_connection(f"{server.url.replace('http', 'ws')}/api/kernels/{kernel}/channels")
    setup = (
        f"import os\nos.environ['KIMI_BASE_URL'] = {url!r}\nos.environ['KIMI_API_KEY'] = 'sk-bench'\n"
        "os.environ['KIMI_MAGIC_STORE'] = 'off'\n%load_ext kimi_magic\n"
        f"%config KimiMagic.display = {display!r}"
    )
    try:
        _execute(ws, setup, lambda kind, content: None)
        return _shown(ws)
    finally:
        ws.close()
        server.request("DELETE", f"/api/kernels/{kernel}")


def _shown(ws: Any) -> dict[str, Any]:
    last: dict[str, Any] = {}
    ended = [0.0]

    def take(kind: str, content: Mapping[str, Any]) -> None:
        if kind in ("display_data", "update_display_data") and "text/markdown" in content["data"]:
            last.update(content["data"])
            ended[0] = time.monotonic()

    began = time.monotonic()
    messages, size = _execute(ws, "%%kimi\nWrite it.", take)
    now = time.monotonic()
    whole = last.get("text/plain", "").strip() == text().strip()
    return {
        "messages": messages,
        "bytes": size,
        "whole": "yes" if whole else "NO",
        "idle": now - ended[0],
        "seconds": now - began,
    }


def _execute(ws: Any, code: str, take: Callable[[str, Mapping[str, Any]], object]) -> tuple[int, int]:
    """Run a cell to its idle status; messages and bytes that came meanwhile."""
    key = uuid.uuid4().hex
    header = {
        "msg_id": key,
        "msg_type": "execute_request",
        "username": "",
        "session": "bench",
        "version": "5.4",
    }
    content = {
        "code": code,
        "silent": False,
        "store_history": True,
        "allow_stdin": False,
        "user_expressions": {},
    }
    ws.send(
        json.dumps(
            {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
        )
    )
    messages = size = 0
    ws.settimeout(60)
    while True:
        raw = ws.recv()
        got = json.loads(raw)
        if got["parent_header"].get("msg_id") != key:
            continue
        messages, size = messages + 1, size + len(raw)
        kind = got["header"]["msg_type"]
        if kind == "error":
            raise RuntimeError(str(got["content"])[:2000])
        if kind == "status" and got["content"]["execution_state"] == "idle":
            return messages, size
        take(kind, got["content"])


def about() -> str:
    cpus = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    cpu = f"{cpus[0].partition(': ')[2].strip()} × {len(cpus)}" if cpus else platform.processor()
    packages = ("ipykernel", "jupyter-server", "markdown-it-py", "nh3", "anywidget")
    names = ", ".join(f"{name} {version(name)}" for name in packages)
    return f"{datetime.date.today()}, {cpu}, Python {platform.python_version()}, {names}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-server", action="store_true", help="leave the Jupyter server out")
    parser.add_argument("--ask", nargs=2, metavar=("VIEW", "URL"), help="only measure this, for the table")
    options = parser.parse_args()
    if options.ask:
        print(json.dumps(ask(*options.ask)))
        return
    parts = [views(), sizes()] + ([] if options.no_server else [through_a_server()])
    print("\n\n".join("\n".join(lines) for lines in parts))
    print(f"\n{about()}")


if __name__ == "__main__":
    main()
