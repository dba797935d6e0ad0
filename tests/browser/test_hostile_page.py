"""A server whose every word is hostile, in trusted notebooks: nothing runs, no request leaves the page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from front_end import FrontEnd
from loopback import Answer, Loopback, chunked, http
from playwright.sync_api import Request
from render.cases import read

pytestmark = pytest.mark.browser

OWN = """<script>alert(1)</script><img src="http://evil.cn/i.png" onerror="alert(1)"><svg onload="alert(1)">
<iframe src="http://evil.cn/f"></iframe>
<link rel="stylesheet" href="http://evil.cn/s.css">
<style>@import url(http://evil.cn/c.css); p { background: url(http://evil.cn/b.png) }</style>
<details open ontoggle="alert(1)"><summary>x</summary></details>
<video src="http://evil.cn/v" autoplay></video>
<a href="javascript:alert(1)">x</a> [x](javascript:alert(1)) ![x](http://evil.cn/p.png)
<meta http-equiv="refresh" content="0;url=http://evil.cn/">
<form action="http://evil.cn/"><input autofocus
onfocus="alert(1)"></form><base href="http://evil.cn/">"""
HOSTILE = "\n\n".join([OWN, *(source for [source] in read("hostile.txt", 1).values())])
LINE = " ".join(OWN.split())

TRAP = "http://127.0.0.1:9/trap"
"""What one image of the test itself asks for, to see that asking would be noticed; it may ask late."""

WATCH = """() => { window.ran = []; window.alert = () => window.ran.push('alert');
  window.open = () => window.ran.push('open'); }"""
FOUND = """() => [...document.querySelectorAll('.jp-OutputArea-output')].flatMap(area => [
  ...area.querySelectorAll('script, iframe, object, embed, form, input, video, audio, link, meta, base'),
  ...[...area.querySelectorAll('*')].filter(e => [...e.attributes].some(a => a.name.startsWith('on'))),
  ...[...area.querySelectorAll('[src]')].filter(e => !e.getAttribute('src').startsWith('data:image/')),
  ...[...area.querySelectorAll('a[href]')]  // but those that the front end makes: in plain text, at headings
    .filter(e => !e.closest('.jp-RenderedText, .jp-InternalAnchorLink')
      && !/^(https?|mailto):/.test(e.getAttribute('href'))),
].map(e => e.outerHTML.slice(0, 200)))"""


def event(name: str, **fields: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **fields})}\n\n".encode()


def reply(*blocks: dict[str, Any], stop: str) -> Answer:
    """A stream of these blocks, slow enough to be seen."""
    message = {"id": LINE, "type": "message", "role": "assistant", "model": LINE, "content": []}
    events = [event("message_start", message={**message, "usage": {"input_tokens": 9, "output_tokens": 1}})]
    for index, block in enumerate(blocks):
        empty, delta = block, {}
        for field, kind in (("text", "text_delta"), ("thinking", "thinking_delta")):
            if field in block:
                empty, delta = {**block, field: ""}, {"type": kind, field: block[field]}
        events.append(event("content_block_start", index=index, content_block=empty))
        if delta:
            events.append(event("content_block_delta", index=index, delta=delta))
        events.append(event("content_block_stop", index=index))
    events.append(event("message_delta", delta={"stop_reason": stop}, usage={"output_tokens": 5}))
    body = chunked(*events, event("message_stop"), request_id="req_1")
    return Answer(body, step=max(1, len(body) // 12), pause=0.12)


def page(title: str, url: str) -> dict[str, str]:
    return {"type": "web_search_result", "title": title, "url": url}


def answers() -> list[Answer]:
    cited = {
        "type": "text",
        "text": HOSTILE,
        "citations": [page(LINE, "javascript:alert(1)"), page(LINE, LINE)],
    }
    asked = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": LINE}}
    found = [page(LINE, "javascript:alert(1)"), page(LINE, f"https://a.org/{LINE}")]
    call = {"type": "tool_use", "id": "t", "name": "echo", "input": {"x": HOSTILE, LINE: LINE}}
    error = {"type": "error", "error": {"type": LINE, "message": LINE + "\x1b[31m\u202e"}}
    return [
        reply(
            {"type": "thinking", "thinking": HOSTILE, "signature": ""},
            asked,
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": found},
            call,
            stop="tool_use",
        ),
        reply(
            {"type": "web_search_tool_result", "tool_use_id": "x", "content": {"error_code": LINE}},
            cited,
            stop=LINE,
        ),
        Answer(http(error, "400 Bad Request", content_type="application/json")),
    ]


CELLS = [
    "import os\nos.environ |= {{'KIMI_BASE_URL': {url!r}, 'KIMI_API_KEY': 'sk-test-hostile'}}\n"
    "%load_ext kimi_magic\n%config KimiMagic.display = {display!r}\n"
    "def echo(x, **more):\n    return x + str(more)",
    "%%kimi -o r --search 1 -t echo\nHi.",
    "%%kimi --once\nAgain.",
    "from IPython.display import display\nfor kind in ('text/markdown', 'text/html', 'text/plain'):\n"
    "    display({{kind: r._repr_mimebundle_()[kind]}}, raw=True)",
    "%kimi show",
    "%kimi history",
    "%kimi usage",
]


@pytest.fixture
def requests(front: FrontEnd) -> Iterator[list[str]]:
    """Addresses that the page asked for meanwhile."""
    seen: list[str] = []

    def note(request: Request) -> None:
        seen.append(request.url)

    front.page.on("request", note)
    yield seen
    front.page.remove_listener("request", note)


@pytest.mark.parametrize("display", ["static", "live"])
def test_hostile_words_run_nothing_and_ask_for_nothing(
    front: FrontEnd, requests: list[str], display: str
) -> None:
    with Loopback(answers()) as server:
        front.open([cell.format(url=server.url, display=display) for cell in CELLS])
        front.page.evaluate(WATCH)
        front.run(0)
        front.start(1)
        front.output(1).locator("details.kimi-thinking").wait_for()
        assert front.page.evaluate(FOUND) == []
        for cell in range(1, len(CELLS)):
            if cell > 1:
                front.start(cell)
            front.wait(cell)
            assert front.trusts(cell)
            assert front.page.evaluate(FOUND) == [], f"cell {cell}"
    assert len(server.requests) == 3
    text = front.output(1).inner_text()
    assert "<script>alert(1)</script>" in text
    assert [o["output_type"] for o in front.outputs(2)][-1] == "error"
    assert [o["output_type"] for o in front.outputs(3)] == ["display_data"] * 3
    for details in front.page.locator(".jp-OutputArea details").all():
        details.evaluate("e => { e.open = true; e.querySelector('summary').click(); e.open = true; }")
    front.page.mouse.move(400, 400)
    front.page.wait_for_timeout(300)  # for what would load late
    assert front.page.evaluate("window.ran") == []
    own = (front.server.url, front.server.url.replace("http", "ws", 1), "data:", "blob:", "about:", TRAP)
    assert [url for url in requests if not url.startswith(own)] == []

    # and the trap would have caught it
    front.set_source(0, f"display({{'text/html': '<img src=\"{TRAP}\" onerror=\"alert(1)\">'}}, raw=True)")
    front.run(0)
    front.page.wait_for_function("() => window.ran.length")
    assert TRAP in requests
    assert len(front.page.evaluate(FOUND)) == 2
