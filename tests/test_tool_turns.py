"""Turns with tools, schemas and searches: the loop, the thread of the cell, and what is shown."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from notebook import Notebook
from pydantic import BaseModel
from scripted import START, Answer, Scripted, block, end, reply, text, thinking

from kimi_magic.api import Kimi, view_of
from kimi_magic.config import KimiMagic
from kimi_magic.conversation import COMPLETE, CUT, FAILED, INTERRUPTED, REFUSED, Turn
from kimi_magic.display import Ending, Progress, TerminalView, show
from kimi_magic.errors import (
    CutReplyError,
    Interrupted,
    InvalidReplyError,
    KimiError,
    NoAnswerError,
    OptionError,
    RefusedReplyError,
    RequestError,
    SchemaError,
    ToolError,
)
from kimi_magic.magics.completion import complete
from kimi_magic.magics.reading import parse_cell, parse_line
from kimi_magic.pixels import pixel_size
from kimi_magic.render import bundle, closing_lines
from kimi_magic.render.data import read, records
from kimi_magic.session import Ask, Session, Worker
from kimi_magic.store import Store
from kimi_magic.tools import BUDGET, function_tools
from kimi_magic.wire import Request, TextBlock


@pytest.fixture
def chat() -> Iterator[Callable[[Scripted], Kimi]]:
    made: list[Kimi] = []

    def make(server: Scripted) -> Kimi:
        made.append(Kimi(KimiMagic(store="off"), client=server.client()))
        return made[-1]

    yield make
    for one in made:
        one.close()


def uses(*calls: tuple[str, str, str], stop: str = "tool_use", first: int = 0) -> Answer:
    """A reply that calls: id, name and the text of the arguments each."""
    blocks = [
        event
        for n, (name, function, arguments) in enumerate(calls, first)
        for event in block(
            n,
            {"type": "tool_use", "id": name, "name": function, "input": {}},
            *[{"type": "input_json_delta", "partial_json": arguments}] * bool(arguments),
        )
    ]
    return Answer((START, *blocks, *end(stop)))


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def boom() -> None:
    raise ValueError


def now() -> str:
    return "noon"


def results(request: dict[str, Any]) -> list[dict[str, Any]]:
    """The tool results of the last message, which has nothing else."""
    last = request["messages"][-1]
    assert last["role"] == "user"
    assert {b["type"] for b in last["content"]} == {"tool_result"}
    found: list[dict[str, Any]] = last["content"]
    return found


class Seen:
    """A view that remembers."""

    def __init__(self) -> None:
        self.updates: list[Progress] = []
        self.ending: Ending | None = None

    def update(self, progress: Progress) -> float:
        self.updates.append(progress)
        return 0.0

    def finish(self, ending: Ending) -> None:
        self.ending = ending


def last_turn(kimi: Kimi) -> Turn:
    assert kimi.session.last is not None
    return kimi.session.last


# --- the loop -----------------------------------------------------------------------------------


def test_parallel_calls_are_answered_in_order_in_the_very_next_message(chat: Any) -> None:
    server = Scripted([uses(("t1", "add", '{"a": 1, "b": "2"}'), ("t2", "boom", "{}")), reply("Done.")])
    answer = chat(server).ask("?", tools=[boom, add])
    assert results(server.requests[1]) == [
        {"type": "tool_result", "tool_use_id": "t1", "content": "3"},
        {"type": "tool_result", "tool_use_id": "t2", "content": "ValueError", "is_error": True},
    ]
    assert answer.text == "Done."
    assert answer.turn.status == COMPLETE
    assert [record.turn for record in answer.records] == [answer.turn.id] * 2
    assert [t["name"] for t in server.requests[0]["tools"]] == ["add", "boom"]


def test_a_tool_that_nobody_knows_is_an_error_that_names_those_there_are(chat: Any) -> None:
    server = Scripted([uses(("t1", "ad", "{}"), ("t2", "add", '{"a": 1, "b": 2}')), reply()])
    chat(server).ask("?", tools=[add])
    first, second = results(server.requests[1])
    assert first["is_error"]
    assert first["content"] == "There is no tool 'ad'. Did you mean add? Tools: add."
    assert second["content"] == "3"


@pytest.mark.parametrize("arguments", ["", "{}"])
def test_no_arguments_are_an_empty_object(chat: Any, arguments: str) -> None:
    server = Scripted([uses(("t1", "now", arguments)), reply()])
    chat(server).ask("?", tools=[now])
    assert results(server.requests[1])[0]["content"] == "noon"
    assert server.requests[1]["messages"][-2]["content"][0]["input"] == {}


def test_arguments_that_are_no_json_are_answered_with_an_error(chat: Any) -> None:
    server = Scripted([uses(("t1", "add", '{"a": 1,, }')), reply()])
    chat(server).ask("?", tools=[add])
    (result,) = results(server.requests[1])
    assert result["is_error"]
    assert '{"a": 1,, }' in result["content"]


@pytest.mark.parametrize("stop", ["max_tokens", "refusal", "model_context_window_exceeded"])
def test_a_call_that_may_be_cut_is_not_run(chat: Any, stop: str) -> None:
    server = Scripted([uses(("t1", "boom", "{}"), stop=stop)])
    kimi = chat(server)
    with contextlib.nullcontext() if stop == "refusal" else pytest.raises(NoAnswerError, match=stop):
        kimi.ask("?", tools=[boom])
    assert len(server.requests) == 1
    assert kimi.session.last.status == (REFUSED if stop == "refusal" else CUT)
    assert kimi.messages == ()


def test_thinking_goes_back_as_it_came_ahead_of_the_call(chat: Any) -> None:
    events = [
        *thinking(0, "先查天气 \u200b🙂", signature="c2ln+/=="),
        *block(1, {"type": "redacted_thinking", "data": "QUJD"}),
        *thinking(2, signature="x"),
        *uses(("functions.now:0", "now", ""), first=3).events[1:],
    ]
    server = Scripted([Answer((START, *events)), reply("Fine."), reply()])
    kimi = chat(server)
    kimi.ask("?", tools=[now])
    sent = [
        {"type": "thinking", "thinking": "先查天气 \u200b🙂", "signature": "c2ln+/=="},
        {"type": "redacted_thinking", "data": "QUJD"},
        {"type": "thinking", "thinking": "", "signature": "x"},
        {"type": "tool_use", "id": "functions.now:0", "name": "now", "input": {}},
    ]
    assert server.requests[1]["messages"][1]["content"] == sent
    kimi.ask("And now?")
    assert server.requests[2]["messages"][:4] == [
        *server.requests[1]["messages"],
        {"role": "assistant", "content": server.requests[2]["messages"][3]["content"]},
    ]
    Request(messages=tuple(server.requests[2]["messages"])).check()


def test_after_the_last_round_the_model_has_to_answer_and_the_user_is_told(chat: Any) -> None:
    server = Scripted([uses(("t", "now", "")), uses(("t", "now", "")), reply("Enough.")])
    answer = chat(server).ask("?", tools=[now], max_steps=2)
    assert [r.get("tool_choice") for r in server.requests] == [None, None, {"type": "none"}]
    assert answer.turn.status == COMPLETE
    assert "--max-steps 2" in "".join(answer.view.notes)
    assert "--max-steps 2" in answer._repr_mimebundle_()["text/plain"]


def test_a_model_that_calls_for_ever_ends_in_a_turn_that_is_left_out(chat: Any) -> None:
    server = Scripted([uses(("t", "now", ""))])
    kimi = chat(server)
    with pytest.raises(NoAnswerError, match=r"\(stop_reason: tool_use\)\. It is left out"):
        kimi.ask("?", tools=[now], max_steps=3)
    assert kimi.session.last.status == CUT
    assert len(server.requests) == 4
    assert kimi.messages == ()


def test_any_holds_for_the_first_reply_only(chat: Any) -> None:
    server = Scripted([uses(("t", "now", "")), reply()])
    chat(server).ask("?", tools=[now], tool_choice="any")
    assert [r.get("tool_choice") for r in server.requests] == [{"type": "any"}, None]


def test_a_choice_without_tools_is_refused_before_any_request(chat: Any) -> None:
    server = Scripted([reply()])
    with pytest.raises(RequestError, match="there are no tools"):
        chat(server).ask("?", tool_choice="any")
    assert server.requests == []


def test_no_rounds_at_all_are_refused_before_any_request(chat: Any) -> None:
    with pytest.raises(RequestError, match="max_steps"):
        chat(Scripted([reply()])).ask("?", tools=[now], max_steps=0)


def test_a_recorded_turn_with_tools_is_replayed_without_asking(chat: Any) -> None:
    server = Scripted([uses(("t1", "add", '{"a": 1, "b": 2}')), reply("Three.")])
    kimi = chat(server)
    kimi.ask("?", tools=[add])
    kimi.session.change(kimi.conversation.fresh())
    again = kimi.ask("?", tools=[add], replay="only")
    assert again.text == "Three."
    assert [row["replayed"] for row in again.usage] == [True, True]
    assert len(server.requests) == 2


def test_a_paused_search_in_a_turn_with_tools_goes_on_as_it_was(chat: Any) -> None:
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    server = Scripted(
        [
            Answer((START, *text(0, "Let me see. "), *block(1, search), *end("pause_turn"))),
            Answer((START, *block(0, found), *uses(("t1", "now", ""), first=1).events[1:])),
            reply("Noon."),
        ]
    )
    answer = chat(server).ask("?", tools=[now], search=3)
    paused, called = server.requests[1]["messages"], server.requests[2]["messages"]
    assert [m["role"] for m in paused] == ["user", "assistant"]
    assert paused[-1]["content"] == [{"type": "text", "text": "Let me see. "}, search]
    assert [b["type"] for b in called[1]["content"]] == [
        "text",
        "server_tool_use",
        "web_search_tool_result",
        "tool_use",
    ]
    assert [m["role"] for m in called] == ["user", "assistant", "user"]
    assert answer.text == "Let me see. \n\nNoon."
    assert [record.output for record in answer.records] == [40, 40, 40]


def test_a_pause_without_end_is_bounded_and_left_out(chat: Any) -> None:
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}}
    server = Scripted([Answer((START, *block(0, search), *end("pause_turn")))])
    kimi = chat(server)
    with pytest.raises(NoAnswerError, match="paused the reply 9 times; it was not asked again"):
        kimi.ask("?", search=1)
    assert kimi.session.last.status == CUT
    assert len(server.requests) == 9


def test_tools_are_listed_by_name_with_the_search_so_that_the_prefix_stays(chat: Any) -> None:
    server = Scripted([reply()])
    kimi = chat(server)
    kimi.ask("?", tools=[now, add], search=2)
    kimi.ask("?", tools=[add, now], search=2)
    first, second = ([t["name"] for t in r["tools"]] for r in server.requests)
    assert first == second == ["add", "now", "web_search"]
    assert server.requests[0]["tools"][2]["max_uses"] == 2


# --- results ------------------------------------------------------------------------------------


def test_results_of_any_type_are_written_as_a_prompt_writes_them(chat: Any) -> None:
    import pandas as pd
    from matplotlib.figure import Figure

    def frame() -> Any:
        return pd.DataFrame({"site": ["a", "b"], "mean": [1.5, None]})

    def figure() -> Any:
        made = Figure(figsize=(1, 1))
        made.subplots().plot([1, 2])
        return made

    server = Scripted([uses(("t1", "frame", ""), ("t2", "figure", "")), reply()])
    answer = chat(server).ask("?", tools=[frame, figure])
    table, picture = results(server.requests[1])
    assert "site" in table["content"]
    assert "1.5" in table["content"]
    assert [b["source"]["media_type"] for b in picture["content"]] == ["image/png"]
    html = answer._repr_mimebundle_()["text/html"]
    assert f'src="data:image/png;base64,{picture["content"][0]["source"]["data"]}"' in html


def test_an_image_file_that_a_tool_returns_is_an_image_within_the_limits(chat: Any) -> None:
    from PIL import Image

    def wide() -> bytes:
        out = io.BytesIO()
        Image.new("RGB", (8001, 10)).save(out, "png")
        return out.getvalue()

    def huge() -> Any:
        return Image.new("L", (9000, 9))

    server = Scripted([uses(("t1", "wide", ""), ("t2", "huge", "")), reply()])
    answer = chat(server).ask("?", tools=[wide, huge])
    for result in results(server.requests[1]):
        (picture,) = result["content"]
        size = pixel_size(base64.b64decode(picture["source"]["data"]))
        assert size is not None
        assert max(size) <= 8000
    assert "8,001×10 pixels" in "".join(answer.view.notes)


def test_a_result_that_was_cut_is_said_to_the_model_and_to_the_user(chat: Any) -> None:
    def report() -> str:
        return "\n".join([*(f"行{n}：值🙂" for n in range(200_000)), "合计：42"])

    server = Scripted([uses(("t1", "report", "")), reply()])
    answer = chat(server).ask("?", tools=[report])
    (result,) = results(server.requests[1])
    assert len(result["content"]) < BUDGET + 100
    assert result["content"].endswith("合计：42")
    assert "characters left out here" in result["content"]
    shown = answer._repr_mimebundle_()["text/plain"]
    assert "Tool report: " in shown
    assert "characters left out" in shown


# --- the thread of the cell ---------------------------------------------------------------------


def test_tools_run_in_the_thread_that_asks_and_their_results_are_seen_as_they_come(chat: Any) -> None:
    threads: list[threading.Thread] = []

    def where() -> str:
        threads.append(threading.current_thread())
        return "here"

    server = Scripted([uses(("t1", "where", ""), ("t2", "where", "")), reply("Done.")])
    view = Seen()
    chat(server).ask("?", tools=[where], view=view)
    assert threads == [threading.current_thread()] * 2
    states = [
        tuple(piece.result is not None for piece in update.pieces() if hasattr(piece, "raw_input"))
        for update in view.updates
    ]
    running = list(dict.fromkeys(state for state in states if len(state) == 2))
    assert running == [(False, False), (True, False), (True, True)]
    assert len(view.updates[-1].call_seconds) == 2


def test_an_interrupt_in_a_tool_leaves_the_conversation_valid(chat: Any) -> None:
    def sleeps() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait(30)

    server = Scripted([uses(("t1", "now", ""), ("t2", "sleeps", ""), ("t3", "now", "")), reply("Next.")])
    kimi = chat(server)
    view = Seen()
    with pytest.raises(Interrupted):
        kimi.ask("?", tools=[now, sleeps], view=view)
    turn = last_turn(kimi)
    assert turn.status == INTERRUPTED
    assert [m["role"] for m in turn.messages] == ["user", "assistant", "user"]
    assert [(b["tool_use_id"], b.get("is_error", False)) for b in turn.messages[-1]["content"]] == [
        ("t1", False),
        ("t2", True),
        ("t3", True),
    ]
    assert "Interrupted" in turn.messages[-1]["content"][1]["content"]
    assert view.ending is not None
    shown = bundle(view_of(view.ending))["text/html"]
    assert shown.count("· interrupted<") == 2
    assert "ended at a tool call" in shown
    kimi.ask("Go on")
    assert [m["role"] for m in server.requests[1]["messages"]] == ["user"]


def test_a_tool_that_swallows_the_interrupt_does_not_keep_the_turn(chat: Any) -> None:
    def stubborn() -> str:
        with contextlib.suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            threading.Event().wait(30)
        return "never mind"

    server = Scripted([uses(("t1", "stubborn", "")), reply()])
    with pytest.raises(Interrupted):
        chat(server).ask("?", tools=[stubborn])
    assert len(server.requests) == 1


def test_a_tool_may_ask_itself(chat: Any) -> None:
    server = Scripted([uses(("t1", "expert", "")), reply("Inner."), reply("Outer.")])
    kimi = chat(server)

    def expert() -> str:
        return str(kimi.ask("inner", once=True))

    assert kimi.ask("?", tools=[expert]).text == "Outer."
    assert results(server.requests[2])[0]["content"] == "Inner."


@pytest.mark.parametrize(
    ("said", "result"), [("y\n", "3"), ("\n", "did not allow"), ("n\n", "did not allow")]
)
def test_a_tool_that_wants_consent_asks_in_the_cell(
    chat: Any, monkeypatch: pytest.MonkeyPatch, said: str, result: str
) -> None:
    server = Scripted([uses(("t1", "add", '{"a": 1, "b": 2}')), reply()])
    kimi = chat(server)
    kimi.tool(confirm=True)(add)
    monkeypatch.setattr("sys.stdin", io.StringIO(said))
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        kimi.ask("?", tools=[add])
    assert out.getvalue() == "Run add(a=1, b=2)? [y/N] "
    assert result in results(server.requests[1])[0]["content"]


def test_where_nobody_can_be_asked_a_tool_that_wants_consent_is_refused(
    chat: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Scripted([uses(("t1", "add", '{"a": 1, "b": 2}')), reply()])
    kimi = chat(server)
    kimi.tool(confirm=True)(add)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    kimi.ask("?", tools=["add"])
    (result,) = results(server.requests[1])
    assert result["is_error"]
    assert "nobody can be asked" in result["content"]


# --- what is shown ------------------------------------------------------------------------------


def test_a_call_shows_name_arguments_result_and_time_escaped(chat: Any) -> None:
    def echo(x: str) -> str:
        return x

    server = Scripted([uses(("t1", "echo", '{"x": "<script>```"}'), ("t2", "boom", "")), reply("Done.")])
    answer = chat(server).ask("?", tools=[echo, boom])
    data = answer._repr_mimebundle_()
    assert "<script>" not in data["text/html"]
    assert data["text/html"].count("&lt;script&gt;```") == 3  # summary, arguments and result
    assert "Tool · <code>boom()</code> · failed · " in data["text/html"]
    assert data["text/plain"] == "Done."
    seconds = [row.pop("seconds") for row in answer.tool_calls]
    assert all(s >= 0 for s in seconds)
    assert answer.tool_calls[0] | {"seconds": 0} == {
        "id": "t1",
        "name": "echo",
        "input": {"x": "<script>```"},
        "result": "<script>```",
        "is_error": False,
        "seconds": 0,
    }


def test_a_terminal_prints_each_call_with_its_result_in_order(chat: Any) -> None:
    def many() -> str:
        return "\n".join(f"line {n}" for n in range(30))

    server = Scripted([uses(("t1", "add", '{"a": 1, "b": 2}'), ("t2", "many", "")), reply("Done.")])
    out = io.StringIO()
    chat(server).ask("?", tools=[add, many], view=TerminalView(out, lambda ending: ["footer"], color=False))
    printed = out.getvalue()
    assert printed.index('[tool: add {"a": 1, "b": 2}] ') < printed.index("\n  3\n")
    assert printed.index("\n  3\n") < printed.index("[tool: many] ") < printed.index("Done.")
    assert "line 7\n  … 22 more lines" in printed
    assert "line 8" not in printed


# --- structured replies -------------------------------------------------------------------------


class City(BaseModel):
    name: str
    pop: int | None = None


CITIES = '{"value": [{"name": "西安", "pop": null}, {"name": "São Paulo", "pop": 12}]}'


def test_a_list_comes_back_as_one_and_is_shown_as_a_table(chat: Any) -> None:
    import pandas as pd

    server = Scripted([reply(CITIES)])
    answer = chat(server).ask("?", schema=list[City])
    assert answer.value == [City(name="西安"), City(name="São Paulo", pop=12)]
    sent = server.requests[0]["output_config"]["format"]
    assert sent["type"] == "json_schema"
    assert sent["schema"]["type"] == "object"
    frame = pd.DataFrame(answer.rows)
    assert list(frame.columns) == ["name", "pop"]
    assert pd.isna(frame["pop"][0])
    data = answer._repr_mimebundle_()
    assert "<table>" in data["text/html"]
    assert "São Paulo</td>" in data["text/html"]
    assert data["text/plain"] == CITIES
    assert "```json" in data["text/markdown"]


def test_the_value_is_that_of_the_last_message_of_a_turn_with_tools(chat: Any) -> None:
    first = Answer((START, *text(0, "Let me look."), *uses(("t1", "now", ""), first=1).events[1:]))
    server = Scripted([first, reply('{"name": "x"}')])
    assert chat(server).ask("?", schema=City, tools=[now]).value == City(name="x")


@pytest.mark.parametrize(
    ("words", "stop", "error", "status"),
    [
        ('{"name": "x"', "max_tokens", CutReplyError, CUT),
        ("I cannot.", "refusal", RefusedReplyError, REFUSED),
        ('{"name": 3}', "end_turn", InvalidReplyError, FAILED),
        ("Sorry", "end_turn", InvalidReplyError, FAILED),
    ],
)
def test_a_reply_that_does_not_fill_the_schema_is_kept_and_never_sent_again(
    chat: Any, words: str, stop: str, error: type[SchemaError], status: str
) -> None:
    server = Scripted([Answer((START, *text(0, words), *end(stop))), reply()])
    kimi = chat(server)
    view = Seen()
    with pytest.raises(error) as caught:
        kimi.ask("?", schema=City, view=view)
    turn = last_turn(kimi)
    assert (turn.status, turn.text, turn.error) == (status, words, str(caught.value))
    assert caught.value.partial.text == words
    assert caught.value.partial.usage.output_tokens == 40
    assert view.ending is not None
    assert view.ending.failure == str(caught.value)
    assert len(kimi.usage) == 1
    kimi.ask("Next")
    assert len(server.requests[1]["messages"]) == 1


def test_what_is_no_schema_is_said_before_any_request(chat: Any) -> None:
    server = Scripted([reply()])
    with pytest.raises(SchemaError):
        chat(server).ask("?", schema={"a": 1})
    assert server.requests == []


@pytest.mark.parametrize("cut", range(len(CITIES) + 1))
def test_the_beginning_of_a_json_text_is_the_beginning_of_its_value(cut: int) -> None:
    """What is shown while it streams only ever grows towards the value."""
    value, whole = read(CITIES[:cut]), json.loads(CITIES)
    assert cut == 0 or value is not None
    rows = records(value) or []
    for row, full in zip(rows, records(whole) or [], strict=False):
        assert all(full[name].startswith(cell) for name, cell in row.items())
    assert cut < len(CITIES) or value == whole


def test_while_it_streams_the_rows_that_are_there_are_shown(chat: Any) -> None:
    server = Scripted([Answer((START, *text(0, *CITIES), *end()))])
    view = Seen()
    chat(server).ask("?", schema=list[City], view=view)
    assert all(update.structured for update in view.updates)


# --- searches -----------------------------------------------------------------------------------


def test_a_search_is_shown_with_its_results_and_numbered_sources() -> None:
    kimi = Kimi(KimiMagic(store="off", simulator="always", simulator_speed=0.0))
    answer = kimi.ask("What is new in the field?", search=True)
    kimi.close()
    assert [source["url"].split("/")[2] for source in answer.sources] == [
        "example.org",
        "example.com",
        "example.net",
    ]
    assert answer.usage[0]["searches"] == 1
    data = answer._repr_mimebundle_()
    assert "Web search · What is new in the field? · 3 results" in data["text/html"]
    assert "[1] Example Organisation" in data["text/plain"]


def test_a_search_that_failed_is_said_and_survived() -> None:
    kimi = Kimi(KimiMagic(store="off", simulator="always", simulator_speed=0.0))
    answer = kimi.ask("News? [[simulate: search-error too_many_requests]]", search=1)
    assert answer.turn.status == COMPLETE
    assert "failed: too_many_requests" in answer._repr_mimebundle_()["text/html"]
    assert kimi.ask("And now?").turn.status == COMPLETE
    kimi.close()


# --- the door from Python -----------------------------------------------------------------------


def test_a_registered_tool_is_found_by_name_and_by_its_function(chat: Any) -> None:
    server = Scripted([reply()])
    kimi = chat(server)

    @kimi.tool
    def lookup(site: str) -> str:
        """Look it up."""
        return site

    @kimi.tool(name="other", description="Another.", timeout=5)
    def function() -> None: ...

    assert lookup("k") == "k"
    kimi.ask("?", tools=[lookup, function])
    kimi.ask("?", tools=["lookup", "other"])
    assert server.requests[0]["tools"] == server.requests[1]["tools"]
    assert [t["description"] for t in server.requests[0]["tools"]] == ["Look it up.", "Another."]
    with pytest.raises(ToolError, match="no tool 'nope'"):
        kimi.ask("?", tools=["nope"])


def test_a_turn_with_tools_is_the_same_after_a_restart(tmp_path: Path) -> None:
    def figure() -> Any:
        from PIL import Image

        return Image.new("L", (3, 2))

    def sleeps() -> None:
        raise KeyboardInterrupt

    thought = [
        *thinking(0, "先 \u200b🙂", signature="c2ln"),
        *block(1, {"type": "redacted_thinking", "data": "QUJD"}),
    ]
    events = (START, *thought, *uses(("functions.figure:0", "figure", ""), first=2).events[1:])
    server = Scripted([Answer(events), reply("Fine."), uses(("t", "sleeps", "")), reply()])
    place = tmp_path / "state.sqlite"
    before = Session(server.client(), notebook="a.ipynb", store=Store(place))
    worker = Worker()
    ask = Ask(content=(TextBlock.of("?"),), tools=function_tools([figure, sleeps]))
    show(before.start(before.plan(ask)), worker, Seen())
    with pytest.raises(Interrupted):
        show(before.start(before.plan(ask)), worker, Seen())
    after = Session(server.client(), notebook="a.ipynb", store=Store(place))
    kept, loaded = before.conversation(), after.conversation()
    assert loaded.messages(loaded.head) == kept.messages(kept.head)
    assert [turn.status for turn in loaded.turns.values()] == [COMPLETE, INTERRUPTED]
    show(after.start(after.plan(ask)), worker, Seen())
    worker.close()
    assert server.requests[-1]["messages"][:-1] == list(kept.messages(kept.head))
    Request(messages=tuple(server.requests[-1]["messages"])).check()


def test_a_turn_whose_results_nobody_gives_can_be_cancelled(chat: Any) -> None:
    server = Scripted([uses(("t1", "now", ""))])
    kimi = chat(server)
    stream = kimi.session.start(kimi.plan([TextBlock.of("?")], tools=[now]))

    async def follow() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                async for _ in stream.events():
                    pass

    asyncio.run(follow())
    assert stream.turn is not None
    assert stream.turn.status == INTERRUPTED
    assert stream.turn.messages[-1]["content"][0]["is_error"]


# --- the cell -----------------------------------------------------------------------------------


def test_a_cell_offers_functions_of_the_notebook_to_the_model() -> None:
    notebook = Notebook()
    notebook.run("def add(a: int, b: int) -> int:\n    print('adding')\n    return a + b")
    assert notebook.run("%%kimi -t add -o r\nUse add with a=1 and b=2.") is None
    assert notebook.shell.user_ns["r"].tool_calls[0]["result"] == "3\nPrinted:\nadding"
    assert '[tool: add {"a": 1, "b": 2}]' in notebook.printed
    assert notebook.run("%kimi tools") is None


def test_a_cell_fills_a_type_of_the_notebook() -> None:
    notebook = Notebook()
    notebook.run(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass City:\n    name: str\n    pop: int | None = None"
    )
    assert notebook.run("%%kimi --schema list[City] -o cities\nTwo cities") is None
    (first, *_) = notebook.shell.user_ns["cities"].value
    assert isinstance(first, notebook.shell.user_ns["City"])
    assert (
        notebook.run('%%kimi --schema {"type": "object", "properties": {"n": {"type": "integer"}}}\nx')
        is None
    )
    assert notebook.run("%%kimi --schema int -o n\nHow many?") is None
    assert isinstance(notebook.shell.user_ns["n"].value, int)


def test_a_cell_searches() -> None:
    notebook = Notebook()
    assert notebook.run("%%kimi --search\nNews?") is None
    assert notebook.run("%%kimi --search 2\nNews?") is None
    sent = [body["tools"][0]["max_uses"] for body in notebook.server.bodies]
    assert sent == [5, 2]


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("%%kimi -t ad\n?", "Did you mean add?"),
        ("%%kimi -t n\n?", "is a int, no function"),
        ("%%kimi -t zzz\n?", "%kimi tools lists them"),
        ("%%kimi --schema Citi\n?", "Did you mean City?"),
        ("%%kimi --schema n\n?", "type int is no schema"),
        ('%%kimi --schema {"a": 1}\n?', "no JSON Schema"),
        ("%%kimi --search 0\n?", "--search: must be a whole number from 1"),
        ("%%kimi --search=0\n?", "must be a whole number from 1"),
        ("%%kimi --max-steps none\n?", "must be a whole number from 1"),
        ("%%kimi --tool-choice always\n?", "must be auto, any or none"),
        ("%%kimi --tool-choice any\n?", "there are no tools"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_do(cell: str, words: str) -> None:
    notebook = Notebook()
    notebook.run("def add(a: int) -> int: ...\nclass City:\n    __dataclass_fields__ = {}\nn = 3")
    error = notebook.run(cell)
    assert isinstance(error, KimiError)
    assert any(part in str(error) for part in words.split("|"))
    assert "\n" not in str(error)
    assert notebook.server.bodies == []


@pytest.mark.parametrize(
    ("line", "search", "rest"),
    [
        ("--search", 5, ""),
        ("--search 3", 3, ""),
        ("--search=3 news", 3, "news"),
        ("--search 3 wise men", 3, "wise men"),
        ("--search news of 3", 5, "news of 3"),
        ("--search '3' news", 5, "'3' news"),
        ("--search -e low news", 5, "news"),
        ("--search -- 3 wise men", 5, "3 wise men"),
    ],
)
def test_a_search_may_have_a_number_behind_it(line: str, search: int, rest: str) -> None:
    options, prompt = parse_line(line)
    assert (options.search, prompt) == (search, rest)


def test_options_about_tools_are_read() -> None:
    options = parse_cell("-t a -t b --tool-choice any --max-steps 3 --schema list[City]")
    assert (options.tool, options.tool_choice, options.max_steps) == (("a", "b"), "any", 3)
    assert options.schema == "list[City]"
    with pytest.raises(OptionError, match="needs a value"):
        parse_cell("-t")


@pytest.mark.parametrize(
    ("line", "matches"),
    [
        ("-t ", ("add", "boom")),
        ("--tool=a", ("add",)),
        ("--schema ", ("City", "PLAIN")),
        ("--search 1", ("1", "10")),
        ("--search --eff", ("--effort",)),
        ("--search 3 --eff", ("--effort",)),
        ("--search -e l", ("low",)),
        ("--tool-choice a", ("auto", "any")),
    ],
)
def test_tab_offers_functions_for_tools_and_models_for_schemas(line: str, matches: tuple[str, ...]) -> None:
    names = {"add": add, "boom": boom, "City": City, "n": 3, "PLAIN": {"type": "object"}, "_x": add, "d": {}}
    assert complete(line, len(line), names).matches == matches


def test_a_view_of_a_turn_says_what_became_of_its_tools_in_a_terminal(chat: Any) -> None:
    server = Scripted([uses(("t", "now", "")), reply("Enough.")])
    answer = chat(server).ask("?", tools=[now], max_steps=1)
    assert any("--max-steps 1" in line for line in closing_lines(answer.view))
