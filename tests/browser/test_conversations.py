"""Conversations over restarts, re-runs and copies of a notebook, in a real browser."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest
from front_end import FrontEnd
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

LOAD = "%load_ext kimi_magic\nfrom kimi_magic import kimi"
CELLS = [
    LOAD,
    "%%kimi\nOne is red.",
    "%%kimi\nTwo is blue.",
    "%%kimi\nThree is green.",
    "import json; print(json.dumps([t.prompt for t in kimi.conversation.path()]))",
]
PROMPTS = ["One is red.", "Two is blue.", "Three is green."]
ASK = 4


def run(front: FrontEnd, *cells: int) -> None:
    """Run cells that may have run before."""
    for cell in cells:
        front.page.evaluate("i => front().select(i)", cell)
        front.command("notebook:run-cell")


def run_all(front: FrontEnd) -> None:
    front.command("notebook:run-all-cells")


def restart(front: FrontEnd) -> None:
    kernel = front.page.evaluate("() => front().kernel()")
    front.server.request("POST", f"/api/kernels/{kernel}/restart")
    front.page.wait_for_function("() => front().status() === 'idle'", timeout=60_000)


def prompts(front: FrontEnd) -> Any:
    run(front, ASK)
    printed = [
        o["text"] for o in front.outputs(ASK) if o.get("name") == "stdout"
    ]  # a kernel may log beside it
    return json.loads(printed[-1])


def test_any_cell_goes_on_after_a_restart_and_running_all_doubles_nothing(front: FrontEnd) -> None:
    front.open(CELLS)
    run_all(front)
    assert prompts(front) == PROMPTS
    restart(front)
    run(front, 0)
    assert prompts(front) == PROMPTS
    run(front, 2)
    assert prompts(front) == PROMPTS[:2]
    run(front, 3)
    assert prompts(front) == PROMPTS
    restart(front)
    run_all(front)
    assert prompts(front) == PROMPTS


def test_a_cell_that_runs_again_in_the_middle_marks_the_ones_below(front: FrontEnd) -> None:
    front.open(CELLS)
    run_all(front)
    front.set_source(2, "%%kimi\nTwo is yellow.")
    run(front, 2)
    expect(front.output(2).get_by_text("The earlier turn of this cell was replaced")).to_be_visible()
    stale = front.output(3).get_by_text("Stale: a turn before this one was asked again")
    expect(stale).to_be_visible()
    assert len(front.outputs(3)) == 1
    run(front, 3)
    expect(stale).to_have_count(0)
    assert prompts(front) == ["One is red.", "Two is yellow.", "Three is green."]


def test_a_copy_of_a_notebook_goes_on_from_its_own_outputs(front: FrontEnd) -> None:
    name = front.open([*CELLS, "%kimi restore"])
    run(front, 0, 1, 2, 3)
    front.command("docmanager:save")
    copy = f"copy of {name}"
    shutil.copy(front.server.notebooks / name, front.server.notebooks / copy)
    front.reopen(copy)
    front.page.wait_for_function("() => front().status() === 'idle'", timeout=60_000)
    run(front, 0)
    assert prompts(front) == PROMPTS
    run(front, 5)
    expect(front.output(5).get_by_text(f"restored from {copy}: 3 turns")).to_be_visible()
    assert prompts(front) == PROMPTS
    run(front, 2)
    assert prompts(front) == PROMPTS[:2]


def test_a_new_notebook_under_the_name_of_a_renamed_one_begins_afresh(front: FrontEnd) -> None:
    name = front.open(CELLS)
    run(front, 0, 1, 2, 3)
    front.command("docmanager:save")
    renamed = f"renamed {name}"
    (front.server.notebooks / name).rename(front.server.notebooks / renamed)
    front.open(CELLS, name)
    run(front, 0)
    assert prompts(front) == []
    front.reopen(renamed)
    front.page.wait_for_function("() => front().status() === 'idle'", timeout=60_000)
    run(front, 0)
    assert prompts(front) == PROMPTS
