"""Texts that bring careless parsers to a halt: twice as long is twice the work, and they end."""

import sys

import pytest

from kimi_magic.render import Incremental, Terminal, render_markdown, safe_markdown

SHAPES = {
    "brackets": lambda n: "[" * n,
    "links never closed": lambda n: "[a](" * (n // 4),
    "images in images": lambda n: "![" * (n // 2),
    "stars": lambda n: "*a **a " * (n // 7),
    "stars and underscores": lambda n: "*_" * (n // 2),
    "emphasis in emphasis": lambda n: "*a _b " * (n // 11) + "c_ d* " * (n // 11),
    "emphasis beside emphasis": lambda n: "a**b**" * (n // 6),
    "backticks of all lengths": lambda n: "".join("`" * (i % 100) + "a" for i in range(n // 50)),
    "angles": lambda n: "<a" * (n // 2),
    "dollars": lambda n: "$a " * (n // 3),
    "escaped dollars": lambda n: "$" + "\\$" * (n // 2),
    "round brackets never closed": lambda n: "\\(" * (n // 2),
    "square brackets never closed": lambda n: "\\[a " * (n // 4),
    "block formulas never closed": lambda n: "\\begin{align}\n" * (n // 14),
    "quotes": lambda n: ">" * n,
    "lists in lists": lambda n: "- " * (n // 2) + "a",
    "lists deeper and deeper": lambda n: "".join(" " * 2 * i + "- a\n" for i in range(int(n**0.5))),
    "a wide table": lambda n: "|a" * (n // 8) + "\n" + "|-" * (n // 8) + "\n|b\n",
    "a long table": lambda n: "a|b\n-|-\n" + "x|y\n" * (n // 4),
    "references": lambda n: "".join(f"[{i}]: http://a/{i}\n" for i in range(n // 20)),
    "a label that never ends": lambda n: "[a\n" * (n // 3),
    "a title that never ends": lambda n: "[a]: /u '" + "x\n" * (n // 2),
    "links in a row": lambda n: "http://" * (n // 7),
    "a link of dots": lambda n: "http://a/" + "." * n,
    "a link of brackets": lambda n: "http://a/" + ")" * n,
    "footnote marks": lambda n: "[^a]: x\n\n" + "[^a]" * (n // 4),
    "newlines": lambda n: "\n" * n,
    "one long line": lambda n: "word " * (n // 5),
    "one long paragraph": lambda n: "word\n" * (n // 5),
    "full-width stars": lambda n: "**提：**今" * (n // 7),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_twice_as_long_is_twice_the_work(shape):
    make = SHAPES[shape]
    assert _work(make(5_000)) < 3.2 * _work(make(2_500)) + 2_000


LONG = ["quotes", "lists in lists", "dollars", "a link of brackets", "emphasis in emphasis"]


@pytest.mark.parametrize("shape", [*LONG, "emphasis beside emphasis"])
def test_two_hundred_thousand_characters_come_to_an_end(shape):
    text = SHAPES[shape](200_000)
    assert render_markdown(text)
    assert safe_markdown(text)


def test_the_depth_of_elements_is_bounded():
    stream = Incremental()
    stream.feed("> - " * 2_000 + "a")
    assert stream.html().count("<blockquote>") < 40
    assert stream.html().count("&gt;") > 1_900  # nothing is lost
    html = render_markdown(SHAPES["emphasis in emphasis"](20_000))
    assert html.count("<em>") == html.count("</em>") == 20
    assert html.count("*") + html.count("_") > 7_000


def test_a_terminal_holds_back_no_endless_run_of_marks():
    for mark in "*`~":
        terminal, written = Terminal(), 0
        for count in range(1_000):
            written += terminal.feed(mark).count(mark)
            assert count - written < 64
        assert written + terminal.close().count(mark) == 1_000


def _work(text):
    """Calls of Python functions while `text` is rendered, plus the length of the result."""
    count = 0

    def tick(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(tick)
    try:
        html = render_markdown(text)
    finally:
        sys.setprofile(before)
    return count + len(html)
