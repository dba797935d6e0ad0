"""One notebook in all the places where it is read: exporters, sites that strip, terminals, screen readers.

What is known of places that cannot run here:

- GitHub strips `style`, `class`, `id` and whole `<style>` elements, keeps `details`, `summary`, tables
  and links (https://github.com/github/markup and the allowlist of `html-pipeline`), and runs no script.
- VS Code shows the first MIME type of its own order that it has a renderer for, and `text/html` comes before
  `text/markdown` and `text/plain` (`orderOfMimeTypes` in its `ipynb` extension). Types under
  `application/vnd.` come first there, but it has no renderer for our twin, which so shows nothing. It knows
  no `--jp-…` variables: every `var()` needs a fallback. It sets math in markdown outputs only, so a formula
  in HTML has to be readable as its source.
- Colab shows `text/html` in a frame of its own, and loads widgets of third parties only after
  `google.colab.output.enable_custom_widget_manager()`. No Jupyter server names its session there
  (`JPY_SESSION_NAME`), so replies are static.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import nbformat
import nh3
import pytest
from markdown_it import MarkdownIt
from nbclient import NotebookClient
from nbconvert import HTMLExporter, LatexExporter, MarkdownExporter
from nbformat.v4 import new_code_cell, new_notebook
from notebook import Notebook
from published import faults

from kimi_magic.errors import ConversationError, OptionError
from kimi_magic.magics import load, unload
from kimi_magic.render import style

TWIN = "application/vnd.kimi-magic.turn+json"
COLUMNS = " | ".join(f"column {n}" for n in range(40))
CELLS = {
    "load": "%load_ext kimi_magic",
    "tools": 'def mean(values: list[float]) -> float:\n    """The mean."""\n'
    "    return sum(values) / len(values)\n"
    "from typing import TypedDict\nclass City(TypedDict):\n    city: str\nCities = list[City]",
    "rich": "%%kimi\nCompare the sites: a formula, please, and Python code.\n\n"
    "| site | mean |\n| --- | --- |\n| North | 12.5 |\n| South | 9.25 |",
    "chinese": "%%kimi -e low\n用公式和代码解释基尼系数。",
    "tool": "%%kimi -e low -t mean\nUse mean for 3, 4 and 5.",
    "search": "%%kimi -e low --search 2\nWhat is new about owls? Cite sources.",
    "schema": "%%kimi -e low --schema Cities\nNorth, South.",
    "wide": f"%%kimi -e low\nSum this up.\n\n| {COLUMNS} |\n|{' --- |' * 40}\n|{' 1000 |' * 40}",
    "cut": "%%kimi -e low\n[[simulate: stop-reason max_tokens]] Hi.",
    "captured": "%%capture kept\n%kimi Say hello.",
    "kept": "print(len(kept.outputs), *sorted(kept.outputs[-1].data))",
    "table": "%kimi usage",
    "again": "%kimi show 1",
}
REPLIES = ("rich", "chinese", "tool", "search", "schema", "wide", "cut", "again")


@pytest.fixture(scope="module")
def notebook() -> nbformat.NotebookNode:
    made = new_notebook(cells=[new_code_cell(source) for source in CELLS.values()])
    env = {**os.environ, "KIMI_MAGIC_STORE": "off"}
    NotebookClient(made, timeout=60, kernel_name="python3").execute(env=env)
    return made


@pytest.fixture(scope="module")
def shown(notebook: nbformat.NotebookNode) -> Callable[[str], dict[str, Any]]:
    """The one mimebundle of a cell."""

    def get(name: str) -> dict[str, Any]:
        (output,) = notebook.cells[list(CELLS).index(name)].outputs
        return dict(output.data)

    return get


class Page(HTMLParser):
    """Elements and words of HTML, in order."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.path: list[str] = []
        self.first: list[tuple[str, str]] = []  # parents with their first children
        self.words: list[str] = []
        self.named: dict[int, str] = {}  # text of each element, by its place
        self._open: list[int] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._open and self._open[-1] == len(self.elements) - 1:
            self.first.append((self.elements[-1][0], tag))
        self.elements.append((tag, dict(attrs)))
        if tag not in ("br", "hr", "img", "meta", "link", "input"):
            self._open.append(len(self.elements) - 1)

    def handle_endtag(self, tag: str) -> None:
        if self._open:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        for place in self._open:
            self.named[place] = self.named.get(place, "") + data
        if not any(self.elements[place][0] in ("style", "script") for place in self._open):
            self.words += data.split()

    def all(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        return [(a, self.named.get(n, "")) for n, (t, a) in enumerate(self.elements) if t == tag]


def test_the_notebook_holds_one_finished_output_a_reply_and_nothing_hostile(shown: Any) -> None:
    for name in REPLIES:
        data = shown(name)
        assert set(data) == {"text/html", "text/markdown", "text/plain", TWIN}
        data.pop(TWIN)
        assert faults(data) == [], name
        for kind in data:
            assert "Simulated reply" in data[kind]


# --- exporters ----------------------------------------------------------------------------------


@pytest.mark.parametrize("template", ["lab", "classic", "basic"])
def test_an_exported_page_has_the_replies_as_they_are(notebook: Any, shown: Any, template: str) -> None:
    page, _ = HTMLExporter(template_name=template).from_notebook_node(notebook)
    words = " ".join(Page(page).words)  # it is parsed and written anew, so entities may differ
    for name in REPLIES:
        assert " ".join(Page(shown(name)["text/html"]).words) in words, name
    assert page.count('class="kimi-footer"') == len(REPLIES)
    assert page.count("Simulated reply: no model was asked") == len(REPLIES)
    assert "vnd.jupyter.widget-view" not in page


def test_a_formula_of_an_exported_page_is_set_by_its_mathjax_and_money_is_not(shown: Any) -> None:
    """It reads `\\(…\\)`, skips `tex2jax_ignore` or `mathjax_ignore`, and works below `…_process`."""
    html = shown("rich")["text/html"]
    assert html.startswith('<div class="kimi jp-RenderedHTMLCommon mathjax_ignore tex2jax_ignore">')
    formulas = re.findall(r'<span class="mathjax_process tex2jax_process"[^>]*>(.*?)</span>', html)
    formulas += re.findall(r'<div class="mathjax_process tex2jax_process"[^>]*>(.*?)</div>', html, re.DOTALL)
    assert formulas
    assert all(re.match(r"\\[(\[]|\$\$|\\begin", formula.strip()) for formula in formulas)


def test_exported_markdown_keeps_each_reply_in_one_block_of_html(notebook: Any, shown: Any) -> None:
    """Where an empty line ended it, what follows would be read as markdown, code above all."""
    markdown, _ = MarkdownExporter().from_notebook_node(notebook)
    assert "\n\n\n    " not in shown("rich")["text/html"]
    blocks = [t.content for t in MarkdownIt("commonmark").parse(markdown) if t.type == "html_block"]
    for name in REPLIES:
        assert any(shown(name)["text/html"].strip() in block for block in blocks), name
    assert "<style" not in MarkdownIt("commonmark", {"html": False}).render("x")


def test_exported_latex_is_latex_with_its_formulas_and_without_html(notebook: Any) -> None:
    if shutil.which("pandoc") is None:
        pytest.skip("pandoc is not installed")
    latex, _ = LatexExporter().from_notebook_node(notebook)
    body = latex.partition(r"\begin{document}")[2]
    assert not re.search(r"</?(div|span|details|style|table)\b", body)
    assert r"\frac" in body
    assert not re.search(r"\\\$|textbackslash\{\}frac", body.partition("Compare the sites")[2][:0])
    assert "基尼系数" in body
    assert "longtable" in body


# --- sites that strip ---------------------------------------------------------------------------

GITHUB_TAGS = {
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "br",
    "b",
    "i",
    "strong",
    "em",
    "a",
    "pre",
    "code",
    "img",
    "tt",
    "div",
    "ins",
    "del",
    "sup",
    "sub",
    "p",
    "picture",
    "ol",
    "ul",
    "table",
    "thead",
    "tbody",
    "tfoot",
    "blockquote",
    "dl",
    "dt",
    "dd",
    "kbd",
    "q",
    "samp",
    "var",
    "hr",
    "ruby",
    "rt",
    "rp",
    "li",
    "tr",
    "td",
    "th",
    "s",
    "strike",
    "summary",
    "details",
    "caption",
    "figure",
    "figcaption",
    "abbr",
    "bdo",
    "cite",
    "dfn",
    "mark",
    "small",
    "source",
    "span",
    "time",
    "wbr",
}
GITHUB_ATTRIBUTES = {
    "a": {"href"},
    "img": {"src", "alt"},
    "td": {"align"},
    "th": {"align", "scope"},
    "details": {"open"},
}


def test_where_styles_and_classes_are_stripped_all_words_stay_in_order(shown: Any) -> None:
    for name in REPLIES:
        html = shown(name)["text/html"]
        stripped = nh3.clean(
            html, tags=GITHUB_TAGS, attributes=GITHUB_ATTRIBUTES, clean_content_tags={"style"}
        )
        assert "style" not in stripped
        assert Page(stripped).words == Page(html).words, name
        assert stripped.count("<details") == html.count("<details")
        assert stripped.count("<tr>") == len(re.findall("<tr[ >]", html))


def test_colours_have_fallbacks_where_the_front_end_has_no_variables() -> None:
    variables = re.findall(r"var\(([^)]*)\)", style.rules())
    assert variables
    assert [v for v in variables if not re.fullmatch(r"--jp-[\w-]+, #[0-9a-f]{3,6}", v)] == []
    assert "@import" not in style.rules()


# --- screen readers -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", REPLIES)
def test_what_can_be_folded_links_tables_and_images_have_names(shown: Any, name: str) -> None:
    page = Page(shown(name)["text/html"])
    assert page.all("details")
    assert page.first.count(("details", "summary")) == len(page.all("details"))
    assert all("display:list-item" in str(a["style"]) for a, _ in page.all("summary"))  # with its triangle
    for tag in ("summary", "a", "th"):
        assert [words for _, words in page.all(tag) if not words.strip()] == []
    assert all(attributes.get("alt") for attributes, _ in page.all("img"))
    assert all(
        a.get("role") == "note"
        for a, words in page.all("div")
        if words.startswith("Simulated reply") and "kimi-badge" in str(a.get("class"))
    )
    assert [a for a, _ in page.all("span") + page.all("div") if a.get("aria-hidden")] == []


def test_a_reply_s_headings_go_down_in_steps(shown: Any) -> None:
    for name in REPLIES:
        levels = [
            int(tag[1]) for tag, _ in Page(shown(name)["text/html"]).elements if re.fullmatch("h[1-6]", tag)
        ]
        assert all(after - before <= 1 for before, after in pairwise(levels)), name


# --- wide tables, Chinese, reasons --------------------------------------------------------------


def test_a_wide_table_scrolls_in_its_own_box(shown: Any) -> None:
    html = shown("wide")["text/html"]
    assert re.search(r"<(section|div)[^>]*style=\"overflow-x:auto\"[^>]*>\s*<table>", html)


def test_chinese_has_no_stray_marks(shown: Any) -> None:
    words = " ".join(Page(shown("chinese")["text/html"]).words)
    assert "**" not in words
    assert re.search(r"[\u4e00-\u9fff]{4}", words)


def test_why_a_reply_was_cut_is_said_in_each_type(shown: Any) -> None:
    data = shown("cut")
    told = "The reply ends in the middle: max_tokens (16,384) was reached. Raise it (-n; in the panel: Most"
    assert f">{told} tokens), or ask it to go on.</div>" in data["text/html"]
    assert "cut at max_tokens" in data["text/html"]
    assert f"[{told} tokens), or" in data["text/plain"]
    assert f"*{told} tokens), or" in data["text/markdown"].replace("\\_", "_")


def test_capture_keeps_one_finished_output_of_all_types(notebook: Any) -> None:
    cell = notebook.cells[list(CELLS).index("captured")]
    assert cell.outputs == []
    printed = notebook.cells[list(CELLS).index("kept")].outputs[0].text
    assert printed.split() == ["1", TWIN, "text/html", "text/markdown", "text/plain"]


def test_a_reply_is_shown_again_as_it_was(shown: Any) -> None:
    assert shown("again") == shown("rich")


def test_a_reply_of_an_earlier_kernel_is_shown_from_what_is_stored_of_it() -> None:
    chat = Notebook()
    assert chat.ask("-e low", "What is an owl?") is None
    unload(chat.shell)  # and what was shown is forgotten
    load(chat.shell, chat.kimi.settings, lambda: chat.kimi)
    key = chat.kimi.conversation.path()[0].id
    for word in ("", "1", key[:6]):
        assert chat.run(f"%kimi show {word}") is None
        assert "owl" in chat.printed
        assert "Simulated reply" in chat.printed
    for wrong, error in (("7", ConversationError), ("zzzz", ConversationError), ("1 2", OptionError)):
        assert isinstance(chat.run(f"%kimi show {wrong}"), error)
    chat.close()


def test_a_table_of_ours_has_a_twin_in_text(shown: Any) -> None:
    data = shown("table")
    assert faults(data) == []
    assert "<table>" in data["text/html"]
    assert "k3.1-pro" in data["text/plain"]


# --- terminals ----------------------------------------------------------------------------------


def test_a_terminal_shows_the_reply_as_text_and_a_pipe_gets_no_colour(tmp_path: Path) -> None:
    cells = "%load_ext kimi_magic\n%kimi Say hello with a formula.\n%kimi show\n%kimi usage\nexit\n"
    env = {**os.environ, "KIMI_MAGIC_STORE": "off", "IPYTHONDIR": str(tmp_path), "COLUMNS": "100"}
    ran = subprocess.run(
        [sys.executable, "-m", "IPython", "--no-banner", "--simple-prompt", "--colors=NoColor", "-i"],
        input=cells,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    assert "\x1b" not in ran.stdout
    assert "Thinking: " in ran.stdout
    assert ran.stdout.count("Simulated reply") >= 2
    assert "<div" not in ran.stdout
    assert "kimi-k3.1-pro · effort max" in ran.stdout
