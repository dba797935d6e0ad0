"""Replies in a widget: what is sent, what a front end makes of it, and when it is given up.

`parts.js` is run by Node, with just enough of a page to stand in: messages are lost, doubled and late
here as a front end may have them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kernels import Kernel
from test_display import Clock, Recording, blocks, ending, progress, thought, words

from kimi_magic.display import SCRIPT, Deltas, LiveFrontEnd, LiveView, Progress
from kimi_magic.render import Incremental
from kimi_magic.wire import Block

WIDGET = "application/vnd.jupyter.widget-view+json"
TEXT = "".join(f"Paragraph **{n}** about [it](https://a.org/{n}).\n\n" for n in range(400))


class Widget:
    """A widget that keeps what is sent to its front end."""

    model_id = "model-1"

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}
        self.sent: list[dict[str, Any]] = []
        self.closed = False
        self.say: Callable[[Any, Any, Any], object] = lambda *_: None

    def make(self, **state: Any) -> Widget:
        self.state = state
        return self

    def on_msg(self, heard: Callable[[Any, Any, Any], object]) -> None:
        self.say = heard

    def send(self, message: dict[str, Any]) -> None:
        assert not self.closed
        self.sent.append(json.loads(json.dumps(message)))

    def close(self) -> None:
        self.closed = True


def live(outputs: Recording, widget: Widget, front_end: LiveFrontEnd | None = None, **more: Any) -> LiveView:
    made = {"clock": Clock(), "make": widget.make, **more}
    final = {"text/html": "<final>"}
    return LiveView(outputs, front_end or LiveFrontEnd(Clock()), lambda ending: final, **made)


def grow(total: str, step: int = 100) -> list[Progress]:
    """A reply that thinks and then says `total`, `step` characters at a time."""
    ends = range(step, len(total) + step, step)
    return [progress(thought(total[:end])) for end in ends[:5]] + [
        progress(thought(total[: 5 * step]), words(total[:end]), thinking_seconds=2.0) for end in ends
    ]


def size(message: dict[str, Any]) -> int:
    return len(json.dumps(message, ensure_ascii=False))


# --- what is sent -------------------------------------------------------------------------------


def test_a_reply_is_sent_as_what_is_new_and_whole_each_time_it_has_doubled() -> None:
    deltas = Deltas()
    messages = [deltas.news(step)[0] for step in grow(TEXT)]
    whole = [n for n, m in enumerate(messages) if len(m["parts"]) == 2 and m["parts"][1].get("at") == 0]
    assert 3 <= len(whole) <= 6
    snapshots = sum(size(messages[n]) for n in whole)
    assert snapshots <= 2.2 * len("".join(deltas_html(TEXT)))
    usual = [size(m) for n, m in enumerate(messages) if n not in whole]
    assert max(usual) < 2_000


def deltas_html(text: str) -> list[str]:
    rendered = Incremental()
    rendered.feed(text)
    return [*rendered.frozen, rendered.tail()]


def test_nothing_new_is_no_message() -> None:
    widget = Widget()
    view = live(Recording(), widget)
    for _ in range(3):
        view.update(progress(thought("hm"), words("Yes.")))
    assert len(widget.sent) == 1


def test_the_pace_follows_what_was_sent_and_what_it_took() -> None:
    clock, widget = Clock(), Widget()
    view = live(Recording(), widget, clock=clock)
    assert view.update(progress(words("Yes."))) == pytest.approx(0.1)
    assert view.update(progress(words("Yes.\n\n" * 100_000))) >= 1
    slow = live(Recording(), Widget(), clock=iter(range(0, 100, 2)).__next__)
    assert slow.update(progress(words("Yes."))) == pytest.approx(6)


def test_the_finished_output_takes_the_widget_s_place_and_the_widget_goes() -> None:
    outputs, widget = Recording(), Widget()
    view = live(outputs, widget)
    view.update(progress(simulated=True))
    widget.say(widget, {"started": True}, [])
    (shown,) = outputs.shown.values()
    assert shown[WIDGET]["model_id"] == "model-1"
    assert "Simulated reply" in widget.state["_opening"]
    assert "Waiting for kimi-k3.1-pro" in widget.state["_waiting"]
    view.finish(ending())
    assert outputs.shown == {view.display_id: {"text/html": "<final>"}}
    assert [kind for kind, _, _ in outputs.sent] == ["publish", "update"]
    assert widget.closed


def test_after_its_output_was_cleared_a_reply_is_shown_anew() -> None:
    outputs, widget = Recording(), Widget()
    view = live(outputs, widget)
    view.update(progress(words("Yes")))
    outputs.wipe()
    view.update(progress(words("Yes, so.")))
    assert [WIDGET in data for data in outputs.shown.values()] == [True]
    outputs.wipe()
    view.finish(ending())
    assert outputs.shown == {view.display_id: {"text/html": "<final>"}}


def test_a_widget_is_closed_even_where_its_output_cannot_be_replaced() -> None:
    class Broken(Recording):
        def update(self, data: Any, display_id: str) -> None:
            raise OSError("the channel is gone")

    widget = Widget()
    view = live(Broken(), widget)
    view.update(progress())
    widget.say(widget, {"started": True}, [])
    with pytest.raises(OSError, match="gone"):
        view.finish(ending())
    assert widget.closed


def test_a_reply_that_ended_before_anything_was_shown_is_only_its_finished_output() -> None:
    outputs, widget = Recording(), Widget()
    view = live(outputs, widget)
    view.finish(ending())
    assert list(outputs.shown) == [view.display_id]
    assert widget.state == {}


# --- when it is given up ------------------------------------------------------------------------


def hours(*steps: str) -> list[bool]:
    """Whether live replies are still tried, at each `?` of a history: `[` and `]` a cell begins and
    ends, `sent` and `heard`, and numbers are seconds that pass."""
    clock, works = Clock(), []
    front_end = LiveFrontEnd(clock)
    does: dict[str, Callable[[], object]] = {
        "[": front_end.cell_began,
        "]": front_end.cell_ended,
        "sent": front_end.sent,
        "heard": front_end.heard,
        "?": lambda: works.append(front_end.works),
    }
    for step in " ".join(steps).split():
        if step in does:
            does[step]()
        else:
            clock.now += float(step)
    return works


def test_live_is_given_up_once_the_kernel_was_idle_for_a_second_without_hearing_of_a_widget() -> None:
    assert hours("[ sent ] 1 [ ?") == [False]
    assert hours("[ sent ] 0.9 [ ?") == [True]
    assert hours("[ sent ] 0.5 heard 60 [ ?") == [True]


def test_run_all_is_no_proof_since_what_a_widget_says_waits_behind_the_cells() -> None:
    assert hours(*["[ sent 30 ] 0.01"] * 20, "[ ? ] 2 [ ?") == [True, False]


def test_a_long_cell_is_no_pause() -> None:
    assert hours("[ sent 60 ? ] 0.1 [ ?") == [True, True]


def test_without_a_widget_nothing_is_proven_and_one_that_speaks_late_brings_live_back() -> None:
    assert hours("[ ] 60 [ ?") == [True]
    assert hours("[ sent ] 2 [ ? heard ? ] 5 [ sent ] 5 [ ?") == [False, True, True]


# --- what stays open until one is heard of ------------------------------------------------------


def replies(front_end: LiveFrontEnd, count: int) -> list[Widget]:
    """Widgets of replies that have ended, each in a cell of its own and the next one right behind it."""
    widgets = [Widget() for _ in range(count)]
    for widget in widgets:
        front_end.cell_began()
        outputs = Recording()
        view = live(outputs, widget, front_end)
        view.update(progress(words("Yes.")))
        view.finish(ending())
        assert list(outputs.shown.values()) == [{"text/html": "<final>"}]
        front_end.cell_ended()
    return widgets


def closed(widgets: list[Widget]) -> list[bool]:
    return [widget.closed for widget in widgets]


def test_the_first_widget_that_is_done_stays_until_it_is_heard_and_no_other_does() -> None:
    front_end = LiveFrontEnd(Clock())
    widgets = replies(front_end, 50)
    assert closed(widgets) == [False] + [True] * 49
    widgets[0].say(widgets[0], {"started": True}, [])
    assert closed(widgets) == [True] * 50
    assert closed(replies(front_end, 2)) == [True, True]


def test_a_widget_that_is_heard_while_it_streams_lets_the_first_one_go() -> None:
    """It is shown by a front end that came late, and that knows nothing of the first."""
    front_end, later = LiveFrontEnd(Clock()), Widget()
    widgets = replies(front_end, 1)
    live(Recording(), later, front_end).update(progress())
    later.say(later, {"started": True}, [])
    assert closed([*widgets, later]) == [True, False]


def test_the_widget_that_waits_goes_when_live_is_given_up() -> None:
    clock = Clock()
    front_end = LiveFrontEnd(clock)
    widgets = replies(front_end, 1)
    clock.now += 0.9
    front_end.cell_began()
    assert closed(widgets) == [False]
    front_end.cell_ended()
    clock.now += 2
    front_end.cell_began()
    assert (closed(widgets), front_end.works) == ([True], False)


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    with Kernel(JPY_SESSION_NAME="/home/a.ipynb") as kernel:
        yield kernel


@pytest.fixture
def opened(kernel: Kernel) -> Iterator[Callable[[], dict[str, dict[str, Any]]]]:
    """Gives the states of the widgets that a kernel has open, by their comms; it asks in live views."""
    kernel.run("%load_ext kimi_magic\n%config KimiMagic.display = 'live'")

    def states() -> dict[str, dict[str, Any]]:
        kinds: dict[str, dict[str, Any]] = {"comm_open": {}, "comm_close": {}}
        for message in kernel.all:
            content = message["content"]
            if message["msg_type"] in kinds:
                kinds[message["msg_type"]][content["comm_id"]] = content["data"].get("state", {})
        return {comm: state for comm, state in kinds["comm_open"].items() if comm not in kinds["comm_close"]}

    yield states
    kernel.run("%unload_ext kimi_magic")


def ask(kernel: Kernel, times: int) -> None:
    for _ in range(times):
        (bundle,) = kernel.run("%%kimi -e low\nHi.").bundles()
        assert (WIDGET in bundle, "text/html" in bundle) == (False, True)


def test_a_kernel_has_one_widget_open_until_that_is_heard_and_then_none(
    kernel: Kernel, opened: Callable[[], dict[str, dict[str, Any]]]
) -> None:
    ask(kernel, 3)
    (comm,) = [comm for comm, state in opened().items() if "_reply" in state]
    assert len(opened()) == 2  # the other is its layout
    said = {"comm_id": comm, "data": {"method": "custom", "content": {"started": True}}}
    kernel.client.shell_channel.send(kernel.client.session.msg("comm_msg", said))
    kernel.run("1")
    assert opened() == {}
    ask(kernel, 1)
    assert opened() == {}


def test_a_kernel_whose_extension_is_unloaded_has_no_widget_open(
    kernel: Kernel, opened: Callable[[], dict[str, dict[str, Any]]]
) -> None:
    ask(kernel, 1)
    assert len(opened()) == 2
    kernel.run("%unload_ext kimi_magic")
    assert opened() == {}
    kernel.run("%load_ext kimi_magic")


# --- what a front end makes of it ---------------------------------------------------------------

HARNESS = """
class Node { constructor() { this.children = []; this.className = ""; this.textContent = ""; this.data = ""; }
  append(...nodes) { this.children.push(...nodes); }
  replaceChildren(...nodes) { this.children = nodes; this.replaced = (this.replaced ?? 0) + 1; }
  appendData(text) { this.data += text; }
  querySelector(name) { return (this.found ??= {})[name] ??= new Node(); } }
globalThis.document = {
  createElement: (tag) => { const node = new Node();
    if (tag === "template") { node.content = node;
      Object.defineProperty(node, "innerHTML", { set: (html) => { node.html = html; } }); }
    return node; },
  createTextNode: (text) => { const node = new Node(); node.data = text; return node; } };
const html = (node) => (node.html ?? "") + node.children.map(html).join("");
const { messages, views } = JSON.parse(require("fs").readFileSync(0, "utf8"));
const reply = newReply(), seen = [];
messages.forEach((message, n) => { if (views.includes(n)) { seen.push(new View(reply, new Node())); }
  for (const view of seen.slice(-1)) reply.views.add(view);
  take(reply, message); });
const last = new View(reply, new Node());
const shown = (view) => view.places.map((p) => p.text ? p.text.data
  : p.blocks ? p.blocks.children.map(html).join("") + html(p.rest) : html(p.el));
console.log(JSON.stringify({ views: [...seen, last].map(shown),
  labels: last.places.map((p) => p.summary?.textContent ?? ""), waiting: html(last.el) }));
"""


def page(tmp_path: Path, messages: list[dict[str, Any]], views: list[int]) -> dict[str, Any]:
    """What views show in the end: one drawn at each message of `views`, and one drawn after all."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    script = tmp_path / "page.cjs"
    script.write_text(SCRIPT.read_text("utf-8") + HARNESS, "utf-8")
    given = json.dumps({"messages": messages, "views": views})
    done = subprocess.run(
        [node, script], input=given, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def whole(text: str) -> str:
    return "".join(deltas_html(text))


def test_all_views_of_a_reply_show_all_of_it_whenever_they_are_drawn(tmp_path: Path) -> None:
    """The page is loaded again, a cell scrolls out of a windowed notebook and back, a view is mirrored."""
    deltas = Deltas()
    messages = [deltas.news(step)[0] for step in grow(TEXT)]
    shown = page(tmp_path, messages, [0, 3, 100, len(messages) - 1])
    assert shown["views"] == [[TEXT[:500], whole(TEXT)]] * 5
    assert shown["labels"] == ["Thinking · 2.0 s · about 125 tokens", ""]


def test_messages_that_were_lost_or_came_twice_heal_with_the_next_snapshot(tmp_path: Path) -> None:
    deltas = Deltas()
    messages = [deltas.news(step)[0] for step in grow(TEXT)]
    snapshots = [n for n, m in enumerate(messages) if m["parts"] and m["parts"][-1].get("at") == 0]
    last = snapshots[-1]
    assert last > len(messages) // 4
    lossy = [m for n, m in enumerate(messages) if n >= last or n % 3]
    doubled = [m for n, m in enumerate(messages) for _ in range(1 + n % 2)]
    for stream in (lossy, doubled, [*messages, *messages[-3:]]):
        assert page(tmp_path, stream, [0])["views"] == [[TEXT[:500], whole(TEXT)]] * 2


def test_a_text_that_begins_anew_or_changes_behind_leaves_nothing_of_the_old_one(tmp_path: Path) -> None:
    late = "See [this][r].\n\nAnd more of it.\n\n"
    deltas = Deltas()
    messages = [
        deltas.news(progress(words(text)))[0]
        for text in ("An old word.\n\nTwo.\n\n", late, late + "[r]: https://a.org\n\nEnd.\n\n")
    ]
    assert [m["reset"] for m in messages] == [False, True, True]
    expected = whole(late + "[r]: https://a.org\n\nEnd.\n\n")
    assert page(tmp_path, messages, [0])["views"] == [[expected]] * 2


def test_calls_and_searches_are_replaced_as_they_change_and_the_waiting_line_goes(tmp_path: Path) -> None:
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "9"}
    steps: list[tuple[Block, ...]] = [(), blocks(call), blocks(call, result)]
    deltas = Deltas()
    messages = [deltas.news(progress(*content))[0] for content in steps]
    assert [len(m["parts"]) for m in messages] == [0, 1, 1]
    (first,), (last,) = page(tmp_path, messages, [0])["views"]
    assert first == last
    assert "<code>f()</code> · done" in last
    assert "Waiting for" in page(tmp_path, messages[:1], [0])["waiting"]
    assert "Waiting for" not in page(tmp_path, messages, [0])["waiting"]
