"""Terminal text: the source, character by character, with colours between."""

import re
from itertools import pairwise

from cases import COMMONMARK
from hypothesis import given, settings
from hypothesis import strategies as st

from kimi_magic.render import DIM, Terminal, plain_text

SGR = re.compile("\x1b\\[0?(;[0-9]+)*m")
texts = st.lists(
    st.sampled_from([*COMMONMARK, "**", "`", "```\n", "# ", "\n", "\r", "a", " ", "\ud83d"])
).map("".join)


def shown(text, **options):
    terminal = Terminal(**options)
    return terminal.feed(text) + terminal.close()


@settings(deadline=None)
@given(texts, st.data())
def test_the_output_does_not_depend_on_the_cuts_and_loses_nothing(text, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=10)))
    edges = [0, *cuts, len(text)]
    terminal = Terminal()
    pieces = [terminal.feed(text[start:end]) for start, end in pairwise(edges)]
    out = "".join(pieces) + terminal.close()
    assert out == shown(text)
    assert SGR.sub("", out) == plain_text(text)


def test_text_is_written_as_it_comes():
    terminal = Terminal()
    assert terminal.feed("Hello wor") == "Hello wor"
    assert terminal.feed("ld **") == "ld "
    assert terminal.feed("bold") == "\x1b[0;1m**bold"
    assert terminal.feed("** x") == "**\x1b[0m x"


def test_headings_quotes_code_and_bold_have_colours():
    assert shown("# a\nb") == "\x1b[0;1m# a\x1b[0m\nb"
    assert shown("> a") == "\x1b[0;2m> a\x1b[0m"
    assert shown("a `b *c*` d") == "a \x1b[0;36m`b *c*`\x1b[0m d"
    assert (
        shown("```py\n# x\n```\ny") == "\x1b[0;2m```py\x1b[0m\n\x1b[0;36m# x\x1b[0m\n\x1b[0;2m```\x1b[0m\ny"
    )


def test_stars_that_mean_nothing_stay_plain():
    assert shown("2 ** 3 and 4 * 5") == "2 ** 3 and 4 * 5"


def test_a_style_lies_below_everything_and_ends_at_the_close():
    assert shown("a **b** c", style=DIM) == "\x1b[0;2ma \x1b[0;1m**b**\x1b[0;2m c\x1b[0m"


def test_without_colour_there_is_no_escape_at_all():
    assert shown("# **a** \x1b[31m`b`", color=False) == "# **a** \ufffd[31m`b`"
