"""How it looks: pictures for people, in light and dark, wide and narrow, and what can be checked.

The pictures are in `.artifacts/screenshots/`.
"""

from __future__ import annotations

import os
import re
import shutil

import pytest
from front_end import PICTURES, ROOT, FrontEnd
from PIL import Image

pytestmark = pytest.mark.browser

GALLERY = [
    "%load_ext kimi_magic",
    """%%kimi
Compare the sites: a formula, please, and Python code.

| site | mean | n |
| --- | --- | --- |
| North | 12.5 | 40 |
| South | 9.25 | 38 |""",
    "%%kimi -e low\n用公式和代码解释基尼系数。",
    "%%kimi --efort low\nHi",
    "%%kimi -e low\n[[simulate: cut]] Is this whole?",
    "%kimi usage",
    "%kimi status",
]
SIZES = {"wide": 1280, "narrow": 480}


def picture(front: FrontEnd, name: str, height: int) -> None:
    """A picture of the page, high enough for the notebook."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    width = front.page.viewport_size["width"] if front.page.viewport_size else SIZES["wide"]
    front.page.set_viewport_size({"width": width, "height": height})
    front.page.wait_for_timeout(400)  # for the front end to lay it out
    front.page.screenshot(path=PICTURES / f"{front.server.app}-{name}.png")


def show_top(front: FrontEnd) -> None:
    front.page.evaluate("() => front().select(0)")
    front.page.locator(".jp-Notebook .jp-Cell").first.scroll_into_view_if_needed()


def test_replies_tables_errors_and_chinese_in_light_and_dark(front: FrontEnd) -> None:
    front.open(GALLERY)
    if front.server.app == "lab":
        front.command("application:toggle-left-area")
    for cell in range(len(GALLERY)):
        front.run(cell)
    front.output(1).locator("mjx-container").first.wait_for()
    keyword = front.output(1).locator(".kimi-code .kimi-keyword").first
    colors = set()
    for theme in ("light", "dark"):
        front.theme(dark=theme == "dark")
        colors.add(keyword.evaluate("e => getComputedStyle(e).color"))
        for size, width in SIZES.items():
            front.page.set_viewport_size({"width": width, "height": 900})
            show_top(front)
            picture(front, f"gallery-{theme}-{size}", 3000 if size == "wide" else 4200)
            for cell in (1, 2):
                wider = front.output(cell).evaluate("e => e.scrollWidth - e.clientWidth")
                assert wider <= 1, f"cell {cell} is wider than its place, {theme} {size}"
    assert len(colors) == 2
    front.theme(dark=False)


def test_a_reply_that_streams(front: FrontEnd) -> None:
    front.open(["%load_ext kimi_magic\n%config KimiMagic.simulator_speed = 100", GALLERY[1]])
    front.run(0)
    front.start(1)
    front.output(1).get_by_text("Waiting for").or_(front.output(1).get_by_text("Thinking")).first.wait_for()
    front.output(1).get_by_text("What is there that I can work with").wait_for()
    picture(front, "streaming-thinking", 700)
    front.output(1).get_by_text("The greatest").wait_for()
    picture(front, "streaming-text", 900)
    front.interrupt()
    front.wait(1)
    picture(front, "interrupted", 900)


WIDE = r"""from IPython.display import HTML
from kimi_magic.render import render_markdown
from kimi_magic.render.style import wrapped
wide = " + ".join(f"x_{{{n}}}" for n in range(80))
table = "| " + "word | " * 40
HTML(wrapped(render_markdown(f'''{"word" * 99} `{"code" * 99}` https://a.cn/{"x" * 400}

$$
{wide}
$$

{table}
{"|-" * 40}|
{table}

    {"code" * 99}
''')))"""


def test_long_words_and_wide_formulas_tables_and_code_stay_in_their_column(front: FrontEnd) -> None:
    front.open([WIDE])
    front.run(0)
    front.output(0).locator("mjx-container").first.wait_for()
    for width in SIZES.values():
        front.page.set_viewport_size({"width": width, "height": 900})
        column = front.output(0).locator(".kimi")
        assert column.evaluate("e => e.scrollWidth - e.clientWidth") <= 1
    assert front.output(0).locator("td").first.evaluate("e => getComputedStyle(e).textAlign") == "left"


@pytest.mark.parametrize("name", ["quickstart", "research"])
def test_a_shipped_notebook_runs_from_top_to_bottom(front: FrontEnd, name: str) -> None:
    shutil.copyfile(ROOT / "notebooks" / f"{name}.ipynb", front.server.notebooks / f"{name}.ipynb")
    front.reopen(f"{name}.ipynb")
    front.page.wait_for_function("() => front().status() === 'idle'", timeout=60_000)
    front.command("notebook:run-all-cells")
    kinds = front.page.evaluate("() => front().kinds()")
    code = [n for n, kind in enumerate(kinds) if kind == "code"]
    front.wait(code[-1])
    for cell in code:
        assert not [o for o in front.outputs(cell) if o["output_type"] == "error"], f"cell {cell}"
    assert front.page.locator(".kimi-badge:visible").count() >= 3
    assert front.page.locator(".jp-OutputArea img").count() >= 1
    for theme in ("light", "dark"):
        front.theme(dark=theme == "dark")
        show_top(front)
        picture(front, f"{name}-{theme}", 4800)
    front.theme(dark=False)


README_PICTURE = ROOT / "tests/browser/cell.png"
README_EXAMPLES = re.findall(
    r"^```python\n(.*?)\n```$", (ROOT / "README.md").read_text("utf-8"), re.DOTALL | re.MULTILINE
)


def test_the_picture_of_the_readme_is_what_a_cell_looks_like(front: FrontEnd) -> None:
    """The picture is made here; KIMI_TEST_PICTURES=1 puts it where the README shows it."""
    if front.server.app != "lab":
        return
    front.open(README_EXAMPLES[:2])
    front.run(0)
    front.run(1)
    front.output(1).locator("mjx-container").first.wait_for()
    show_top(front)
    front.page.set_viewport_size({"width": 1000, "height": 1100})
    front.page.wait_for_timeout(400)
    made = PICTURES / "readme.png"
    PICTURES.mkdir(parents=True, exist_ok=True)
    front.page.locator(".jp-Notebook .jp-Cell").nth(1).screenshot(path=made)
    if os.environ.get("KIMI_TEST_PICTURES"):
        shutil.copyfile(made, README_PICTURE)
    assert "tests/browser/cell.png" in (ROOT / "README.md").read_text("utf-8")
    with Image.open(made) as now, Image.open(README_PICTURE) as shown:
        assert abs(now.width - shown.width) < 60
        assert abs(now.height - shown.height) < 120
