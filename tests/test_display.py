"""What a reader sees while a reply streams and after: few updates, nothing sent twice, nothing lost."""

from __future__ import annotations

import io
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import pytest
from scripted import Answer, Scripted, end, failing, reply, stopping, text, thinking, whole

from kimi_magic.api import view_of
from kimi_magic.conversation import COMPLETE, FAILED, INTERRUPTED
from kimi_magic.display import Ending, Progress, StaticView, TerminalView, show
from kimi_magic.errors import Interrupted, KimiError, NoAnswerError, ServerError
from kimi_magic.render import closing_lines
from kimi_magic.retry import Attempt
from kimi_magic.session import Ask, Session, TurnStream, Worker
from kimi_magic.wire import Block, TextBlock, ThinkingBlock, content_blocks


class Recording:
    """Outputs that keep every message, and what a front end would show now."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, Mapping[str, Any]]] = []
        self.shown: dict[str, Mapping[str, Any]] = {}
        self._clearing = False
        self.wiped = False

    def publish(self, data: Mapping[str, Any], display_id: str) -> None:
        self.sent.append(("publish", display_id, data))
        if self._clearing:
            self.shown, self._clearing = {}, False
        assert display_id not in self.shown
        self.shown[display_id] = data

    def update(self, data: Mapping[str, Any], display_id: str) -> None:
        self.sent.append(("update", display_id, data))
        assert display_id in self.shown
        self.shown[display_id] = data

    def clear(self) -> None:
        self.sent.append(("clear", "", {}))
        self._clearing = True

    def cleared(self) -> bool:
        cleared, self.wiped = self.wiped, False
        return cleared

    def wipe(self) -> None:
        """What a tool's `clear_output` does."""
        self.shown, self.wiped = {}, True

    @property
    def html(self) -> str:
        return "".join(str(data["text/html"]) for data in self.shown.values())

    @property
    def size(self) -> int:
        return sum(len(str(data.get("text/html", "")).encode()) for _, _, data in self.sent)


class Clock:
    """Seconds that pass only when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def blocks(*json: dict[str, Any]) -> tuple[Block, ...]:
    return tuple(content_blocks(list(json)))


def progress(*content: Block, seconds: float = 0.0, **more: Any) -> Progress:
    return Progress(tuple(content), seconds, "kimi-k3.1-pro", **more)


def words(said: str) -> TextBlock:
    return TextBlock({"type": "text", "text": said})


def thought(said: str) -> ThinkingBlock:
    return ThinkingBlock({"type": "thinking", "thinking": said})


def view(outputs: Recording, clock: Callable[[], float] | None = None, **more: Any) -> StaticView:
    return StaticView(outputs, lambda ending: {"text/html": "<final>"}, clock=clock or Clock(), **more)


PARAGRAPH = "Some **words** about `x` and what they cost, in a line of their own.\n\n"


def stream(total: int, step: int, shown: StaticView, clock: Clock, rate: float = 20_000.0) -> str:
    """A reply of `total` characters in deltas of `step`, shown as often as the view welcomes it."""
    whole_text = (PARAGRAPH * (total // len(PARAGRAPH) + 1))[:total]
    due = 0.0
    for length in range(step, total + step, step):
        clock.now += step / rate
        if clock.now >= due:
            due = clock.now + shown.update(progress(thought("hm"), words(whole_text[:length])))
    return whole_text


# --- static -------------------------------------------------------------------------------------


def test_r09_the_number_of_updates_is_that_of_the_time_and_not_of_the_deltas() -> None:
    counts = []
    for step in (10, 100):
        outputs, clock = Recording(), Clock()
        stream(60_000, step, view(outputs, clock), clock)
        counts.append(len(outputs.sent))
    assert clock.now == pytest.approx(3, abs=0.1)
    assert max(counts) <= 45
    assert max(counts) - min(counts) <= 5


def test_r09_the_bytes_are_bounded_by_the_time_and_not_by_the_square_of_the_text() -> None:
    outputs, clock = Recording(), Clock()
    stream(600_000, 10, view(outputs, clock), clock)
    assert outputs.size <= 150_000 * clock.now + 3 * 600_000


def test_a_finished_segment_is_never_sent_again() -> None:
    outputs, clock = Recording(), Clock()
    stream(200_000, 50, view(outputs, clock), clock)
    places = [[key for _, key, _ in outputs.sent].index(name) for name in outputs.shown]
    last = {name: max(n for n, sent in enumerate(outputs.sent) if sent[1] == name) for name in outputs.shown}
    names = list(outputs.shown)
    assert len(names) > 3
    assert places == sorted(places)
    for name, following in pairwise(names):
        begun = next(n for n, sent in enumerate(outputs.sent) if sent[1] == following)
        assert last[name] <= begun


def test_the_segments_together_are_the_whole_text_so_far() -> None:
    outputs, clock = Recording(), Clock()
    shown = view(outputs, clock)
    whole_text = stream(50_000, 50, shown, clock)
    shown.update(progress(thought("hm"), words(whole_text)))
    one = Recording()
    view(one, alone=False).update(progress(thought("hm"), words(whole_text)))
    body = [html.split("</div>", 1)[0] for html in (outputs.html, one.html)]
    assert outputs.html.count("<strong>words</strong>") == whole_text.count("**words**")
    assert outputs.html.count("<p>") == one.html.count("<p>")
    assert body[0][:40] == body[1][:40]


@pytest.mark.parametrize("pieces", [1, 200])
def test_outputs_stay_far_below_the_number_that_a_front_end_hides(pieces: int) -> None:
    outputs = Recording()
    content: list[Block] = []
    for n in range(pieces):
        content += [thought(f"thought {n}"), words(PARAGRAPH * (40_000 // pieces // len(PARAGRAPH) + 1))]
    shown = view(outputs)
    for n in range(1, len(content) + 1, 7):
        shown.update(progress(*content[:n]))
    shown.update(progress(*content))
    assert len(outputs.shown) <= 40
    assert all(f"thought {n}<" in outputs.html for n in range(pieces))


def test_while_nothing_has_come_a_line_says_what_is_waited_for_once_a_second() -> None:
    outputs = Recording()
    shown = view(outputs)
    for tenth in range(35):
        shown.update(progress(seconds=tenth / 10))
    assert len(outputs.sent) == 4
    assert "Waiting for kimi-k3.1-pro · 3 s" in outputs.html
    shown.update(progress(words("Yes.")))
    assert list(outputs.shown) == [shown.display_id]
    assert "Waiting" not in outputs.html


def test_running_thinking_tells_its_seconds_and_about_how_many_tokens_it_has() -> None:
    outputs = Recording()
    view(outputs).update(progress(thought("想 " * 200), thinking_seconds=12.3))
    assert "Thinking · 12 s · about 250 tokens<" in outputs.html


def test_a_further_attempt_is_told_while_it_waits() -> None:
    outputs = Recording()
    view(outputs).update(progress(retry=Attempt("http://x", number=2, cause=ServerError("It broke."))))
    assert "attempt 2 after: It broke." in outputs.html


def test_a_view_that_has_nothing_new_sends_nothing() -> None:
    outputs = Recording()
    shown = view(outputs)
    for _ in range(3):
        shown.update(progress(thought("hm"), words("Yes.")))
    assert len(outputs.sent) == 2


def test_results_of_a_search_appear_though_other_pieces_have_begun() -> None:
    outputs = Recording()
    shown = view(outputs)
    calls = [
        {"type": "server_tool_use", "id": f"s{n}", "name": "web_search", "input": {"query": f"q{n}"}}
        for n in (1, 2)
    ]
    result = {"url": "https://a.org", "title": "Found it", "type": "web_search_result"}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [result]}
    shown.update(progress(*blocks(*calls)))
    shown.update(progress(*blocks(*calls, found)))
    assert "Found it" in outputs.html


def test_a_text_that_begins_anew_leaves_nothing_of_the_old_one_behind() -> None:
    """It does where a citation comes ahead of the end of its text, for instance."""
    outputs = Recording()
    shown = view(outputs)
    shown.update(progress(words("An **old** word.\n\n" * 1500)))
    assert len(outputs.shown) > 2
    shown.update(progress(words("A **new** word.\n\n" * 10)))
    assert outputs.html.count("<strong>old</strong>") == 0
    assert outputs.html.count("<strong>new</strong>") == 10


# --- static: the end ----------------------------------------------------------------------------


def ending(failure: str = "") -> Ending:
    return Ending(None, failure)  # type: ignore[arg-type]  # the view hands it on unread


def test_one_segment_becomes_the_finished_output_in_place() -> None:
    outputs = Recording()
    shown = view(outputs)
    shown.update(progress(words("Yes.")))
    shown.finish(ending())
    assert [kind for kind, _, _ in outputs.sent] == ["publish", "update"]
    assert outputs.shown == {shown.display_id: {"text/html": "<final>"}}


def test_several_segments_make_way_for_one_finished_output() -> None:
    outputs = Recording()
    shown = view(outputs)
    shown.update(progress(thought("hm"), words("Yes.")))
    shown.finish(ending())
    assert [kind for kind, _, _ in outputs.sent] == ["publish", "publish", "clear", "publish"]
    assert outputs.shown == {shown.display_id: {"text/html": "<final>"}}


def test_beside_other_outputs_a_reply_is_one_output_and_clears_nothing() -> None:
    outputs, clock = Recording(), Clock()
    outputs.publish({"text/html": "printed before"}, "other")
    shown = view(outputs, clock, alone=False)
    stream(100_000, 50, shown, clock)
    shown.finish(ending())
    assert "clear" not in [kind for kind, _, _ in outputs.sent]
    assert list(outputs.shown) == ["other", shown.display_id]
    assert outputs.size <= 150_000 * clock.now + 3 * 100_000


def test_after_its_outputs_were_cleared_a_reply_is_shown_anew() -> None:
    outputs = Recording()
    shown = view(outputs)
    shown.update(progress(thought("hm"), words("Yes")))
    outputs.wipe()
    shown.update(progress(thought("hm"), words("Yes, so.")))
    assert "hm" in outputs.html
    assert "Yes, so." in outputs.html
    outputs.wipe()
    shown.finish(ending())
    assert outputs.shown == {shown.display_id: {"text/html": "<final>"}}


def test_a_silent_view_sends_the_finished_output_only() -> None:
    outputs = Recording()
    shown = view(outputs, silent=True)
    shown.update(progress(words("Yes.")))
    assert outputs.sent == []
    shown.finish(ending())
    assert list(outputs.shown) == [shown.display_id]


# --- terminal -----------------------------------------------------------------------------------


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(out: io.StringIO, steps: list[Progress], **more: Any) -> str:
    shown = TerminalView(out, lambda ending: ["the end"], **more)
    for step in steps:
        shown.update(step)
    return out.getvalue()


STEPS = [
    progress(thought("Let me")),
    progress(thought("Let me see.")),
    progress(thought("Let me see."), words("It is **bo")),
    progress(thought("Let me see."), words("It is **bold** now.")),
]


def test_a_pipe_gets_the_text_as_the_model_wrote_it() -> None:
    assert printed(io.StringIO(), STEPS).startswith("Thinking: Let me see.\n\nIt is **bold** now")
    assert "\x1b" not in printed(io.StringIO(), STEPS)


def test_what_is_printed_only_grows() -> None:
    outs = [printed(io.StringIO(), STEPS[:n]) for n in range(1, 5)]
    assert all(longer.startswith(shorter) for shorter, longer in pairwise(outs))


def test_a_terminal_dims_the_thinking_unless_no_color_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[0;2m" in printed(Tty(), STEPS)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in printed(Tty(), STEPS)
    assert "\x1b[0;2m" in printed(Tty(), STEPS, color=True)


def test_escape_sequences_of_the_model_do_not_reach_a_terminal() -> None:
    out = printed(io.StringIO(), [progress(words("a\x1b]0;title\x07b\n\n"))])
    assert "\x1b" not in out
    assert "\x07" not in out


def test_a_terminal_counts_what_a_search_found() -> None:
    call = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "drift"}}
    result = {"url": "https://a.org", "title": "Found it", "type": "web_search_result"}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [result]}
    assert "'drift': 1 result]" in printed(io.StringIO(), [progress(*blocks(call, found), words("Yes."))])


# --- the loop -----------------------------------------------------------------------------------


class Seen:
    """A view that keeps what it was shown."""

    def __init__(
        self, then: Callable[[Progress], object] = lambda progress: None, every: float = 0.0
    ) -> None:
        self.updates: list[Progress] = []
        self.endings: list[Ending] = []
        self._then, self._every = then, every
        self.at_end: Callable[[], object] = lambda: None

    def update(self, progress: Progress) -> float:
        self.updates.append(progress)
        self._then(progress)
        return self._every

    def finish(self, ending: Ending) -> None:
        self.at_end()
        self.endings.append(ending)


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.close()


def start(server: Scripted) -> TurnStream:
    chat = Session(server.client())
    return chat.start(chat.plan(Ask(content=(words("?"),), prompt="?")))


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_a_reply_is_shown_as_it_comes_and_once_when_it_is_there(worker: Worker) -> None:
    seen, stream = Seen(), start(Scripted([reply("Yes.")]))
    show(stream, worker, seen)
    texts = ["".join(b.text for b in p.content if isinstance(b, TextBlock)) for p in seen.updates]
    assert texts == sorted(texts, key=len)
    (end_of_it,) = seen.endings
    assert (end_of_it.failure, end_of_it.stream.turn and end_of_it.stream.turn.text) == ("", "Yes.")
    assert end_of_it.stream.turn.thinking_seconds is not None
    assert seen.updates[-1].thinking_seconds is not None


def test_a_view_is_shown_no_more_often_than_it_welcomes(worker: Worker) -> None:
    seen = Seen(every=3600.0)
    show(start(Scripted([reply()])), worker, seen)
    assert len(seen.updates) == 1


@pytest.mark.parametrize(
    "answer", [failing(500), stopping(thinking(0, "hm")[:2]), stopping(text(0, "half")[:2], then="break")]
)
def test_a_reply_that_fails_is_finished_with_the_reason_and_raised(worker: Worker, answer: Answer) -> None:
    seen, stream = Seen(), start(Scripted([answer]))
    with pytest.raises(KimiError) as caught:
        show(stream, worker, seen)
    assert [e.failure for e in seen.endings] == [str(caught.value)]
    assert stream.turn is not None
    assert stream.turn.status == FAILED


def test_a_reply_without_an_answer_is_an_error_that_says_why(worker: Worker) -> None:
    seen = Seen()
    with pytest.raises(NoAnswerError, match=r"max_tokens \(65,536\) was reached\. Raise it \(-n"):
        show(start(Scripted([stopping(thinking(0, "hm"), end("max_tokens"))])), worker, seen)
    assert "before its answer" in seen.endings[0].failure


HANGING = {
    "before any answer": Answer(then="hang before"),
    "at the start": stopping(then="hang"),
    "while it thinks": stopping(thinking(0, "hm")[:2], then="hang"),
    "in the text": stopping(text(0, "half")[:2], then="hang"),
    "in a search": stopping(
        whole(0, {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}), then="hang"
    ),
}


@pytest.mark.parametrize("stage", HANGING)
def test_an_interrupt_at_any_stage_ends_with_one_line_and_what_arrived(worker: Worker, stage: str) -> None:
    server = Scripted([HANGING[stage]])
    seen, stream = Seen(), start(server)
    threading.Thread(target=lambda: server.hangs.acquire() and interrupt()).start()
    with pytest.raises(Interrupted, match=r"^Run the cell again to ask anew\.$") as caught:
        show(stream, worker, seen)
    assert isinstance(caught.value, KeyboardInterrupt)
    arrived = stage not in ("before any answer", "at the start")
    kept = "Interrupted: what had arrived is kept here, and will not be sent again."
    assert [e.failure for e in seen.endings] == [kept if arrived else "Interrupted before anything arrived."]
    assert seen.endings[0].failure in "\n".join(closing_lines(view_of(seen.endings[0])))
    assert stream.turn is not None
    assert stream.turn.status == INTERRUPTED
    assert len(stream.records) == 1


def test_an_interrupt_while_the_finished_output_is_made_waits_until_it_is_there(worker: Worker) -> None:
    before = signal.getsignal(signal.SIGINT)
    seen, stream = Seen(), start(Scripted([reply()]))
    seen.at_end = interrupt
    with pytest.raises(KeyboardInterrupt):
        show(stream, worker, seen)
    assert len(seen.endings) == 1
    assert stream.turn is not None
    assert stream.turn.status == COMPLETE
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_while_a_failure_is_shown_does_not_hide_it(worker: Worker) -> None:
    seen, stream = Seen(), start(Scripted([stopping(text(0, "half")[:2])]))
    seen.at_end = interrupt
    with pytest.raises(KimiError):
        show(stream, worker, seen)
    assert len(seen.endings) == 1


def test_a_second_interrupt_does_not_lose_what_the_first_one_kept(worker: Worker) -> None:
    server = Scripted([HANGING["in the text"]])
    seen, stream = Seen(), start(server)
    seen.at_end = interrupt
    threading.Thread(target=lambda: server.hangs.acquire() and interrupt()).start()
    with pytest.raises(Interrupted):
        show(stream, worker, seen)
    assert len(seen.endings) == 1


def test_an_interrupt_in_a_view_is_one_of_the_reply(worker: Worker) -> None:
    stream = start(Scripted([reply()]))
    seen = Seen(then=lambda progress: interrupt())
    with pytest.raises(Interrupted):
        show(stream, worker, seen)
    assert len(seen.endings) == 1


def test_elsewhere_than_in_the_main_thread_a_reply_is_shown_all_the_same(worker: Worker) -> None:
    seen = Seen()
    thread = threading.Thread(target=lambda: show(start(Scripted([reply()])), worker, seen))
    thread.start()
    thread.join(10)
    assert len(seen.endings) == 1


def test_a_worker_that_is_closed_meanwhile_ends_the_reply_as_an_interrupt_does(worker: Worker) -> None:
    server = Scripted([HANGING["in the text"]])
    seen, stream = Seen(), start(server)
    threading.Thread(target=lambda: server.hangs.acquire() and worker.close()).start()
    with pytest.raises(Interrupted):
        show(stream, worker, seen)
    assert len(seen.endings) == 1
    assert stream.turn is not None
    assert stream.turn.status == INTERRUPTED
