"""The panel without a browser: what it tells a front end, and what it does for one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import nbformat
import pytest
from kernels import Kernel, environment
from nbclient import NotebookClient
from PIL import Image
from published import faults

from kimi_magic.conversation import Conversation, Turn
from kimi_magic.errors import KimiError
from kimi_magic.panel.asking import Form
from kimi_magic.panel.state import efforts, usage
from kimi_magic.panel.transcript import MOST, NO_WIDGET, Entry, saved, shown, view_of_turn
from kimi_magic.usage import Record

WIDGET = "application/vnd.jupyter.widget-view+json"
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # jupyter_client's own


# --- in a kernel --------------------------------------------------------------------------------


class Page:
    """A front end without a screen: hears the panel's messages, and says what a user wants."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.comm = ""
        self.heard: list[dict[str, Any]] = []
        self.states: list[dict[str, Any]] = []
        self.items: dict[str, dict[str, Any]] = {}
        self._looked_at = len(kernel.all)
        self._count = 0

    def show(self) -> Any:
        shown = self.kernel.run("%kimi panel")
        self._look()
        return shown

    def say(self, until: Callable[[], Any], **words: Any) -> None:
        """A wish, until something has come of it."""
        self._count += 1
        self.send({"n": str(self._count), **words})
        self.until(until)

    def send(self, words: dict[str, Any]) -> None:
        content = {"comm_id": self.comm, "data": {"method": "custom", "content": words}}
        message = self.kernel.client.session.msg("comm_msg", content)
        self.kernel.client.shell_channel.send(message)
        self.kernel.cells[message["header"]["msg_id"]] = self.kernel.background

    def until(self, true: Callable[[], Any]) -> None:
        def look() -> bool:
            self._look()
            return bool(true())

        self.kernel.watch(look)

    def _look(self) -> None:
        for got in self.kernel.all[self._looked_at :]:
            body = got["content"]
            if got["msg_type"] == "comm_open" and "_panel" in body["data"].get("state", {}):
                self.comm = body["comm_id"]
            if got["msg_type"] == "comm_msg" and body["comm_id"] == self.comm and "content" in body["data"]:
                self._take(body["data"]["content"])
        self._looked_at = len(self.kernel.all)

    def _take(self, said: dict[str, Any]) -> None:
        self.heard.append(said)
        if said["kind"] == "state":
            self.states.append(said)
            self.items |= {item["id"]: item for item in said["items"]}

    @property
    def transcript(self) -> list[dict[str, Any]]:
        return [self.items[key] for key in self.states[-1]["turns"]]

    def prompts(self) -> list[str]:
        return [item["prompt"] for item in self.transcript] if self.states else []

    def kinds(self, kind: str) -> list[dict[str, Any]]:
        return [said for said in self.heard if said["kind"] == kind]


@pytest.fixture(scope="module")
def shared() -> Iterator[Kernel]:
    with Kernel(KIMI_MAGIC_DISPLAY="live") as kernel:
        kernel.run("%load_ext kimi_magic\nfrom kimi_magic import kimi\nimport uuid")
        yield kernel


@pytest.fixture
def page(shared: Kernel) -> Iterator[Page]:
    """A panel on a conversation of its own."""
    shared.run("%config KimiMagic.simulator_speed = 0.0\nkimi.session.current = uuid.uuid4().hex")
    page = Page(shared)
    page.show()
    page.say(lambda: page.states, do="hello")
    yield page
    shared.run("kimi.close()")


def test_what_is_asked_in_the_panel_is_a_turn_like_that_of_a_cell_and_the_other_way_round(page: Page) -> None:
    page.kernel.run("value = 42")
    page.say(
        lambda: page.prompts() == ["It is {{ value }}"], do="ask", prompt="It is {{ value }}", effort="low"
    )
    assert "42" in page.transcript[0]["html"]
    assert page.transcript[0]["origin"] == "panel"
    page.kernel.run("%%kimi -e low\nAnd in a cell?", cell="c1")
    page.until(lambda: len(page.prompts()) == 2)
    assert page.transcript[1]["origin"] == "cell"
    assert page.kernel.value("[t.prompt for t in kimi.conversation.path()]") == page.prompts()
    assert page.kinds("live")
    assert page.states[-1]["usage"]["in"] > 0
    assert page.states[-1]["usage"]["cost"].startswith("would be $")


def test_a_wish_that_comes_twice_is_heeded_once_and_acknowledged_twice(page: Page) -> None:
    for _ in range(2):
        page.send({"n": "same", "do": "ask", "prompt": "Once?", "effort": "low"})
    page.until(lambda: sum(said["n"] == "same" for said in page.kinds("ack")) == 2 and page.prompts())
    page.kernel.run("%kimi wait")
    assert page.kernel.value("len(kimi.conversation.turns)") == 1


def test_shown_twice_it_is_one_widget_and_reloading_leaves_none(page: Page) -> None:
    before = page.comm
    again = page.show()
    assert again.bundles()[0][WIDGET]["model_id"] == before == page.comm
    page.kernel.run("%reload_ext kimi_magic")
    closed = [m for m in page.kernel.all if m["msg_type"] == "comm_close"]
    assert before in [m["content"]["comm_id"] for m in closed]
    assert page.kernel.value("len([a for a in kimi.audience if type(a).__name__ == 'Panel'])") == 0
    page.show()
    assert page.comm != before


def test_a_panel_that_somebody_closed_is_made_anew(page: Page) -> None:
    before = page.comm
    page.kernel.run("import ipywidgets\nipywidgets.Widget.close_all()")
    assert page.show().error == ""
    assert page.comm != before
    page.say(lambda: page.prompts() == ["Again?"], do="ask", prompt="Again?")


def test_a_question_is_asked_again_in_its_place(page: Page) -> None:
    for question in ("First?", "Second?"):
        page.say(lambda q=question: q in page.prompts(), do="ask", prompt=question, effort="low")
    first = page.transcript[0]["id"]
    page.say(lambda: page.prompts() == ["Better?"], do="again", turn=first, prompt="Better?", effort="low")
    assert page.kernel.value("[t.prompt for t in kimi.conversation.path()]") == ["Better?"]
    assert len(page.states[-1]["branches"]) == 2
    back = next(b["turn"] for b in page.states[-1]["branches"] if b["turn"] != page.states[-1]["head"])
    page.say(lambda: page.prompts() == ["First?", "Second?"], do="use", turn=back)


def test_the_output_of_a_cell_says_that_the_panel_asked_its_question_again(page: Page) -> None:
    cell = page.kernel.run("%%kimi -e low\nFirst?", cell="c1")
    page.until(lambda: page.transcript)
    page.say(
        lambda: page.prompts() == ["Better?"], do="again", turn=page.transcript[0]["id"], prompt="Better?"
    )
    page.kernel.watch(lambda: "Replaced: this was asked again" in cell.bundles()[-1]["text/html"])


def test_a_question_is_edited_with_what_was_attached_to_it(page: Page, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("alpha")
    attached = [str(tmp_path / "a.txt")]
    page.say(lambda: page.transcript, do="ask", prompt="With it?", effort="low", files=attached)
    page.say(lambda: len(page.transcript) == 2, do="ask", prompt="Without?", effort="low")
    assert [item["files"] for item in page.transcript] == [attached, []]


def test_a_turn_without_a_cell_is_asked_again_in_its_place_and_a_slip_changes_nothing(page: Page) -> None:
    for question in ("First?", "Second?", "Third?"):
        page.kernel.run(f"kimi.ask({question!r}, effort='low')")
    page.until(lambda: len(page.prompts()) == 3)
    second = page.transcript[1]["id"]
    slip = "{{ nothing_here }}"
    page.say(lambda: page.kinds("error"), do="again", turn=second, prompt=slip, effort="low")
    assert page.kernel.value("len(kimi.conversation.path())") == 3
    page.say(lambda: page.prompts() == ["First?", "Better?"], do="again", turn=second, prompt="Better?")


def test_what_of_a_prompt_is_left_out_or_looks_meant_is_said(page: Page, tmp_path: Path) -> None:
    (tmp_path / "big.txt").write_text("a line\n" * 60_000)
    page.kernel.run("x = 1")
    page.say(
        lambda: page.kinds("note"),
        do="ask",
        prompt="What is {{ 2*x }} in it?",
        effort="low",
        files=[str(tmp_path / "big.txt")],
    )
    said = page.kinds("note")[0]["text"]
    assert "big.txt: " in said
    assert "lines left out" in said
    assert "{{ 2*x }} went out as it is written" in said


def test_a_reply_that_ends_after_new_does_not_bring_the_conversation_back(page: Page) -> None:
    page.kernel.run(
        "@kimi.tool(confirm=True)\ndef wipe(name: str = 'all') -> str:\n    'Wipe a disk.'\n    return ''"
    )
    page.say(lambda: page.prompts() == ["One?"], do="ask", prompt="One?", effort="low")
    page.say(lambda: page.kinds("asked"), do="ask", prompt="Wipe it. [[simulate: steps 1]]", tools=["wipe"])
    call = page.kinds("asked")[0]["call"]
    page.say(lambda: page.prompts() == [], do="new")
    page.say(lambda: not page.states[-1]["running"], do="answer", call=call, allowed=True)
    page.until(lambda: page.kinds("note"))
    assert "it is a branch of its own" in page.kinds("note")[0]["text"]
    assert page.prompts() == []
    labels = [branch["label"] for branch in page.states[-1]["branches"]]
    assert labels[0] == "here: nothing yet"
    assert "Wipe it." in labels[1]


def test_new_undo_system_and_another_conversation(page: Page) -> None:
    page.say(lambda: page.prompts() == ["One?"], do="ask", prompt="One?", effort="low")
    page.say(lambda: page.prompts() == [], do="undo")
    page.say(lambda: page.states[-1]["system"] == "Be brief.", do="system", text=" Be brief. ")
    assert page.kernel.value("kimi.conversation.system") == "Be brief."
    name = page.kernel.value("uuid.uuid4().hex")
    page.say(lambda: page.states[-1]["conversation"] == name, do="switch", name=name)
    page.say(lambda: page.prompts() == ["Here?"], do="ask", prompt="Here?", effort="low")
    page.say(lambda: page.prompts() == [], do="new")
    assert page.kernel.value("kimi.session.current") == name


def test_the_place_where_a_conversation_is_can_be_seen_also_where_it_is_no_end_of_a_branch(
    page: Page,
) -> None:
    def here() -> list[str]:
        now = page.states[-1]
        return [b["label"] for b in now["branches"] if b["turn"] == (now["head"] or "")]

    for question in ("One?", "Two?"):
        page.say(lambda q=question: q in page.prompts(), do="ask", prompt=question, effort="low")
    assert here() == ["Two? (2 turns)"]
    page.say(lambda: page.prompts() == ["One?"], do="undo")
    assert here() == ["here: One? (1 turn)"]
    page.say(lambda: page.prompts() == [], do="new")
    assert here() == ["here: nothing yet"]
    page.say(lambda: page.kinds("error"), do="undo")
    assert "is at its beginning. %kimi branches lists the ways" in page.kinds("error")[0]["text"]


def test_another_conversation_is_said_to_be_that_of_the_cells(page: Page) -> None:
    name = page.kernel.value("uuid.uuid4().hex")
    page.say(lambda: page.kinds("note"), do="switch", name=name)
    (said,) = page.kinds("note")
    assert said["text"] == f"Cells without -c are in conversation {name!r} now, too; it has 0 turns."


def test_what_a_cell_changes_is_told_when_it_has_ended_and_nothing_where_it_changes_nothing(
    page: Page,
) -> None:
    change = "%config KimiMagic.effort = 'low'\nlate = 1\n@kimi.tool\ndef later() -> str:\n    return ''"
    page.kernel.run(change)
    page.until(lambda: page.states[-1]["defaults"]["effort"] == "low")
    assert "late" in page.states[-1]["variables"]
    assert "later" in page.states[-1]["tools"]
    told = len(page.states)
    page.kernel.run("1 + 1")
    page.kernel.run("%config KimiMagic.effort = ''\ndel late")
    page.until(lambda: page.states[-1]["defaults"]["effort"] == "max")
    assert len(page.states) == told + 1


def test_a_turn_in_the_panel_tells_the_times_that_its_cell_tells(page: Page) -> None:
    page.kernel.run("@kimi.tool\ndef look() -> str:\n    'Looks.'\n    return 'seen'")
    asked = page.kernel.run("%%kimi -e low -t look\nLook. [[simulate: steps 1]]", cell="c1")
    page.until(lambda: page.transcript)
    (told,) = re.findall(r"look\(\)</code> · ([^<]*)<", asked.bundles()[-1]["text/html"])
    assert re.fullmatch(r"\d\.\d s", told)
    assert f"look()</code> · {told}<" in page.transcript[0]["html"]
    page.say(lambda: len(page.transcript) == 2, do="ask", prompt="And here?", effort="low")
    assert re.search(r"Thinking · \d\.\d s · \d+ tokens", page.transcript[1]["html"])


def test_a_number_is_written_as_in_a_cell(page: Page) -> None:
    page.say(lambda: page.transcript, do="ask", prompt="Hi", effort="low", max_tokens=" 8k ", search="")
    assert page.kernel.value("kimi.conversation.path()[0].settings['max_tokens']") == 8192


def test_a_budget_is_warned_of_and_where_it_is_spent_the_turn_says_so(page: Page) -> None:
    """With a server that costs money, as far as the chat knows."""
    page.say(lambda: page.transcript, do="ask", prompt="Free?", effort="low")
    page.kernel.run("kimi.session.purse.connect(is_free=False)\n%kimi budget 0.0001")
    try:
        page.say(lambda: len(page.transcript) == 2, do="ask", prompt="Dear?", effort="low")
        page.kernel.run("%kimi budget 0")
        page.say(lambda: len(page.transcript) == 3, do="ask", prompt="Still?", effort="low")
    finally:
        page.kernel.run("%kimi budget off\nkimi.session.purse.is_free = True")
    assert page.kinds("note")[0]["text"].startswith("At worst (all of max_tokens, 16,384) this costs")
    assert page.transcript[2]["status"] == "failed"
    assert "The budget of 0 USD in all is spent (0 USD); nothing was sent." in page.transcript[2]["html"]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ({"prompt": "  "}, "PromptError: There is no prompt."),
        ({"prompt": "{{ nothing_here }}"}, "PromptError: "),
        *(
            (
                {"prompt": "Hi", "max_tokens": wrong},
                "OptionError: Most tokens: must be a whole number from 1",
            )
            for wrong in (-1, "1e6", "0.5", "0", "2M", "many")
        ),
        ({"prompt": "Hi", "search": "1e2"}, "OptionError: Web search, at most: must be"),
        ({"prompt": "Hi", "effort": "utmost"}, "OptionError: effort: must be"),
        ({"prompt": "Hi", "files": ["/no/such/file"]}, "PromptError: "),
    ],
)
def test_a_slip_is_told_in_one_line_and_nothing_is_sent(
    page: Page, words: dict[str, Any], error: str
) -> None:
    page.say(lambda: page.kinds("error"), do="ask", **words)
    (said,) = page.kinds("error")
    assert said["text"].startswith(error)
    assert page.kernel.value("kimi.jobs.running == [] and len(kimi.conversation.turns)") == 0


def test_stop_ends_the_reply_and_a_new_front_end_gets_all_there_is(page: Page) -> None:
    page.say(lambda: page.kinds("live"), do="ask", prompt="Long? [[simulate: silence]]", effort="low")
    before = len(page.heard)
    page.say(lambda: any(s["kind"] == "live" for s in page.heard[before:]), do="hello")
    (running,) = page.states[-1]["running"]
    assert running["prompt"].startswith("Long?")
    assert not running["cell"]
    page.say(lambda: page.transcript, do="stop", keys=[running["key"]])
    assert page.transcript[0]["status"] == "interrupted"
    assert "Interrupted: what had arrived is kept here" in page.transcript[0]["html"]
    assert page.states[-1]["running"] == []


def test_an_error_of_a_reply_stands_in_its_turn(page: Page) -> None:
    page.say(lambda: page.transcript, do="ask", prompt="[[simulate: bad-request]]")
    assert page.transcript[0]["status"] == "failed"
    assert "answered 400" in page.transcript[0]["html"]


def test_the_next_step_of_an_error_is_to_ask_again_where_there_is_no_cell_to_run_again(page: Page) -> None:
    page.say(lambda: page.transcript, do="ask", prompt="[[simulate: cut]]", effort="low")
    page.kernel.run("%%kimi -e low\n[[simulate: cut]]", cell="c1")
    page.until(lambda: len(page.transcript) == 2)
    assert "What arrived is kept. Ask again." in page.transcript[0]["html"]
    assert "What arrived is kept. Run the cell again." in page.transcript[1]["html"]


def test_a_tool_that_wants_consent_asks_in_the_panel(page: Page) -> None:
    page.kernel.run(
        "ran = []\n@kimi.tool(confirm=True)\ndef wipe(name: str = 'all') -> str:\n"
        "    'Wipe a disk.'\n    ran.append(name)\n    return 'wiped'"
    )
    page.until(lambda: True)
    page.say(lambda: page.kinds("asked"), do="ask", prompt="Wipe it. [[simulate: steps 1]]", tools=["wipe"])
    asked = page.kinds("asked")[0]
    assert "wipe" in asked["text"]
    page.say(lambda: page.transcript, do="answer", call=asked["call"], allowed=True)
    assert len(page.kernel.value("ran")) == 1
    assert asked["text"] == "Run wipe()?"
    assert "wiped" in page.transcript[0]["html"]


def test_a_picture_among_the_files_is_shown_to_the_model(page: Page, tmp_path: Path) -> None:
    Image.new("RGB", (30, 20)).save(tmp_path / "teal.PNG")
    page.say(
        lambda: page.transcript,
        do="ask",
        prompt="What is it?",
        effort="low",
        files=[str(tmp_path / "teal.PNG")],
    )
    assert "Image 1: <code>image/png</code>, 30 × 20 pixels" in page.transcript[0]["html"]


def test_a_reply_that_is_stopped_waits_for_no_consent_any_more(page: Page) -> None:
    page.kernel.run(
        "@kimi.tool(confirm=True)\ndef wipe(name: str = 'all') -> str:\n    'Wipe a disk.'\n    return ''"
    )
    page.say(lambda: page.kinds("asked"), do="ask", prompt="Wipe it. [[simulate: steps 1]]", tools=["wipe"])
    page.kernel.run("%kimi stop")
    page.until(lambda: page.kinds("asked")[-1]["text"] == "")
    assert page.kernel.value("kimi.jobs.running") == []


def test_nothing_of_the_model_reaches_the_page_unsanitised(page: Page) -> None:
    evil = "<img src=x onerror=alert(1)> [x](javascript:alert(1)) <script>alert(1)</script>"
    page.say(lambda: page.transcript, do="ask", prompt=f"Say {evil}", effort="low")
    html = page.transcript[0]["html"]
    for forbidden in ("<img", "<script", 'href="javascript:'):
        assert forbidden not in html
    saved_html = page.show().bundles()[1]["text/html"]
    for forbidden in ("<img", "<script", 'href="javascript:'):
        assert forbidden not in saved_html


# --- headless -----------------------------------------------------------------------------------


def test_a_headless_run_keeps_a_readable_conversation_and_no_widget() -> None:
    sources = ["%load_ext kimi_magic", "%kimi panel", "%%kimi -e low\nHow are you?", "%kimi panel"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s) for s in sources])
    NotebookClient(notebook, kernel_name="python3", timeout=60).execute(env=environment())
    for cell in (notebook.cells[1], notebook.cells[3]):
        (output,) = cell.outputs
        assert set(output["data"]) == {"text/html", "text/markdown", "text/plain"}
        assert "The panel itself is not drawn, since no front end" in output["data"]["text/html"]
        for kind in output["data"]:
            assert "How are you?" in output["data"][kind]
            assert "no model has read this" in output["data"][kind]


# --- values -------------------------------------------------------------------------------------


def turn(name: str, parent: str | None, **more: Any) -> Turn:
    said = [{"role": "user", "content": name}, {"role": "assistant", "content": f"{name}!"}]
    return Turn(id=name, parent=parent, messages=tuple(said), prompt=name, time=NOW, **more)


def test_the_transcript_is_the_path_and_what_failed_beside_it_until_it_is_asked_again() -> None:
    conversation = Conversation().with_turn(turn("a", None, cell="1"))
    conversation = conversation.with_turn(turn("b", "a", cell="2", status="failed", error="broken"))
    assert [t.id for t in shown(conversation)] == ["a", "b"]
    conversation = conversation.with_turn(turn("c", "a", cell="2"))
    assert [t.id for t in shown(conversation)] == ["a", "c"]
    assert [t.id for t in shown(conversation.undo())] == ["a", "b"]
    broken = conversation.with_turn(turn("d", None, cell="3", status="failed"))
    assert [t.id for t in shown(broken)] == ["a", "c", "d"]
    assert shown(broken.fresh()) == []


def test_a_long_conversation_is_saved_from_its_end_and_says_what_is_left_out() -> None:
    entries = [Entry(turn(str(n), None), "x" * (MOST // 3), "m", "t") for n in range(5)]
    html = saved("main", entries)["text/html"]
    assert "The first 2 are not shown." in html
    assert len(html) < MOST * 1.2
    assert f"<style>{NO_WIDGET}</style>" in html
    cut = [Entry(turn("1", None), "x", "m", "t"), Entry(turn("2", "1", status="interrupted"), "y", "m", "t")]
    assert "Conversation main: 1 turn and 1 that did not end well." in saved("main", cut)["text/html"]
    alone = saved("main", [Entry(turn("1", None), "x" * MOST * 2, "m", "t")])["text/html"]
    assert "x" * MOST in alone


def test_a_saved_conversation_holds_nothing_but_what_may_be_published() -> None:
    asked = turn("<script>alert(1)</script>", None)
    assert faults(saved("<b>main", [Entry.of(asked, view_of_turn(asked, []))])) == []


def test_a_stored_turn_says_as_its_cell_did_where_it_was_cut() -> None:
    asked = turn("a", None, settings={"max_tokens": 500})
    entry = Entry.of(asked, view_of_turn(asked, [record(stop_reason="max_tokens")]))
    for shown_as in (entry.html, entry.text):
        assert "max_tokens (500) was reached" in shown_as
        assert "in the panel: Most tokens" in shown_as


def record(**more: Any) -> Record:
    base = Record(
        time=NOW, conversation="main", turn="a", input=100, cache_read=300, cache_write_5m=0, output=50
    )
    return base.replace(cost=Decimal("0.5"), status="complete", **more)


def test_the_strip_sums_the_conversation_and_counts_down_to_the_end_of_the_cache() -> None:
    conversation = Conversation().with_turn(turn("a", None))
    other = record().replace(conversation="other")
    old = record().replace(time=NOW - timedelta(days=3), conversation="other")
    strip = usage([old, other, record()], conversation, NOW + timedelta(seconds=100))
    assert (strip["in"], strip["cached"], strip["out"], strip["hit_rate"]) == (400, 300, 50, 0.75)
    assert (strip["cost"], strip["today"]) == ("$0.5000", "$1.00")
    assert strip["expires_in"] == 200
    assert strip["context"] == 450
    assert strip["plot"] == [{"cached": 300, "fresh": 100, "out": 50}]


def test_a_request_that_failed_leaves_the_cache_and_its_end_as_they_were() -> None:
    conversation = Conversation().with_turn(turn("a", None)).with_turn(turn("b", "a", status="failed"))
    failed = Record(time=NOW + timedelta(seconds=60), conversation="main", turn="b", status="failed")
    strip = usage([record(), failed], conversation, NOW + timedelta(seconds=100))
    assert strip["expires_in"] == 200


@pytest.mark.parametrize(
    ("costs", "said"),
    [
        ([], "–"),
        ([None], "unknown"),
        ([Decimal(1), None, None], "$1.00, 2 without a known cost"),
        ([Decimal(0)], "$0.00"),
    ],
)
def test_a_cost_that_is_not_known_is_said(costs: list[Decimal | None], said: str) -> None:
    records = [record().replace(cost=cost) for cost in costs]
    assert usage(records, Conversation(), NOW)["cost"] == said


def test_a_cost_tells_simulated_money_from_real_and_one_currency_from_another() -> None:
    def cost(*records: Record) -> str:
        return str(usage(records, Conversation(), NOW)["cost"])

    simulated, euros = record(simulated=True), record(currency="EUR")
    assert cost(simulated, simulated) == "would be $1.00"
    assert cost(simulated, record()) == "$1.00, 1 simulated"
    assert cost(euros, record()) == "$0.5000, 1 in another currency"


def test_an_effort_tells_the_time_that_it_took_here_or_what_to_expect() -> None:
    labels = [row["label"] for row in efforts([record(effort="high", seconds=12.0)])]
    assert labels == ["low · quick", "high · about 12 s here", "max · can take minutes"]


def test_a_form_without_choices_leaves_all_to_the_settings() -> None:
    assert Form.of({"prompt": "Hi", "model": "", "max_tokens": None, "search": ""}) == Form("Hi")
    with pytest.raises(KimiError, match="Web search, at most: must be a whole number from 1"):
        Form.of({"prompt": "Hi", "search": 10**6})
