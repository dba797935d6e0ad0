"""`%%kimi` and `%kimi` in a real shell: what is typed reaches the server, and slips cost one line."""

from __future__ import annotations

import atexit
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from scripted import Answer, Scripted, failing, reply, stopping, text, thinking
from traitlets.config import Config

from kimi_magic.api import Kimi, Reply
from kimi_magic.config import KimiMagic
from kimi_magic.errors import BadRequestError, KimiError, OptionError, PromptError, SchemaError, ToolError
from kimi_magic.magics import load, unload
from kimi_magic.notebook import jupyter_session, notebook_path
from kimi_magic.store import TWIN


class Notebook:
    """A shell with the magics, and a server that remembers what it was asked."""

    def __init__(self, *answers: Answer, client: bool = True, **settings: Any) -> None:
        self.server = Scripted(list(answers) or [reply()])
        self.settings = KimiMagic(**{"store": "off", "simulator_speed": 0.0, "display": "static", **settings})
        made = self.server.client() if client else None
        self.kimi = Kimi(self.settings, client=made)
        config = Config({"HistoryManager": {"enabled": False}})
        self.shell = InteractiveShell(config=config)
        self.outputs = self.shell.display_pub = CapturingDisplayPublisher()
        load(self.shell, self.settings, lambda: self.kimi)

    def run(self, code: str) -> Any:
        """Run a cell; its value. Raises what it raised."""
        done = self.shell.run_cell(code)
        done.raise_error()
        return done.result

    def fails(self, code: str, capsys: pytest.CaptureFixture[str]) -> str:
        """Run a cell that ends in an error of ours; what is printed of it, which is one line."""
        capsys.readouterr()
        done = self.shell.run_cell(code)
        assert isinstance(done.error_in_exec, (KimiError, KeyboardInterrupt)), done
        printed = capsys.readouterr()
        lines = [line for line in (printed.out + printed.err).splitlines() if line.strip()]
        assert len(lines) == 1
        assert lines[0] == f"{type(done.error_in_exec).__name__}: {done.error_in_exec}"
        return lines[0]

    @property
    def prompts(self) -> list[list[str]]:
        """Of each request the user's texts."""
        return [
            [m["content"][0]["text"] for m in r["messages"] if m["role"] == "user"]
            for r in self.server.requests
        ]

    def close(self) -> None:
        unload(self.shell)
        self.kimi.close()
        atexit.unregister(self.shell.atexit_operations)


@pytest.fixture
def note() -> Iterator[Notebook]:
    made = Notebook()
    yield made
    made.close()


@pytest.fixture
def notebook() -> Iterator[Any]:
    made: list[Notebook] = []

    def make(*answers: Answer, **more: Any) -> Notebook:
        made.append(Notebook(*answers, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


# --- a cell -------------------------------------------------------------------------------------

OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("-m highspeed", {"model": "kimi-k3.1-pro-highspeed"}),
    ("--model kimi-k3.1-pro", {"model": "kimi-k3.1-pro"}),
    ("-e low", {"output_config": {"effort": "low"}}),
    ("-n 8k", {"max_tokens": 8192}),
    ('-s "Be {{ how }}."', {"system": "Be brief."}),
    ("-s @rules", {"system": "Rule 1."}),
    ("--cache 1h", {"cache_control": {"type": "ephemeral", "ttl": "1h"}}),
    (r"--stop END --stop \n", {"stop_sequences": ["END", "\n"]}),
]


@pytest.mark.parametrize(("options", "fields"), OPTIONS, ids=[o for o, _ in OPTIONS])
def test_an_option_reaches_the_request(note: Notebook, options: str, fields: dict[str, Any]) -> None:
    note.shell.user_ns |= {"how": "brief", "rules": "Rule 1."}
    note.run(f"%%kimi {options}\nHi")
    (request,) = note.server.requests
    assert {name: request.get(name) for name in fields} == fields


def test_settings_are_the_defaults_and_options_go_before_them(notebook: Any) -> None:
    note = notebook(model="kimi-k3.1-pro-highspeed", effort="high", max_tokens=99, cache="1h")
    note.run("%%kimi\nHi")
    note.run("%%kimi -e low -n 7\nHi")
    first, second = note.server.requests
    assert first["model"] == "kimi-k3.1-pro-highspeed"
    assert first["output_config"] == {"effort": "high"}
    assert (first["max_tokens"], first["cache_control"]["ttl"]) == (99, "1h")
    assert (second["output_config"], second["max_tokens"]) == ({"effort": "low"}, 7)


def test_values_go_into_the_prompt_and_other_braces_stay(note: Notebook) -> None:
    note.shell.user_ns |= {"x": 3, "name": "Ada"}
    note.run("%%kimi\n{{ name }} has {{ x }}: {x} $x ${x} \\frac{a}{b} {n: n for n in y}")
    note.run("%%kimi --raw\n{{ name }}")
    note.run("%kimi Say {{ name }} and {x} $5")
    assert [p[-1] for p in note.prompts] == [
        "Ada has 3: {x} $x ${x} \\frac{a}{b} {n: n for n in y}",
        "{{ name }}",
        "Say Ada and {x} $5",
    ]


def test_m04_lines_that_look_like_magics_shell_or_help_are_text(note: Notebook, tmp_path: Path) -> None:
    body = f"%pip install x\n!touch {tmp_path}/made\ndf?\n?df\n\n    indented\n# 标题\nback\\\n>>> 1\nIn []\n"
    note.run(f"\n\n%%kimi\n{body}")
    note.run("%%kimi --once\n>>> f(1)\n... 2\n\n\n")
    note.run("%%kimi --once\nIn [1]: x\nOut[1]: 3")
    assert note.prompts == [[body.removesuffix("\n")], [">>> f(1)\n... 2\n\n"], ["In [1]: x\nOut[1]: 3"]]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("line", ["-o answer", "answer <<", "answer << -e low", "-e low -o answer"])
def test_the_reply_goes_into_a_variable(note: Notebook, line: str) -> None:
    note.run(f"%%kimi {line}\nHi")
    answer = note.run("answer")
    assert isinstance(answer, Reply)
    assert answer.text == "Yes."


def test_a_failing_cell_leaves_the_variable_alone(notebook: Any, capsys: pytest.CaptureFixture[str]) -> None:
    note = notebook(stopping(text(0, "half")[:2]))
    note.run("answer = 'as it was'")
    note.fails("%%kimi -o answer\nHi", capsys)
    assert note.run("answer") == "as it was"


def test_the_output_is_one_bundle_with_its_twins(note: Notebook) -> None:
    note.run("%%kimi\nHi")
    (output,) = note.outputs.outputs
    assert set(output["data"]) == {"text/html", "text/markdown", "text/plain", TWIN}
    assert "Yes." in output["data"]["text/html"]
    assert output["data"]["text/plain"] == "Yes."
    json.dumps(output)


def test_a_reply_that_failed_stays_visible_with_the_reason(
    notebook: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    note = notebook(stopping(thinking(0, "hm"), text(1, "half of")[:2]))
    note.fails("%%kimi\nHi", capsys)
    (output,) = note.outputs.outputs
    assert "half of" in output["data"]["text/html"]
    assert output["data"]["text/plain"].startswith("half of")


def test_a_dry_run_sends_nothing_and_shows_the_request(
    note: Notebook, capsys: pytest.CaptureFixture[str]
) -> None:
    note.run("x = 'value'")
    note.run("%%kimi --dry-run -e low -o answer\nSay {{ x }}")
    assert note.server.bodies == []
    assert "answer" not in note.shell.user_ns
    printed = capsys.readouterr().out
    shown = json.loads(printed[printed.index("{") : printed.rindex("}") + 1])
    assert shown["output_config"] == {"effort": "low"}
    assert shown["messages"][0]["content"][0]["text"] == "Say value"
    assert "nothing was sent" in note.outputs.outputs[0]["data"]["text/plain"]
    assert note.kimi.conversation.turns == {}


# --- conversations ------------------------------------------------------------------------------


def test_cells_follow_each_other_in_one_conversation(note: Notebook) -> None:
    for cell in (
        "%%kimi\na",
        "%kimi -- b",
        "%%kimi --once\nc",
        "%%kimi -c other\nd",
        "%%kimi --new\ne",
        "%%kimi\nf",
    ):
        note.run(cell)
    assert note.prompts == [["a"], ["a", "b"], ["c"], ["d"], ["e"], ["e", "f"]]


class Parent:
    """What a notebook's front end sends with a cell that is run."""

    def __init__(self, note: Notebook) -> None:
        self._note, self._runs = note, 0
        note.shell.get_parent = lambda: self.header  # type: ignore[attr-defined]  # a kernel's shell has it

    def run(self, cell: str, code: str) -> None:
        self._runs += 1
        self.header = {
            "header": {"msg_id": f"run {self._runs}"},
            "metadata": {"cellId": cell},
            "content": {"code": code},
        }
        self._note.run(code)


def test_a_cell_that_runs_again_replaces_its_turn_and_append_adds_one(note: Notebook) -> None:
    parent = Parent(note)
    for cell, code in (("1", "a"), ("2", "b"), ("1", "a again"), ("2", "b again")):
        parent.run(cell, f"%%kimi\n{code}")
    parent.run("2", "%%kimi --append\nmore")
    assert note.prompts[2:] == [["a again"], ["a again", "b again"], ["a again", "b again", "more"]]


def test_questions_of_one_cell_are_turns_of_their_own_and_are_replaced_one_by_one(note: Notebook) -> None:
    parent = Parent(note)
    loop = "for word in {}:\n    get_ipython().run_line_magic('kimi', f'-- {{word}}')"
    parent.run("1", loop.format(["a", "b", "c"]))
    parent.run("2", "%%kimi\nafter")
    parent.run("1", loop.format(["d", "e"]))
    assert note.prompts[2:] == [["a", "b", "c"], ["a", "b", "c", "after"], ["d"], ["d", "e"]]


def test_asking_from_python_belongs_to_its_cell_too(note: Notebook) -> None:
    parent = Parent(note)
    note.shell.user_ns["kimi"] = note.kimi
    note.run("%kimi status")
    parent.run("1", "kimi.ask('a'); kimi.ask('b')")
    parent.run("1", "kimi.ask('c'); kimi.ask('d')")
    assert note.prompts == [["a"], ["a", "b"], ["c"], ["c", "d"]]


# --- %kimi --------------------------------------------------------------------------------------


def test_a_line_asks_and_its_question_mark_is_the_model_s(note: Notebook) -> None:
    note.run("%kimi what is x?")
    note.run("if True:\n    %kimi what's in {}??")
    note.run("%kimi -e low how?")
    assert [p[-1] for p in note.prompts] == ["what is x?", "what's in {}??", "how?"]
    assert note.server.requests[2]["output_config"] == {"effort": "low"}


def test_a_line_like_that_inside_a_string_is_text_and_help_is_still_help(
    note: Notebook, capsys: pytest.CaptureFixture[str]
) -> None:
    note.run('s = """\n%kimi what is x?\n"""')
    assert note.run("s") == "\n%kimi what is x?\n"
    payload: list[Any] = []
    note.shell.inspector = SimpleNamespace(pinfo=lambda *args, **more: payload.append(args))
    for help_line in ("%kimi?", "len?", "?len"):
        note.run(help_line)
    assert len(payload) == 3
    assert note.server.bodies == []


def test_a_cell_that_is_still_being_typed_is_not_complete(note: Notebook) -> None:
    complete = note.shell.input_transformer_manager.check_complete
    assert complete("%%kimi\nfirst line")[0] == "incomplete"
    assert complete("%%kimi\nfirst line\n\n")[0] == "complete"
    assert complete("%kimi what is x?\n")[0] == "complete"


def test_a_line_with_a_command_runs_it(note: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    note.run("%%kimi\nfirst question")
    note.run("%%kimi\nsecond question")
    usage = note.run("%kimi usage")
    assert [row["output"] for row in usage] == [40, 40]
    note.run("%kimi undo")
    assert [t.prompt for t in note.kimi.conversation.path()] == ["first question"]
    gone = list(note.kimi.conversation.turns)[1]
    note.run(f"%kimi use {gone[:6]}")
    assert [t.prompt for t in note.kimi.conversation.path()] == ["first question", "second question"]
    note.run("%kimi history")
    table = note.outputs.outputs[-1]["data"]["text/plain"]
    assert "first question" in table
    note.run("%kimi new")
    assert note.kimi.messages == ()
    note.run("%kimi use 'other'")
    note.run("%kimi -- third")
    assert note.prompts[-1] == ["third"]
    assert note.kimi.conversation.name == "other"
    note.run("%kimi status")
    table = note.outputs.outputs[-1]["data"]["text/plain"]
    assert "other, 1 turn" in table
    assert "main, 0 turns" in table
    note.run('%kimi use "two words"')
    assert note.kimi.conversation.name == "two words"
    note.run("%kimi use main")
    note.run(f"%kimi use {gone[:6]}")
    note.run("%kimi use 1")
    assert [t.prompt for t in note.kimi.conversation.path()] == ["first question"]
    note.run("%kimi help")
    note.run("%kimi")
    printed = capsys.readouterr().out
    assert printed.count("%%kimi [options]") == 2


def test_status_names_what_answers(note: Notebook, notebook: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    note.run("%kimi status")
    shown = note.outputs.outputs[-1]["data"]["text/plain"]
    assert "http://server.test" in shown
    assert "set, from argument" in shown
    for name in ("KIMI_API_KEY", "EVOLINK_API_KEY", "KIMI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    simulated = notebook(client=False)
    simulated.run("%kimi status")
    shown = simulated.outputs.outputs[-1]["data"]["text/plain"]
    assert "simulator" in shown
    assert "KIMI_API_KEY" in shown


SLIPS: list[tuple[str, type[BaseException], list[str]]] = [
    ("%%kimi --modle x\nHi", OptionError, ["--modle", "Did you mean --model?"]),
    ("%%kimi -e hihg\nHi", OptionError, ["-e/--effort", "low, high or max", "Did you mean high?"]),
    ("%%kimi -n 0\nHi", OptionError, ["-n/--max-tokens", "1,048,576"]),
    ("%%kimi --stop a --stop b --stop c --stop d --stop e --stop f\nHi", OptionError, ["at most 5"]),
    ("%%kimi --once --new\nHi", OptionError, ["exclude each other"]),
    ("%%kimi what is x\nHi", OptionError, ["goes below"]),
    ("%%kimi -s 'open\nHi", OptionError, ["not closed"]),
    ("%%kimi -s @nothing\nHi", OptionError, ["'nothing'"]),
    ("%%kimi\n   \n", PromptError, ["no prompt"]),
    ("%%kimi\n{{ nothing }}", PromptError, ["nothing", "--raw"]),
    ("%%kimi\n{{ nope }}", PromptError, ["no variable 'nope'. For the braces"]),
    ("%%kimi --schema note\nHi", OptionError, ["--schema: there is no 'note'"]),
    ("%%kimi --schema number\nHi", SchemaError, ["--schema: A value of type int is no schema"]),
    ("%%kimi -t opne\nHi", OptionError, ["-t/--tool: 'opne' is no function", "%kimi tools lists them"]),
    ("%%kimi -t naïve\nHi", ToolError, ["-t/--tool: A tool cannot be called 'naïve'"]),
    ("%%kimi --budget 3\nHi", OptionError, ["no option --budget. It is a command: %kimi budget."]),
    ("%%kimi -s '{{ nothing }}'\nHi", PromptError, ["nothing"]),
    ("%%kimi -m gpt-9 --dry-run -n -3\nHi", OptionError, ["-n/--max-tokens"]),
    ("%kimi histroy", OptionError, ["histroy", "Did you mean %kimi history?", "%kimi -- histroy"]),
    ("%kimi list", OptionError, ["Did you mean %kimi history?", "To ask the model: %kimi -- list"]),
    ("%kimi clear", OptionError, ["Did you mean %kimi new?"]),
    ("%kimi model", OptionError, ["Did you mean %kimi status?"]),
    ("%kimi conversations", OptionError, ["Did you mean %kimi use?"]),
    ("%kimi banana", OptionError, ["%kimi help lists all. To ask the model: %kimi -- banana"]),
    ("x = %kimi banana", OptionError, ["There is no %kimi banana."]),
    ("%kimi new ideas for a paper", OptionError, ["%kimi new", "%kimi -- new ideas for a paper"]),
    ("%kimi undo 2", OptionError, ["%kimi undo", "-- undo 2"]),
    ("%kimi use", OptionError, ["%kimi use"]),
    ("%kimi use one two", OptionError, ["%kimi use"]),
    ("%kimi use 5cb16f", OptionError, ["no turn and no conversation '5cb16f'", "%kimi history"]),
    ("%kimi use 7", OptionError, ["no turn and no conversation '7'", "-c 7 begins a conversation"]),
    ("%kimi use ''", OptionError, ["%kimi use needs one thing"]),
    ("%kimi use mian", OptionError, ["Did you mean main?"]),
    ("%kimi -e low", PromptError, ["no prompt. Write it behind the options, in the same line."]),
    ("%kimi -c side", PromptError, ["behind the options, in the same line. %kimi use side goes on there."]),
    ("%kimi undo", KimiError, ["Nothing to undo"]),
]


@pytest.mark.parametrize(
    ("code", "kind", "said"), SLIPS, ids=[code.replace("\n", " ") for code, _, _ in SLIPS]
)
def test_a_slip_is_one_line_and_nothing_is_sent(
    note: Notebook, capsys: pytest.CaptureFixture[str], code: str, kind: type[BaseException], said: list[str]
) -> None:
    note.run("number = 3\ndef naïve(): ...")
    line = note.fails(code, capsys)
    assert isinstance(note.shell.last_execution_result.error_in_exec, kind)
    assert [words for words in said if words not in line] == []
    assert note.server.bodies == []


def test_what_begins_like_a_command_can_be_asked(note: Notebook) -> None:
    note.run("%kimi -- new ideas for a paper")
    note.run("%kimi newest ideas")
    note.run("%kimi -- list")
    note.run("%kimi Why?")
    note.run("%kimi 为什么")
    note.run("%kimi -e low hello")
    asked = ["new ideas for a paper", "newest ideas", "list", "Why?", "为什么", "hello"]
    assert [p[-1] for p in note.prompts] == asked


def test_an_assigned_line_gives_the_reply_and_a_line_alone_shows_it_once(note: Notebook) -> None:
    note.run("x = %kimi -e low what is this?")
    assert note.run("x").text == "Yes."
    note.run("if True:\n    y = %kimi what's that?")
    assert isinstance(note.run("y"), Reply)
    assert note.run("%kimi what is it?") is None
    assert note.run("get_ipython().run_line_magic('kimi', 'what is it?')") is None
    assert [p[-1] for p in note.prompts] == ["what is this?", "what's that?", "what is it?", "what is it?"]
    note.run("usage = %kimi usage")
    assert len(note.run("usage")) == 4
    note.run("nothing = %kimi --dry-run what?")
    assert note.run("nothing") is None
    note.run('text = """\nx = %kimi what?\n"""')
    assert note.run("text") == "\nx = %kimi what?\n"
    assert note.run("a = %pwd\na") == str(Path.cwd())
    note.run("%kimi what is y = %kimi z")
    assert note.prompts[-1][-1] == "what is y = %kimi z"


def test_what_was_perhaps_meant_as_a_value_is_said(
    note: Notebook, capsys: pytest.CaptureFixture[str]
) -> None:
    note.run("limit = 3")
    said = "went out as it is written: only a name with attributes and keys is inserted."

    def shown() -> str:
        return str(note.outputs.outputs[-1]["data"]["text/html"])

    note.run("%%kimi\nAbove {{ 2*limit }}, {{1: 2}, \\frac{a}{2} {% if limit %}?")
    assert note.prompts[-1][-1].startswith("Above {{ 2*limit }}, {{1: 2}")
    assert f"{{{{ 2*limit }}}} {said}" in shown()
    assert shown().count(said) == 1
    note.run("%kimi -s 'At most {{ (limit) }}' What is {{ limit")
    assert f"{{{{ (limit) }}}} {said}" in shown()
    assert f"{{{{ limit {said}" in shown()
    note.run("%%kimi --raw\n{{ 2*limit }}")
    assert said not in shown()
    note.run("%%kimi\n{{ 2*bound }}")
    assert said not in shown()
    capsys.readouterr()
    note.run("%%kimi --dry-run\n{{ 2*limit }}")
    assert f"{{{{ 2*limit }}}} {said}" in capsys.readouterr().out


def test_code_is_that_of_the_last_reply_that_has_some(
    notebook: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    note = notebook(reply("```python\nx = 1\n```"), stopping(text(0, "half")[:2]))
    note.run("%%kimi\nWrite x = 1")
    note.fails("%%kimi\nWrite more", capsys)
    note.run("%kimi code")
    printed = capsys.readouterr().out
    assert "The last reply has no code; this is of the one to 'Write x = 1'." in printed
    assert printed.rstrip().endswith("x = 1")


def test_what_runs_beside_the_cells_is_counted_and_waited_for_in_words(
    note: Notebook, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(line: str) -> str:
        capsys.readouterr()
        shown = len(note.outputs.outputs)
        note.run(line)
        tables = [output["data"]["text/plain"] for output in note.outputs.outputs[shown:]]
        return "\n".join([*tables, capsys.readouterr().out])

    assert "Nothing runs in the background." in said("%kimi wait")
    assert "Nothing runs in the background." in said("%kimi jobs")
    note.run("%%kimi --background\nHi")
    assert "Waited for job 1." in said("%kimi wait 1")
    assert "Nothing runs in the background." in said("%kimi wait")
    assert "Conversation main: 1 turn is sent along." in said("%kimi history")
    assert "main, 1 turn" in said("%kimi status")
    assert "2 messages before" in said("%%kimi --dry-run\nHi")
    assert "no messages before" in said("%%kimi --dry-run --once\nHi")
    assert re.search(r" 1 character$", said("%%kimi --dry-run\n?"), re.MULTILINE)
    whole, before = (
        int(n.replace(",", "")) for n in re.findall(r"([\d,]+) bytes", said("%%kimi --dry-run\nHi"))
    )
    assert 0 < before < whole


def test_an_error_of_the_server_is_one_line_and_the_next_cell_works(
    notebook: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    note = notebook(failing(400, "invalid_request_error", "messages: too long"), reply())
    line = note.fails("%%kimi\na", capsys)
    assert "messages: too long" in line
    assert isinstance(note.shell.last_execution_result.error_in_exec, BadRequestError)
    note.run("%%kimi\nb")
    assert note.prompts == [["a"], ["b"]]


# --- the terminal -------------------------------------------------------------------------------


def test_in_a_terminal_the_text_is_printed(notebook: Any, capsys: pytest.CaptureFixture[str]) -> None:
    note = notebook(display="auto")
    capsys.readouterr()
    note.run("%%kimi\nHi")
    printed = capsys.readouterr().out
    assert printed.startswith("Thinking: hm\n\nYes.\n\n")
    assert "kimi-k3.1-pro · effort max" in printed
    assert "\x1b" not in printed
    assert note.outputs.outputs == []


# --- Tab ----------------------------------------------------------------------------------------

TABS: list[tuple[str, set[str]]] = [
    ("%%kimi --ef", {"--effort"}),
    ("%%kimi -e ", {"low", "high", "max"}),
    ("%%kimi -e hi", {"high"}),
    ("%%kimi -e low --max-t", {"--max-tokens"}),
    ("%%kimi -s @ru", {"@rules"}),
    ("%%kimi -c oth", {"other"}),
    ("%kimi sta", {"status"}),
    ("%kimi ", {"help", "status", "history", "new", "undo", "use", "usage"}),
    ("%kimi use oth", {"other"}),
    ("%kimi --ef", {"--effort"}),
    ("    %kimi his", {"history"}),
    ("x = 1\n%kimi his", {"history"}),
    ("x = %kimi --ef", {"--effort"}),
    ("x = %kimi his", {"history"}),
    ("%%kimi -t me", {"mean_of"}),
    ("%%kimi -t o", set()),
    ("%kimi replay a", {"auto"}),
    ("%kimi replay auto tapes", {"tapes/"}),
    ("%kimi record of", {"off"}),
    ("%kimi save tap", {"tapes/"}),
    ("%kimi budget o", {"off"}),
    ("%kimi budget 2.00 --", {"--per"}),
    ("%kimi budget 2.00 --per d", {"day"}),
    ("%kimi usage --s", {"--since", "--save"}),
    ("%kimi usage --by mo", {"model"}),
    ("%kimi usage --by=mo", {"model"}),
    ("%kimi usage --all --a", set()),
    ("%kimi usage --save tap", {"tapes/"}),
    ("%kimi price kimi-k3.1-pro-", {"kimi-k3.1-pro-highspeed"}),
    ("%kimi price kimi-k3.1-pro inp", {"input="}),
    ("%kimi doctor ", {"--online"}),
    ("%kimi help sch", {"schema"}),
    ("%kimi undo x", set()),
    ("%kimi new ", set()),
]


@pytest.mark.parametrize(("code", "offered"), TABS, ids=[code for code, _ in TABS])
def test_tab_offers_what_can_stand_there(
    note: Notebook, code: str, offered: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note.run("%%kimi -c other\nHi")
    note.run("rules = 'Rule 1.'\ndef mean_of(x: int): ...")
    (tmp_path / "tapes").mkdir()
    monkeypatch.chdir(tmp_path)
    from IPython.core.completer import provisionalcompleter

    with provisionalcompleter():
        found = list(note.shell.Completer.completions(code, len(code)))
    assert offered <= {c.text for c in found}
    if not code.endswith(" "):
        typed = re.split(r"[ =]", code)[-1]
        assert {c.text for c in found} == (offered or {typed})  # what stands there, and not IPython's own
    assert all(code.endswith(code[c.start : c.end]) for c in found)


def test_tab_offers_turns_and_jobs_and_nothing_of_ipython_s_behind_a_command(note: Notebook) -> None:
    from IPython.core.completer import provisionalcompleter

    def offered(code: str) -> set[str]:
        with provisionalcompleter():
            return {c.text for c in note.shell.Completer.completions(code, len(code)) if c.text}

    note.run("%%kimi\nHi")
    (turn,) = note.kimi.conversation.turns
    assert offered("%kimi use ") == {"main", turn[:6]}
    note.kimi.session.conversation("two words")
    assert offered("%kimi use ") == {"main", turn[:6], '"two words"'}
    assert offered("%kimi show ") == {turn[:6]}
    assert offered("%kimi replay ") == {"off", "auto", "only"}
    assert offered("%kimi stop ") == offered("%kimi status ") == offered("%kimi code ") == set()
    assert offered("%kimi usage ") == {"--by", "--since", "--all", "--plot", "--cache", "--save"}
    note.run("get_ipython = None")
    assert offered("%kimi use m") == {"main"}


@pytest.mark.parametrize("code", ["%%kimi\nimport js", "imp", "%kim", "x = 1\n%%kimi --ef"])
def test_elsewhere_tab_is_ipython_s(note: Notebook, code: str) -> None:
    from IPython.core.completer import provisionalcompleter

    with provisionalcompleter():
        found = {c.text for c in note.shell.Completer.completions(code, len(code))}
    assert "--effort" not in found
    assert found or "--ef" in code


# --- loading ------------------------------------------------------------------------------------


def registered_in(shell: InteractiveShell) -> list[list[Any]]:
    """All that an extension can leave in a shell."""
    input_manager = shell.input_transformer_manager
    lists = [shell.configurables, shell.Completer.custom_matchers, input_manager.token_transformers]
    lists += [input_manager.cleanup_transforms, *shell.events.callbacks.values()]
    return [list(one) for one in lists]


def test_loading_twice_changes_nothing_and_unloading_takes_all_away(
    capsys: pytest.CaptureFixture[str],
) -> None:
    note = Notebook()
    shell = note.shell

    def registered() -> list[list[Any]]:
        return registered_in(shell)

    note.run("%kimi status")
    before = registered()
    load(shell, note.settings, lambda: note.kimi)
    assert registered() == before
    note.close()
    fresh = registered_in(InteractiveShell(config=shell.config))
    assert [len(a) for a in registered()] == [len(a) for a in fresh]
    assert "kimi" not in shell.magics_manager.magics["cell"]
    unload(shell)
    load(shell, note.settings, lambda: note.kimi)
    note.run("%kimi status")
    assert [len(a) for a in registered()] == [len(b) for b in before]
    note.close()


def test_a_configuration_of_ipython_and_percent_config_set_the_settings() -> None:
    settings = KimiMagic(store="off", effort="high")
    shell = InteractiveShell(
        config=Config({"HistoryManager": {"enabled": False}, "KimiMagic": {"effort": "low"}})
    )
    load(shell, settings, lambda: Kimi(settings))
    assert settings.effort == "low"
    shell.run_cell("%config KimiMagic.effort = 'max'").raise_error()
    assert settings.effort == "max"
    unload(shell)


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({}, "no API key found, so the embedded simulator answers"),
        ({"KIMI_API_KEY": "sk-abc"}, ""),
        ({"KIMI_BASE_URL": "http://127.0.0.1:1"}, ""),
        ({"KIMI_API_KEY": ""}, "The API key in KIMI_API_KEY is empty"),
    ],
)
def test_loading_says_in_one_line_who_answers(
    environ: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("KIMI_API_KEY", "EVOLINK_API_KEY", "KIMI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    Notebook().close()
    printed = capsys.readouterr().out
    assert said in printed
    assert len(printed.splitlines()) == bool(said)


def test_the_notebook_s_path_is_what_the_user_the_editor_or_the_server_says() -> None:
    names, environ = {"__vsc_ipynb_file__": "/vs/a.ipynb"}, {"JPY_SESSION_NAME": "/srv/b.ipynb"}
    assert notebook_path(names, {**environ, "KIMI_MAGIC_NOTEBOOK": "/own/c.ipynb"}) == "/own/c.ipynb"
    assert notebook_path(names, environ) == "/vs/a.ipynb"
    assert notebook_path({"__vsc_ipynb_file__": 3}, environ) == "/srv/b.ipynb"
    assert notebook_path({}, {"JPY_SESSION_NAME": " "}) is None
    assert notebook_path({}, {"KIMI_MAGIC_NOTEBOOK": "报告/a.ipynb"}) == str(Path.cwd() / "报告/a.ipynb")


def test_a_name_that_the_process_above_was_started_with_is_not_this_notebook_s() -> None:
    environ = {"JPY_SESSION_NAME": "/srv/b.ipynb"}
    assert jupyter_session(environ, lambda: environ) is None
    assert jupyter_session(environ, lambda: {"JPY_SESSION_NAME": "/srv/a.ipynb"}) == "/srv/b.ipynb"
    assert notebook_path({}, environ, lambda: environ) is None


def test_what_a_kernel_starts_is_not_the_kernel_s_notebook() -> None:
    ask = "import os; from kimi_magic.notebook import jupyter_session as f; print(f(os.environ), flush=True)"
    code = f"{ask}; import subprocess, sys; subprocess.run([sys.executable, '-c', {ask!r}])"
    environ = {**os.environ, "JPY_SESSION_NAME": "/srv/b.ipynb"}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == ["/srv/b.ipynb", "None"]
