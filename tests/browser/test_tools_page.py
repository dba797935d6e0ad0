"""Tools, structured replies and searches in JupyterLab and in Notebook."""

from __future__ import annotations

import pytest
from front_end import PICTURES, FrontEnd

pytestmark = pytest.mark.browser

SETUP = """%load_ext kimi_magic
%config KimiMagic.display = '{display}'
import time
from dataclasses import dataclass
from matplotlib.figure import Figure
from kimi_magic import kimi

def mean_height(site: str) -> str:
    print('reading', site)
    return '\\n'.join(f'row {{n}}: {{n * 1.5}}' for n in range(60))

def draw() -> Figure:
    figure = Figure(figsize=(3, 2))
    figure.subplots().plot([1, 3, 2])
    return figure

def slow():
    while True:
        time.sleep(.1)

@kimi.tool(confirm=True)
def delete_rows(table: str) -> str:
    return f'{{table}} is empty now'

@dataclass
class City:
    name: str
    pop: int | None = None
"""


@pytest.mark.parametrize("display", ["auto", "static"])
def test_a_call_is_seen_while_it_runs_and_stays_with_its_result(front: FrontEnd, display: str) -> None:
    front.open(
        [
            SETUP.format(display=display),
            "%%kimi -t mean_height -t draw -t slow\nmean_height then draw then slow",
            "%%kimi -t mean_height -t draw\nmean_height then draw",
        ]
    )
    front.run(0)
    front.start(1)
    front.output(1).get_by_text("slow() · running …").wait_for(timeout=120_000)
    front.output(1).locator("img").wait_for()
    front.interrupt()
    front.wait(1)
    assert "Interrupted: the call did not end." in front.output(1).inner_html()

    front.run(2)
    (output,) = front.outputs(2)
    assert "text/html" in output["data"]
    tools = front.output(2).locator("details.kimi-tool")
    assert tools.count() == 2
    assert tools.nth(0).get_by_text("row 59: 88.5").is_hidden()
    tools.nth(0).locator("summary").click()
    tools.nth(0).get_by_text("row 59: 88.5").scroll_into_view_if_needed()
    box = tools.nth(0).bounding_box()
    assert box is not None
    assert box["height"] < 700
    assert tools.nth(1).locator("img").evaluate("e => e.naturalWidth") > 100
    PICTURES.mkdir(parents=True, exist_ok=True)
    front.page.screenshot(path=PICTURES / f"tools-{front.server.app}-{display}.png")


def test_a_tool_that_wants_consent_asks_in_the_cell(front: FrontEnd) -> None:
    front.open([SETUP.format(display="auto"), "%%kimi -t delete_rows\ndelete_rows with table=plots"])
    front.run(0)
    front.start(1)
    box = front.page.locator(".jp-Stdin-input")
    box.wait_for()
    assert "Run delete_rows(" in front.output(1).inner_text()
    box.fill("y")
    box.press("Enter")
    front.wait(1)
    assert "is empty now" in front.output(1).inner_html()


def test_a_structured_reply_is_a_table_and_a_search_has_sources(front: FrontEnd) -> None:
    front.open(
        [SETUP.format(display="auto"), "%%kimi --schema list[City]\nTwo cities", "%%kimi --search\nNews?"]
    )
    front.run(0)
    front.run(1)
    assert front.output(1).locator(".kimi-data table th").all_inner_texts() == ["name", "pop"]
    front.run(2)
    links = front.output(2).locator(".kimi-sources a")
    assert links.count() == 3
    assert "3 results" in front.output(2).locator("details.kimi-search summary").inner_text()
    front.page.screenshot(path=PICTURES / f"structured-{front.server.app}.png")
