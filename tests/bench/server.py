"""A fast stand-in for the Messages API: `python server.py` prints its port and answers

    POST /n=10000/v1/messages       a text reply of so many deltas of 12 characters, one HTTP chunk each
    POST /big=8000000/v1/messages   a reply whose one delta holds so many characters

The bytes of a reply are made once and kept, so that the client is what is measured.
"""

from __future__ import annotations

import json
import socket
import threading
from functools import cache

PIECES = [
    "## Heading\\n\\n",
    "the quick br",
    "own fox said",
    ' \\"hello\\" to',
    "naïve café, ",
    "你好世界, 3 < 4 &",
]
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
START = {"id": "msg_1", "type": "message", "role": "assistant", "model": "bench", "content": []}


def event(name: str, **fields: object) -> bytes:
    data = json.dumps({"type": name, **fields}, ensure_ascii=False, separators=(",", ":"))
    return f"event: {name}\ndata: {data}\n\n".encode()


def delta(escaped: str) -> bytes:
    return (
        'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":'
        f'{{"type":"text_delta","text":"{escaped}"}}}}\n\n'
    ).encode()


@cache
def reply(path: str) -> bytes:
    name, _, value = path.split("/")[1].partition("=")
    events = [
        event("message_start", message={**START, "usage": {"input_tokens": 9, "output_tokens": 1}}),
        event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
    ]
    if name == "big":
        events.append(delta("x" * int(value)))
    else:
        events += [delta(PIECES[i % len(PIECES)]) for i in range(int(value))]
    events += [
        event("content_block_stop", index=0),
        event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 5}),
        event("message_stop"),
    ]
    return HEAD + b"".join(b"%x\r\n%b\r\n" % (len(e), e) for e in events) + b"0\r\n\r\n"


def serve(sock: socket.socket) -> None:
    reader = sock.makefile("rb", buffering=1 << 20)
    while first := reader.readline():
        length = 0
        while (line := reader.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(b"content-length:"):
                length = int(line[15:])
        while length:
            length -= len(reader.read(min(length, 1 << 20)))
        data = reply(first.split()[1].decode())
        for i in range(0, len(data), 65536):
            sock.sendall(data[i : i + 65536])


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=serve, args=(sock,), daemon=True).start()


if __name__ == "__main__":
    main()
