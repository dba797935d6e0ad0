"""The connections of an `AsyncClient`: one for each request that runs at the same time, and used again."""

from __future__ import annotations

import asyncio
import gc

import pytest
from loopback import Answer, Loopback, http

from kimi_magic.client import AsyncClient

WHOLE = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "text", "text": "Yes."}],
    "stop_reason": "end_turn",
}
SAY = [Answer(http(WHOLE), after="keep")]
ASK = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 10}


def test_requests_at_once_use_their_connections_again_and_one_outlives_them() -> None:
    with Loopback(SAY) as server:

        async def main() -> None:
            client, gate = AsyncClient("sk-key", server.url), asyncio.Semaphore(30)

            async def ask() -> None:
                async with gate:
                    await client.create(**ASK)

            await asyncio.gather(*(ask() for _ in range(120)))
            made = server.connections
            assert len(server.requests) == 120
            assert made <= 30
            for _ in range(made - 1):
                assert await asyncio.to_thread(server.over.acquire, timeout=5)
            await client.create(**ASK)
            assert server.connections == made
            await client.aclose()

        asyncio.run(main())


def test_a_client_that_is_closed_while_a_reply_comes_lets_it_end_and_leaves_nothing_open() -> None:
    with Loopback(SAY) as server:

        async def main() -> None:
            client = AsyncClient("sk-key", server.url)
            async with client.stream(**ASK) as stream:
                async for _ in stream:
                    await client.aclose()
            assert stream.message.text == "Yes."
            assert await asyncio.to_thread(server.over.acquire, timeout=5)

        asyncio.run(main())


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # the transport of a loop that is over
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_client_works_in_one_event_loop_after_another() -> None:
    with Loopback(SAY) as server:
        client = AsyncClient("sk-key", server.url)
        for _ in range(3):
            assert asyncio.run(client.create(**ASK)).text == "Yes."
        asyncio.run(client.aclose())
        gc.collect()
        for _ in range(3):
            assert server.over.acquire(timeout=5)
