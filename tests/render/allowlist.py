"""What may stand in HTML that is shown: checked by a parser of its own, not by the sanitiser's."""

import re
from html.parser import HTMLParser

TAGS = set(
    re.findall(
        r"\w+",
        "a blockquote br code div em h1 h2 h3 h4 h5 h6 hr li ol p pre s section span strong sup "
        "table tbody td th thead tr ul",
    )
)
ATTRIBUTES = {"href", "title", "target", "rel", "class", "style", "start", "role", "aria-label"}
CLASS = re.compile(r"(kimi-[a-z]+|language-[\w+#.-]+|mathjax_process|tex2jax_process)")
STYLE = re.compile(r"(overflow-x:auto|list-style-type:none|text-align:(left|center|right))")
LINK = re.compile(r"(https?://[^/]|mailto:.)", re.IGNORECASE)


class _Checker(HTMLParser):
    def __init__(self, tags: set[str]) -> None:
        super().__init__(convert_charrefs=True)
        self.tags = tags
        self.found: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.tags:
            self.found.append(f"<{tag}>")
        for name, value in attrs:
            if not self._allowed(name, value or ""):
                self.found.append(f"<{tag} {name}={value!r}>")

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def handle_comment(self, data: str) -> None:
        self.found.append(f"<!--{data}-->")

    def handle_decl(self, decl: str) -> None:
        self.found.append(f"<!{decl}>")

    def handle_pi(self, data: str) -> None:
        self.found.append(f"<?{data}>")

    def unknown_decl(self, data: str) -> None:
        self.found.append(f"<![{data}]>")

    @staticmethod
    def _allowed(name: str, value: str) -> bool:
        if name == "class":
            return all(CLASS.fullmatch(word) for word in value.split())
        if name == "style":
            return STYLE.fullmatch(value) is not None
        if name == "href":
            return LINK.match(value) is not None
        return name in ATTRIBUTES


def violations(html: str, *, extra: set[str] | None = None) -> list[str]:
    """Elements and attributes in `html` that are not on the list (with tags `extra`)."""
    checker = _Checker(TAGS | (extra or set()))
    checker.feed(html)
    checker.close()
    return checker.found


def text_of(html: str) -> str:
    """What a reader of `html` sees."""
    checker = _Checker(TAGS)
    checker.feed(html)
    checker.close()
    return "".join(checker.text)
