"""Replies in the background, in a real front end: each in its own cell, whatever runs meanwhile."""

from __future__ import annotations

import pytest
from front_end import PICTURES, FrontEnd

pytestmark = pytest.mark.browser

TURN = "application/vnd.kimi-magic.turn+json"
WIDGET = "application/vnd.jupyter.widget-view+json"
SAID = "no model has read this"


PRINTS = """import pathlib, time
n = 0
while not pathlib.Path("enough").exists():
    print(n)
    n += 1
    time.sleep(0.15)
"""
"""Until there is a file of this name beside the notebook."""


def test_replies_stream_into_their_own_cells_while_another_cell_prints(front: FrontEnd) -> None:
    """No widget is used for them: a notebook that is saved in the middle stays readable."""
    front.open(
        [
            "%load_ext kimi_magic\n%config KimiMagic.simulator_speed = 150",
            "%%kimi --background -e low\nFirst question",
            "%kimi --background -e low -c other Elsewhere",
            PRINTS,
            "%%kimi --background\n[[simulate: bad-request]]",
            "%kimi stop",
            "%kimi jobs",
        ]
    )
    for cell in (0, 1, 2):
        front.run(cell)
    front.start(3)
    for cell in (1, 2):
        front.output(cell).get_by_text(SAID).first.wait_for()
    assert front.is_running(3)
    assert all(WIDGET not in output["data"] for cell in (1, 2) for output in front.outputs(cell))
    (front.server.notebooks / "enough").touch()
    front.wait(3)
    (printed,) = front.outputs(3)
    numbers = printed["text"].split()
    assert numbers == [str(n) for n in range(len(numbers))]

    for cell in (1, 2):
        front.output(cell).locator(".kimi-footer").wait_for()
        (output,) = front.outputs(cell)
        assert TURN in output["data"]
    front.run(4)
    front.output(4).get_by_text("BadRequestError: The server answered 400").wait_for()

    front.set_source(1, "%%kimi --background -e low\nTell me. [[simulate: silence]]")
    front.run(1)
    front.output(1).get_by_text(SAID).first.wait_for()
    front.run(5)
    front.output(1).get_by_text("Interrupted: what had arrived is kept here").wait_for()
    (output,) = front.outputs(1)
    assert SAID in output["data"]["text/plain"]
    front.set_source(1, "%%kimi --background -e low\nTell me more. [[simulate: silence]]")
    front.run(1)
    front.output(1).get_by_text(SAID).first.wait_for()
    front.interrupt()  # while no cell runs
    front.output(1).get_by_text("Interrupted: what had arrived is kept here").wait_for()
    front.run(6)
    assert "interrupted" in front.output(6).inner_text()
    PICTURES.mkdir(parents=True, exist_ok=True)
    front.page.screenshot(path=PICTURES / f"{front.server.app}-background.png")
