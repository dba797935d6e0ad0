"""Directives: what a prompt line `[[simulate: NAME …]]` or a model suffix `MODEL:NAME=…` asks for.

Grammar: a known name, then a number or word that it takes, then `xN` for "the first N times only"
(after the Nth fault the next try succeeds, and then it starts anew). In a suffix `=` and `,` stand
for spaces: `kimi-k3.1-pro:rate-limited=5,x2`. Text in any other form is ordinary text; a name that
is not known does nothing, and the reply says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

KNOWN = {
    "bad-request": "400 in place of a reply",
    "unauthorized": "401 in place of a reply",
    "forbidden": "403 in place of a reply",
    "rate-limited": "429; SECONDS is its Retry-After (1)",
    "quota": "429 with exceeded_current_quota_error: final",
    "server-error": "500 in place of a reply",
    "html": "502 with a gateway's HTML page",
    "overloaded": "529 in place of a reply",
    "openai-error": "429 in OpenAI's shape",
    "drop": "the connection closes before any reply",
    "early-error": "200, then an error event before any content; TYPE (overloaded_error)",
    "stream-error": "an error event in the middle; TYPE (overloaded_error)",
    "cut": "the stream ends in the middle, without message_stop",
    "broken": "the connection breaks in the middle",
    "garbled": "an event in the middle is not JSON",
    "slow": "the first event comes after SECONDS (5)",
    "silence": "nothing for SECONDS (3600) in the middle",
    "pings": "nothing but a ping a second for SECONDS (5) before the first content",
    "empty": "a finished reply without content",
    "unknown": "an event and a block of kinds that nobody knows",
    "redacted": "a redacted thinking block",
    "unsigned": "thinking without a signature",
    "refusal": "stop_reason refusal",
    "stop-reason": "stop_reason NAME",
    "pause": "stop_reason pause_turn; xN: N times in a row",
    "searches": "N web searches; those beyond max_uses fail",
    "search-error": "the first search fails with CODE (unavailable)",
    "steps": "calls tools in N rounds before it answers",
    "long": "a text of SIZE words, or KB: `long 20 KB`",
}
ALIASES = {
    "400": "bad-request",
    "401": "unauthorized",
    "403": "forbidden",
    "429": "rate-limited",
    "500": "server-error",
    "502": "html",
    "529": "overloaded",
    "html-502": "html",
    "rate-limit": "rate-limited",
    "empty-reply": "empty",
    "redacted-thinking": "redacted",
    "no-signature": "unsigned",
    "error": "stream-error",
}

_LINE = re.compile(r"\[\[\s*simulate:([^\[\]\n]*)\]\]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Directive:
    name: str
    """A key of `KNOWN`, or as it was written where it is none."""
    words: tuple[str, ...] = ()
    times: int | None = None
    """The N of `xN`, or None: always."""

    @property
    def known(self) -> bool:
        return self.name in KNOWN

    def number(self, default: float) -> float:
        found = re.match(r"\d+(\.\d+)?", self.words[0]) if self.words else None
        return min(float(found.group()), 1e6) if found else default

    def word(self, default: str) -> str:
        return self.words[0] if self.words else default


def read(text: str) -> tuple[Directive, ...]:
    """All directives of a text, in order."""
    return tuple(one(found) for found in _LINE.findall(text))


def one(text: str) -> Directive:
    """The directive that the inside of the brackets, or a model's suffix, stands for."""
    words = re.sub(r"[=,]", " ", text).split()
    times = next((int(w[1:]) for w in words if re.fullmatch(r"[xX]\d{1,6}", w)), None)
    words = [w for w in words if not re.fullmatch(r"[xX]\d{1,6}", w)]
    for size in (2, 1):  # "search error" is "search-error", and "html 502" is one name too
        name = "-".join(words[:size]).lower()
        name = ALIASES.get(name, name)
        if len(words) >= size and name in KNOWN:
            return Directive(name, tuple(words[size:]), times)
    return Directive(" ".join(words), (), times)


def without(text: str) -> str:
    """The text with its directives taken out."""
    return _LINE.sub("", text).strip() if _LINE.search(text) else text
