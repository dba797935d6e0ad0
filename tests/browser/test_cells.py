"""`%%kimi` cells in JupyterLab and in Notebook, in a real browser."""

from __future__ import annotations

from typing import Any

import nbformat
import pytest
from front_end import FrontEnd
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

LOAD = "%load_ext kimi_magic"
SLOW = f"{LOAD}\n%config KimiMagic.simulator_speed = 120"
STATIC = f"{SLOW}\n%config KimiMagic.display = 'static'"
TURN = "application/vnd.kimi-magic.turn+json"
SAID = "no model has read this"  # how the text of each simulated reply begins


def only_output(front: FrontEnd, cell: int) -> dict[str, Any]:
    (output,) = front.outputs(cell)
    return output


def words(front: FrontEnd, cell: int) -> list[str]:
    """What can be read in an output, once all of its formulas are set."""
    formulas = front.output(cell).locator(".mathjax_process")
    formulas.first.wait_for()
    expect(formulas.locator("mjx-container")).to_have_count(formulas.count())
    return front.output(cell).inner_text().split()


def wait_for(front: FrontEnd, cell: int, text: str) -> None:
    front.output(cell).get_by_text(text).first.wait_for()


@pytest.mark.parametrize("setup", [SLOW, STATIC], ids=["auto", "static"])
def test_a_reply_is_seen_while_it_streams_and_stays_as_one_static_output(front: FrontEnd, setup: str) -> None:
    front.open([setup, "%%kimi\nExplain it. [[simulate: long 2 KB]]"])
    front.run(0)
    front.start(1)

    thinking = front.output(1).locator("details.kimi-thinking")
    thinking.get_by_text("I am a simulator").wait_for()
    assert front.is_running(1)

    wait_for(front, 1, SAID)
    assert thinking.get_by_text("I can write the reply now").is_visible()
    thinking.locator("summary").click()
    seen = len(front.output(1).inner_text())
    front.page.wait_for_function(
        "([i, seen]) => document.querySelectorAll('.jp-Notebook .jp-Cell')[i].innerText.length > seen + 300",
        arg=[1, seen],
    )
    assert front.is_running(1)
    assert not thinking.evaluate("e => e.open")

    front.wait(1)
    output = only_output(front, 1)
    assert output["output_type"] == "display_data"
    assert set(output["data"]) == {"text/html", "text/markdown", "text/plain", TURN}
    assert "<script" not in output["data"]["text/html"]
    assert not thinking.evaluate("e => e.open")
    thinking.locator("summary").click()
    assert thinking.get_by_text("I am a simulator").is_visible()


def test_a_saved_reply_is_complete_where_nothing_is_trusted_and_no_kernel_runs(front: FrontEnd) -> None:
    name = front.open(
        [LOAD, "%%kimi\nCompare these, with a formula and Python code.\n\n|a|b|\n|-|-|\n|1|2|\n|3|4|"]
    )
    front.run(0)
    front.run(1)
    shown = words(front, 1)
    front.command("docmanager:save")
    front.close()

    def sign(notebook: nbformat.NotebookNode) -> None:
        notebook.metadata["sent_by"] = "somebody else"  # so the signature of this user is void

    front.change_saved(name, sign)
    front.reopen(name)
    assert words(front, 1) == shown
    assert not front.trusts(1)
    assert front.output(1).locator("style").count() == 0
    assert front.output(1).get_by_text("Simulated reply: no model was asked.").is_visible()
    for section in ("thinking", "footer"):
        front.output(1).locator(f"details.kimi-{section} summary").click()
    assert front.output(1).get_by_text("I am a simulator").is_visible()
    assert front.output(1).get_by_text("req_simulated_000001").is_visible()


def test_an_interrupt_ends_a_reply_at_once_keeps_what_came_and_says_so(front: FrontEnd) -> None:
    front.open(
        [SLOW, "%%kimi -e low\nTell me. [[simulate: long 200 KB]]", "%%kimi --once -e low\nStill there?"]
    )
    front.run(0)
    front.start(1)
    wait_for(front, 1, SAID)
    front.interrupt()
    front.wait(1, seconds=3)

    reply, error = front.outputs(1)
    assert SAID in reply["data"]["text/plain"]
    assert "Interrupted: what had arrived is kept here" in reply["data"]["text/html"]
    assert error["output_type"] == "error"
    assert (error["ename"], len(error["traceback"])) == ("Interrupted", 1)
    assert front.output(1).get_by_text("Interrupted: what had arrived").is_visible()

    front.run(2)
    assert SAID in only_output(front, 2)["data"]["text/plain"]


BAD = {
    "an option that there is not": ("%%kimi --efort low\nHi", "OptionError"),
    "no prompt": ("%%kimi\n\n   ", "PromptError"),
    "a name that there is not": ("%%kimi\n{{ nothing_here }}", "PromptError"),
    "a key that is not right": ("%%kimi -e low\n[[simulate: unauthorized]]", "AuthenticationError"),
    "a reply that is cut": ("%%kimi -e low\n[[simulate: cut]]", "IncompleteStreamError"),
}


def test_an_error_is_one_line_and_stops_run_all(front: FrontEnd) -> None:
    cells = [source for source, _ in BAD.values()]
    load = f"{LOAD}\nimport time; time.sleep(1)"  # in Run All the rest is queued meanwhile
    front.open([load, *cells, "print('the run went on')", "%%kimi -e low\nAll well?"])
    front.run(0)
    for cell, (_, name) in enumerate(BAD.values(), 1):
        front.run(cell)
        error = front.outputs(cell)[-1]
        assert error["output_type"] == "error"
        assert error["ename"] == name
        assert len(error["traceback"]) == 1
        assert "\n" not in error["traceback"][0].strip()
        assert front.output(cell).get_by_text(f"{name}:").count() == 1
    front.run(len(BAD) + 2)
    assert SAID in only_output(front, len(BAD) + 2)["data"]["text/plain"]

    front.command("notebook:run-all-cells")
    front.wait(1)
    assert front.outputs(1)[-1]["ename"] == "OptionError"
    assert front.outputs(len(BAD) + 1) == []


def test_running_a_cell_again_marks_the_turns_after_it_until_they_run_again(front: FrontEnd) -> None:
    front.open([LOAD, "%%kimi -e low\nFirst question", "%%kimi -e low\nSecond question", "%kimi history"])
    for cell in range(3):
        front.run(cell)
    assert "Stale" not in front.output(2).inner_text()
    front.set_source(1, "%%kimi -e low\nAnother first question")
    front.run(1)
    wait_for(front, 2, "Stale:")
    assert "was replaced" in front.output(1).inner_text()
    assert "Another first question" in only_output(front, 1)["data"]["text/plain"]

    front.run(2)
    assert "Stale" not in front.output(2).inner_text()
    assert "Another first question" in only_output(front, 2)["data"]["text/plain"]  # the turn before it
    front.run(3)
    states = [row.split("\t")[2] for row in front.output(3).locator("table").inner_text().splitlines()[1:]]
    assert states.count("active") == 2
