"""A new kernel on the same notebook goes on where the old one was, in real kernels."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from kernels import Kernel
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from kimi_magic.simulator import Simulator
from kimi_magic.transports import Server, serve

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # jupyter_client's own

LOAD = "%load_ext kimi_magic\nfrom kimi_magic import kimi"
CELLS = {
    "load": LOAD,
    "1": "%%kimi\nOne is red.",
    "2": "%%kimi\nTwo is blue.",
    "3": "%%kimi\nThree is green.",
}
PROMPTS = ["One is red.", "Two is blue.", "Three is green."]


@pytest.fixture
def server() -> Iterator[Server]:
    with serve(Simulator(speed=0)) as running:
        yield running


@pytest.fixture
def start(tmp_path: Path, server: Server) -> Callable[..., Kernel]:
    """Makes kernels of one notebook, each with the home that is there."""

    def make(notebook: str = "a.ipynb") -> Kernel:
        return Kernel(
            KIMI_MAGIC_STORE="on",
            KIMI_MAGIC_HOME=str(tmp_path / "home"),
            KIMI_MAGIC_NOTEBOOK=str(tmp_path / notebook),
            KIMI_BASE_URL=server.url,
            KIMI_API_KEY="sk-test-QWERTY7788ASDF",
        )

    return make


def run(kernel: Kernel, *cells: str) -> list[dict[str, Any]]:
    """Run cells by their ids."""
    ran = [kernel.run(CELLS[cell], cell) for cell in cells]
    assert [cell.error for cell in ran] == [""] * len(cells)
    return [dict(bundle) for cell in ran for bundle in cell.bundles()]


def prompts(kernel: Kernel) -> Any:
    return kernel.value("[t.prompt for t in kimi.conversation.path()]")


def turns(kernel: Kernel) -> Any:
    return kernel.value("[(t.prompt, kimi.conversation.state(t)) for t in kimi.conversation.turns.values()]")


def test_any_single_cell_goes_on_after_a_restart(start: Callable[..., Kernel]) -> None:
    with start() as kernel:
        run(kernel, *CELLS)
        sent = kernel.value("kimi.messages")
    with start() as kernel:
        run(kernel, "load")
        assert kernel.value("kimi.messages") == sent
        assert prompts(kernel) == PROMPTS
        run(kernel, "2")
        assert prompts(kernel) == PROMPTS[:2]
        assert turns(kernel)[1:] == [(PROMPTS[1], "replaced"), (PROMPTS[2], "stale"), (PROMPTS[1], "active")]
        assert kernel.value("len(kimi.usage)") == 4
    with start() as kernel:
        run(kernel, "load", "3")
        assert prompts(kernel) == PROMPTS
        kernel.run("%%kimi\nA new one.", "4")
        assert prompts(kernel) == [*PROMPTS, "A new one."]


def test_run_all_after_a_restart_does_not_double_a_turn(start: Callable[..., Kernel]) -> None:
    with start() as kernel:
        run(kernel, *CELLS)
        sent = kernel.value("kimi.messages")
    with start() as kernel:
        run(kernel, *CELLS)
        assert prompts(kernel) == PROMPTS
        assert [state for _, state in turns(kernel)] == ["replaced"] * 3 + ["active"] * 3
        assert kernel.value("kimi.messages") == sent  # the simulator answers the same to the same


def test_a_kernel_that_was_killed_has_lost_nothing(start: Callable[..., Kernel]) -> None:
    with start() as kernel:
        run(kernel, "load", "1", "2")
        kernel.run("import os, threading")
        kernel.client.execute(
            "threading.Timer(0.5, lambda: os.kill(os.getpid(), 9)).start()\n"
            "kimi.ask('This never ends. [[simulate: silence 600]]')"
        )
        while kernel.manager.is_alive():
            threading.Event().wait(0.05)
    with start() as kernel:
        run(kernel, "load")
        assert prompts(kernel) == PROMPTS[:2]
        run(kernel, "3")
        assert prompts(kernel) == PROMPTS


def test_what_the_user_changed_is_still_so(start: Callable[..., Kernel]) -> None:
    with start() as kernel:
        run(kernel, *CELLS)
        for line in (
            "%kimi undo",
            "%kimi system Be brief.",
            "%%kimi -c 'beside it'\nElsewhere.",
            "%kimi use main",
        ):
            assert kernel.run(line, "x").error == ""
    with start() as kernel:
        run(kernel, "load")
        assert prompts(kernel) == PROMPTS[:2]
        assert kernel.value("kimi.conversation.system") == "Be brief."
        assert turns(kernel)[-1] == (PROMPTS[2], "left")
        assert kernel.value("[t.prompt for t in kimi.session.conversation('beside it').path()]") == [
            "Elsewhere."
        ]


def test_two_notebooks_never_share(start: Callable[..., Kernel]) -> None:
    with start() as kernel:
        run(kernel, "load", "1")
    with start("b.ipynb") as kernel:
        run(kernel, "load")
        assert prompts(kernel) == []


def test_a_front_end_that_sends_no_cell_ids_appends(start: Callable[..., Kernel]) -> None:
    with start() as kernel:
        run(kernel, "load")
        for _ in range(2):
            assert kernel.run(CELLS["1"]).error == ""
    with start() as kernel:
        run(kernel, "load")
        kernel.run(CELLS["2"])
        assert prompts(kernel) == ["One is red.", "One is red.", "Two is blue."]


# --- headless -----------------------------------------------------------------------------------


def headless(folder: Path, *sources: str, **environ: str) -> list[str]:
    """Run a notebook with nbclient; the user's prompts that its conversation ends with."""
    show = "import json; print(json.dumps([t.prompt for t in kimi.conversation.path()]))"
    notebook = new_notebook(cells=[new_code_cell(source) for source in (*sources, show)])
    client = NotebookClient(
        notebook, timeout=60, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.execute(
        env={
            **os.environ,
            "KIMI_MAGIC_HOME": str(folder / "家"),
            "KIMI_MAGIC_SIMULATOR_SPEED": "0",
            **environ,
        }
    )
    found: list[str] = json.loads(notebook.cells[-1].outputs[-1].text)
    return found


def test_headless_runs_of_a_named_notebook_do_not_double_a_turn(tmp_path: Path) -> None:
    named = {"KIMI_MAGIC_NOTEBOOK": str(tmp_path / "文件夹" / "a.ipynb")}
    for _ in range(2):
        assert headless(tmp_path, *CELLS.values(), **named) == PROMPTS
    edited = [LOAD, "%%kimi\nFirst of all.", CELLS["2"], CELLS["3"]]
    assert headless(tmp_path, *edited, **named) == ["First of all.", *PROMPTS[1:]]


def test_f03_headless_runs_without_a_name_are_each_alone(tmp_path: Path) -> None:
    for _ in range(2):
        assert headless(tmp_path, *CELLS.values()) == PROMPTS
    assert (tmp_path / "家" / "kimi_magic.db").exists()


def test_loops_and_two_questions_in_a_cell_have_a_turn_each(tmp_path: Path) -> None:
    loop = "for n in range(2):\n    get_ipython().run_cell_magic('kimi', '', f'Number {n}.')\n"
    loop += "kimi.ask('And this.');"
    named = {"KIMI_MAGIC_NOTEBOOK": str(tmp_path / "a.ipynb")}
    for _ in range(2):
        assert headless(tmp_path, LOAD, loop, **named) == ["Number 0.", "Number 1.", "And this."]


# --- a notebook that is sent to a stranger ------------------------------------------------------


def save(path: Path, outputs: list[dict[str, Any]]) -> None:
    cells = [new_code_cell(CELLS[cell], id=f"cell-{cell}") for cell in CELLS]
    for cell, bundle in zip(cells[1:], outputs, strict=True):
        cell.outputs = [nbformat.v4.new_output("display_data", bundle)]
    nbformat.write(new_notebook(cells=cells), path)


def test_a_stranger_restores_a_notebook_and_goes_on_with_the_same_messages(
    start: Callable[..., Kernel], tmp_path: Path
) -> None:
    with start() as kernel:
        outputs = run(kernel, *CELLS)
        sent = kernel.value("kimi.messages")
        spent = kernel.value("[r['output'] for r in kimi.usage]")
    path = tmp_path / "mailed 邮件.ipynb"
    save(path, outputs)
    stranger = {"KIMI_MAGIC_STORE": "on", "KIMI_MAGIC_HOME": str(tmp_path / "elsewhere")}
    with Kernel(**stranger, KIMI_MAGIC_NOTEBOOK=str(path)) as kernel:
        run(kernel, "load")
        assert prompts(kernel) == []
        said = kernel.run("%kimi restore")
        assert said.printed == "Conversation 'main' is restored from mailed 邮件.ipynb: 3 turns.\n"
        assert kernel.value("kimi.messages") == sent
        assert kernel.value("[r['output'] for r in kimi.usage]") == spent
        assert kernel.run("%%kimi\nGo on.", "new").error == ""
        assert prompts(kernel) == [*PROMPTS, "Go on."]
    with Kernel(**stranger, KIMI_MAGIC_NOTEBOOK=str(path)) as kernel:
        run(kernel, "load")
        assert prompts(kernel) == [*PROMPTS, "Go on."]
        run(kernel, "2")  # the cell that the stranger sees is the one that the turn belongs to
        assert prompts(kernel) == PROMPTS[:2]
