"""One piece of text as it grows: blocks of HTML that stay, and an open rest."""

from __future__ import annotations

from ..render import Incremental


class GrowingText:
    """`grow(text)` with all of the text so far; then `frozen` and `tail` are its HTML."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._fed = ""
        self._rendered = Incremental()
        self.tail = ""

    @property
    def frozen(self) -> list[str]:
        """Blocks that will not change while the text only grows."""
        return self._rendered.frozen

    def grow(self, text: str) -> bool:
        """True where earlier blocks are no longer what they were: a link got its definition late, or
        the text does not begin with the one before (a citation moved; rare, so it begins again)."""
        again = not text.startswith(self._fed)
        if again:
            self._begin()
        self._rendered.feed(text[len(self._fed) :])
        self._fed = text
        before = self._rendered.revision
        self.tail = self._rendered.tail()
        return again or self._rendered.revision != before
