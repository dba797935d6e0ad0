"""Every wire case (`wire_cases/README.md`), by both clients over a socket, and in process with any cut."""

from __future__ import annotations

import asyncio
import json
import time
import zlib
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loopback import Answer, Loopback, anetwork, http, network

from kimi_magic import errors
from kimi_magic.client import AsyncClient, Client
from kimi_magic.errors import KimiError
from kimi_magic.retry import Policy
from kimi_magic.stream import Reply
from kimi_magic.wire import Message, Request, ToolUseBlock, assistant, user

FOLDER = Path(__file__).parent / "wire_cases"
EXPECTED: dict[str, Any] = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
CASES = sorted(EXPECTED)
ASK: dict[str, Any] = {"messages": [user("?")], "max_tokens": 64}
TWO = Policy(tries=2, first_wait=0.0)


def raw(name: str) -> bytes:
    return (FOLDER / f"{name}.http").read_bytes()


def split(name: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of a case, as an HTTP client hands them on."""
    head, _, rest = raw(name).partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines)}
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        body += rest[: int(size, 16)]
        rest = rest[int(size, 16) + 2 :]
    if headers.get("content-encoding") == "gzip":
        body = zlib.decompress(body, 31)
    return int(first.split()[1]), headers, body


def check(name: str, outcome: Message | KimiError, *, on_socket: bool = True) -> None:
    case = EXPECTED[name]
    if isinstance(outcome, KimiError):
        assert type(outcome) is getattr(errors, case["error"])
        for words in case["says"] if on_socket else ():
            assert words in str(outcome)
        assert outcome.request_id == case.get("request_id")
        message = outcome.partial
        assert (message is not None) == ("content" in case)
    else:
        assert "error" not in case
        message = outcome
    if message is not None:
        assert [b.json for b in message.content] == case["content"]
        assert message.stop_reason == case["stop_reason"]
        assert {k: v for k, v in message.usage.json.items() if v is not None} == case["usage"]
        raws = [b.raw_input for b in message.content if isinstance(b, ToolUseBlock) and b.raw_input]
        assert raws == ([case["raw_input"]] if "raw_input" in case else [])
        Request(messages=(user("?"), assistant(message.content))).encode()  # can go back


def ask(server: Loopback, **settings: Any) -> Message | KimiError:
    with Client("sk-test-key", server.url, **{"transport": network(), **settings}) as client:
        try:
            return client.create(**ASK)
        except KimiError as error:
            return error


def aask(server: Loopback, **settings: Any) -> Message | KimiError:
    async def run() -> Message | KimiError:
        made = {"transport": anetwork(), **settings}
        async with AsyncClient("sk-test-key", server.url, **made) as client:
            try:
                return await client.create(**ASK)
            except KimiError as error:
                return error

    return asyncio.run(run())


def test_each_file_has_its_expectation() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.http")) == CASES


@pytest.mark.parametrize("step", [None, 1], ids=["whole", "bytewise"])
@pytest.mark.parametrize("way", [ask, aask], ids=["sync", "async"])
@pytest.mark.parametrize("name", CASES)
def test_case_over_a_socket(name: str, way: Any, step: int | None) -> None:
    with Loopback([Answer(raw(name), step)]) as server:
        check(name, way(server, policy=TWO))
        assert len(server.requests) == EXPECTED[name].get("requests", 1)
        assert [r.path for r in server.requests] == ["/v1/messages"] * len(server.requests)


@pytest.mark.parametrize("way", [ask, aask], ids=["sync", "async"])
def test_58_a_retry_after_that_is_a_date_is_waited_for(way: Any) -> None:
    waits: list[float] = []

    async def asleep(seconds: float) -> None:
        waits.append(seconds)

    error = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}
    date = formatdate(time.time() + 40.5, usegmt=True)  # whole seconds: 39.5 to 40.5 ahead
    busy = http(error, "429 Too Many Requests", retry_after=date, connection="close")
    with Loopback([Answer(busy), Answer(raw("00_baseline"))]) as server:
        check("00_baseline", way(server, sleep=waits.append if way is ask else asleep))
        assert len(server.requests) == 2
    assert len(waits) == 1
    assert 20 < waits[0] <= 40.5


def outcome(status: int, headers: dict[str, str], pieces: list[bytes]) -> Message | KimiError:
    reply = Reply(status, headers)
    try:
        for piece in pieces:
            for _ in reply.feed(piece):
                pass
        for _ in reply.close():
            pass
    except KimiError as error:
        return error
    return reply.message


@pytest.mark.parametrize("name", CASES)
def test_case_whole_bytewise_and_with_junk_after_it(name: str) -> None:
    status, headers, body = split(name)
    check(name, outcome(status, headers, [body]), on_socket=False)
    check(name, outcome(status, headers, [body[i : i + 1] for i in range(len(body))]), on_socket=False)
    check(name, outcome(status, headers, [b"", body, b""]), on_socket=False)
    if b"message_stop" in body:
        check(name, outcome(status, headers, [body, b"\n\ndata: {junk\n\n\xff"]), on_socket=False)
        check(name, outcome(status, headers, [body + b"\n\ndata: {junk\n\n\xff"]), on_socket=False)


@given(st.data())
@settings(deadline=None, max_examples=200)
def test_case_cut_anywhere_gives_the_same(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(CASES))
    status, headers, body = split(name)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(body)), max_size=12)))
    pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    check(name, outcome(status, headers, pieces), on_socket=False)
