"""Server-sent events: bytes in, (event name, data) out.

The WHATWG rules that matter here: a line ends at CR, LF or CRLF and at nothing else (U+2028, U+0085
and the form feed are text); one leading byte order mark is dropped; one space after the colon is
dropped; several `data` lines are joined by LF; an empty line dispatches; a line that begins with a
colon is a comment. `id` and `retry` mean nothing for one POST and are skipped. What stands after the
last empty line is not an event.

Cost is linear: a line that has not ended is kept in pieces and joined once, when its end is seen.
"""

from __future__ import annotations

from collections.abc import Iterator

BOM = b"\xef\xbb\xbf"


class EventDecoder:
    """`feed(chunk)` yields `(name, data)` for each event that the chunk completes.

    Exhaust the iterator before the next `feed`. `name` is b"" where there was no `event` line.
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []  # of the line that has not ended
        self._after_cr = False  # an LF that comes first now belongs to the CR before it
        self._start = True  # nothing but (a part of) the byte order mark so far
        self._name = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[tuple[bytes, bytes]]:
        if self._start or self._after_cr or b"\r" in chunk:
            chunk = self._plain(chunk)
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines and self._pieces:
            self._pieces.append(lines[0])
            lines[0] = b"".join(self._pieces)
            self._pieces.clear()
        if rest:
            self._pieces.append(rest)
        for line in lines:
            if not line:
                if self._data:
                    yield self._name, b"\n".join(self._data)
                    self._data.clear()
                self._name = b""
            elif line.startswith(b"data:"):
                self._data.append(line[6:] if line.startswith(b" ", 5) else line[5:])
            elif line.startswith(b"event:"):
                self._name = line[7:] if line.startswith(b" ", 6) else line[6:]
            elif line == b"data":
                self._data.append(b"")

    def _plain(self, chunk: bytes) -> bytes:
        """`chunk` without the byte order mark, its lines ended by LF alone."""
        if self._start:
            chunk = self._without_bom(chunk)
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return chunk

    def _without_bom(self, chunk: bytes) -> bytes:
        chunk = b"".join(self._pieces) + chunk
        self._pieces.clear()
        if len(chunk) < len(BOM) and BOM.startswith(chunk):
            self._pieces.append(chunk)
            return b""
        self._start = False
        return chunk.removeprefix(BOM)
