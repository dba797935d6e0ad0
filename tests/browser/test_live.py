"""Replies in the widget: smooth while they stream, static when they are done."""

from __future__ import annotations

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
    text.locator("p").first.wait_for()
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
