"""What may stand in a request, place by place: the client refuses it, or the API page allows it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import httpx
import pytest
from contract import breach
from loopback import Answer, Loopback
from test_wire_cases import ASK, raw, split

from kimi_magic.client import Client
from kimi_magic.errors import RequestError
from kimi_magic.tools import Tool
from kimi_magic.wire import assistant, block, user

EVERYTHING: dict[str, Any] = {
    "model": "kimi-k3.1-pro",
    "max_tokens": 64,
    "system": [{"type": "text", "text": "Be short."}],
    "tools": [
        {"name": "add", "description": "Adds", "input_schema": {"type": "object"}},
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 2},
    ],
    "tool_choice": {"type": "auto"},
    "stop_sequences": ["END"],
    "cache_control": {"type": "ephemeral", "ttl": "1h"},
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}},
    "stream": True,
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}},
                {"type": "image", "source": {"type": "url", "url": "https://host.test/a.png"}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "S"},
                {"type": "redacted_thinking", "data": "QUJD"},
                {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
                {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"url": "u"}]},
                {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "is_error": False,
                    "content": [
                        {"type": "text", "text": "3"},
                        {
                            "type": "image",
                            "source": {"type": "base64", "media_type": "image/gif", "data": "QUJD"},
                        },
                    ],
                },
            ],
        },
    ],
}
JUNK = [
    "",
    "x",
    0,
    -1,
    1.5,
    10**9,
    True,
    None,
    [],
    {},
    [1],
    [[]],
    [{}],
    [None],
    {"type": "x"},
    {"type": "text"},
]


def listener() -> tuple[list[bytes], httpx.MockTransport]:
    """A transport that answers every request, and the bodies that it was sent."""
    bodies: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        bodies.append(request.read())
        return httpx.Response(200, content=split("00_baseline")[2])

    return bodies, httpx.MockTransport(answer)


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Ways to everything inside a JSON value."""
    yield way
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*way, key))


@pytest.mark.parametrize("way", [w for w in places(EVERYTHING) if w], ids=lambda way: ".".join(map(str, way)))
def test_whatever_stands_in_a_place_of_a_request_it_is_refused_or_the_page_allows_it(
    way: tuple[Any, ...],
) -> None:
    bodies, transport = listener()
    refused = 0
    with Client("sk-test-key", transport=transport) as client:
        client.create(**EVERYTHING)
        for junk in [..., *JUNK]:
            fields = deepcopy(EVERYTHING)
            holder: Any = fields
            for key in way[:-1]:
                holder = holder[key]
            if junk is ...:
                del holder[way[-1]]
            else:
                holder[way[-1]] = junk
            try:
                client.create(**fields)
            except RequestError:
                refused += 1
    assert refused + len(bodies) == len(JUNK) + 2
    for body in bodies:
        fault = breach(body)
        assert not fault or (way[-1] == "signature" and b'"signature":null' in body), fault


def test_a_tool_of_ours_may_stand_among_the_tools() -> None:
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    with Loopback([Answer(raw("00_baseline"))]) as server, Client("sk-x", server.url) as client:
        client.create(**ASK, tools=[Tool.of(add)])
        assert server.requests[0].json["tools"] == [Tool.of(add).to_json()]


def test_a_replys_own_blocks_go_back_as_they_came() -> None:
    odd = [{"type": "thinking", "thinking": 5, "signature": None}, {"type": "text", "text": "x", "y": [None]}]
    bodies, transport = listener()
    messages = [user("a"), assistant([block(json) for json in odd]), user("b")]
    with Client("sk-test-key", transport=transport) as client:
        client.create(messages=messages, max_tokens=9)
    assert json.loads(bodies[0])["messages"][1]["content"] == odd
