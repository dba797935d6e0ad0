"""The panel in a real front end: asked by hand, beside cells, twice, and after its kernel is gone."""

from __future__ import annotations

import os
import signal

import nbformat
import pytest
from front_end import PICTURES, FrontEnd
from playwright.sync_api import Locator, expect

pytestmark = pytest.mark.browser

WIDGET = "application/vnd.jupyter.widget-view+json"
SAID = "no model has read this"
NOT_FOUND = "Error displaying widget: model not found"
INTERRUPTED = "Interrupted: what had arrived is kept here"


LATER = """%config KimiMagic.effort = 'high'
from kimi_magic import kimi
ran = []
@kimi.tool(confirm=True)
def wipe(name: str = "all") -> str:
    "Wipe a disk."
    ran.append(name)
    return "wiped"
"""


GATE = """
import pathlib, time
def gate() -> str:
    "Opens when there is a file of this name beside the notebook."
    while not pathlib.Path("open").exists():
        time.sleep(0.05)
    return "open"
"""


def load(speed: int = 0) -> str:
    return f"%load_ext kimi_magic\n%config KimiMagic.simulator_speed = {speed}"


class Panel:
    """The panel in the output of a cell."""

    def __init__(self, front: FrontEnd, cell: int) -> None:
        self.root: Locator = front.output(cell).locator(".kimi-panel")
        self.root.wait_for()
        self.prompt = self.root.get_by_label("Prompt. Control or Command with Enter")
        self.turns = self.root.locator(".kimi-turn")
        self.settings = self.root.locator(".kimi-settings > summary")

    def button(self, name: str) -> Locator:
        return self.root.get_by_role("button", name=name, exact=True)

    def choice(self, name: str) -> Locator:
        """What a select box shows."""
        return self.root.get_by_role("combobox", name=name).locator("option:checked")

    def wait_for_its_end(self) -> None:
        """Until its transcript, which is longer than its box, shows the last turn."""
        at_end = "e => e.scrollTop > 0 && e.scrollHeight - e.scrollTop - e.clientHeight < 2"
        log = self.root.locator(".kimi-log").element_handle()
        self.root.page.wait_for_function(at_end, arg=log)

    def height(self) -> float:
        """From the top to the buttons below the prompt."""
        to_send = "e.querySelector('.kimi-main').getBoundingClientRect().bottom"
        return float(self.root.evaluate(f"e => {to_send} - e.getBoundingClientRect().top"))

    def ask(self, text: str) -> None:
        self.prompt.fill(text)
        self.prompt.press("Control+Enter")


def tabbed(panel: Panel) -> tuple[int, int]:
    """How many controls can be used, and how many of them Tab comes to, one after the other."""
    usable = "button, select, input, textarea, summary"
    there = panel.root.evaluate(
        f"root => [...root.querySelectorAll('{usable}')]"
        ".filter(e => e.checkVisibility() && !e.disabled).length"
    )
    come_to = f"""root => {{
        const at = document.activeElement, fresh = root.contains(at) && !at.kimiCame;
        at.kimiCame = true;
        return [fresh, at.matches('{usable}')];
    }}"""
    panel.root.get_by_role("combobox", name="Conversation").focus()
    reached = 0
    while True:
        fresh, counts = panel.root.evaluate(come_to)
        if not fresh:
            return there, reached
        reached += counts
        panel.root.page.keyboard.press("Tab")


def picture(front: FrontEnd, name: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    front.page.wait_for_timeout(300)  # for the front end to lay it out
    front.page.screenshot(path=PICTURES / f"{front.server.app}-panel-{name}.png")


def see(front: FrontEnd, panel: Panel) -> None:
    """Light and dark, wide and narrow; all of it can be reached by Tab, and says what it is."""
    if front.server.app == "lab":
        front.command("application:toggle-left-area")
    backgrounds = set()
    for theme in ("light", "dark"):
        front.theme(dark=theme == "dark")
        backgrounds.add(panel.root.evaluate("e => getComputedStyle(e).backgroundColor"))
        for size, width in {"wide": 1280, "narrow": 480}.items():
            front.page.set_viewport_size({"width": width, "height": 1400})
            panel.root.scroll_into_view_if_needed()
            picture(front, f"{theme}-{size}")
            assert panel.root.evaluate("e => e.scrollWidth - e.clientWidth") <= 1
    assert len(backgrounds) == 2
    front.theme(dark=False)
    if front.server.app == "lab":
        front.command("application:toggle-left-area")
    names = panel.root.evaluate(
        "root => [...root.querySelectorAll('button, select, input, textarea')]"
        ".map(e => (e.ariaLabel || e.labels?.[0]?.textContent || e.textContent).trim())"
    )
    assert all(names)
    panel.prompt.fill("x")
    there, reached = tabbed(panel)
    assert reached == there > 20
    panel.prompt.focus()
    panel.prompt.press("Tab")
    assert panel.button("Send").evaluate("e => e === document.activeElement")
    panel.prompt.fill("")


def test_a_conversation_is_held_through_the_panel_alone(front: FrontEnd) -> None:
    front.open([load(), "by_site = [1, 2]\n%kimi panel", "%kimi history", LATER, "ran"])
    for cell in (0, 1):
        front.run(cell)
    panel = Panel(front, 1)
    expect(panel.choice("Branch")).to_have_text("here: nothing yet")
    expect(panel.button("Undo")).to_be_disabled()

    # An Enter that confirms a candidate of an input method sends nothing, whatever is held with it.
    panel.prompt.fill("你好")
    for event in ({"isComposing": True}, {"keyCode": 229}):
        panel.prompt.dispatch_event(
            "keydown", {"key": "Enter", "ctrlKey": True, "bubbles": True, "cancelable": True, **event}
        )
    for key in ("Enter", "Shift+Enter"):
        panel.prompt.press(key)
    assert panel.prompt.input_value() == "你好\n\n"
    expect(panel.turns).to_have_count(0)
    panel.prompt.press("Control+Enter")
    expect(panel.turns).to_have_count(1)
    assert panel.prompt.input_value() == ""
    expect(panel.turns.first.locator(".kimi-said")).to_have_text("你好")

    panel.settings.click()
    assert panel.root.get_by_label("Effort").input_value() == "max"
    front.run(3)
    expect(panel.root.get_by_label("Effort")).to_have_value("high")
    panel.root.get_by_role("checkbox", name="wipe").check()
    panel.ask("Wipe it. [[simulate: steps 1]]")
    expect(panel.root.get_by_role("status")).to_have_text("A tool waits for your answer.")
    panel.root.get_by_role("alertdialog", name="Run wipe()?").get_by_role("button", name="Allow").click()
    expect(panel.turns.nth(1)).to_contain_text("effort high")
    front.run(4)
    assert front.outputs(4)[0]["data"]["text/plain"] == "['all']"
    panel.root.get_by_role("checkbox", name="wipe").uncheck()
    panel.button("Undo").click()
    expect(panel.choice("Branch")).to_have_text("here: 你好 (1 turn)")

    tokens = panel.root.get_by_label("Most tokens")
    tokens.fill("1e6")
    panel.ask("Too much")
    expect(panel.root.get_by_role("alert")).to_contain_text("Most tokens: must be a whole number from 1")
    assert panel.prompt.input_value() == "Too much"
    panel.prompt.fill("")
    tokens.fill("8k")
    panel.root.get_by_label("Effort").select_option("low")
    panel.root.get_by_label("Insert a variable").select_option("by_site")
    assert panel.prompt.input_value() == "{{ by_site }}"
    panel.ask("A formula and Python code about {{ by_site }}, please.")
    expect(panel.turns).to_have_count(2)
    panel.turns.nth(1).locator("mjx-container").first.wait_for()
    expect(panel.turns.nth(1)).to_contain_text("effort low")

    panel.root.get_by_label("Attach a file").press_sequentially("a.txt")
    panel.root.get_by_label("Attach a file").press("Enter")
    panel.root.get_by_label("Attach a file").press_sequentially("b.txt")
    panel.prompt.focus()
    for name in ("a.txt", "b.txt"):
        panel.root.get_by_role("button", name=f"{name} ✕").click()

    panel.ask("{{ nothing_here }}")
    expect(panel.root.get_by_role("alert")).to_contain_text("PromptError: ")
    assert panel.prompt.input_value() == "{{ nothing_here }}"
    panel.prompt.fill("")

    see(front, panel)
    panel.turns.nth(1).get_by_role("button", name="Insert as cell").click()
    front.page.wait_for_function("() => front().kinds().length === 6")
    assert "Counter" in front.page.evaluate("() => front().source(2)")

    panel.turns.nth(0).get_by_role("button", name="Edit").click()
    assert panel.prompt.input_value().startswith("你好")
    panel.prompt.fill("早上好")
    panel.button("Send instead").click()
    expect(panel.turns).to_have_count(1)
    panel.root.get_by_label("Branch").select_option(index=1)
    expect(panel.turns).to_have_count(2)
    panel.button("Undo").click()
    expect(panel.turns).to_have_count(1)
    front.run(3)
    assert front.output(3).locator("table tbody tr").count() == 4
    panel.root.get_by_role("combobox", name="Conversation").select_option("")
    panel.root.get_by_label("Name of the new conversation").fill("aside")
    panel.root.get_by_label("Name of the new conversation").press("Enter")
    expect(panel.root.get_by_role("status")).to_contain_text(
        "Cells without -c are in conversation 'aside' now"
    )


def test_cells_and_two_panels_are_one_conversation(front: FrontEnd) -> None:
    front.open(
        [
            load() + GATE,
            "%kimi panel",
            "%%kimi -t gate\nAsked in a cell. [[simulate: steps 1]]",
            "from kimi_magic import kimi\nkimi.panel()",
            "%kimi new",
        ]
    )
    for cell in (0, 1, 3):
        front.run(cell)
    panels = [Panel(front, cell) for cell in (1, 3)]
    front.start(2)
    for panel in panels:
        panel.root.locator(".kimi-running").get_by_text("Calling gate").wait_for()
    assert front.is_running(2)
    expect(panels[0].root.get_by_role("status")).to_contain_text("A cell is asking.")
    (front.server.notebooks / "open").touch()
    front.wait(2)
    panels[1].ask("And in the second panel?")
    for panel in panels:
        expect(panel.turns).to_have_count(2)
        panel.turns.nth(1).locator(".kimi-footer").wait_for()
        expect(panel.turns.nth(0)).to_contain_text("You, in a cell")
        assert panel.root.locator(".kimi-plot rect").count() == 6
    front.run(3)
    panels[1] = Panel(front, 3)
    expect(panels[1].turns).to_have_count(2)
    for panel in panels:
        panel.wait_for_its_end()
        assert panel.height() < 600, "the prompt is on the page with the reply above it"
    panels[1].prompt.fill("And a third?")
    panels[1].button("Send").click()
    copy = panels[0].turns.nth(0).get_by_role("button", name="Copy")
    copy.focus()
    expect(panels[0].turns.locator(".kimi-footer")).to_have_count(3)
    assert copy.evaluate("e => e === document.activeElement"), "what is there stays when a turn joins it"
    front.run(4)
    for panel in panels:
        expect(panel.turns).to_have_count(0)


def test_stop_works_while_a_cell_runs_and_while_none_does(front: FrontEnd) -> None:
    """Where kernel and front end have no subshells, a message of the panel waits until the cell ends."""
    sleeping = "import time\nprint('sleeps', flush=True)\ntime.sleep(60)"
    front.open([load(500), "%kimi panel", sleeping, sleeping, "%%kimi -e low\nLong? [[simulate: silence]]"])
    for cell in (0, 1):
        front.run(cell)
    panel = Panel(front, 1)
    status = panel.root.get_by_role("status")
    running = panel.root.locator(".kimi-running").get_by_text(SAID)

    front.start(2)
    front.output(2).get_by_text("sleeps").wait_for()
    panel.ask("A cell runs. [[simulate: silence]]")
    running.wait_for()
    panel.button("Stop").click()
    expect(panel.turns.nth(0)).to_contain_text(INTERRUPTED)
    assert front.is_running(2)
    front.interrupt()
    front.wait(2)

    panel.ask("Nobody runs. [[simulate: silence]]")
    running.wait_for()
    panel.button("Stop").click()
    expect(panel.turns.nth(1)).to_contain_text(INTERRUPTED)
    cost = panel.root.locator(".kimi-fact").filter(has_text="this conversation")
    expect(cost).to_have_text("unknown this conversation")

    front.page.evaluate("() => front().subshells(false)")  # for what is made from now on
    front.set_source(1, "%reload_ext kimi_magic\n%kimi panel")
    front.run(1)
    panel = Panel(front, 1)
    expect(panel.turns).to_have_count(2)
    panel.ask("A cell runs, and the kernel hears nothing. [[simulate: silence]]")
    running.wait_for()
    front.start(3)
    front.output(3).get_by_text("sleeps").wait_for()
    panel.button("Stop").click()
    expect(status).to_contain_text("The kernel is busy; what you asked for is queued")
    picture(front, "busy")
    panel.button("Interrupt the cell").click()
    front.wait(3)
    assert front.outputs(3)[-1]["ename"] == "KeyboardInterrupt"
    expect(panel.turns.nth(2)).to_contain_text(INTERRUPTED)
    expect(status).to_have_text("")

    front.start(4)  # a cell's own reply: the panel's Stop is the kernel's interrupt
    running.wait_for()
    panel.button("Stop").click()
    front.wait(4)
    assert front.outputs(4)[-1]["ename"] == "Interrupted"
    expect(panel.turns.nth(3)).to_contain_text(INTERRUPTED)


def test_a_panel_that_the_kernel_does_not_hear_says_so_and_speaks_of_no_cell(front: FrontEnd) -> None:
    front.open([load(), "import os\nos.getpid()", "%kimi panel"])
    for cell in (0, 1, 2):
        front.run(cell)
    panel = Panel(front, 2)
    kernel = int(front.outputs(1)[0]["data"]["text/plain"])
    expect(panel.choice("Branch")).to_have_text("here: nothing yet")
    front.page.wait_for_function("() => front().status() === 'idle'")
    os.kill(kernel, signal.SIGSTOP)
    try:
        panel.ask("Anybody?")
        status = panel.root.get_by_role("status")
        expect(status).to_have_text("The kernel has not heard what you asked for yet.")
        assert not panel.button("Interrupt the cell").is_visible()
    finally:
        os.kill(kernel, signal.SIGCONT)
    expect(panel.turns.locator(".kimi-footer")).to_have_count(1)
    expect(status).to_have_text("")


def test_a_saved_panel_is_readable_without_its_kernel_and_asks_nothing(front: FrontEnd) -> None:
    name = front.open([load(), "%kimi panel", "import ipywidgets\nipywidgets.IntSlider()"])
    for cell in (0, 1, 2):
        front.run(cell)
    panel = Panel(front, 1)
    panel.ask("What stays?")
    expect(panel.turns).to_have_count(1)
    panel.turns.first.locator(".kimi-footer").wait_for()
    saved = front.output(1).locator(".kimi-panel-saved")
    assert not saved.is_visible()
    panel.prompt.fill("Half written")
    front.command("docmanager:save")
    front.reopen(name, keep=True)
    panel = Panel(front, 1)
    expect(panel.turns).to_have_count(1)
    assert panel.prompt.input_value() == "Half written"

    front.restart()
    expect(panel.root.get_by_role("status")).to_contain_text("run %kimi panel again")
    assert not panel.button("Send").is_enabled()
    front.reopen(name)
    saved.get_by_text("What stays?").first.wait_for()
    expect(front.output(2)).to_contain_text(NOT_FOUND)
    assert [e.is_visible() for e in front.page.get_by_text(NOT_FOUND).all()] == [False, True]
    picture(front, "reopened-own")
    front.close()

    def sign(notebook: nbformat.NotebookNode) -> None:
        notebook.metadata["sent_by"] = "somebody else"  # so the signature of this user is void

    front.change_saved(name, sign)
    front.reopen(name)
    front.page.wait_for_function("() => front().status() === 'idle'", timeout=60_000)
    saved.get_by_text("What stays?").first.wait_for()
    assert saved.is_visible()
    picture(front, "reopened")
    front.run(0)
    front.run(1)
    expect(Panel(front, 1).turns).to_have_count(1)  # from the store: nothing was asked again
    front.set_source(1, "from kimi_magic import kimi\nprint(len(kimi.usage))")
    front.run(1)
    assert front.outputs(1)[0]["text"] == "1\n"
