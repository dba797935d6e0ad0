"""Highlighting colours the source and never changes it."""

import pytest
from allowlist import text_of, violations
from hypothesis import given, settings
from hypothesis import strategies as st
from pygments.lexers import get_lexer_by_name

from kimi_magic.render.code import LANGUAGES, MAX_HIGHLIGHTED, STYLE, code_html, highlight, language

SOME = [
    "python",
    "pycon",
    "r",
    "julia",
    "sql",
    "bash",
    "json",
    "yaml",
    "html",
    "cpp",
    "latex",
    "diff",
    "none",
]


@settings(deadline=None)
@given(st.sampled_from(SOME), st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"])))
def test_the_text_inside_is_the_source(name, source):
    assert text_of(highlight(source, name)) == source
    assert violations(code_html(source, name)) == []


@pytest.mark.parametrize(
    ("info", "name"),
    [
        ("python", "python"),
        ("Python title=x", "python"),
        ("{r} echo=FALSE", "r"),
        ("{.python .numberLines}", "python"),
        ("c++", "c++"),
        ("js:app.js", "js"),
        ("", ""),
        ('"><script>', ""),
        ("语言", ""),
    ],
)
def test_the_language_is_the_first_word_of_the_info_string(info, name):
    assert language(info) == name


def test_what_is_too_long_or_unknown_or_open_is_plain():
    assert "<span" in highlight("x = 1", "python")
    assert "<span" not in highlight("x = 1\n" * MAX_HIGHLIGHTED, "python")
    assert "<span" not in highlight("x = 1", "nosuchlanguage")
    assert "<span" not in highlight("x = 1 " * 200, "python")
    assert "<span" not in highlight("x = 1" + "\n" * 60, "python")
    assert "<span" not in highlight("x = 1", "lilypond")  # needs minutes for some lines
    assert "<span" not in code_html("x = 1", "python", closed=False)


def test_every_language_is_one_that_pygments_has():
    for name in sorted(LANGUAGES - {"yml"}):  # a short form that only later ones know
        assert get_lexer_by_name(name)
    assert highlight("a: 1", "yml") == highlight("a: 1", "yaml")


def test_every_class_has_a_style():
    source = 'import x\n@a\nclass B(Exception):\n    def c(self): return len("d") + 1 is None  # e\n'
    html = highlight(source, "python") + highlight("+a\n-b\n@@ c\n", "diff")
    for word in (
        "keyword",
        "meta",
        "name",
        "builtin",
        "string",
        "number",
        "operator",
        "comment",
        "inserted",
        "deleted",
    ):
        assert f'class="kimi-{word}"' in html
        assert f".kimi-{word} " in STYLE
