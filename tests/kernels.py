"""A real kernel, driven as a notebook's front end drives it, and the outputs that a reader would see.

with Kernel() as kernel:
    cell = kernel.run("%%kimi\nHi", cell="cell-1")
    cell.outputs, cell.error
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from jupyter_client.manager import KernelManager

QUIET = ("KIMI_API_KEY", "EVOLINK_API_KEY", "KIMI_BASE_URL", "JPY_SESSION_NAME", "KIMI_MAGIC_NOTEBOOK")
PATIENCE = 30.0
"""Seconds to wait for a message: far more than any takes."""

OUTPUTS = ("display_data", "update_display_data", "stream", "execute_result", "error")


def environment(**more: str) -> dict[str, str]:
    """A kernel's: without a key, without a store, with a simulator that does not wait."""
    ours = {name: value for name, value in os.environ.items() if name not in QUIET}
    return {**ours, "KIMI_MAGIC_STORE": "off", "KIMI_MAGIC_SIMULATOR_SPEED": "0", **more}


@dataclass
class Cell:
    """One run of a cell: its outputs as they stand, as a front end keeps them."""

    outputs: list[dict[str, Any]] = field(default_factory=list)
    messages: int = 0
    """How many output messages came."""
    clearing: bool = False
    """The next output takes the place of all so far."""
    error: str = ""
    """As it is printed; empty for a cell that did well."""

    @property
    def printed(self) -> str:
        return "".join(o["text"] for o in self.outputs if o["output_type"] == "stream")

    def bundles(self) -> list[Mapping[str, Any]]:
        return [o["data"] for o in self.outputs if "data" in o]


class Kernel:
    """python: the interpreter of the kernel, where it is not this one."""

    def __init__(self, python: str = sys.executable, **environ: str) -> None:
        self._python = python
        self._environ = environment(**environ)
        self.seen: list[Any] = []
        """Every message that came, for those who look for something in all of them."""
        self.all: list[Any] = []
        """The same, with those that belong to no cell."""
        self.background = Cell()
        """What comes of messages that are no cells."""
        self.cells: dict[str, Cell] = {}
        """Every run, by the id of its request: a reply in the background goes on after its cell."""
        self._displays: dict[str, list[dict[str, Any]]] = {}  # by display id, in all cells

    def __enter__(self) -> Self:
        self.manager = KernelManager(kernel_name="python3")
        self.manager.kernel_spec.argv[0] = self._python
        self.manager.start_kernel(env=self._environ)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=PATIENCE)
        return self

    def __exit__(self, *exc: object) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    def run(
        self, code: str, cell: str | None = None, on_output: Callable[[Cell], object] = lambda cell: None
    ) -> Cell:
        """Run a cell to its end. cell: its id. on_output: called after each output message."""
        content = {"code": code, "silent": False, "store_history": True, "stop_on_error": True}
        message = self.client.session.msg(
            "execute_request", content, metadata={"cellId": cell} if cell else {}
        )
        self.client.shell_channel.send(message)
        ran = self.cells[message["header"]["msg_id"]] = Cell()
        while True:
            got, cell_of_it = self._next()
            if cell_of_it is not ran:
                continue
            kind, body = got["msg_type"], got["content"]
            if kind == "status" and body["execution_state"] == "idle":
                break
            if kind in OUTPUTS:
                on_output(ran)
        self.seen.append(self._reply_to(message["header"]["msg_id"]))
        return ran

    def _reply_to(self, request: str) -> dict[str, Any]:
        """The answer to a request; a kernel that starts slowly is asked twice whether it is there."""
        while True:
            reply: dict[str, Any] = self.client.get_shell_msg(timeout=PATIENCE)
            if reply["parent_header"].get("msg_id") == request:
                return reply

    def watch(self, until: Callable[[], bool]) -> None:
        """Take what comes while no cell runs, until something is true."""
        while not until():
            self._next()

    def _next(self) -> tuple[dict[str, Any], Cell | None]:
        """The next message, and the run that it belongs to."""
        got = self.client.get_iopub_msg(timeout=PATIENCE)
        self.all.append(got)
        ran = self.cells.get(got["parent_header"].get("msg_id"))
        if ran is not None:
            self.seen.append(got)
            kind, body = got["msg_type"], got["content"]
            if kind == "clear_output":
                ran.clearing = True
            elif kind in OUTPUTS:
                if ran.clearing and kind != "update_display_data":
                    ran.outputs, ran.clearing = [], False
                self._take(ran, kind, body)
        return got, ran

    def _take(self, ran: Cell, kind: str, body: dict[str, Any]) -> None:
        ran.messages += 1
        display_id = body.get("transient", {}).get("display_id")
        if kind == "update_display_data":
            for output in self._displays.get(display_id, []):
                output["data"] = body["data"]
            return
        if kind == "error":
            ran.error = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(body["traceback"]))
        output = {"output_type": kind, **body}
        ran.outputs.append(output)
        if display_id:
            self._displays.setdefault(display_id, []).append(output)

    def value(self, expression: str) -> Any:
        """The value of an expression of plain literals."""
        cell = self.run(f"print(repr({expression}))")
        assert [o["output_type"] for o in cell.outputs] == ["stream"] * len(cell.outputs), cell
        return ast.literal_eval(cell.printed)

    def complete(self, code: str) -> dict[str, Any]:
        reply = self._reply_to(self.client.complete(code, len(code)))
        self.client.get_iopub_msg(timeout=PATIENCE)
        return dict(reply["content"])
