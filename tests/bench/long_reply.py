"""A long reply as models write them (20 KB of thinking, then 200 KB of markdown) and a server that sends it.

`serve(seconds)` starts the server in a thread of this process and gives its base URL; each request is
answered with the whole reply in `DELTAS` deltas, spread over so many seconds (0: as fast as it goes).
"""

from __future__ import annotations

import json
import socket
import threading
import time
from itertools import pairwise

DELTAS = 8_000
THINKING, TEXT = 20_000, 200_000  # characters

_SECTION = """## Part {n}: what the numbers say

The mean of **group {n}** is `{n}.25`, a little above the rest; see [the notes](https://example.org/{n}) and
the formula $\\bar x = \\frac{{1}}{{n}}\\sum_i x_i$, which *weighs* all of them alike.
平均值**略高**，见下表。

| site | mean | n |
| --- | ---: | ---: |
| North | {n}.5 | 40 |
| South | {n}.25 | 38 |

1. First, take the values that were measured before noon.
2. Then leave out those whose sensor was off:
   - the two at the river,
   - and the one on the hill.

```python
def mean(values: list[float]) -> float:
    \"\"\"The mean of part {n}.\"\"\"
    return sum(values) / len(values)
```

> A remark that nobody asked for, and which stands here because models like to write one.

$$\\int_0^{n} x^2 \\, dx = \\frac{{{n}^3}}{{3}}$$

"""
_THOUGHT = "The user wants the means by site, so I look at the values and weigh them one by one. "


def text(size: int = TEXT) -> str:
    """So many characters of markdown."""
    sections: list[str] = []
    while sum(map(len, sections)) < size:
        sections.append(_SECTION.format(n=len(sections) + 1))
    return "".join(sections)[:size]


def thought(size: int = THINKING) -> str:
    return (_THOUGHT * (size // len(_THOUGHT) + 1))[:size]


def cut(whole: str, pieces: int) -> list[str]:
    """`whole` in so many pieces of about the same size."""
    ends = [len(whole) * n // pieces for n in range(pieces + 1)]
    return [whole[a:b] for a, b in pairwise(ends)]


def deltas(thinking: int = THINKING, size: int = TEXT, count: int = DELTAS) -> tuple[list[str], list[str]]:
    """Deltas of the thinking and of the text, `count` in all, all of about the same size."""
    of_it = count * thinking // (thinking + size)
    return cut(thought(thinking), max(1, of_it)), cut(text(size), count - of_it)


def events(thinking: int = THINKING, size: int = TEXT, count: int = DELTAS) -> list[bytes]:
    """The reply as server-sent events."""
    thoughts, texts = deltas(thinking, size, count)
    start = {"id": "msg_1", "type": "message", "role": "assistant", "model": "kimi-k3.1-pro", "content": []}
    usage = {"input_tokens": 9, "output_tokens": 1}
    out = [_event("message_start", message={**start, "usage": usage})]
    for index, (kind, pieces) in enumerate([("thinking", thoughts), ("text", texts)]):
        block = {"type": kind, kind: "", **({"signature": ""} if kind == "thinking" else {})}
        out.append(_event("content_block_start", index=index, content_block=block))
        out += [
            _event("content_block_delta", index=index, delta={"type": f"{kind}_delta", kind: piece})
            for piece in pieces
        ]
        out.append(_event("content_block_stop", index=index))
    end = {"stop_reason": "end_turn"}
    return [*out, _event("message_delta", delta=end, usage={"output_tokens": 60_000}), _event("message_stop")]


def _event(name: str, **fields: object) -> bytes:
    data = json.dumps({"type": name, **fields}, ensure_ascii=False)
    return f"event: {name}\ndata: {data}\n\n".encode()


def serve(seconds: float = 0.0) -> str:
    listener = socket.create_server(("127.0.0.1", 0))
    sent = events()

    def accept() -> None:
        while True:
            sock, _ = listener.accept()
            threading.Thread(target=_answer, args=(sock, sent, seconds), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


def _answer(sock: socket.socket, sent: list[bytes], seconds: float) -> None:
    reader = sock.makefile("rb")
    while reader.readline():
        length = 0
        while (line := reader.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(b"content-length:"):
                length = int(line[15:])
        reader.read(length)
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        sock.sendall(head)
        began = time.monotonic()
        for n, event in enumerate(sent):
            wait = began + seconds * n / len(sent) - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            sock.sendall(b"%x\r\n%b\r\n" % (len(event), event))
        sock.sendall(b"0\r\n\r\n")
