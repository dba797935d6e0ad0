"""Nothing that a model writes may act: text is cleaned first, HTML is filtered last.

- `clean` makes characters harmless that a terminal, an editor or a browser would obey instead of
  showing: C0 and C1 controls (ANSI escapes), bidirectional overrides and isolates (which reorder
  source code for the eye), lone surrogates (which cannot be encoded at all).
- `safe_url` is the one rule for links: http, https and mailto.
- `sanitise` is an allowlist over finished HTML. The renderer never makes anything else, so this is
  the second lock on the door.
"""

from __future__ import annotations

import re
from functools import lru_cache

import nh3

REPLACEMENT = "\ufffd"
"""Stands where a harmful character stood, so that the reader sees that something was there."""

_NEWLINE = re.compile(r"\r\n?")
_SPACE = re.compile("[\x0b\x0c\x85]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_HARMFUL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

_URL = re.compile(r"(?:https?://[^\s/\\?#]|mailto:[^\s/\\])[^\s\\]*", re.IGNORECASE)

TAGS = frozenset(
    re.findall(
        r"\w+",
        "a blockquote br code div em h1 h2 h3 h4 h5 h6 hr li ol p pre s section span strong sup "
        "table tbody td th thead tr ul",
    )
)
ATTRIBUTES = {
    "a": {"class", "href", "target", "title"},
    "code": {"class"},
    "div": {"class", "style"},
    "li": {"class", "style"},
    "ol": {"start"},
    "p": {"class"},
    "pre": {"class"},
    "section": {"aria-label", "class", "role"},
    "span": {"aria-label", "class", "role", "title"},
    "sup": {"class"},
    "td": {"style"},
    "th": {"style"},
}
STYLES = frozenset({"list-style-type", "overflow-x", "text-align"})
SCHEMES = frozenset({"http", "https", "mailto"})


def clean(text: str) -> str:
    """`text` with line ends as LF and without a character that anything would obey.

    Two halves of a surrogate pair become their character; what else is harmful becomes U+FFFD.
    """
    if text.isprintable():  # none of those characters is
        return text
    text = _NEWLINE.sub("\n", text)
    if _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return _HARMFUL.sub(REPLACEMENT, _SPACE.sub(" ", text))


def held_back(text: str) -> int:
    """How many characters at the end of `text` mean something else once more text follows: 0 or 1."""
    return int(text[-1:] == "\r" or "\ud800" <= text[-1:] <= "\udbff")


def safe_url(url: str) -> bool:
    """Whether a link may lead to `url` (entities decoded): absolute http, https or mailto."""
    return _URL.fullmatch(url) is not None and not _HARMFUL.search(url)


def sanitise(html: str) -> str:
    """`html`, one or more whole blocks, reduced to the allowlist above."""
    return _cleaner().clean(html)


@lru_cache(maxsize=1)
def _cleaner() -> nh3.Cleaner:
    return nh3.Cleaner(
        tags=set(TAGS),
        attributes={tag: set(names) for tag, names in ATTRIBUTES.items()},
        url_schemes=set(SCHEMES),
        filter_style_properties=set(STYLES),
        link_rel="noopener noreferrer",
    )
