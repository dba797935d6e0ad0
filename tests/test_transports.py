"""The simulator behind httpx: in process, and over a real socket on loopback."""

import asyncio
import http.client
import json
import socket
import threading

import httpx
import pytest

from kimi_magic.simulator import Simulator
from kimi_magic.transports import SimulatorTransport, serve

HEADERS = {"Authorization": "Bearer key"}
URL = "https://server.example/v1/messages"


def body(prompt="Hi", **fields):
    messages = [{"role": "user", "content": prompt}]
    return {"model": "kimi-k3.1-pro", "max_tokens": 4096, "stream": True, "messages": messages, **fields}


def in_process(**options):
    transport = SimulatorTransport(Simulator(speed=0), **options)
    return httpx.Client(transport=transport, headers=HEADERS)


@pytest.fixture
def server():
    with serve(Simulator(speed=0)) as server:
        yield server


@pytest.fixture
def client():
    # The machine's proxy settings are not for loopback.
    with httpx.Client(headers=HEADERS, trust_env=False) as client:
        yield client


def expected(**fields):
    reply = Simulator(speed=0).reply(json.dumps(body(**fields)).encode(), HEADERS)
    return b"".join(chunk for _, chunk in reply.chunks)


# --- in process ---------------------------------------------------------------------------------


def test_a_client_reads_what_the_simulator_says():
    with in_process() as client:
        reply = client.post(URL, json=body())
    assert reply.status_code == 200
    assert reply.headers["x-kimi-simulator"] == "1"
    assert reply.content == expected()


def test_an_async_client_reads_the_same():
    async def read():
        transport = SimulatorTransport(Simulator(speed=0))
        async with httpx.AsyncClient(transport=transport, headers=HEADERS) as client:
            return (await client.post(URL, json=body())).content

    assert asyncio.run(read()) == expected()


def test_both_sleep_as_the_chunks_say():
    slept, aslept = [], []

    async def asleep(seconds):
        aslept.append(seconds)

    async def read():
        transport = SimulatorTransport(Simulator(speed=100), asleep=asleep)
        async with httpx.AsyncClient(transport=transport, headers=HEADERS) as client:
            await client.post(URL, json=body())

    transport = SimulatorTransport(Simulator(speed=100), sleep=slept.append)
    with httpx.Client(transport=transport, headers=HEADERS) as client:
        client.post(URL, json=body())
    asyncio.run(read())
    assert sum(slept) > 1
    assert [seconds for seconds in aslept if seconds] == slept


def test_a_silence_beyond_the_read_timeout_is_one_in_process_too():
    slept = []
    with in_process(sleep=slept.append) as client, pytest.raises(httpx.ReadTimeout):
        client.post(URL, json=body("[[simulate: slow 60]]"), timeout=3)
    assert slept == [3]

    async def read():
        transport = SimulatorTransport(Simulator(speed=0))
        async with httpx.AsyncClient(transport=transport, headers=HEADERS) as client:
            await client.post(URL, json=body("[[simulate: slow 60]]"), timeout=0.01)

    with pytest.raises(httpx.ReadTimeout):
        asyncio.run(read())


@pytest.mark.parametrize("name", ["broken", "drop"])
def test_a_broken_connection_is_httpx_own_error(name):
    async def read():
        transport = SimulatorTransport(Simulator(speed=0))
        async with httpx.AsyncClient(transport=transport, headers=HEADERS) as client:
            await client.post(URL, json=body(f"[[simulate: {name}]]"))

    with in_process() as client, pytest.raises(httpx.RemoteProtocolError):
        client.post(URL, json=body(f"[[simulate: {name}]]"))
    with pytest.raises(httpx.RemoteProtocolError):
        asyncio.run(read())


def test_a_cut_stream_is_a_plain_end():
    with in_process() as client:
        content = client.post(URL, json=body("[[simulate: cut]]")).content
    assert b"text_delta" in content
    assert b"message_stop" not in content


def test_closing_early_stops_the_stream():
    slept = []
    transport = SimulatorTransport(Simulator(speed=100), sleep=slept.append)
    with httpx.Client(transport=transport, headers=HEADERS) as client:
        with client.stream("POST", URL, json=body()) as reply:
            chunks = reply.iter_raw()
            next(chunks)
        with pytest.raises(httpx.StreamError):
            next(reply.iter_raw())
    assert len(slept) == 1


def test_closing_from_another_thread_wakes_a_waiting_reader():
    with (
        in_process() as client,
        client.stream("POST", URL, json=body("[[simulate: silence]]"), timeout=None) as reply,
    ):
        first, failed = threading.Event(), []

        def read():
            try:
                for _ in reply.iter_raw():
                    first.set()
            except httpx.ReadError as error:
                failed.append(error)

        reader = threading.Thread(target=read)
        reader.start()
        assert first.wait(10)
        reply.stream.close()
        reader.join(10)
        assert not reader.is_alive()
    assert len(failed) == 1


def test_cancelling_a_task_ends_its_wait():
    async def read():
        transport = SimulatorTransport(Simulator(speed=0))
        async with httpx.AsyncClient(transport=transport, headers=HEADERS, timeout=None) as client:
            task = asyncio.create_task(client.post(URL, json=body("[[simulate: silence]]")))
            await asyncio.sleep(0.05)
            task.cancel()
            await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(read())


# --- over a socket ------------------------------------------------------------------------------


def test_the_server_sends_what_the_simulator_says(server, client):
    reply = client.post(server.url + "/v1/messages", json=body())
    assert reply.content == expected()
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert reply.headers["x-kimi-simulator"] == "1"
    assert client.get(server.url).text.startswith("The kimi_magic simulator")
    assert client.get(server.url + "/health").status_code == 200
    wrong = client.post(server.url + "/v1/complete", json={})
    assert (wrong.status_code, wrong.json()["error"]["type"]) == (404, "not_found_error")
    assert client.post(server.url + "/v1/messages", json={}).status_code == 400


def test_a_connection_serves_many_requests(server):
    host, port = server.url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port))
    connection.connect()
    opened = connection.sock
    for _ in range(3):
        connection.request("POST", "/v1/messages", json.dumps(body(stream=False)), HEADERS)
        assert json.loads(connection.getresponse().read())["role"] == "assistant"
        assert connection.sock is opened
    connection.close()


def test_chunks_arrive_one_by_one_while_the_rest_is_to_come(server, client):
    with client.stream("POST", server.url + "/v1/messages", json=body("[[simulate: silence]]")) as reply:
        seen = b""
        for chunk in reply.iter_raw():
            seen += chunk
            if b"text_delta" in seen:
                break
    assert b"message_stop" not in seen


def test_a_body_may_come_in_chunks(server, client):
    parts = iter([json.dumps(body()).encode()[n : n + 50] for n in range(0, 1000, 50)])
    assert client.post(server.url + "/v1/messages", content=parts).content == expected()


def exchanged(server, head: str, sent: bytes = b"") -> bytes:
    """All that the server says until it closes the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        lines = [head, "Host: 127.0.0.1", *(f"{name}: {value}" for name, value in HEADERS.items())]
        connection.sendall("\r\n".join(lines).encode() + b"\r\n" + sent)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_a_client_of_http_1_0_gets_the_reply_without_chunks(server):
    asked = json.dumps(body()).encode()
    said = exchanged(
        server, "POST /v1/messages HTTP/1.0", b"Content-Length: %d\r\n\r\n%b" % (len(asked), asked)
    )
    assert said.partition(b"\r\n\r\n")[2] == expected()


@pytest.mark.parametrize(
    "framing", [b"Content-Length: x", b"Content-Length: -5", b"Transfer-Encoding: chunked\r\n\r\nzz"]
)
def test_a_body_without_a_length_that_can_be_read_is_400(server, framing):
    assert exchanged(server, "POST /v1/messages HTTP/1.1", framing + b"\r\n\r\n{}").startswith(
        b"HTTP/1.1 400 "
    )


@pytest.mark.parametrize("name", ["broken", "drop"])
def test_a_broken_connection_breaks(server, client, name):
    with pytest.raises(httpx.RemoteProtocolError):
        client.post(server.url + "/v1/messages", json=body(f"[[simulate: {name}]]"))
    assert client.get(server.url).status_code == 200


def test_closing_the_server_ends_replies_connections_and_threads(client):
    before = set(threading.enumerate())
    server = serve(Simulator(speed=0))
    idle = socket.create_connection(("127.0.0.1", server.port))
    with client.stream(
        "POST", server.url + "/v1/messages", json=body("[[simulate: silence]]"), timeout=30
    ) as reply:
        chunks = reply.iter_raw()
        next(chunks)
        server.close()
        with pytest.raises(httpx.RemoteProtocolError):
            list(chunks)
    assert idle.recv(1) == b""
    idle.close()
    assert set(threading.enumerate()) <= before
    with pytest.raises(httpx.ConnectError):
        client.get(server.url)


def test_a_client_that_goes_away_frees_its_thread(server, client):
    before = threading.active_count()
    with client.stream("POST", server.url + "/v1/messages", json=body("[[simulate: silence]]")) as reply:
        chunks = reply.iter_raw()
        next(chunks)
        assert threading.active_count() > before
        chunks.close()
    for _ in range(500):
        if threading.active_count() <= before:
            return
        threading.Event().wait(0.02)
    pytest.fail("The server still waits for a client that has gone.")


def test_only_this_machine_is_answered(server, client):
    assert server.url.startswith("http://127.0.0.1:")
    assert client.get(server.url, headers={"Host": "evil.example"}).status_code == 403
    assert client.get(server.url, headers={"Host": f"localhost:{server.port}"}).status_code == 200


def test_a_taken_port_is_an_error(server):
    with pytest.raises(OSError, match="in use"):
        serve(port=server.port)


def test_nothing_is_printed(server, client, capfd):
    client.get(server.url + "/nothing")
    client.post(server.url + "/v1/messages", json=body("[[simulate: cut]]"))
    assert capfd.readouterr() == ("", "")
