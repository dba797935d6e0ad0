"""`text/markdown` for exporters: it says what the reply says, to any reader."""

import re
import shutil

import pytest
from allowlist import text_of
from cases import COMMONMARK, read
from markdown_it import MarkdownIt
from nbconvert.filters.markdown import markdown2latex

from kimi_magic.render import one_line, plain_text, render_markdown, safe_markdown

READER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
MATH = [source for source, _ in read("math.txt", 2).values()]
DIALECT = [source for source, _ in read("dialect.txt", 2).values() if "[^" not in source]


def words(html):
    return "".join(text_of(html).split())


def test_it_says_the_same_as_the_original():
    for source in [*COMMONMARK, *MATH, *DIALECT]:
        assert words(render_markdown(safe_markdown(source))) == words(render_markdown(source)), source


def test_a_plain_commonmark_reader_sees_the_same_emphasis_beside_full_width_punctuation():
    for source, html in read("cjk.txt", 2).values():
        seen = READER.render(safe_markdown(source))
        assert seen.count("<strong>") == html.count("<strong>"), source
        assert seen.count("<em>") == html.count("<em>"), source


MARKS = "，。、；：？！（）【】《》〈〉「」『』…—·～￥％＋－＝＊＆＃＠｛｝［］〔〕〖〗｜＼／﹏﹑﹔﹖・〝〞｡｢､"


@pytest.mark.parametrize("mark", ["**", "*", "***", "~~"])
def test_emphasis_beside_any_full_width_mark_is_emphasis_to_every_reader(mark):
    for p in MARKS:
        for inside in (f"中{p}", f"{p}中", f"{p}中{p}", f"`c`{p}", f"[l](https://a.cn){p}", f"$x${p}"):
            source = f"前{mark}{inside}{mark}后"
            for html in (render_markdown(source), READER.render(safe_markdown(source))):
                assert mark[0] not in text_of(html).replace("$", ""), source
                assert "<em>" in html or "<strong>" in html or "<s>" in html, source


@pytest.mark.parametrize(
    ("source", "markdown"),
    [
        ("**提醒：**今晚", "**提醒**：今晚\n"),
        ("**`pip`**，好", "**`pip`**，好\n"),
        ("前***`pip`***后", "前\u200a***`pip`***\u200a后\n"),
        ("用**`pip`**装", "用\u200a**`pip`**\u200a装\n"),
        ("***重点！***请看***这里***吧", "***重点***！请看***这里***吧\n"),
        (r"\(a_1\) and $5", "$a_1$ and \\$5\n"),
        ("\\[\nx\n\\]", "$$\nx\n$$\n"),
        ("\\[\\begin{align}\nx\n\\end{align}\\]", "\\begin{align}\nx\n\\end{align}\n"),
        ("`a`{=latex}", "`a`\\{=latex}\n"),
        ("% a\nx^2^ ^[b] c", "\\% a\nx\\^2^ \\^[b] c\n"),
        ("\\begin{cases}x\\end{cases}", "$$\n\\begin{cases}x\\end{cases}\n$$\n"),
        ("$a<b$", "$a< b$\n"),
        ("a <b> & &amp; c", "a &lt;b> & & c\n"),
        ("![x](https://a.cn/b.png)", "[x](https://a.cn/b.png)\n"),
        ("[x](vscode://y)", "x\n"),
        ("https://a.cn/b，", "<https://a.cn/b>，\n"),
        ("- a\n  - b\n\n      c\n- d", "- a\n  - b\n\n    c\n- d\n"),
        ("3. a\n4. b", "3. a\n4. b\n"),
        ("> a\n>\n> b", "> a\n>\n> b\n"),
        ("| a | b |\n| :- | -: |\n| `x\\|y` | $p$ |", "| a | b |\n| :-- | --: |\n| `x\\|y` | $p$ |\n"),
        ("# a #b\n\n---", "# a #b\n\n***\n"),
        ("- [x] done", "- [x] done\n"),
        ("a  \nb", "a\\\nb\n"),
        ("snake_case and _x_", "snake_case and *x*\n"),
        ("a[^1]\n\n[^1]: https://b.cn", "a&#91;^1\\]\n\n***\n\n&#91;^1\\] <https://b.cn>\n"),
        ("", ""),
    ],
)
def test_it_is_written_like_this(source, markdown):
    assert safe_markdown(source) == markdown


INTO_LATEX = [
    r"`\input{x}`{=latex} **`\input{x}`**{=latex}",
    "```{=latex}\n\\input{x}\n```",
    r"$\input{x}$ $^^5cinput{x}$ $\openin5=x$ $\verbatiminput{x}$ \(\end{document}\) $}\input{x}$",
    r"\begin{align}a\end{align}\input{x}",
    r"\input{x} \newcommand{\input}{x} &#92;input{x} [\input{x}](https://a.cn/\input{x})",
]


def test_nothing_but_formulas_becomes_latex_to_a_reader_that_writes_it() -> None:
    if shutil.which("pandoc") is None:
        pytest.skip("pandoc is not installed")
    latex = markdown2latex(safe_markdown("\n\n".join(INTO_LATEX)))
    shown = re.sub(r"\\begin{verbatim}.*?\\end{verbatim}", "", latex, flags=re.DOTALL)
    for macro in ("input", "openin", "verbatiminput", "newcommand", "end{document}"):
        assert f"\\{macro}" not in shown


def test_all_fences_are_longer_than_any_run_of_backticks_in_code():
    markdown = safe_markdown("```\na\n```\n\n````\n```\n````\n\n    `````\n")
    assert markdown.count("``````") == 6


def test_plain_text_is_the_source_without_what_a_terminal_obeys():
    assert plain_text("**a**\r\nb\x1b[31m\u202e\ud83d\ude00\ud83d") == "**a**\nb\ufffd[31m\ufffd😀\ufffd"
    assert plain_text("甲\u2028乙\u2029丙 👩‍🔬") == "甲\u2028乙\u2029丙 👩‍🔬"


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ('Plain words, (mostly) of 50%: yes?\nAnd "more".', 'Plain words, (mostly) of 50%: yes? And "more".'),
        ("It _is_ **so**, says `x`.", "It is so, says x."),
        ("1. One\n2. Two", "One Two"),
        ("# Head\n\nBody", "Head Body"),
        ("  indented [link](https://a.org)", "indented link"),
        ("中文，也行。", "中文，也行。"),
    ],
)
def test_one_line_has_the_words_without_their_markup(source, line):
    assert one_line(source) == line
