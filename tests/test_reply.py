"""A reply as it is shown: each kind of segment, and hostile text wherever text can come from."""

from __future__ import annotations

import json
import re
import struct
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from published import OBEYED, faults, in_html
from render.cases import read
from test_display import Clock, Recording

from kimi_magic.display import Deltas, Progress, StaticView
from kimi_magic.errors import ServerError
from kimi_magic.render import ReplyView, Terminal, bundle, closing_lines, table_html, table_text
from kimi_magic.render.running import segment
from kimi_magic.retry import Attempt
from kimi_magic.usage import Record
from kimi_magic.wire import Block, content_blocks

HOSTILE = {title: source for title, [source] in read("hostile.txt", 1).items()}
PNG = "iVBORw0KGgoA"
RECORD = Record(
    time=datetime(2026, 3, 1, 12, tzinfo=UTC),
    model="kimi-k3.1-pro",
    stop_reason="end_turn",
    input=1200,
    cache_read=1000,
    output=340,
    thinking=300,
    seconds=3.2,
    seconds_to_first=0.4,
    cost=Decimal("0.0021"),
    request_id="req_1",
)


def blocks(*json: dict[str, Any]) -> tuple[Block, ...]:
    return tuple(content_blocks(list(json)))


def said(text: str, *citations: dict[str, str]) -> dict[str, Any]:
    return {"type": "text", "text": text, "citations": list(citations)}


def call(name: str = "f", given: Any = None, **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "t", "name": name, "input": given or {}, **more}


def result(*content: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "t", "content": list(content), **more}


def search(query: str = "q") -> dict[str, Any]:
    return {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": query}}


def found(content: Any) -> dict[str, Any]:
    return {"type": "web_search_tool_result", "tool_use_id": "s", "content": content}


def page(url: str = "https://a.org/x", title: str = "A page") -> dict[str, str]:
    return {"type": "web_search_result", "url": url, "title": title}


def view(*json: dict[str, Any], **more: Any) -> ReplyView:
    return ReplyView(blocks(*json), (RECORD,), **more)


def png(width: int, height: int, size: int) -> str:
    """The beginning of a PNG, and so many bytes in all."""
    head = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", width, height)
    return b64encode(head.ljust(size, b"\x00")).decode()


def html(*json: dict[str, Any], **more: Any) -> str:
    return str(bundle(view(*json, **more))["text/html"])


def words(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<style>.*?</style>|<[^>]*>", " ", html, flags=re.DOTALL))


# --- hostile text -------------------------------------------------------------------------------

PLACES: dict[str, Callable[[str], ReplyView]] = {
    "text": lambda t: view(said(t)),
    "thinking": lambda t: view({"type": "thinking", "thinking": t}, said("Yes.")),
    "name of a tool": lambda t: view(call(t), result(said("x"))),
    "name of an argument": lambda t: view(call(given={t: 1}), result(said("x"))),
    "argument": lambda t: view(call(given={"a": t, "b": [t, {"c": t}]}), result(said("x"))),
    "result of a tool": lambda t: view(call(), result(said(t), said(t))),
    "error of a tool": lambda t: view(call(), result(said(t), is_error=True)),
    "kind of a result": lambda t: view(call(), result({"type": t})),
    "media type of an image": lambda t: view(
        call(), result({"type": "image", "source": {"type": "base64", "media_type": t, "data": PNG}})
    ),
    "data of an image": lambda t: view(
        call(), result({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": t}})
    ),
    "address of an image": lambda t: view(
        call(), result({"type": "image", "source": {"type": "url", "url": t}})
    ),
    "query of a search": lambda t: view(search(t), found([page()])),
    "title of a result": lambda t: view(search(), found([page(title=t)])),
    "address of a result": lambda t: view(search(), found([page(url=t), page(url=f"https://a.org/{t}")])),
    "error of a search": lambda t: view(search(), found({"error_code": t})),
    "title of a source": lambda t: view(said("So.", page(title=t))),
    "address of a source": lambda t: view(said("So.", page(url=t), page(url=f"https://a.org/{t}"))),
    "unknown block": lambda t: view({"type": t, "text": t}, said("Yes.")),
    "structured text": lambda t: view(said(json.dumps({"a": t, t: [t]})), structured=True),
    "structured rows": lambda t: view(said(json.dumps([{"a": t, t: 1}])), structured=True),
    "structured text that is none": lambda t: view(said(t), structured=True),
    "model": lambda t: replace(view(said("Yes.")), records=(RECORD.replace(model=t),)),
    "stop reason": lambda t: replace(view(said("Yes.")), records=(RECORD.replace(stop_reason=t),)),
    "request id": lambda t: replace(view(said("Yes.")), records=(RECORD.replace(request_id=t),)),
    "effort and currency": lambda t: replace(
        view(said("Yes.")), records=(RECORD.replace(effort=t, currency=t),)
    ),
    "failure": lambda t: view(said("Half"), failure=t),
    "note": lambda t: view(said("Yes."), notes=(f"{t}: cut to 10,000 characters.",)),
}
"""Where text comes from that is not ours → a reply with it there. File names come in notes."""

everywhere = pytest.mark.parametrize("place", PLACES)


@everywhere
def test_hostile_text_anywhere_stays_text_in_every_type_that_is_published(place: str) -> None:
    for title, text in HOSTILE.items():
        assert faults(bundle(PLACES[place](text))) == [], title


@everywhere
def test_hostile_text_anywhere_stays_text_while_the_reply_streams_as_segments(place: str) -> None:
    for title, text in HOSTILE.items():
        shown = PLACES[place](text)
        outputs = Recording()
        running = StaticView(outputs, lambda ending: {}, clock=Clock())
        for seen in range(len(shown.content) + 1):
            running.update(progress(shown, seen))
        assert outputs.sent
        assert [fault for _, _, data in outputs.sent for fault in faults(data)] == [], title


@everywhere
def test_hostile_text_anywhere_stays_text_in_the_messages_of_a_live_reply(place: str) -> None:
    for title, text in HOSTILE.items():
        shown, deltas = PLACES[place](text), Deltas()
        for seen in range(len(shown.content) + 1):
            news, _ = deltas.news(progress(shown, seen))
            texts = [news.get("waiting", "")]
            for part in news.get("parts", ()):
                texts += [part.get("head", ""), part.get("tail", ""), part.get("html", "")]
                texts += part.get("blocks", [])
                shown_as_text = part.get("text", "") + part.get("label", "")
                assert not OBEYED.search(shown_as_text)
                assert set(part) <= {"place", "kind", "at", "head", "text", "label", "blocks", "tail", "html"}
            assert [fault for html in texts for fault in in_html(html)] == [], title


@everywhere
def test_hostile_text_anywhere_reaches_no_terminal(place: str) -> None:
    for title, text in HOSTILE.items():
        terminal = Terminal(color=False)
        lines = "".join(f"{line}\n" for line in closing_lines(PLACES[place](text)))
        assert not OBEYED.search(terminal.feed(lines) + terminal.close()), title


@pytest.mark.parametrize("title", HOSTILE)
def test_hostile_text_in_a_further_attempt_and_in_tables_stays_text(title: str) -> None:
    text = HOSTILE[title]
    outputs = Recording()
    attempt = Attempt("http://x", number=2, cause=ServerError(text))
    StaticView(outputs, lambda ending: {}).update(Progress((), 0.0, text, retry=attempt))
    assert faults(*outputs.shown.values()) == []
    rows = [{text: text, "": text, "b": text}]
    table = {"text/html": table_html(rows, text), "text/plain": table_text(rows, text)}
    assert faults(table) == []


def progress(shown: ReplyView, seen: int) -> Progress:
    model = shown.records[0].model
    return Progress(shown.content[:seen], 1.0, model, simulated=True, structured=shown.structured)


def test_the_judge_sees_what_must_not_be_there() -> None:
    bad = [
        *["<script>x</script>", "<img src=x>", "<p onclick=x>y</p>", "<a href='javascript:x'>y</a>", "<p>"],
        *[
            "<style>*{}</style>",
            "<div style='background:url(x)'>y</div>",
            "<!-- x -->",
            "</p>",
            "<p>\u202e</p>",
        ],
        *["<iframe></iframe>", "<a href='//evil.cn'>x</a>", "<div id='main'></div>", "<p class='lm-x'>y</p>"],
    ]
    assert [html for html in bad if not faults({"text/html": html})] == []
    assert faults({"text/markdown": "<b>x</b>"})
    assert faults({"image/svg+xml": ""})
    assert faults({"text/html": segment("<p>x</p>", simulated=True)}) == []


# --- segments -----------------------------------------------------------------------------------


def test_thinking_is_folded_and_says_its_tokens_and_seconds() -> None:
    shown = html({"type": "thinking", "thinking": "a < b"}, said("Yes."), thinking_seconds=2.5)
    assert re.search(
        r'<details class="kimi-thinking"[^>]*><summary[^>]*>Thinking · 2.5 s · 300 tokens<', shown
    )
    assert "a &lt; b" in shown
    redacted = html({"type": "redacted_thinking", "data": "x"}, said("Yes."))
    assert "The server sends this thinking encrypted." in redacted


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ([search("cats")], "Web search · cats · not finished"),
        ([search("cats"), found([])], "Web search · cats · nothing found"),
        ([search("cats"), found([page()])], "Web search · cats · 1 result"),
        ([search("cats"), found([page(), page()])], "Web search · cats · 2 results"),
        ([search("cats"), found({"error_code": "unavailable"})], "Web search · cats · failed: unavailable"),
        ([found([page()])], "Web search · 1 result"),
    ],
)
def test_a_search_says_what_was_asked_and_what_came_of_it(content: list[Any], line: str) -> None:
    data = bundle(view(*content, said("So.")))
    assert line in words(data["text/html"])
    assert f"> {line}\n" in data["text/markdown"]


def test_a_search_that_runs_says_so_until_its_results_have_come() -> None:
    outputs = Recording()
    running = StaticView(outputs, lambda ending: {})
    steps = blocks(search("cats"), {**search("dogs"), "id": "s2"}, found([]))
    for seen in (1, 2, 3):
        running.update(Progress(steps[:seen], 0.0, "m"))
        assert ("cats · searching …" in outputs.html) == (seen < 3)
    assert "cats · nothing found" in outputs.html


def test_citations_are_numbers_in_the_text_that_lead_to_the_sources_below() -> None:
    a, b = page("https://a.org/x", "Ants"), page("https://b.org/y", "Bees")
    data = bundle(view(said("One", a), said(", two", b, a), said(".")))
    text = words(data["text/html"])
    assert "One [1] , two [2] [1] ." in text
    assert data["text/html"].count('href="https://a.org/x"') == 3
    assert re.search(r"Sources\s*Ants\s*Bees", text)
    assert "1. Ants <https://a.org/x>\n2. Bees <https://b.org/y>" in data["text/markdown"]
    assert "[1] Ants https://a.org/x\n[2] Bees https://b.org/y" in data["text/plain"]


def test_a_call_shows_arguments_result_time_and_failure_in_a_bounded_box() -> None:
    shown = html(
        call("mean", {"of": [1, 2]}), result(said("9\n" * 5000), is_error=True), call_seconds=(0.25,)
    )
    assert "Tool · <code>mean(of=[1, 2])</code> · failed · 0.2 s" in shown
    assert shown.count("max-height") >= 2
    assert "<details open" not in shown
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    assert re.search(r'<details open class="kimi-tool".*<img alt="image that', html(call(), result(image)))
    assert "> Tool: `mean(of=1) · done`" in bundle(view(call("mean", {"of": 1}), result()))["text/markdown"]


def test_the_images_of_a_prompt_are_named_and_small_ones_can_be_looked_at() -> None:
    small, large = (
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
        for data in (PNG, png(640, 480, 180_000))
    )
    elsewhere = {"type": "image", "source": {"type": "url", "url": "https://a.org/<x>.png"}}
    shown = view(said("A cat."), images=blocks(small, large, elsewhere))
    data = bundle(shown)
    assert faults(data) == []
    assert data["text/html"].count("<img ") == 1
    assert (
        "Images sent · PNG, 1 KB; PNG 640 × 480, 180 KB; at https://a.org/&lt;x&gt;.png" in data["text/html"]
    )
    assert "[Images sent · PNG, 1 KB; " in data["text/plain"]


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("refusal", "the model refused"),
        ("tool_use", "ended at a tool call"),
        ("stop_sequence", "stopped at a stop sequence"),
        ("a_new_one", "a_new_one"),
    ],
)
def test_why_a_reply_ended_is_said_in_words_in_each_type(reason: str, told: str) -> None:
    shown = bundle(replace(view(said("Half")), records=(RECORD.replace(stop_reason=reason),)))
    assert told in shown["text/html"]
    assert f"[{told}]" in shown["text/plain"]
    assert told.split(":")[0].replace("_", r"\_") in shown["text/markdown"].replace(r"\_", "_").replace(
        "_", r"\_"
    )


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("max_tokens", "max_tokens (60) was reached. Raise it (-n; in the panel: Most tokens), or ask it"),
        ("model_context_window_exceeded", "the context window is full. %kimi compact makes room"),
    ],
)
def test_a_text_that_ends_in_the_middle_has_a_box_that_says_so(reason: str, told: str) -> None:
    cut = replace(view(said("Half"), max_tokens=60), records=(RECORD.replace(stop_reason=reason),))
    data = bundle(cut)
    (box,) = re.findall(r'<div class="kimi-note"[^>]*>(.*?)</div>', data["text/html"])
    assert box.startswith(f"The reply ends in the middle: {told}")
    for kind in ("text/plain", "text/markdown"):
        assert data[kind].replace("\\", "").count("The reply ends in the middle") == 1
    assert box in closing_lines(cut)
    assert "was reached" not in bundle(replace(cut, failure="Broken."))["text/html"]


def test_without_the_limit_the_box_names_max_tokens_alone() -> None:
    cut = replace(view(said("Half")), records=(RECORD.replace(stop_reason="max_tokens"),))
    assert "in the middle: max_tokens was reached" in bundle(cut)["text/html"]


def test_seconds_in_all_are_those_of_the_turn_with_its_tools() -> None:
    later = RECORD.replace(time=RECORD.time + timedelta(seconds=6), seconds=1.0)
    assert "· 7.0 s ·" in closing_lines(replace(view(said("Yes.")), records=(RECORD, later)))[-1]
    assert "· 9.0 s ·" in closing_lines(view(said("Yes."), seconds=9.0))[-1]
    back = later.replace(time=RECORD.time - timedelta(hours=1))  # the machine's clock was set
    assert "· 4.2 s ·" in closing_lines(replace(view(said("Yes.")), records=(RECORD, back)))[-1]


def test_a_call_that_the_user_declined_or_interrupted_has_not_failed() -> None:
    for words, state in (
        ("The user did not allow this call of f.", "declined"),
        ("Interrupted: the call did not end.", "interrupted"),
        ("ValueError: The user did not allow it", "failed"),
    ):
        assert f"· {state}<" in html(call(), result(said(words), is_error=True))


def test_a_replayed_simulated_reply_has_one_badge() -> None:
    data = bundle(
        replace(view(said("Yes."), simulated=True), records=(RECORD.replace(replayed=True, simulated=True),))
    )
    assert data["text/html"].count('class="kimi-badge"') == 1
    assert "this simulated reply was recorded earlier" in data["text/html"]


def test_the_footer_is_one_line_with_usage_and_request_id_behind_it() -> None:
    shown = html(said("Yes."))
    line, table = shown.partition('<details class="kimi-footer"')[2].split("<table>")
    assert "kimi-k3.1-pro · effort max · first token 0.4 s · 3.2 s · 2,200 in (1,000 from cache)" in words(
        line
    )
    assert "340 out (300 thinking) · $0.0021" in words(line)
    assert "req_1" in table
    assert table.count('<th scope="row"') == table.count("<tr>") > 5
    assert "of it thinking" in table
    assert "written to cache" not in table  # which the server did not tell


@pytest.mark.parametrize(
    ("name", "said_so"),
    [
        ("main", ""),
        (None, ""),
        ("draft 二", "conversation draft 二 · "),
        ("<b>x</b>\x1b[31m\n y", "conversation <b>x</b>\ufffd[31m y · "),
        ("n" * 99, f"conversation {'n' * 31}… · "),
    ],
)
def test_the_footer_names_the_conversation_where_it_is_not_the_usual_one(
    name: str | None, said_so: str
) -> None:
    ended = replace(view(said("Yes.")), records=(RECORD.replace(conversation=name),))
    line = closing_lines(ended)[-1]
    assert line.startswith(f"kimi-k3.1-pro · effort max · {said_so}first token")
    assert "<b>" not in bundle(ended)["text/html"]


def test_structured_replies_are_a_table_or_indented_json() -> None:
    rows = html(said('[{"city": "Paris", "n": 2}, {"city": "Rome", "n": 10}]'), structured=True)
    assert re.search(r'<th scope="col"[^>]*>city</th>', rows)
    tree = html(said('{"a": {"b": 1}, "c": 2}'), structured=True)
    assert '<pre class="kimi-code">' in tree


def test_json_that_is_nested_without_end_is_text() -> None:
    for deep in ("[" * 20_000, '{"a":' * 5_000 + "1" + "}" * 5_000):
        assert faults(bundle(view(said(deep), structured=True))) == []
    given: dict[str, Any] = {}
    for _ in range(5_000):
        given = {"a": given}
    assert "nested too deeply" in html(call(given=given), result(said("x")))


def test_a_server_s_words_in_an_error_obey_nothing() -> None:
    for title, text in HOSTILE.items():
        (line,) = ServerError(text, hint=text)._render_traceback_()
        assert not OBEYED.search(line), title
