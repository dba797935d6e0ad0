"""The stream's promise: equal to the whole, frozen blocks stay, and the work is linear."""

import sys
from itertools import pairwise

from cases import COMMONMARK
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kimi_magic.render import Incremental, render_markdown

SNIPPETS = [
    "\n", "\n\n", " ", "    ", "|", "-", "$$", "`", "\r", "\r\n", "\ud83d", "\ude00", "\x1b[0m",
    "$$\na\n$$\n", "\\[\nx\n\nz\n\\]", "\\begin{align}\na\n\\end{align}. more *text*\n",
    "text\n\\[ x \\]\nmore\n",
    "a|b\n--|--\n1|2\n", "x\na | b\n--|--\n", "# a | b\n--|--\n",
    "[^1]: note\n\n    deep\n", "see [^1] and [^x]\n", "[^x]: y", "[foo]: /url\n'ti\n\ntle'\n",
    "[foo]: http://x.y\n'ti\ntle'\n", "[foo] [bar]\n", "[bar]: https://b.c\n", "> [foo]: https://d.e\n",
    "```py\nx=1\n", "~~~~\nabc\n~~~\n", "- a\n  - b\n\n    c\n", "1. x\n2. y\n", "> q\nlazy\n", "- [ ] t\n",
    "$a$ costs $5\n", "    code\n", "**提醒：**今\n", "http://a.b/c查\n", "![i](http://x)\n", "- - - \\[\n",
    "> $$\n> x\n> $$ tail\n> more\n", "\\", "\\(", "(", ")", "**", "===\n",
]  # fmt: skip

texts = st.lists(st.sampled_from(COMMONMARK + SNIPPETS * 8), max_size=10).map("".join)


@settings(deadline=None, max_examples=150)
@given(texts, st.data())
@example("[foo]: /url\n'title 1\n\n[foo]\n\nx", None)
@example("a\n\n[foo]\n\n[foo]: https://a.cn\n'x\ny'\n\nb\n", None)
@example("a|b\n\n# a|b\n-|-\n\nx\n", None)
def test_any_text_in_any_pieces_renders_as_the_whole(text, data):
    cuts = [] if data is None else data.draw(st.lists(st.integers(0, len(text)), max_size=20))
    edges = [0, *(sorted(cuts) if data is not None else range(1, len(text))), len(text)]
    stream = Incremental()
    for start, end in pairwise(edges):
        stream.feed(text[start:end])
        assert "".join(stream.frozen) + stream.tail() == render_markdown(text[:end])
    assert stream.html() == render_markdown(text)


@settings(deadline=None, max_examples=80)
@given(texts)
def test_frozen_html_stays_as_it_is_unless_the_revision_says_otherwise(text):
    stream = Incremental()
    frozen, revision = stream.frozen, stream.revision
    for start in range(0, len(text), 7):
        stream.feed(text[start : start + 7])
        now = stream.frozen
        if stream.revision == revision:
            assert now[: len(frozen)] == frozen
        frozen, revision = now, stream.revision


def test_a_late_definition_changes_the_blocks_that_asked_for_it_and_no_others():
    stream = Incremental()
    stream.feed("one [a]\n\ntwo [b]\n\nthree\n\n")
    before = stream.frozen
    stream.feed("[a]: https://a.cn\n")
    after = stream.frozen
    assert stream.revision == 1
    assert "href" in after[0]
    assert after[1:] == before[1:]


def test_closed_blocks_freeze_as_soon_as_the_next_line_is_known():
    stream = Incremental()
    for text, count in [("# a\n", 0), ("\n", 1), ("b\n", 1), ("\n", 2), ("```py\nx\n```\n", 2), ("\n", 3)]:
        stream.feed(text)
        assert len(stream.frozen) == count, text


def test_a_code_block_is_coloured_when_its_fence_closes():
    stream = Incremental()
    stream.feed("```python\ndef f(): pass\n")
    assert "<span" not in stream.tail()
    stream.feed("```\n")
    assert "<span" in stream.html()


def test_feeding_alone_parses_nothing():
    assert _calls(lambda: [stream.feed("*a* ") for stream in [Incremental()] for _ in range(1000)]) < 10_000


PARAGRAPHS = "Some **bold** text with `code`, $x_1$ and [a link](https://a.cn).\n\n"
MIXED = PARAGRAPHS + "- a\n- b\n\n| a | b |\n| - | - |\n| 1 | 2 |\n\n```\ncode\n```\n\n[ref] [^1]\n\n"


def test_twice_the_text_is_twice_the_work_while_it_streams():
    def stream(count):
        text, incremental = MIXED * count, Incremental()
        for start in range(0, len(text), 100):
            incremental.feed(text[start : start + 100])
            incremental.tail()

    assert _calls(lambda: stream(40)) < 2.5 * _calls(lambda: stream(20))


def test_definitions_at_the_end_cost_only_the_blocks_that_use_them():
    def stream(count):
        incremental = Incremental()
        incremental.feed("".join(f"text [{n}] more\n\n" for n in range(count)))
        incremental.tail()
        for n in range(count):
            incremental.feed(f"[{n}]: https://a.cn/{n}\n\n")
        incremental.tail()

    assert _calls(lambda: stream(80)) < 2.5 * _calls(lambda: stream(40))


def _calls(work):
    """How many functions `work` calls: its cost, the same on every machine."""
    count = 0

    def tick(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    render_markdown(MIXED)  # what is made once is made before
    before = sys.getprofile()
    sys.setprofile(tick)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count
