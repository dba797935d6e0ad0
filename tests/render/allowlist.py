"""What may stand in the HTML of a reply's markdown: less than in all that is published."""

import re

from published import LINK, TAGS, Judge, judged

MARKDOWN_TAGS = TAGS - {"details", "img", "style", "summary"}
ATTRIBUTES = {"href", "title", "target", "rel", "class", "style", "start", "role", "aria-label"}
CLASS = re.compile(r"(kimi-[a-z]+|language-[\w+#.-]+|mathjax_process|tex2jax_process)")
STYLE = re.compile(r"(overflow-x:auto|list-style-type:none|text-align:(left|center|right))")


class _MarkdownJudge(Judge):
    @staticmethod
    def is_allowed(name: str, value: str) -> bool:
        if name == "class":
            return all(CLASS.fullmatch(word) for word in value.split())
        if name == "style":
            return STYLE.fullmatch(value) is not None
        if name == "href":
            return LINK.match(value) is not None
        return name in ATTRIBUTES


def violations(html: str) -> list[str]:
    """Elements and attributes in `html` that are not on the list."""
    return judged(html, _MarkdownJudge(MARKDOWN_TAGS)).found


def text_of(html: str) -> str:
    """What a reader of `html` sees."""
    return "".join(judged(html, _MarkdownJudge()).text)
