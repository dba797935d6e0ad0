"""Whatever a model writes: nothing outside the allowlist, in any form that we publish."""

import re

import mistune
import pytest
from allowlist import text_of, violations
from cases import COMMONMARK, read
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from kimi_magic.render import Incremental, Terminal, one_line, plain_text, render_markdown, safe_markdown
from kimi_magic.render.sanitise import safe_url, sanitise
from kimi_magic.render.source import code_span, escape_text

HOSTILE = {title: source for title, [source] in read("hostile.txt", 1).items()}
PIECES = [*HOSTILE.values(), *[line for text in HOSTILE.values() for line in text.split("\n")], *COMMONMARK]
hostile = st.lists(st.sampled_from(PIECES), max_size=6).flatmap(
    lambda parts: st.sampled_from(["", "\n", "\n\n", " "]).map(lambda glue: glue.join(parts))
)

FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
PRINTABLE = "".join(c for c in map(chr, range(0x110000)) if c.isprintable())
SGR = re.compile("\x1b\\[0?(;[0-9]+)*m")

COMMON = MarkdownIt("commonmark", {"html": True})
GFM = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
GFM.validateLink = lambda url: True  # as marked has it
MISTUNE = mistune.create_markdown(
    escape=False, plugins=["table", "strikethrough", "footnotes", "math", "url"]
)
MISTUNE.renderer.safe_url = lambda url: url  # nothing of its own protection
READERS = {"CommonMark": COMMON.render, "GFM": GFM.render, "mistune": lambda text: str(MISTUNE(text))}


def outside(html):
    """What a reader's HTML has beyond the allowlist; its own ways of saying the same are let through."""
    html = re.sub(r"<(/?)del>", r"<\1s>", html)
    return [
        found for found in violations(html) if not found.startswith(("<div class='math", "<span class='math"))
    ]


@pytest.mark.parametrize("title", HOSTILE)
def test_html_stays_inside_the_allowlist(title):
    html = render_markdown(HOSTILE[title])
    assert violations(html) == []
    assert not FORBIDDEN.search(html)
    assert sanitise(html) == html


@pytest.mark.parametrize("title", HOSTILE)
def test_streamed_html_stays_inside_the_allowlist_at_every_moment(title):
    stream = Incremental()
    for char in HOSTILE[title]:
        stream.feed(char)
        assert violations("".join(stream.frozen) + stream.tail()) == []


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("title", HOSTILE)
def test_safe_markdown_is_inert_where_raw_html_is_allowed(title, reader):
    markdown = safe_markdown(HOSTILE[title])
    assert not FORBIDDEN.search(markdown)
    assert outside(READERS[reader](markdown)) == []


@settings(deadline=None, max_examples=250)
@given(hostile)
def test_any_mixture_is_inert_in_every_form(text):
    assert violations(render_markdown(text)) == []
    markdown = safe_markdown(text)
    for read_by in READERS.values():
        assert outside(read_by(markdown)) == []


@settings(deadline=None, max_examples=150)
@given(hostile)
def test_safe_markdown_of_safe_markdown_says_the_same(text):
    once = safe_markdown(text)
    assert text_of(render_markdown(safe_markdown(once))) == text_of(render_markdown(once))


@pytest.mark.parametrize("title", HOSTILE)
def test_plain_text_and_terminal_obey_nothing(title):
    source = HOSTILE[title]
    assert not FORBIDDEN.search(plain_text(source))
    assert not FORBIDDEN.search(one_line(source))
    for color in (True, False):
        terminal = Terminal(color=color)
        out = "".join(terminal.feed(char) for char in source) + terminal.close()
        assert SGR.sub("", out) == plain_text(source)


@settings(deadline=None)
@given(st.text())
def test_no_renderer_sees_markup_in_escaped_text(text):
    html = COMMON.renderInline(escape_text(plain_text(text)))
    assert "<" not in html.replace("<br />", "")


@settings(deadline=None)
@given(st.text(alphabet="`a \\<$", min_size=1))
def test_a_code_span_holds_what_was_put_in(code):
    assert text_of(COMMON.renderInline(code_span(code))) == code


def test_half_a_surrogate_pair_waits_for_the_other_half():
    stream = Incremental()
    stream.feed("a\ud83d")
    stream.feed("\ude00b")
    assert stream.html() == "<p>a😀b</p>\n"


@pytest.mark.parametrize("url", ["https://a.cn", "HTTP://a.cn/b?c#d", "mailto:a@b.cn", "https://[::1]/"])
def test_these_links_are_followed(url):
    assert safe_url(url)


@pytest.mark.parametrize(
    "url",
    [
        *["", "a", "//a.cn", "javascript:x", " https://a.cn", "https:a", "https://", "http:///a", "mailto:"],
        *["https:\\\\a.cn", "https://a.cn\n", "https://a\u202e.cn", "vscode://a"],
    ],
)
def test_these_links_are_not(url):
    assert not safe_url(url)


def test_the_sanitiser_alone_stops_what_the_renderer_never_makes():
    assert sanitise('<p id="a" onclick="b" style="position:fixed">x<script>y</script></p>') == "<p>x</p>"
    assert sanitise('<a href="javascript:x">y</a>') == '<a rel="noopener noreferrer">y</a>'
    assert (
        sanitise('<div style="overflow-x:auto;color:red">x</div>') == '<div style="overflow-x:auto">x</div>'
    )


def test_no_character_that_prints_would_be_obeyed():
    """So such text is published as it is, without a closer look."""
    assert FORBIDDEN.search(PRINTABLE) is None
