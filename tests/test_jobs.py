"""Replies in the background: where they show, in which order they run, and how they end."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from typing import Any

import nbformat
import pytest
from kernels import Cell, Kernel, environment
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from scripted import Scripted, reply, stopping

from kimi_magic.api import Kimi
from kimi_magic.config import KimiMagic
from kimi_magic.display import Deltas, Ending, Progress
from kimi_magic.errors import ConversationError, Interrupted, OverloadedError

TWIN = "application/vnd.kimi-magic.turn+json"
AT_ANY_STAGE = {
    "before the first event": "[[simulate: slow 60]]",
    "silence": "[[simulate: silence]]",
    "thinking or text": "[[simulate: long 300 KB]]",
    "pings": "[[simulate: pings 60]]",
}

GATE = """
import threading
is_open = threading.Event()
def gate() -> str:
    'Waits until it is open.'
    is_open.wait(30)
    return 'open'
"""
"""A tool that keeps its reply running as long as a test wants."""

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # jupyter_client's own


# --- in a kernel --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shared() -> Iterator[Kernel]:
    with Kernel() as kernel:
        kernel.run("%load_ext kimi_magic\nfrom kimi_magic import kimi")
        yield kernel


@pytest.fixture
def kernel(shared: Kernel) -> Kernel:
    """One kernel for all tests here, each in a conversation of its own."""
    shared.run("%kimi stop")
    shared.run("%config KimiMagic.simulator_speed = 0.0")
    shared.run("kimi.close()\nimport uuid; kimi.session.current = uuid.uuid4().hex")
    return shared


def slow(kernel: Kernel, speed: int = 400) -> None:
    kernel.run(f"%config KimiMagic.simulator_speed = {speed}\nkimi.close()")


def text_of(cell: Cell) -> str:
    (bundle,) = cell.bundles()
    return str(bundle["text/plain"])


def test_the_reply_streams_into_its_own_cell_while_others_run(kernel: Kernel) -> None:
    slow(kernel)
    shown: list[str] = []
    asked = kernel.run(
        "%%kimi --background -e low\nOne.",
        cell="a",
        on_output=lambda cell: shown.append(cell.bundles()[0]["text/html"]),
    )
    assert "Waiting for" in shown[0]
    other = kernel.run("import time\nfor n in range(1, 21):\n    print(n)\n    time.sleep(0.1)", cell="b")
    assert other.printed.split() == [str(n) for n in range(1, 21)]
    assert {o["output_type"] for o in other.outputs} == {"stream"}
    kernel.watch(lambda: TWIN in asked.bundles()[0])
    assert "no model has read this" in text_of(asked)
    assert asked.error == ""


def test_two_conversations_run_side_by_side_and_one_conversation_in_order(kernel: Kernel) -> None:
    kernel.run(GATE)
    steps = "[[simulate: steps 1]]"
    cells = [
        kernel.run(f"%%kimi --background -e low -c {name} -t gate\n{question} {steps}", cell=question)
        for name, question in [("x", "First?"), ("x", "Second?"), ("y", "Elsewhere?")]
    ]
    states = kernel.value("[job.state for job in kimi.jobs][-3:]")
    assert states == ["running", "queued", "running"]
    assert "Waiting for the reply before this one" in cells[1].bundles()[0]["text/html"]
    kernel.run("is_open.set()\n%kimi wait")
    prompts = kernel.value("[t.prompt for t in kimi.session.conversation('x').path()]")
    assert prompts == [f"First? {steps}", f"Second? {steps}"]
    assert kernel.value("len(kimi.session.conversation('y').path())") == 1
    assert all(TWIN in cell.bundles()[0] for cell in cells)


def test_a_cell_that_runs_again_ends_what_still_runs_for_it(kernel: Kernel) -> None:
    kernel.run(GATE)
    for cell in ("a", "b", "a"):
        kernel.run(f"%%kimi --background -e low -t gate\nFrom {cell}. [[simulate: steps 1]]", cell=cell)
    kernel.run("is_open.set()\n%kimi wait")
    assert kernel.value("[job.state for job in kimi.jobs][-3:]") == ["interrupted", "complete", "complete"]
    begun = [kernel.run(f"%%kimi --background -e low {how}\nHi", cell="c") for how in ("", "--append")]
    kernel.run("%kimi wait")
    assert kernel.value("[job.state for job in kimi.jobs][-2:]") == ["complete", "complete"]
    assert all(TWIN in cell.bundles()[0] for cell in begun)


def test_a_cell_asks_after_what_runs_in_its_conversation(kernel: Kernel) -> None:
    slow(kernel)
    kernel.run("%%kimi --background -e low\nFirst?", cell="a")
    later = kernel.run("%%kimi -e low\nSecond?", cell="b")
    assert later.error == ""
    assert kernel.value("[t.prompt for t in kimi.conversation.path()]") == ["First?", "Second?"]


def test_an_error_is_shown_in_its_own_cell_and_raised_by_wait(kernel: Kernel) -> None:
    asked = kernel.run("%%kimi --background\n[[simulate: bad-request]]", cell="a")
    waited = kernel.run("%kimi wait", cell="b")
    assert "[BadRequestError: " in text_of(asked)
    assert "BadRequestError: " in asked.bundles()[0]["text/html"]
    assert waited.error.startswith("BadRequestError: ")
    assert waited.error.count("\n") == 0
    assert kernel.run("%kimi wait", cell="b").error == ""


@pytest.mark.parametrize("stage", AT_ANY_STAGE)
def test_stop_ends_a_reply_at_any_stage_and_keeps_what_came(kernel: Kernel, stage: str) -> None:
    slow(kernel, 2000)
    asked = kernel.run(f"%%kimi --background -e low\nTell me. {AT_ANY_STAGE[stage]}", cell="a")
    stopped = kernel.run("import time; time.sleep(0.4)\n%kimi stop", cell="b")
    assert stopped.printed.startswith("Stopped: job ")
    assert kernel.value("kimi.jobs.running") == []
    arrived = kernel.value("len(kimi.session.last.content)") > 0
    kept = "Interrupted: what had arrived is kept here" if arrived else "Interrupted before anything arrived."
    assert kept in text_of(asked)
    assert kernel.value("kimi.session.last.status") == "interrupted"
    assert kernel.value("kimi.messages") == ()


def test_the_interrupt_ends_the_jobs_with_what_the_cell_waits_for(kernel: Kernel) -> None:
    asked = kernel.run("%%kimi --background -e low\nTell me. [[simulate: silence]]", cell="a")
    kernel.watch(lambda: "no model has read this" in asked.bundles()[0]["text/html"])
    code = "import _thread, threading\nthreading.Timer(0.3, _thread.interrupt_main).start()\n%kimi wait"
    error = kernel.run(code, cell="b").error
    assert error.startswith("Interrupted: This ends replies in the background, too: job ")
    assert error.count("\n") == 0
    assert kernel.value("[job.state for job in kimi.jobs][-1]") == "interrupted"
    assert "Interrupted: what had arrived is kept here" in text_of(asked)


def test_the_interrupt_ends_the_jobs_while_no_cell_runs(kernel: Kernel) -> None:
    asked = kernel.run("%%kimi --background -e low\nTell me. [[simulate: silence]]", cell="a")
    kernel.watch(lambda: "no model has read this" in asked.bundles()[0]["text/html"])
    kernel.manager.interrupt_kernel()
    kernel.watch(lambda: "Interrupted: what had arrived is kept here" in text_of(asked))
    kernel.run("%unload_ext kimi_magic")
    assert "SIG_IGN" in kernel.value("repr(get_ipython().kernel.saved_sigint_handler)")
    kernel.run("%load_ext kimi_magic")


def test_what_ended_a_job_is_no_interrupt_of_the_others(kernel: Kernel) -> None:
    for name in ("x", "y"):
        kernel.run(f"%kimi --background -e low -c {name} Tell me. [[simulate: silence]]")
    kernel.run("stopped, other = list(kimi.jobs)[-2:]\nstopped.stop()")
    assert kernel.run("stopped.result()").error.startswith("Interrupted: ")
    assert kernel.value("other.state") == "running"


def test_unloading_ends_the_jobs_with_what_came(kernel: Kernel) -> None:
    asked = kernel.run("%%kimi --background -e low\nTell me. [[simulate: silence]]", cell="a")
    kernel.watch(lambda: "no model has read this" in asked.bundles()[0]["text/html"])
    kernel.run("%reload_ext kimi_magic\nimport threading")
    assert "Interrupted: what had arrived is kept here" in text_of(asked)
    assert kernel.value("[t.name for t in threading.enumerate() if 'kimi' in t.name]") == []
    assert kernel.run("%%kimi -e low\nStill there?").error == ""


def test_the_variable_is_the_job_and_then_the_reply(kernel: Kernel) -> None:
    code = "get_ipython().run_cell_magic('kimi', '--background -e low -o answer', 'One.'); was = type(answer)"
    kernel.run(code, cell="a")
    assert kernel.value("was.__name__") == "Job"
    kernel.run("%kimi wait")
    assert kernel.value("type(answer).__name__") == "Reply"


def test_the_table_of_jobs_names_state_prompt_and_error(kernel: Kernel) -> None:
    kernel.run("%%kimi --background\nHow? [[simulate: bad-request]]", cell="a")
    kernel.run("%kimi wait")
    table = text_of(kernel.run("%kimi jobs"))
    assert "How?" in table
    assert "failed" in table
    assert kernel.run("%kimi stop 99999").error.startswith("ConversationError: There is no job 99999.")
    over = kernel.value("[job.number for job in kimi.jobs][-1]")
    assert kernel.run(f"%kimi stop {over}").printed == f"Job {over} has ended already: failed.\n"
    assert kernel.run("%kimi wait for it").error.startswith("OptionError: ")
    assert kernel.run("%kimi wait it").error.startswith("OptionError: 'it' is no number of a job.")


# --- without a front end ------------------------------------------------------------------------


def test_a_headless_run_has_the_reply_when_it_waits_and_stops_at_its_error() -> None:
    def run(*cells: str) -> Any:
        sources = ["%load_ext kimi_magic", *cells]
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s) for s in sources])
        NotebookClient(notebook, kernel_name="python3", env=environment(), timeout=60).execute(
            env=environment()
        )
        return notebook.cells

    cells = run("%%kimi --background\nOne.", "%kimi wait")
    (output,) = cells[1].outputs
    assert TWIN in output["data"]
    with pytest.raises(CellExecutionError, match="BadRequestError"):
        run("%%kimi --background\n[[simulate: bad-request]]", "%kimi wait")


def test_what_had_arrived_is_kept_when_the_process_ends(tmp_path: Any) -> None:
    script = """
        import time
        from kimi_magic.api import Kimi
        kimi = Kimi(notebook="n.ipynb")
        job = kimi.begin(kimi.plan([kimi_text("Tell me. [[simulate: silence]]")], effort="low"))
        while not job.stream.message.content:
            time.sleep(0.01)
    """.replace("kimi_text(", "__import__('kimi_magic.wire').wire.TextBlock.of(")
    environ = environment(KIMI_MAGIC_STORE="on", JUPYTER_DATA_DIR=str(tmp_path))
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], env=environ, check=True, timeout=30)
    look = """
        from kimi_magic.api import Kimi
        turns = Kimi(notebook="n.ipynb").conversation.turns.values()
        print([(t.status, bool(t.reply)) for t in turns])
    """
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(look)], env=environ, check=True, capture_output=True, text=True
    )
    assert found.stdout.strip() == "[('interrupted', True)]"


# --- the parts ----------------------------------------------------------------------------------


class Seen:
    """A view that remembers."""

    def __init__(self) -> None:
        self.progress: list[Progress] = []
        self.endings: list[Ending] = []

    def update(self, progress: Progress) -> float:
        self.progress.append(progress)
        return 0.0

    def finish(self, ending: Ending) -> None:
        self.endings.append(ending)


@pytest.fixture
def chat() -> Iterator[tuple[Kimi, Scripted]]:
    server = Scripted([stopping(then="hang"), reply("Two.")])
    kimi = Kimi(KimiMagic(store="off"), server.client())
    yield kimi, server
    kimi.close()


def plan(kimi: Kimi, prompt: str, **options: Any) -> Any:
    from kimi_magic.wire import TextBlock

    return kimi.plan((TextBlock.of(prompt),), prompt=prompt, **options)


def until(server: Scripted, count: int) -> None:
    for _ in range(1000):
        if len(server.bodies) >= count:
            return
        time.sleep(0.01)
    raise AssertionError("the server was not asked")


def test_the_place_of_a_turn_is_decided_when_it_begins_not_when_it_is_queued(
    chat: tuple[Kimi, Scripted],
) -> None:
    kimi, server = chat
    server.answers = [reply("One."), stopping(then="hang"), reply("Three.")]
    kimi.ask("First", cell="1")
    hanging = kimi.begin(plan(kimi, "Second", cell="2"))
    view = Seen()
    queued = kimi.begin(plan(kimi, "Third", cell="3"), view)
    assert queued.state == "queued"
    assert view.progress[0].queued
    until(server, 2)
    kimi.session.change(kimi.conversation.fresh())
    hanging.stop()
    assert queued.result().text == "Three."
    assert [m["role"] for m in server.requests[-1]["messages"]] == ["user"]
    assert [t.prompt for t in kimi.conversation.path()] == ["Third"]


def test_a_job_that_is_stopped_in_the_queue_asks_nothing(chat: tuple[Kimi, Scripted]) -> None:
    kimi, server = chat
    first, second = kimi.begin(plan(kimi, "First")), kimi.begin(plan(kimi, "Second"))
    until(server, 1)
    assert [job.number for job in kimi.jobs.stop(2)] == [2]
    with pytest.raises(Interrupted):
        second.result()
    assert len(server.bodies) == 1
    assert first.state == "running"
    kimi.jobs.stop()
    assert kimi.jobs.running == []


def test_a_question_of_a_tool_in_its_own_conversation_does_not_wait_for_itself(
    chat: tuple[Kimi, Scripted],
) -> None:
    from scripted import START, Answer, block, end

    kimi, server = chat
    call = block(
        0,
        {"type": "tool_use", "id": "t1", "name": "look", "input": {}},
        {"type": "input_json_delta", "partial_json": "{}"},
    )
    server.answers = [Answer((START, *call, *end("tool_use"))), reply("Inner."), reply("Outer.")]

    def look() -> str:
        """Look."""
        return kimi.ask("Inner?").text

    assert kimi.ask("Outer?", tools=[look]).text == "Outer."


def test_a_tool_that_wants_consent_is_refused_in_the_background(chat: tuple[Kimi, Scripted]) -> None:
    from scripted import START, Answer, block, end

    kimi, server = chat
    call = block(
        0,
        {"type": "tool_use", "id": "t1", "name": "wipe", "input": {}},
        {"type": "input_json_delta", "partial_json": "{}"},
    )
    server.answers = [Answer((START, *call, *end("tool_use"))), reply("Done.")]
    ran = []

    @kimi.tool(confirm=True)
    def wipe() -> str:
        """Wipe."""
        ran.append(1)
        return "wiped"

    kimi.begin(plan(kimi, "Wipe", tools=["wipe"])).result()
    assert ran == []
    assert "nobody can be asked" in str(server.requests[-1])


def test_an_error_is_the_result_and_a_job_that_is_not_there_is_named(chat: tuple[Kimi, Scripted]) -> None:
    from scripted import failing

    kimi, server = chat
    server.answers = [failing(529, "overloaded_error")]
    job = kimi.begin(plan(kimi, "First"))
    with pytest.raises(OverloadedError):
        job.result()
    assert job.state == "failed"
    with pytest.raises(ConversationError, match="no job 7"):
        kimi.jobs.chosen(7)


def test_the_line_of_a_widget_that_waits_counts_seconds_and_is_sent_only_when_it_has_changed() -> None:
    deltas = Deltas()
    first, _ = deltas.news(Progress((), 0.2, "kimi", queued=True))
    assert "Waiting for the reply before this one" in first["waiting"]
    assert "Waiting for kimi …" in deltas.news(Progress((), 0.4, "kimi"))[0]["waiting"]
    assert deltas.news(Progress((), 0.6, "kimi"))[0] == {}
    assert "Waiting for kimi · 12 s" in deltas.news(Progress((), 12.3, "kimi"))[0]["waiting"]
