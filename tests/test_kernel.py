"""The product in a real kernel: what a notebook's reader sees, saves and interrupts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import nbformat
import pytest
from kernels import Cell, Kernel, environment
from loopback import Answer, Loopback, http
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

TWIN = "application/vnd.kimi-magic.turn+json"

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # jupyter_client's own


@pytest.fixture(scope="module")
def shared() -> Iterator[Kernel]:
    with Kernel() as kernel:
        kernel.loaded = kernel.run("%load_ext kimi_magic")  # type: ignore[attr-defined]  # for one test
        kernel.run("from kimi_magic import kimi")
        yield kernel


@pytest.fixture
def kernel(shared: Kernel) -> Kernel:
    """One kernel for all tests here, each in a conversation of its own."""
    shared.run("kimi.close()")
    shared.run("%config KimiMagic.simulator_speed = 0.0")
    shared.run("import uuid; kimi.session.current = uuid.uuid4().hex")
    return shared


def reply_of(cell: Cell) -> Any:
    """The one bundle of a cell that holds a reply."""
    assert cell.error == ""
    (bundle,) = cell.bundles()
    assert set(bundle) == {"text/html", "text/markdown", "text/plain", TWIN}
    return bundle


def prompts(kernel: Kernel) -> Any:
    return kernel.value("[t.prompt for t in kimi.conversation.path()]")


# --- outputs ------------------------------------------------------------------------------------


def test_loading_without_a_key_prints_one_line(shared: Kernel) -> None:
    (output,) = shared.loaded.outputs  # type: ignore[attr-defined]  # see `shared`
    assert output["text"].count("\n") == 1
    assert "simulator answers, not a model" in output["text"]


def test_a_cell_ends_as_one_static_output_with_all_its_types(kernel: Kernel) -> None:
    bundle = reply_of(kernel.run("%%kimi\nShow me a table and code."))
    assert "<script" not in bundle["text/html"]
    assert "<details" in bundle["text/html"]
    for kind in ("text/html", "text/markdown", "text/plain"):
        assert "Simulated reply" in bundle[kind]
    assert "object at 0x" not in bundle["text/plain"]
    assert json.dumps(bundle[TWIN])
    assert kernel.run("%%kimi\nAgain.").messages < 50


def test_a_compaction_that_takes_a_while_counts_what_comes_and_ends_as_a_reply(kernel: Kernel) -> None:
    kernel.run("%%kimi\nOne.")
    kernel.run("%%kimi\nTwo.")
    kernel.run("%config KimiMagic.simulator_speed = 150.0")
    cell = kernel.run("%kimi compact")
    assert cell.error == ""
    summary, count = cell.bundles()
    assert TWIN in summary
    assert count["text/plain"].startswith("Summing up 2 turns: ")
    assert " characters [" in count["text/plain"]
    sent = json.dumps([m["content"] for m in kernel.seen if m["msg_type"] == "comm_msg"], ensure_ascii=False)
    said = kernel.value("sum(len(b.json[b.type]) for b in kimi.session.last.reply)")
    assert 0 < max(map(int, re.findall(r"(\d+)/\?", sent))) <= said


def test_r10_a_reply_that_streams_slowly_leaves_no_copies(kernel: Kernel) -> None:
    kernel.run("%config KimiMagic.simulator_speed = 700.0")
    kernel.run("kimi.close()")
    partial: list[str] = []

    def look(cell: Cell) -> None:
        partial.append("".join(str(b["text/html"]) for b in cell.bundles()))

    cell = kernel.run("%%kimi\nTell me something.", on_output=look)
    assert sum(html != partial[-1] for html in partial) > 3
    bundle = reply_of(cell)
    assert bundle["text/html"].count("Simulated reply: no model was asked") == 1
    assert bundle["text/html"].index(">Thinking") < bundle["text/html"].index('"kimi-text"')


def test_several_questions_in_one_cell_keep_their_outputs_and_what_is_printed(kernel: Kernel) -> None:
    code = "for word in ('red', 'green', 'blue'):\n    print(word)\n    %kimi {{ word }}"
    cell = kernel.run(code, cell="loop")
    assert cell.error == ""
    kinds = [o["output_type"] for o in cell.outputs]
    assert kinds == ["stream", "display_data"] * 3
    assert cell.printed == "red\ngreen\nblue\n"
    assert [word in b["text/plain"] for word, b in zip(("red", "green", "blue"), cell.bundles(), strict=True)]
    kernel.run(code, cell="loop")
    asked = "[m['content'][0]['text'] for m in kimi.messages if m['role'] == 'user']"
    assert kernel.value(asked) == ["red", "green", "blue"]


def test_capture_collects_the_finished_output_only(kernel: Kernel) -> None:
    cell = kernel.run("%%capture out\n%kimi Hello")
    assert cell.outputs == []
    assert kernel.value("[sorted(o.data) for o in out.outputs]") == [
        sorted(("text/html", "text/markdown", "text/plain", TWIN))
    ]
    assert "Hello" in kernel.value("out.outputs[-1].data['text/plain']")


def test_a_reply_and_usage_show_themselves_as_values(kernel: Kernel) -> None:
    kernel.run("%%kimi -o answer\nHello")
    (shown,) = kernel.run("answer").bundles()
    assert "Simulated reply" in shown["text/html"]
    (table,) = kernel.run("%kimi usage").bundles()
    assert "<table" in table["text/html"]


# --- conversation -------------------------------------------------------------------------------


def test_running_a_cell_again_replaces_its_turn_and_later_outputs_say_that_they_are_stale(
    kernel: Kernel,
) -> None:
    kernel.run("%%kimi\na", cell="1")
    second = kernel.run("%%kimi\nb", cell="2")
    third = kernel.run("%%kimi\nc", cell="3")
    assert "Stale" not in second.bundles()[0]["text/html"]
    again = kernel.run("%%kimi\na2", cell="1")
    assert prompts(kernel) == ["a2"]
    assert "replaced" in again.bundles()[0]["text/html"]
    for stale in (second, third):
        assert "Stale" in reply_of(stale)["text/html"]
        assert "Stale" in reply_of(stale)["text/markdown"]
    kernel.run("%%kimi\nb", cell="2")
    assert prompts(kernel) == ["a2", "b"]
    kernel.run("%kimi undo")
    assert prompts(kernel) == ["a2"]


def test_reloading_keeps_the_conversation_and_unloading_leaves_nothing(kernel: Kernel) -> None:
    kernel.run("%%kimi\na")
    assert kernel.run("%reload_ext kimi_magic").error == ""
    assert kernel.run("%%kimi\nb").error == ""
    assert prompts(kernel) == ["a", "b"]
    kernel.run("%unload_ext kimi_magic")
    names = kernel.value("[t.name for t in __import__('threading').enumerate()]")
    assert "kimi-magic" not in names
    assert "not found" in kernel.run("%kimi status").printed + kernel.run("%kimi status").error
    assert kernel.run("%load_ext kimi_magic").error == ""
    assert kernel.run("%%kimi\nc").error == ""
    assert prompts(kernel) == ["a", "b", "c"]


def test_the_chat_that_was_imported_before_loading_is_that_of_the_cells() -> None:
    with Kernel(KIMI_MAGIC_EFFORT="low") as kernel:
        kernel.run("from kimi_magic import kimi")
        kernel.run("%load_ext kimi_magic")
        kernel.run("%%kimi\na")
        assert prompts(kernel) == ["a"]
        assert kernel.value("[row['effort'] for row in kimi.usage]") == ["low"]


# --- errors and interrupts ----------------------------------------------------------------------

FAULTS = ["bad-request", "cut", "broken", "stream-error", "unauthorized", "garbled"]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_line_and_the_next_cell_works(kernel: Kernel, fault: str) -> None:
    cell = kernel.run(f"%%kimi\nSay it. [[simulate: {fault}]]")
    assert cell.error.count("\n") == 0
    assert cell.error.partition(":")[0].endswith("Error")
    assert len(cell.bundles()) == 1
    assert cell.error.partition(": ")[2] in cell.bundles()[0]["text/plain"]
    reply_of(kernel.run("%%kimi\nAnd now?"))
    assert prompts(kernel) == ["And now?"]


STAGES = {
    "before any answer": ("[[simulate: slow 3600]]", 0.0, "Waiting"),
    "while it thinks": ("", 15.0, "kimi-thinking"),
    "in the text": ("[[simulate: silence 3600]]", 0.0, "kimi-text"),
}


@pytest.mark.parametrize("stage", STAGES)
def test_an_interrupt_keeps_what_arrived_and_the_next_cell_works(kernel: Kernel, stage: str) -> None:
    directive, speed, sign = STAGES[stage]
    kernel.run(f"%config KimiMagic.simulator_speed = {speed}")
    kernel.run("kimi.close()")
    struck: list[str] = []

    def strike(cell: Cell) -> None:
        html = "".join(str(b["text/html"]) for b in cell.bundles())
        if sign in html and not struck:
            struck.append(html)
            kernel.manager.interrupt_kernel()

    cell = kernel.run(f"%%kimi\nSay it. {directive}", on_output=strike)
    assert len(struck) == 1
    assert cell.error == "Interrupted: Run the cell again to ask anew."
    (bundle,) = cell.bundles()
    assert "Interrupted" in bundle["text/plain"]
    assert (sign in bundle["text/html"]) == (sign != "Waiting")
    kernel.run("%config KimiMagic.simulator_speed = 0.0")
    kernel.run("kimi.close()")
    reply_of(kernel.run("%%kimi\nAnd now?"))
    assert prompts(kernel) == ["And now?"]
    assert kernel.value("[r['status'] for r in kimi.usage][-2:]") == ["interrupted", "complete"]


def test_an_interrupt_is_felt_in_a_cell_that_also_awaits(kernel: Kernel) -> None:
    code = "import asyncio\nawait asyncio.sleep(0)\n%kimi Say it. [[simulate: silence 3600]]"
    struck: list[bool] = []

    def strike(cell: Cell) -> None:
        if not struck and any("kimi-text" in b["text/html"] for b in cell.bundles()):
            struck.append(True)
            kernel.manager.interrupt_kernel()

    assert kernel.run(code, on_output=strike).error.startswith("Interrupted")
    reply_of(kernel.run("%%kimi\nAnd now?"))


# --- Tab ----------------------------------------------------------------------------------------


def test_tab_works_through_the_kernel(kernel: Kernel) -> None:
    found = kernel.complete("%%kimi -e low --max-t")
    assert found["matches"] == ["--max-tokens"]
    assert (found["cursor_start"], found["cursor_end"]) == (14, 21)
    assert kernel.complete("%kimi his")["matches"] == ["history"]
    assert {"low", "high", "max"} <= set(kernel.complete("%%kimi -e ")["matches"])


# --- Run All ------------------------------------------------------------------------------------


def executed(*cells: str, **environ: str) -> tuple[Any, str]:
    """A notebook run as nbconvert and papermill do, and the error that stopped it."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    try:
        NotebookClient(notebook, kernel_name="python3", timeout=60).execute(env=environment(**environ))
    except CellExecutionError as error:
        return notebook, str(error)
    return notebook, ""


def test_run_all_stops_at_a_cell_that_fails_and_saves_one_output_a_reply() -> None:
    notebook, error = executed(
        "%load_ext kimi_magic",
        "%%kimi\nFirst.",
        "%kimi second?",
        "%%capture out\n%kimi -- third",
        "%%kimi -e lowest\nFourth.",
        "%%kimi\nFifth.",
    )
    assert "OptionError" in error
    saved = [[o["output_type"] for o in cell.outputs] for cell in notebook.cells]
    assert saved == [["stream"], ["display_data"], ["display_data"], [], ["error"], []]
    (failure,) = notebook.cells[4].outputs
    assert failure["ename"] == "OptionError"
    assert len(failure["traceback"]) == 1
    for cell in notebook.cells[1:3]:
        data = cell.outputs[0]["data"]
        assert set(data) == {"text/html", "text/markdown", "text/plain", TWIN}
        assert "widget" not in json.dumps(list(data))
    nbformat.validate(notebook)


def test_never_stops_run_all_where_there_is_no_key() -> None:
    _, error = executed("%load_ext kimi_magic", "%%kimi\nHi", KIMI_MAGIC_SIMULATOR="never")
    assert "No API key" in error
    assert "KIMI_API_KEY" in error


# --- the key ------------------------------------------------------------------------------------

KEY = "sk-test-QWERTY7788ASDF"


def test_x01_no_piece_of_the_key_is_in_any_output() -> None:
    body = {
        "type": "error",
        "error": {"type": "authentication_error", "message": f"Key Bearer {KEY} ({KEY[8:]}) is wrong."},
        "request_id": f"req-{KEY[4:14]}",
    }
    refused = http(body, "401 Unauthorized", content_type="application/json")
    with Loopback([Answer(refused)]) as server, Kernel(KIMI_API_KEY=KEY, KIMI_BASE_URL=server.url) as kernel:
        for code in (
            "%load_ext kimi_magic",
            "from kimi_magic import kimi, Client, AsyncClient",
            "%%kimi\nHi",
            "%tb",
            "%xmode Verbose",
            "%%kimi\nHi",
            "%%kimi --dry-run\nHi",
            "kimi.ask('Hi')",
            "%kimi status",
            "%kimi help",
            "%kimi history",
            "%kimi usage",
            "%config KimiMagic",
            "kimi, kimi.session, kimi.session.client, kimi.settings, Client(), AsyncClient()",
            "kimi.usage.df().to_csv()",
            "[t.to_json() for t in kimi.conversation.turns.values()]",
            "{k: repr(v) for k, v in vars(kimi.session.client).items()}",
            "kimi.session.last",
        ):
            kernel.run(code)
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
        assert len(server.requests) == 3
        said = json.dumps(kernel.seen, default=str)
    secret = KEY.removeprefix("sk-")
    pieces = {secret[i : i + 6] for i in range(len(secret) - 5)}
    assert {piece for piece in pieces if piece in said} == set()
    assert "[key]" in said
