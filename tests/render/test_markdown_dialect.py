"""Each case of the text files: rendered whole, and cut at every position."""

import pytest
from cases import read

from kimi_magic.render import Incremental, render_markdown

CASES = {
    f"{name}: {title}": parts
    for name in ("cjk", "math", "dialect")
    for title, parts in read(f"{name}.txt", 2).items()
}


@pytest.mark.parametrize("title", CASES)
def test_markdown_becomes_this_html(title):
    source, html = CASES[title]
    assert render_markdown(source).rstrip("\n") == html


@pytest.mark.parametrize("title", CASES)
def test_wherever_the_text_is_cut_the_html_is_the_same(title):
    source, html = CASES[title]
    for cut in range(len(source) + 1):
        stream = Incremental()
        stream.feed(source[:cut])
        stream.tail()
        stream.feed(source[cut:])
        assert stream.html().rstrip("\n") == html, f"cut at {cut}"


@pytest.mark.parametrize("title", CASES)
def test_character_by_character_each_state_is_that_of_the_text_so_far(title):
    source, _ = CASES[title]
    stream = Incremental()
    for index, char in enumerate(source):
        stream.feed(char)
        assert "".join(stream.frozen) + stream.tail() == render_markdown(source[: index + 1])
