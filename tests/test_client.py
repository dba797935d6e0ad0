"""`Client` and `AsyncClient` against a server on loopback: every ending of a request."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import os
import socket
import threading
import time
import tracemalloc
import weakref
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from loopback import Answer, Loopback, anetwork, chunked, http, network
from test_stream import END, START, delta, sse, start, stop, text
from test_wire_cases import ASK, raw

from kimi_magic.client import AsyncClient, Client, Limits
from kimi_magic.errors import (
    AuthenticationError,
    BadRequestError,
    ConfigError,
    ConnectError,
    GatewayError,
    IncompleteStreamError,
    KimiError,
    OverloadedError,
    QuotaError,
    RateLimitError,
    RequestError,
    ServerError,
    StreamError,
    TimeoutError,
)
from kimi_magic.retry import Attempt, Policy
from kimi_magic.stream import ContentBlockDelta, MessageStop, Ping
from kimi_magic.wire import Message, Request, TextBlock, ToolResultBlock, assistant, user

GOOD = raw("00_baseline")
BODY = sse(START, start({"type": "text", "text": ""}), text("Hel"), text("lo"), stop(), *END)
HALF = sse(START, start({"type": "text", "text": ""}), text("Hel"))
BUSY = http({"error": {"type": "overloaded_error", "message": "busy"}}, "529 Busy", connection="close")


class Sync:
    """The blocking client, asked the way that the tests ask."""

    def __init__(self, url: str | list[str], **settings: Any) -> None:
        self.waits: list[float] = []
        self.client = Client(
            "sk-test-key", url, sleep=self.waits.append, **{"transport": network()} | settings
        )

    def run(self, **fields: Any) -> tuple[list[Any], Message | KimiError]:
        """All events, and the message or the error."""
        events: list[Any] = []
        try:
            with self.client.stream(**ASK, **fields) as stream:
                events.extend(stream)
                self.attempts = stream.attempts
                return events, stream.message
        except KimiError as error:
            return events, error

    def close(self) -> None:
        self.client.close()


class Async(Sync):
    """The async client, in a loop of its own."""

    def __init__(self, url: str | list[str], **settings: Any) -> None:
        self.waits = []
        self.loop = asyncio.new_event_loop()
        self.aclient = AsyncClient(
            "sk-test-key", url, sleep=self._sleep, **{"transport": anetwork()} | settings
        )

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    def run(self, **fields: Any) -> tuple[list[Any], Message | KimiError]:
        return self.loop.run_until_complete(self._run(fields))

    async def _run(self, fields: dict[str, Any]) -> tuple[list[Any], Message | KimiError]:
        events: list[Any] = []
        try:
            async with self.aclient.stream(**ASK, **fields) as stream:
                async for event in stream:
                    events.append(event)
                self.attempts = stream.attempts
                return events, stream.message
        except KimiError as error:
            return events, error

    def close(self) -> None:
        self.loop.run_until_complete(self.aclient.aclose())
        for _ in range(20):  # generators that were left in the middle end in the loop's next rounds
            self.loop.run_until_complete(asyncio.sleep(0))
        assert not asyncio.all_tasks(self.loop)
        self.loop.close()


@pytest.fixture(params=[Sync, Async], ids=["sync", "async"])
def make(request: pytest.FixtureRequest) -> Iterator[Any]:
    made: list[Sync] = []

    def of(*servers: Loopback | str, **settings: Any) -> Sync:
        urls = [s if isinstance(s, str) else s.url for s in servers]
        made.append(request.param(urls, **settings))
        return made[-1]

    before = sockets()
    yield of
    for each in made:
        each.close()
    assert sockets() == before


def sockets() -> int:
    """Open sockets of this process, those of the test's servers too."""
    links = (f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd"))
    return sum(os.path.exists(link) and os.readlink(link).startswith("socket:") for link in links)


def refused() -> str:
    """The URL of a port where nobody listens."""
    with Loopback([]) as server:
        return server.url


# --- what goes out ------------------------------------------------------------------------------


def test_the_request_is_a_streaming_post_with_bearer_and_the_pages_fields_only(make: Any) -> None:
    with Loopback([Answer(GOOD)]) as server:
        make(server).run(effort="low", system="be short", stop_sequences=["x"], tool_choice="none")
        received = server.requests[0]
    assert received.headers["authorization"] == "Bearer sk-test-key"
    assert received.headers["content-type"] == "application/json"
    assert received.headers["accept-encoding"] == "identity"
    assert int(received.headers["content-length"]) == len(received.body)
    assert "transfer-encoding" not in received.headers
    assert received.json == {
        "model": "kimi-k3.1-pro",
        "max_tokens": 64,
        "output_config": {"effort": "low"},
        "stop_sequences": ["x"],
        "stream": True,
        "tool_choice": {"type": "none"},
        "system": "be short",
        "messages": [{"role": "user", "content": "?"}],
    }


def test_a_long_request_arrives_whole(make: Any) -> None:
    long = "深🚀" * 300_000
    with Loopback([Answer(GOOD)]) as server:
        make(server).run(system=long)
        assert server.requests[0].json["system"] == long


def test_the_apis_own_shapes_are_taken_too() -> None:
    schema = {"type": "object"}
    with Loopback([Answer(GOOD)]) as server, Client("sk-x", server.url) as client:
        reply = client.create(
            messages=[user("?")],
            max_tokens=5,
            output_config={"effort": "high", "format": {"type": "json_schema", "schema": schema}},
            cache_control={"type": "ephemeral", "ttl": "1h"},
            tool_choice={"type": "auto"},
            stop_sequences="end",
        )
        client.create(messages=[user("?"), {"role": "assistant", "content": reply.content}, user("!")])
        sent = [r.json for r in server.requests]
    assert sent[0]["output_config"] == {"effort": "high", "format": {"type": "json_schema", "schema": schema}}
    assert sent[0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert sent[0]["tool_choice"] == {"type": "auto"}
    assert sent[0]["stop_sequences"] == ["end"]
    assert sent[1]["messages"][1] == {"role": "assistant", "content": [{"type": "text", "text": "Hello"}]}


@pytest.mark.parametrize("client", [Client, AsyncClient])
@pytest.mark.parametrize("said", ["Hello", {"role": "user"}, 5])
def test_a_question_that_is_no_request_is_one_line_with_the_right_call(client: Any, said: Any) -> None:
    with pytest.raises(RequestError, match=r'create\(messages=\[{"role": "user", "content": "…"}\]'):
        client("sk-test-key", transport=httpx.MockTransport(lambda request: httpx.Response(500))).stream(said)


def test_a_ready_request_is_sent_as_it_is() -> None:
    request = Request(messages=(user("?"),), max_tokens=7, stream=False)
    with Loopback([Answer(GOOD)]) as server, Client("sk-x", server.url) as client:
        client.create(request)
        assert server.requests[0].json == {**request.to_dict()}
        assert "stream" not in server.requests[0].json


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"temperature": 1}, "temperature: not a field"),
        ({"output_config": {"verbosity": "low"}}, "output_config.verbosity: not a field"),
        ({"messages": "hi"}, r"messages\[0\]: must be an object"),
        ({"messages": []}, "messages: at least one"),
        ({"max_tokens": 0}, "max_tokens: must be a whole number from 1 to 1,048,576, not 0"),
        ({"max_tokens": True}, "max_tokens"),
        ({"effort": "huge"}, "effort: must be low, high or max, not 'huge'"),
        ({"stop_sequences": ["x"] * 6}, "stop_sequences: at most 5, not 6"),
        ({"stop_sequences": ["深" * 11]}, "stop_sequences: each has 1 to 32 bytes"),
        ({"cache_ttl": "2h"}, "cache_control.ttl"),
        ({"tool_choice": "add"}, "tool_choice: must be auto, any or none"),
        ({"messages": [user("a"), user("b")]}, "roles alternate"),
        ({"messages": [user("a\ud800")]}, "half a surrogate pair"),
        ({"messages": [user([TextBlock.of("")])]}, r"content\[0\].text: is empty"),
        ({"messages": [user([ToolResultBlock.of("t", "x")])]}, "tool_result"),
        ({"messages": 5}, "messages: must be a list, not 5"),
        ({"tools": "add"}, "tools: must be a list, not 'add'"),
        ({"stop_sequences": 5}, "stop_sequences: must be a list, not 5"),
        ({"output_config": "low"}, "output_config: must be an object, not 'low'"),
        ({"output_config": {"format": {"type": "text", "schema": {}}}}, "format.type: must be json_schema"),
        ({"output_config": {"format": {"type": "json_schema"}}}, "format.schema: must be a JSON Schema"),
        (
            {"output_config": {"format": {"type": "json_schema", "schema": {}, "strict": True}}},
            "format.strict",
        ),
        ({"cache_control": "5m"}, "cache_control: must be an object, not '5m'"),
        ({"cache_control": {"type": "lasting"}}, "cache_control.type: must be ephemeral, not 'lasting'"),
        ({"cache_control": {"type": "ephemeral", "scope": "all"}}, "cache_control.scope: not a field"),
        ({"tool_choice": {"type": "tool", "name": "add"}}, "tool_choice.type: must be auto, any or none"),
        ({"tool_choice": {"type": "any", "name": "add"}}, "tool_choice.name: not a field"),
        ({"tool_choice": {}}, "tool_choice.type: must be auto, any or none, not None"),
    ],
)
def test_what_the_page_rules_out_is_refused_before_anything_is_sent(
    fields: dict[str, Any], says: str
) -> None:
    with Loopback([Answer(GOOD)]) as server, Client("sk-x", server.url) as client:
        with pytest.raises(RequestError, match=says):
            client.create(**{**ASK, **fields})
        assert not server.requests


def test_only_the_pages_models_go_to_the_pages_servers() -> None:
    with Client("sk-x", transport=httpx.MockTransport(lambda r: httpx.Response(200, content=BODY))) as client:
        assert client.create(**ASK, model="kimi-k3.1-pro-highspeed").text == "Hello"
        with pytest.raises(RequestError, match=r"model: must be kimi-k3\.1-pro or"):
            client.create(**ASK, model="other")
    with Loopback([Answer(GOOD)]) as server, Client("sk-x", server.url) as client:
        assert client.create(**ASK, model="other").text == "Hello"


def test_a_request_and_fields_together_are_refused() -> None:
    with Client("sk-x", "http://host.test") as client, pytest.raises(RequestError, match="effort"):
        client.create(Request(messages=(user("?"),)), effort="low")


def test_a_closed_client_says_so() -> None:
    client = Client("sk-x", "http://host.test")
    client.close()
    with pytest.raises(ConfigError, match="closed"):
        client.create(**ASK)


def test_both_clients_offer_the_same() -> None:
    sync = {n for n in dir(Client) if not n.startswith("_")} - {"close"}
    assert sync == {n for n in dir(AsyncClient) if not n.startswith("_")} - {"aclose"}
    for name in ("create", "stream"):
        assert inspect.signature(getattr(Client, name)).parameters.keys() == (
            inspect.signature(getattr(AsyncClient, name)).parameters.keys()
        )


# --- what comes back ----------------------------------------------------------------------------


def test_a_reply_streams_as_the_server_sends_it(make: Any) -> None:
    with Loopback([Answer(GOOD)]) as server:
        events, message = make(server).run()
    assert [e.type for e in events] == [
        "message_start", "content_block_start", "content_block_delta", "content_block_delta",
        "content_block_stop", "message_delta", "message_stop",
    ]  # fmt: skip
    assert (message.text, message.stop_reason, message.usage.input_tokens, message.usage.output_tokens) == (
        "Hello", "end_turn", 10, 5,
    )  # fmt: skip


def test_the_message_grows_while_the_reply_streams() -> None:
    with Loopback([Answer(GOOD)]) as server, Client("sk-x", server.url) as client:
        with client.stream(**ASK) as stream:
            seen = [stream.message.text for event in stream if isinstance(event, ContentBlockDelta)]
        assert seen == ["Hel", "Hello"]


def test_a_whole_json_reply_gives_events_too(make: Any) -> None:
    whole = {"id": "m", "content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn"}
    with Loopback([Answer(http(whole, content_type="application/json"))]) as server:
        events, message = make(server).run(stream=False)
        assert "stream" not in server.requests[0].json
    assert message.text == "Hi"
    assert isinstance(events[-1], MessageStop)


def said(kind: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": "m"}}


STATUSES = [
    ("400 Bad Request", said("invalid_request_error"), BadRequestError, 1),
    ("401 Unauthorized", said("authentication_error"), AuthenticationError, 1),
    ("429 Too Many", said("rate_limit_error"), RateLimitError, 2),
    ("429 Too Many", said("exceeded_current_quota_error"), QuotaError, 1),
    ("500 Oops", said("api_error"), ServerError, 2),
    ("529 Busy", said("overloaded_error"), OverloadedError, 2),
    ("400 Bad Request", {"error": {"message": "m", "type": "invalid_request_error"}}, BadRequestError, 1),
    ("502 Bad Gateway", "<html><title>Down</title></html>", GatewayError, 2),
    ("200 OK", "<html><title>Sign in</title></html>", GatewayError, 1),
    ("307 Temporary Redirect", "", GatewayError, 1),
    ("408 Timeout", {"error": {"message": "m"}}, BadRequestError, 2),
]


@pytest.mark.parametrize(("status", "body", "cls", "sent"), STATUSES)
def test_each_status_is_one_error_of_ours(
    make: Any, status: str, body: Any, cls: type[KimiError], sent: int
) -> None:
    with Loopback([Answer(http(body, status, request_id="req_5"))]) as server:
        _, error = make(server, policy=Policy(tries=2)).run()
        assert len(server.requests) == sent
    assert type(error) is cls
    assert error.request_id == "req_5"
    assert error.__context__ is None


def test_a_broken_compression_is_a_broken_reply(make: Any) -> None:
    with Loopback([Answer(http(b"this is not gzip", content_encoding="gzip"))]) as server:
        _, error = make(server, policy=Policy(tries=2)).run()
        assert len(server.requests) == 2
    assert type(error) is IncompleteStreamError


@pytest.mark.parametrize("after", ["close", "reset"])
def test_a_connection_that_breaks_inside_the_reply_keeps_what_arrived(make: Any, after: str) -> None:
    with Loopback([Answer(chunked(HALF, end=False), after=after)]) as server:
        events, error = make(server).run()
        assert len(server.requests) == 1
    assert isinstance(error, StreamError)
    assert error.partial.text == "Hel"
    assert events[-1].delta.text == "Hel"


@pytest.mark.parametrize(
    "garbage", [b"", b"\x16\x03\x01\x02", b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 9 x\r\n\r\n"]
)
def test_an_answer_that_is_no_http_is_a_connect_error(make: Any, garbage: bytes) -> None:
    with Loopback([Answer(garbage)]) as server:
        _, error = make(server, policy=Policy(tries=2)).run()
        assert len(server.requests) == 3  # one more for what might have been a stale connection
    assert type(error) is ConnectError
    assert server.url in str(error)


def test_nobody_listens(make: Any) -> None:
    _, error = make(refused(), policy=Policy(tries=2)).run()
    assert type(error) is ConnectError
    assert error.__context__ is None


# --- trying again -------------------------------------------------------------------------------


def test_a_busy_server_is_asked_again_and_the_attempt_is_announced(make: Any) -> None:
    with Loopback([Answer(BUSY), Answer(GOOD)]) as server:
        one = make(server)
        events, message = one.run()
        assert server.requests[0].body == server.requests[1].body
    assert message.text == "Hello"
    assert isinstance(events[0], Attempt)
    assert isinstance(events[0].cause, OverloadedError)
    assert one.waits == [events[0].wait]
    assert one.attempts == 2


def test_an_error_before_the_content_is_tried_again_without_a_trace(make: Any) -> None:
    early = sse(START, {"type": "ping"}, start({"type": "text", "text": ""}))
    error = sse({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}})
    with Loopback([Answer(http(early + error)), Answer(http(early)), Answer(GOOD)]) as server:
        events, message = make(server).run()
        assert len(server.requests) == 3
    assert message.text == "Hello"
    assert [e.type for e in events].count("message_start") == 1


def test_never_a_second_request_after_output(make: Any) -> None:
    error = sse({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}})
    for data in (http(HALF + error), http(HALF), http(HALF + b"data: {junk\n\n"), chunked(HALF, end=False)):
        with Loopback([Answer(data), Answer(GOOD)]) as server:
            _, outcome = make(server).run()
            assert outcome.partial.text == "Hel"
            assert len(server.requests) == 1


def test_an_error_on_a_later_attempt_is_not_taken_for_a_broken_reply(make: Any) -> None:
    with Loopback([Answer(BUSY)]) as server:
        _, error = make(server, refused(), policy=Policy(tries=2)).run()
    assert type(error) is ConnectError


def test_an_unreachable_host_hands_over_at_once_and_rests(make: Any) -> None:
    now = [0.0]
    with Loopback([Answer(GOOD)]) as first, Loopback([Answer(GOOD)]) as second:
        dead = refused()
        one = make(dead, second, clock=lambda: now[0])
        events, message = one.run()
        assert message.text == "Hello"
        assert isinstance(events[0], Attempt)
        assert one.waits == [0.0]
        events, _ = one.run()
        assert not isinstance(events[0], Attempt)  # the dead host is left alone
        now[0] = 61.0
        events, _ = one.run()
        assert isinstance(events[0], Attempt)
        assert not first.requests


def test_a_host_that_rests_and_then_answers_is_first_again(make: Any) -> None:
    silent = Answer(b"", after="hold")
    with Loopback([silent, Answer(GOOD)]) as first, Loopback([Answer(BUSY)]) as second:
        one = make(first, second, limits=Limits(silence=0.5))
        assert one.run()[1].text == "Hello"
        assert (len(first.requests), len(second.requests)) == (2, 1)
        assert one.run()[1].text == "Hello"
        assert (len(first.requests), len(second.requests)) == (3, 1)


def test_a_kept_connection_that_the_server_closed_is_opened_again_once(make: Any) -> None:
    keep = Answer(http(BODY), after="keep")
    with Loopback([keep, Answer(b""), keep, Answer(b"", after="reset"), keep]) as server:
        one = make(server)
        assert one.run()[1].text == "Hello"
        for _ in range(2):
            _, message = one.run()
            assert message.text == "Hello"
            assert one.waits.pop() == 0.0
            assert one.attempts == 2
        assert [r.connection for r in server.requests] == [1, 1, 2, 2, 3]


def test_a_connection_that_the_server_closed_long_ago_is_not_used(make: Any) -> None:
    with Loopback([Answer(http(BODY), after="close"), Answer(GOOD)]) as server:
        one = make(server)
        one.run()
        assert server.over.acquire(timeout=5)
        assert one.run()[1].text == "Hello"
        assert one.attempts == 1


@pytest.mark.parametrize(
    "data",
    [http(BODY), chunked(BODY), chunked(*(BODY[i : i + 50] for i in range(0, len(BODY), 50)))],
    ids=["length", "chunk", "chunks"],
)
@pytest.mark.parametrize("step", [None, 1])
def test_one_connection_serves_many_requests(make: Any, data: bytes, step: int | None) -> None:
    with Loopback([Answer(data, step, after="keep")]) as server:
        one = make(server, limits=Limits(ending=5.0))
        for _ in range(3):
            assert one.run()[1].text == "Hello"
        assert server.connections == 1


@pytest.mark.parametrize("tail", [b"", b": still here\n\n" * 40], ids=["silent", "talking"])
def test_the_end_is_message_stop_though_the_socket_stays_open(make: Any, tail: bytes) -> None:
    with Loopback([Answer(chunked(BODY, *([tail] * bool(tail)), end=False), after="hold")]) as server:
        events, message = make(server).run()
        assert server.over.acquire(timeout=5)  # we closed it
    assert message.text == "Hello"
    assert isinstance(events[-1], MessageStop)


# --- time ---------------------------------------------------------------------------------------


def test_silence_before_and_inside_the_reply_ends_it(make: Any) -> None:
    limits = Limits(silence=0.5)
    for data, cls_partial in ((b"", None), (chunked(HALF, end=False), "Hel")):
        with Loopback([Answer(data, after="hold")]) as server:
            _, error = make(server, limits=limits, policy=Policy(tries=1)).run()
        assert type(error) is TimeoutError
        assert "0.5 s" in str(error)
        assert (error.partial and error.partial.text) == cls_partial


def test_comments_and_pings_break_the_silence(make: Any) -> None:
    comments = b": keep\n\n" * 8
    with Loopback([Answer(chunked(comments, BODY), step=100, pause=0.08)]) as server:
        _, message = make(server, limits=Limits(silence=0.5)).run()
    assert message.text == "Hello"


def test_nothing_but_pings_for_too_long_ends_it_by_the_given_clock(make: Any) -> None:
    ticks = iter(range(0, 100_000, 100))
    pings = b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in [sse({"type": "ping"})] * 30)
    with Loopback([Answer(chunked(HALF, end=False) + pings, step=40, after="hold")]) as server:
        events, error = make(server, clock=lambda: float(next(ticks)), limits=Limits(progress=500.0)).run()
    assert type(error) is TimeoutError
    assert "nothing but pings" in str(error)
    assert error.partial.text == "Hel"
    assert isinstance(events[-1], Ping)


# --- ending early -------------------------------------------------------------------------------


def held(data: bytes = b"") -> Loopback:
    return Loopback([Answer(data or chunked(HALF, end=False), after="hold")])


@pytest.mark.parametrize("taken", [0, 1, 2, 3])
def test_leaving_the_with_block_closes_the_connection(taken: int) -> None:
    with held() as server, Client("sk-x", server.url) as client:
        with client.stream(**ASK) as stream:
            for _ in range(taken):
                next(iter(stream))
        assert server.over.acquire(timeout=5) if taken else not server.connections
        assert stream.message.text == ("Hel" if taken else "")
        assert list(stream) == []


def raise_in_the_middle_of(stream: Any) -> None:
    for _ in stream:
        raise KeyboardInterrupt


def test_an_exception_in_the_with_block_closes_the_connection_and_passes() -> None:
    with held() as server, Client("sk-x", server.url) as client:
        with pytest.raises(KeyboardInterrupt), client.stream(**ASK) as stream:
            raise_in_the_middle_of(stream)
        assert server.over.acquire(timeout=5)


WAITS = {
    "before the head": [Answer(b"", after="hold")],
    "after the head": [Answer(chunked(b": hi\n\n", end=False), after="hold")],
    "inside the reply": [Answer(chunked(HALF, end=False), after="hold")],
    "between attempts": [Answer(http({"error": {"message": "m"}}, "429 No", retry_after="50"))],
    "inside an error": [Answer(chunked(b"<html>", end=False).replace(b"200 OK", b"502 No"), after="hold")],
}


@pytest.mark.parametrize("reused", [False, True], ids=["new", "reused"])
@pytest.mark.parametrize("stage", WAITS)
def test_another_thread_can_cancel_a_blocking_stream_wherever_it_waits(stage: str, reused: bool) -> None:
    first = [Answer(http(BODY), after="keep")] * reused
    with Loopback(first + WAITS[stage]) as server, Client("sk-x", server.url) as client:
        if reused:
            client.create(**ASK)
            server.arrived.acquire()
        events: list[Any] = []
        stream = client.stream(**ASK)
        thread = threading.Thread(target=lambda: events.extend(stream))
        thread.start()
        assert server.arrived.acquire(timeout=5)
        if stage == "inside the reply":
            while stream.message.text != "Hel":
                time.sleep(0.001)
        if stage == "between attempts":
            while not events:
                time.sleep(0.001)
        stream.cancel()
        thread.join(5)
        assert not thread.is_alive()
        assert stream.message.text == ("Hel" if stage == "inside the reply" else "")
        assert len(server.requests) == 1 + reused


def test_cancel_before_the_start_sends_nothing_and_after_the_end_changes_nothing() -> None:
    with Loopback([Answer(http(BODY), after="keep")]) as server, Client("sk-x", server.url) as client:
        early = client.stream(**ASK)
        early.cancel()
        assert list(early) == []
        assert not server.requests
        done = client.stream(**ASK)
        list(done)
        done.cancel()
        assert client.create(**ASK).text == "Hello"


def test_a_cancelled_stream_does_not_disturb_another_one() -> None:
    data = chunked(HALF, end=False)
    with (
        Loopback(
            [Answer(data, after="hold"), Answer(data + chunked(BODY).partition(b"\r\n\r\n")[2])]
        ) as server,
        Client("sk-x", server.url) as client,
    ):
        first, second = client.stream(**ASK), client.stream(**ASK)
        next(iter(first))
        next(iter(second))
        first.cancel()
        assert len(list(first)) == 2
        list(second)
        assert second.message.text.startswith("Hel")
        assert second.message.stop_reason == "end_turn"


@pytest.mark.parametrize("stage", WAITS)
def test_cancelling_the_task_ends_an_async_stream_wherever_it_waits(stage: str) -> None:
    async def run(server: Loopback) -> None:
        async with AsyncClient("sk-x", server.url) as client:
            stream = client.stream(**ASK)

            async def read() -> None:
                async with stream:
                    async for _ in stream:
                        pass

            task = asyncio.create_task(read())
            assert await asyncio.to_thread(server.arrived.acquire, timeout=5)
            for _ in range(20):
                await asyncio.sleep(0)
            await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(server.over.acquire, timeout=5)
            assert asyncio.all_tasks() == {asyncio.current_task()}

    before = sockets()
    with Loopback(WAITS[stage]) as server:
        asyncio.run(run(server))
        assert len(server.requests) == 1
    assert sockets() == before


def test_leaving_async_with_closes_the_connection() -> None:
    async def run(server: Loopback) -> None:
        async with AsyncClient("sk-x", server.url) as client, client.stream(**ASK) as stream:
            async for _ in stream:
                break
        assert await asyncio.to_thread(server.over.acquire, timeout=5)

    with held() as server:
        asyncio.run(run(server))


def test_closing_the_client_leaves_no_thread_and_no_socket() -> None:
    threads, open_before = threading.active_count(), sockets()
    with Loopback([Answer(http(BODY), after="keep")]) as server:
        with Client("sk-x", server.url) as client:
            for _ in range(3):
                client.create(**ASK)
        assert server.over.acquire(timeout=5)
    assert (threading.active_count(), sockets()) == (threads, open_before)


# --- memory -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [http(BODY), http(HALF), http({"error": "no"}, "400 No"), b""],
    ids=["good", "cut", "error", "nothing"],
)
def test_the_requests_bytes_are_freed_with_the_turn_even_where_its_error_is_kept(data: bytes) -> None:
    kept: list[Any] = []
    ask = {"messages": [user("x" * 3_000_000)], "max_tokens": 5}
    with Loopback([Answer(data)]) as server, Client("sk-x", server.url, policy=Policy(tries=1)) as client:

        def turn() -> int:
            kept.append(client.stream(**ask))
            try:
                list(kept[-1])
            except KimiError as error:
                kept.append(error)
            for thread in server.threads:
                thread.join(5)
            server.requests.clear()
            return tracemalloc.get_traced_memory()[0]

        gc.collect()
        gc.disable()
        tracemalloc.start()
        try:
            first = turn()
            assert [turn() for _ in range(3)][-1] - first < 1_000_000
        finally:
            tracemalloc.stop()
            gc.enable()


def _exchanged() -> list[Any]:
    return [o for o in gc.get_objects() if type(o) in (httpx.Request, httpx.Response)]


def test_a_finished_stream_is_freed_without_a_collection() -> None:
    with Loopback([Answer(GOOD)]) as server, Client("sk-x", server.url) as client:
        gc.collect()
        before = _exchanged()  # what other tests still hold
        gc.disable()
        try:
            stream = client.stream(**ASK)
            list(stream)
            watched = [
                weakref.ref(stream),
                weakref.ref(stream._exchange),
                weakref.ref(stream._exchange.reply),
            ]
            del stream
            assert [w() for w in watched] == [None, None, None]
            assert len(_exchanged()) == len(before)
        finally:
            gc.enable()


# --- proxies and certificates -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("ALL_PROXY", "socks5://127.0.0.1:1", "socks"),
        ("ALL_PROXY", "socks://127.0.0.1:1", "proxy variable"),
        ("HTTPS_PROXY", "http://host:port", "proxy variable"),
        ("HTTP_PROXY", "http://[::1", "proxy variable"),
        ("HTTP_PROXY", "127.0.0.1:99999", "proxy variable.*99999"),
        ("NO_PROXY", "[::1]", "proxy variable.*NO_PROXY"),
        ("SSL_CERT_FILE", "/nowhere/at/all.pem", "certificates"),
    ],
)
@pytest.mark.parametrize("cls", [Client, AsyncClient])
def test_a_proxy_or_certificate_variable_that_is_wrong_is_one_line(
    cls: Any, variable: str, value: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError, match=f"(?i){says}") as caught:
        cls("sk-x", "https://host.test")
    assert "\n" not in str(caught.value)
    assert caught.value.hint


def test_a_proxy_that_is_not_there_is_a_connect_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", refused())
    with (
        Client("sk-x", "http://host.test", policy=Policy(tries=1)) as client,
        pytest.raises(ConnectError, match="proxy variables"),
    ):
        client.create(**ASK)


def test_a_transport_of_ones_own_needs_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=BODY))
    with Client("sk-x", transport=transport) as client:
        assert client.create(**ASK).text == "Hello"


# --- transports of one's own --------------------------------------------------------------------


class Script(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """A transport that streams parts from memory, sync and async."""

    class Body(httpx.SyncByteStream, httpx.AsyncByteStream):
        def __init__(self, parts: list[bytes]) -> None:
            self.parts = parts
            self.closed = False

        def __iter__(self) -> Iterator[bytes]:
            yield from self.parts

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for part in self.parts:
                yield part

        def close(self) -> None:
            self.closed = True

        async def aclose(self) -> None:
            self.closed = True

    def __init__(self, parts: list[bytes], headers: dict[str, str]) -> None:
        self.body = self.Body(parts)
        self.headers = headers

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.sent = json.loads(request.read())
        return httpx.Response(200, headers=self.headers, stream=self.body)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.sent = json.loads(await request.aread())
        return httpx.Response(200, headers=self.headers, stream=self.body)


def test_a_transport_of_ones_own_is_streamed_and_closed(make: Any) -> None:
    transport = Script([BODY[:100], BODY[100:], b"data: more\n\n"], {"x-kimi-simulator": "1"})
    one = make("http://host.test", transport=transport)
    _, message = one.run()
    assert message.text == "Hello"
    assert transport.sent["messages"] == [user("?")]
    assert transport.body.closed


def test_a_transport_between_may_hand_on_a_body_that_can_be_read_only_once() -> None:
    class Between(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            had = network().handle_request(request)
            assert isinstance(had.stream, httpx.SyncByteStream)
            return httpx.Response(200, content=iter(had.stream), extensions=had.extensions)

    with Loopback([Answer(GOOD)]) as server, Client("sk-x", server.url, transport=Between()) as client:
        assert client.create(**ASK).text == "Hello"


@pytest.mark.parametrize(("headers", "simulated"), [({"X-Kimi-Simulator": "1"}, True), ({}, False)])
def test_a_simulator_marks_its_replies(headers: dict[str, str], simulated: bool) -> None:
    with Client("sk-x", "http://host.test", transport=Script([BODY], headers)) as client:
        with client.stream(**ASK) as stream:
            assert not stream.simulated
            list(stream)
        assert stream.simulated is simulated


def test_a_tool_round_goes_back_verbatim() -> None:
    call = [
        start({"type": "thinking", "thinking": ""}),
        delta({"type": "thinking_delta", "thinking": "先查天气 \u200b🙂"}),
        delta({"type": "signature_delta", "signature": "c2ln+/=="}),
        stop(),
        start({"type": "redacted_thinking", "data": "QUJD"}, 1),
        stop(1),
        start({"type": "tool_use", "id": "functions.f:0", "name": "f", "input": {}}, 2),
        stop(2),
    ]
    with Loopback([Answer(http(sse(START, *call, *END)), after="keep"), Answer(GOOD)]) as server:
        with Client("sk-x", server.url) as client:
            first = client.create(**ASK)
            result = ToolResultBlock.of("functions.f:0", "sunny")
            client.create(messages=[user("?"), assistant(first.content), user([result])], max_tokens=9)
        sent = server.requests[1].json["messages"]
    assert sent[1]["content"] == [
        {"type": "thinking", "thinking": "先查天气 \u200b🙂", "signature": "c2ln+/=="},
        {"type": "redacted_thinking", "data": "QUJD"},
        {"type": "tool_use", "id": "functions.f:0", "name": "f", "input": {}},
    ]


def test_a_host_that_takes_the_connection_and_says_nothing_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:  # nobody ever answers the TLS handshake
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        client = Client("sk-x", url, policy=Policy(tries=1), limits=Limits(connect=0.1))
        with client, pytest.raises(ConnectError, match="ConnectTimeout"):
            client.create(**ASK)


def test_cancel_ends_the_wait_of_a_transport_of_ones_own() -> None:
    class Waiting(httpx.SyncByteStream):
        def __init__(self) -> None:
            self.started, self.closed = threading.Event(), threading.Event()

        def __iter__(self) -> Iterator[bytes]:
            yield HALF
            self.started.set()
            assert self.closed.wait(5)
            raise httpx.ReadError("closed")

        def close(self) -> None:
            self.closed.set()

    body = Waiting()
    transport = httpx.MockTransport(lambda request: httpx.Response(200, stream=body))
    with Client("sk-x", "http://host.test", transport=transport) as client:
        stream = client.stream(**ASK)
        thread = threading.Thread(target=list, args=[stream])
        thread.start()
        assert body.started.wait(5)
        stream.cancel()
        thread.join(5)
        assert not thread.is_alive()
        assert stream.message.text == "Hel"
