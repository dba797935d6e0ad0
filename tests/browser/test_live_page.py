"""Replies in the widget: smooth while they stream, static when they are done."""

from __future__ import annotations

import os
import signal

import pytest
from front_end import FrontEnd

pytestmark = pytest.mark.browser

WIDGET = "application/vnd.jupyter.widget-view+json"


def slow(display: str, speed: int = 120) -> str:
    return (
        "%load_ext kimi_magic\n"
        f"%config KimiMagic.simulator_speed = {speed}\n%config KimiMagic.display = '{display}'"
    )


def test_what_a_reader_opened_or_selected_stays_while_the_reply_streams(front: FrontEnd) -> None:
    front.open([slow("live"), "%%kimi\nExplain it. [[simulate: long 3 KB]]"])
    front.run(0)
    front.start(1)
    thinking = front.output(1).locator("details.kimi-thinking")
    thinking.wait_for()
    thinking.locator("summary").click()
    assert not thinking.evaluate("e => e.open")

    text = front.output(1).locator(".kimi-text")
    text.locator("h2").first.wait_for()  # so the first paragraph is done, and stays
    front.page.evaluate(
        "i => { const p = document"
        ".querySelectorAll('.jp-Notebook .jp-Cell')[i].querySelector('.kimi-text p');"
        " getSelection().selectAllChildren(p); window.selected = getSelection().toString(); }",
        1,
    )
    seen = len(text.inner_text())
    front.page.wait_for_function(
        "([i, seen]) => document.querySelectorAll('.jp-Notebook .jp-Cell')[i]"
        ".querySelector('.kimi-text').innerText.length > seen + 400",
        arg=[1, seen],
    )
    assert front.is_running(1)
    assert not thinking.evaluate("e => e.open")
    assert front.page.evaluate("getSelection().toString() === window.selected && window.selected.length > 5")
    front.page.screenshot(path=".artifacts/live.png")

    front.wait(1)
    (output,) = front.outputs(1)
    assert WIDGET not in output["data"]
    assert "text/html" in output["data"]
    assert "The kernel has ended" not in front.output(1).inner_text()


def test_the_finished_output_is_the_same_in_both_views(front: FrontEnd) -> None:
    cell = "%%kimi --once\nCompare with a table, code and a formula.\n\n|a|b|\n|-|-|\n|1|2|"
    front.open([slow("live", 0), cell, "%config KimiMagic.display = 'static'", cell])
    shown = []
    for number in range(4):
        front.run(number)
    for number in (1, 3):
        (output,) = front.outputs(number)
        shown.append((output["data"]["text/markdown"], output["data"]["text/plain"]))
    assert shown[0] == shown[1]


in_lab = pytest.mark.parametrize("shared", ["lab"], indirect=True)
"""Notebook is made of the same parts, and each notebook that is opened takes seconds."""

LONG = "%%kimi\nExplain it. [[simulate: long 3 KB]]"


def is_static(front: FrontEnd, cell: int) -> bool:
    """What a cell shows is one output that needs no widget."""
    outputs = front.outputs(cell)
    return len(outputs) == 1 and WIDGET not in outputs[0]["data"] and "text/html" in outputs[0]["data"]


@in_lab
@pytest.mark.parametrize("display", ["live", "static"])
def test_a_page_that_is_loaded_again_in_mid_stream_loses_no_reply(front: FrontEnd, display: str) -> None:
    """A front end forgets which outputs belong to a running cell. The kernel goes on, and shows it again."""
    name = front.open([slow(display, 180), LONG, "%kimi show", "%%kimi -e low\nAnd now?"])
    front.run(0)
    front.start(1)
    front.output(1).locator(".kimi-text p").first.wait_for()
    assert front.is_running(1)
    front.command("docmanager:save")
    front.reopen(name, keep=True)
    assert "Error" not in front.output(1).inner_text()
    front.page.wait_for_function("() => front().status() === 'idle'", timeout=60_000)
    front.run(2)
    assert is_static(front, 2)
    assert len(front.output(2).locator(".kimi-text").inner_text()) > 2_500
    front.page.wait_for_timeout(1_100)
    front.run(3)
    assert is_static(front, 3)


@in_lab
def test_without_the_widget_s_code_replies_end_static_and_go_on_so(front: FrontEnd) -> None:
    """anywidget is in the kernel's environment and not in the server's."""
    front.page.route("**/extensions/anywidget/**", lambda route: route.abort())
    try:
        front.open([slow("auto", 250), "%%kimi -e low\nHi.", LONG])
        front.run(0)
        front.run(1)
        assert is_static(front, 1)
        assert front.output(1).locator(".kimi-footer").is_visible()
        front.page.wait_for_timeout(1_100)
        front.start(2)
        front.output(2).locator("details.kimi-thinking").wait_for()
        assert front.is_running(2)
        assert [WIDGET in output["data"] for output in front.outputs(2)].count(True) == 0
        front.wait(2)
        assert is_static(front, 2)
    finally:
        front.page.unroute("**/extensions/anywidget/**")


@in_lab
def test_a_reply_after_a_pause_streams_in_the_widget_too(front: FrontEnd) -> None:
    """What the first widget said was waiting behind its own cell."""
    front.open([slow("auto", 250), "%%kimi -e low\nHi.", LONG])
    front.run(0)
    front.run(1)
    front.page.wait_for_timeout(3_000)
    front.start(2)
    front.output(2).locator(".kimi-text p").first.wait_for(timeout=60_000)
    assert front.is_running(2)
    assert [WIDGET in output["data"] for output in front.outputs(2)] == [True]
    front.wait(2)
    assert is_static(front, 2)


@in_lab
def test_a_widget_whose_reply_was_over_at_once_is_heard_of(front: FrontEnd) -> None:
    front.open([slow("auto", 0), "%%kimi -e low\nHi.", "%kimi doctor"])
    front.run(0)
    front.run(1)
    front.page.wait_for_timeout(3_000)
    front.run(2)
    assert "live: a Jupyter server is there" in front.output(2).inner_text()


@in_lab
@pytest.mark.parametrize("how", ["restart", "crash"])
def test_a_reply_whose_kernel_ends_says_so_and_keeps_what_arrived(front: FrontEnd, how: str) -> None:
    front.open([slow("live", 100) + "\nimport os\nprint('process', os.getpid())", LONG])
    front.run(0)
    front.start(1)
    reply, ended = front.output(1), front.output(1).get_by_text("The kernel has ended")
    reply.get_by_text("The reply should be short").wait_for(timeout=60_000)
    assert front.is_running(1)
    assert ended.count() == 0
    if how == "restart":
        front.restart()
    else:
        os.kill(int(front.output(0).inner_text().rpartition("process")[2]), signal.SIGKILL)
    ended.wait_for(timeout=60_000)
    assert ended.count() == 1
    assert "The reply should be short" in reply.inner_text()


@in_lab
@pytest.mark.parametrize("display", ["live", "static"])
def test_what_is_cleared_before_or_by_a_tool_does_not_take_the_reply_along(
    front: FrontEnd, display: str
) -> None:
    front.open(
        [
            slow(display, 0) + "\nfrom IPython.display import clear_output\n"
            "def wipe():\n    clear_output()\n    return 'clean'\n"
            "def tell():\n    print('the tool said so')\n    return 'told'",
            "print('gone')\nclear_output()\nget_ipython().run_line_magic('kimi', 'Hi.')",
            "%%kimi -t wipe\nwipe, please",
            "%%kimi -t tell\ntell, please",
        ]
    )
    for cell in range(4):
        front.run(cell)
    for cell in (1, 2, 3):
        assert front.output(cell).locator(".kimi-footer").count() == 1, f"cell {cell}"
        assert "Error" not in front.output(cell).inner_text()
    assert "gone" not in front.output(1).inner_text()
    assert "the tool said so" in front.output(3).inner_text()


@in_lab
def test_cells_that_run_all_queued_each_end_with_their_own_reply(front: FrontEnd) -> None:
    front.open([slow("auto", 0)] + [f"%%kimi -e low\nSay the number {n}00." for n in range(1, 9)])
    front.command("notebook:run-all-cells")
    front.wait(8)
    for cell in range(1, 9):
        assert is_static(front, cell)
        assert f"number {cell}00" in front.output(cell).locator(".kimi-text").inner_text()


SCROLL = """() => {
  const box = document.querySelector('.jp-WindowedPanel-outer'), top = box.getBoundingClientRect().top;
  const cell = document.querySelectorAll('.jp-Notebook .jp-Cell')[1];
  return [box.scrollTop, cell.getBoundingClientRect().top - top]; }"""


@in_lab
@pytest.mark.parametrize("display", ["live", "static"])
def test_the_page_does_not_move_for_who_reads_above_when_the_reply_ends(
    front: FrontEnd, display: str
) -> None:
    front.open([slow(display, 200), "print(*range(60), sep='\\n')", LONG.replace("3 KB", "4 KB")])
    front.run(0)
    front.run(1)
    front.start(2)
    front.output(2).locator(".kimi-text p").first.wait_for()
    front.page.evaluate("() => { document.querySelector('.jp-WindowedPanel-outer').scrollTop = 500; }")
    front.page.wait_for_timeout(300)
    before = front.page.evaluate(SCROLL)
    assert before[0] > 100
    assert front.is_running(2)
    front.wait(2)
    assert is_static(front, 2)
    front.page.wait_for_timeout(500)
    after = front.page.evaluate(SCROLL)
    assert [abs(a - b) <= 3 for a, b in zip(before, after, strict=True)] == [True, True], (before, after)
