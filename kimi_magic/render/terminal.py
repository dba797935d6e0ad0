"""Light formatting for terminals, while the text streams in.

Only colours are added: every character of the source stays in its place, so that text copied from
the terminal is the markdown that the model wrote, and a guess that was wrong loses nothing. The model's
own escape sequences are made harmless first.

`Terminal` holds back no more than it needs to decide (a run of stars, the first marks of a line), and
its whole output doesn't depend on how the text was cut.
"""

from __future__ import annotations

import re

from .sanitise import clean, held_back

RESET = "\x1b[0m"
BOLD, DIM = "1", "2"
CODE = "36"

_START = re.compile(r"[ ]{0,3}(?:#{1,6}(?=[ \t])|`{3,64}|~{3,64}|>)?")
_UNSURE = re.compile(r"[ ]{0,3}(?:#{0,7}|`{0,63}|~{0,63})")
_PIECE = re.compile(r"`{1,64}|\*{1,64}|[^`*\n]+|\n")
_LONGEST = 64
"""Marks in a row; no more of them are held back."""


class Terminal:
    """Markdown in pieces → text with ANSI colours in pieces.

    `style` is an SGR code that lies below everything (`DIM` for thinking). Without `color` the text is
    only cleaned.
    """

    def __init__(self, *, color: bool = True, style: str = "") -> None:
        self.color = color
        self.style = style
        self._held = ""
        self._sgr = ""
        self._fence = ""
        self._begins = True
        self._line = ""
        self._bold = False
        self._ticks = ""
        self._last = " "

    def feed(self, text: str) -> str:
        """What can be written now."""
        text = self._held + text
        keep = len(text) - held_back(text)
        self._held = text[keep:]
        ready = clean(text[:keep])
        if not self.color:
            return ready
        return self._format(ready, final=False)

    def close(self) -> str:
        """The rest, when no more text comes, and the terminal's own colours back."""
        rest, self._held = clean(self._held), ""
        if not self.color:
            return rest
        out = [self._format(rest, final=True)]
        self._write("", "", out)
        return "".join(out)

    def _format(self, text: str, *, final: bool) -> str:
        out: list[str] = []
        pos = 0
        while pos < len(text):
            if self._begins:
                sure = final or not _UNSURE.fullmatch(text, pos)
                end = self._marks(text, pos, out) if sure else None
            else:
                end = self._piece(text, pos, out, final=final)
            if end is None:
                break
            pos = end
        self._held = text[pos:] + self._held
        return "".join(out)

    def _marks(self, text: str, pos: int, out: list[str]) -> int:
        """The marks at the start of a line, which may give the whole line its style."""
        match = _START.match(text, pos)
        assert match is not None
        marks = match.group().strip()
        self._begins, self._bold, self._ticks, self._last = False, False, "", " "
        if self._fence:
            closes = marks.startswith(self._fence)
            self._line = DIM if closes else CODE
            self._fence = "" if closes else self._fence
        elif marks[:1] in ("`", "~"):
            self._line, self._fence = DIM, marks
        else:
            self._line = {"#": BOLD, ">": DIM}.get(marks[:1], "")
        self._write(match.group(), self._line or self.style, out)
        return match.end()

    def _piece(self, text: str, pos: int, out: list[str], *, final: bool) -> int | None:
        """A run of text or of marks; None where its end is not known yet."""
        match = _PIECE.match(text, pos)
        assert match is not None
        piece, end = match.group(), match.end()
        if piece == "\n":
            self._begins = True
            self._write(piece, self.style, out)
        elif piece[0] in "`*" and len(piece) < _LONGEST and end == len(text) and not final:
            return None
        else:
            self._write(piece, self._line or self._inline(piece, text[end : end + 1]), out)
            self._last = piece[-1]
        return end

    def _inline(self, piece: str, after: str) -> str:
        """The style of a piece of an ordinary line; marks switch it on or off."""
        if piece[0] == "`":
            self._ticks = "" if piece == self._ticks else (self._ticks or piece)
            return CODE
        if self._ticks:
            return CODE
        if piece[:2] == "**":
            opens, closes = after.strip() != "", self._last != " "
            self._bold = not closes if self._bold else opens
            return BOLD if opens or closes else self.style
        return BOLD if self._bold else self.style

    def _write(self, text: str, style: str, out: list[str]) -> None:
        """Append `text` in `style`; codes only where the style changes."""
        if style != self._sgr:
            out.append(RESET if not style else f"\x1b[0;{style}m")
            self._sgr = style
        out.append(text)
