"""One contender, one measurement: `python contenders.py NAME URL` prints the CPU seconds of one request.

Everything is imported and every path is walked once, on a short reply, before the clock starts. Those that
send are asked some times, and the median counts.
"""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

ASK: dict[str, Any] = {"messages": [{"role": "user", "content": "go"}], "max_tokens": 1000}
SENDS = 15
TURN = 'The history of the conversation, "quoted", 你好, and so on. ' * 60


HISTORY = 4_000_000
SHORT = "_short"
"""Ends the name of a contender that sends one message only: what is left is what the history costs."""


def history() -> list[dict[str, str]]:
    """About `HISTORY` bytes of turns."""
    count = HISTORY // len(TURN.encode())
    return [{"role": ("user", "assistant")[i % 2], "content": f"{i} {TURN}"} for i in range(count | 1)]


def floor(*urls: str) -> Callable[[str], int]:
    """httpx's raw chunks, split by hand, decoded by msgspec: no rule of the format is kept."""
    import httpx
    import msgspec

    delta = msgspec.defstruct("Delta", [("text", str, "")])
    event_type = msgspec.defstruct("Event", [("type", str), ("delta", delta | None, None)])
    decode = msgspec.json.Decoder(event_type).decode
    client = httpx.Client()

    def run(url: str) -> int:
        held: list[bytes] = []
        texts: list[str] = []
        with client.stream("POST", f"{url}/v1/messages", json={**ASK, "stream": True}) as response:
            for chunk in response.iter_raw():
                held.append(chunk)
                if not chunk.endswith(b"\n\n"):
                    continue
                for block in b"".join(held).split(b"\n\n"):
                    at = block.find(b"data: ")
                    if at >= 0:
                        event = decode(block[at + 6 :])
                        if event.delta is not None:
                            texts.append(event.delta.text)
                held.clear()
        return len("".join(texts))

    return run


def ours(*urls: str) -> Callable[[str], int]:
    """`Client.stream`, every event taken."""
    from kimi_magic.client import Client

    clients = {url: Client("sk-x", url) for url in urls}

    def run(url: str) -> int:
        with clients[url].stream(**ASK, model="bench") as stream:
            for _ in stream:
                pass
        return len(stream.message.text)

    return run


def ours_async(*urls: str) -> Callable[[str], int]:
    """`AsyncClient.stream`, every event taken."""
    from kimi_magic.client import AsyncClient

    clients = {url: AsyncClient("sk-x", url) for url in urls}

    async def one(url: str) -> int:
        async with clients[url].stream(**ASK, model="bench") as stream:
            async for _ in stream:
                pass
            return len(stream.message.text)

    return in_one_loop(one)


def floor_async(*urls: str) -> Callable[[str], int]:
    """httpx's raw chunks from `AsyncClient`, nothing done with them."""
    import httpx

    client = httpx.AsyncClient()

    async def one(url: str) -> int:
        size = 0
        async with client.stream("POST", f"{url}/v1/messages", json={**ASK, "stream": True}) as response:
            async for chunk in response.aiter_raw():
                size += len(chunk)
        return size

    return in_one_loop(one)


def in_one_loop(one: Callable[[str], Any]) -> Callable[[str], int]:
    loop = asyncio.new_event_loop()
    return lambda url: loop.run_until_complete(one(url))


def parse(*urls: str) -> Callable[[str], int]:
    """Our parser alone: the same chunks from memory → events → message."""
    import server

    from kimi_magic.stream import Reply

    def chunks(url: str) -> list[bytes]:
        rest = server.reply(f"/{url.rpartition('/')[2]}").partition(b"\r\n\r\n")[2]
        return re.findall(rb"\r?\n?[0-9a-f]+\r\n((?s:.+?\n\n))\r\n", rest)

    made = {url: chunks(url) for url in urls}

    def run(url: str) -> int:
        reply = Reply(200, {})
        for chunk in made[url]:
            for _ in reply.feed(chunk):
                pass
        return len(reply.message.text)

    return run


def sdk(*urls: str) -> Callable[[str], int]:
    """The anthropic SDK's `messages.stream`, every event taken."""
    import anthropic

    clients = {url: anthropic.Anthropic(base_url=url, auth_token="k", api_key=None) for url in urls}

    def run(url: str) -> int:
        with clients[url].messages.stream(**ASK, model="bench") as stream:
            for _ in stream:
                pass
            return len(stream.get_final_text())

    return run


def chatlas(*urls: str) -> Callable[[str], int]:
    """chatlas's `stream`, every piece of text taken."""
    from chatlas import ChatAnthropic

    def run(url: str) -> int:
        chat = ChatAnthropic(model="bench", api_key="x", kwargs={"base_url": url})
        return sum(len(piece) for piece in chat.stream("Go on.", echo="none"))

    return run


def claudette(*urls: str) -> Callable[[str], int]:
    """claudette's streaming call, every piece of text taken."""
    import anthropic
    from claudette import Client

    def run(url: str) -> int:
        asked = Client("bench", cli=anthropic.Anthropic(base_url=url, auth_token="k", api_key=None))
        return sum(len(piece) for piece in asked("Go on.", stream=True) if isinstance(piece, str))

    return run


def send_ready(*urls: str) -> Callable[[str], int]:
    """httpx sending a 4 MB history whose bytes are ready."""
    import httpx

    body = json.dumps({"messages": history(), "stream": True}, ensure_ascii=False).encode()
    client = httpx.Client()

    def run(url: str) -> int:
        return len(client.post(f"{url}/v1/messages", content=body).content)

    return run


def send_json(*urls: str) -> Callable[[str], int]:
    """httpx's own `json=` with the same history."""
    import httpx

    messages = history()
    client = httpx.Client()

    def run(url: str) -> int:
        return len(client.post(f"{url}/v1/messages", json={"messages": messages, "stream": True}).content)

    return run


def send_ours(*urls: str) -> Callable[[str], int]:
    """`Client.create` with the same history, its messages made once, as a conversation has them."""
    from kimi_magic.client import Client
    from kimi_magic.wire import Said

    messages = [Said(message) for message in history()]
    clients = {url: Client("sk-x", url) for url in urls}

    def run(url: str) -> int:
        return len(clients[url].create(messages=messages, max_tokens=1000, model="bench").text)

    return run


def send_sdk(*urls: str) -> Callable[[str], int]:
    """The anthropic SDK with the same history."""
    import anthropic

    messages = history()

    clients = {url: anthropic.Anthropic(base_url=url, auth_token="k", api_key=None) for url in urls}

    def run(url: str) -> int:
        with clients[url].messages.stream(messages=messages, max_tokens=1000, model="bench") as stream:
            return len(stream.get_final_text())

    return run


def main(name: str, url: str) -> None:
    warm = f"{url.rpartition('/')[0]}/n=20"
    if name.endswith(SHORT):
        globals()["HISTORY"] = 0
    run = globals()[name.removesuffix(SHORT)](warm, url)
    run(warm)
    took = []
    for _ in range(SENDS if name.startswith("send") else 1):
        before = time.process_time()
        size = run(url)
        took.append(time.process_time() - before)
    print(json.dumps({"cpu": statistics.median(took), "size": size}))


if __name__ == "__main__":
    main(*sys.argv[1:])
