"""The command `kimi-magic`, and that the README tells the truth: its commands, tables and examples.

The README's tables are made from the code: `python tests/test_commands.py` writes them anew.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import nbformat
import pytest
import test_layers
from command_line import LAB_ADDRESS, get, run, running
from nbclient import NotebookClient

import kimi_magic
from kimi_magic.config import KimiMagic
from kimi_magic.magics.commands import COMMANDS
from kimi_magic.magics.options import OPTIONS
from kimi_magic.simulator import Simulator
from kimi_magic.store import Store, store_path
from kimi_magic.transports import serve
from kimi_magic.usage import Record

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"


# --- the README ---------------------------------------------------------------------------------


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def options() -> str:
    rows = [(f"`{o.label}{f' {o.metavar}' if o.metavar else ''}`", o.help) for o in OPTIONS]
    return _table(("option", "meaning"), rows)


def commands() -> str:
    return _table(("command", "what it does"), [(f"`%kimi {c.usage}`", c.help) for c in COMMANDS.values()])


def settings() -> str:
    rows = [
        (f"`{name}`", f"`KIMI_MAGIC_{name.upper()}`", f"`{trait.default_value!r}`", str(trait.help))
        for name, trait in KimiMagic.class_traits(config=True).items()
    ]
    return _table(("setting", "environment", "default", "meaning"), rows)


TABLES: dict[str, Callable[[], str]] = {"options": options, "commands": commands, "settings": settings}


def _place(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- {name}: [^\n]*-->\n)(.*?)(<!-- end -->)", re.DOTALL)


@pytest.mark.parametrize("name", TABLES)
def test_the_table_in_the_readme_is_that_of_the_code(name: str) -> None:
    found = _place(name).search(README.read_text("utf-8"))
    assert found is not None
    assert found[2].strip() == TABLES[name](), "python tests/test_commands.py writes it anew"


def write_tables() -> None:
    text = README.read_text("utf-8")
    for name, table in TABLES.items():
        found = _place(name).search(text)
        assert found is not None
        text = f"{text[: found.start(2)]}\n{table()}\n\n{text[found.end(2) :]}"
    README.write_text(text, "utf-8")


def examples(language: str) -> list[str]:
    """The fenced examples of the README, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def test_the_first_screen_has_the_two_commands_each_on_one_line() -> None:
    first, second = examples("bash")[:2]
    assert re.fullmatch(r"python3 -m venv \.venv && .*'\.\[lab\]' && \.venv/bin/kimi-magic lab\n", first)
    assert re.fullmatch(r"python3 -m venv \.venv && .*'\.\[test\]' && \.venv/bin/pytest -n 2\n", second)
    assert README.read_text("utf-8").index(second) < 1_000


def test_the_examples_of_the_readme_run_one_after_the_other(tmp_path: Path) -> None:
    cells = [nbformat.v4.new_code_cell(source.rstrip("\n")) for source in examples("python")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute()
    assert [o for cell in notebook.cells for o in cell.outputs if o.get("name") == "stderr"] == []
    assert [path.name for path in tmp_path.iterdir()] == ["lesson.jsonl"]


def in_a_shell(script: str, folder: Path, said: str = "", **environ: str) -> str:
    """What an example for a terminal prints in a folder that has the README's `.venv`."""
    if not (folder / ".venv").exists():
        (folder / ".venv").symlink_to(Path(sys.executable).parent.parent)
    ran = subprocess.run(
        ["bash", "-euc", script],
        cwd=folder, input=said, env={**os.environ, **environ}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_the_readme_s_key_is_found_and_not_shown(tmp_path: Path) -> None:
    (script,) = (source for source in examples("bash") if "read -rs" in source)
    said = in_a_shell(script, tmp_path, "sk-typed-by-hand\n")
    assert "set, from KIMI_API_KEY" in said
    assert "typed" not in said


def test_the_readme_s_other_server_answers(tmp_path: Path) -> None:
    (script,) = (source for source in examples("bash") if "KIMI_BASE_URL=" in source)
    address = "http://127.0.0.1:8765"
    assert address in script
    with serve(Simulator(speed=0)) as server:
        said = in_a_shell(script.replace(address, server.url), tmp_path)
    assert f"{server.url} answers and takes the key." in said
    assert said.endswith("Nothing is wrong.\n")


def test_the_readme_s_way_to_delete_what_is_stored_leaves_nothing(tmp_path: Path) -> None:
    store = Store(store_path({"KIMI_MAGIC_HOME": str(tmp_path / "kimi_magic")}))
    store.keep_records("a.ipynb", [Record(datetime.now(UTC))])
    assert len(list((tmp_path / "kimi_magic").iterdir())) > 1, "SQLite has further files beside its own"
    (script,) = (source for source in examples("bash") if "rm " in source)
    in_a_shell(script, tmp_path, JUPYTER_DATA_DIR=str(tmp_path))
    assert list((tmp_path / "kimi_magic").iterdir()) == []
    store.close()


def test_the_readme_s_links_lead_to_its_headings_and_files() -> None:
    text = README.read_text("utf-8")
    headings = re.findall(r"^##+ (.+)$", text, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert {link.removeprefix("#") for link in links if link.startswith("#")} <= anchors
    assert [link for link in links if not link.startswith("#") and not (ROOT / link).exists()] == []


def test_the_readme_s_automatic_run_works_as_it_stands(tmp_path: Path) -> None:
    (script,) = examples("sh")
    for name in ("teaching.ipynb", "teaching.jsonl"):
        shutil.copy(ROOT / "notebooks" / name, tmp_path)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    assert " passed" in in_a_shell(script, tmp_path, PATH=path)


def test_the_map_of_the_code_has_every_module_below_those_that_it_imports() -> None:
    (text,) = examples("text")
    lines = [set(re.findall(r"\w+", line.partition("  ")[0])) for line in text.splitlines()]
    assert len(lines) <= 20
    assert sorted(name for names in lines for name in names) == sorted(
        set(test_layers.MODULES) - {"__init__"}
    )
    above: set[str] = set()
    for names in lines:
        above |= names
        for name in names:
            needed = {used for path in test_layers.MODULES[name] for used in test_layers.siblings(path)}
            assert needed - {"__init__"} <= above, name


# --- the command --------------------------------------------------------------------------------


def test_demo_streams_a_reply_with_badge_and_footer() -> None:
    lines = run("demo", "Hello there").stdout.splitlines()
    assert lines[0].startswith("Thinking: ")
    assert "Hello there" in "\n".join(lines)
    assert lines[-2].startswith("Simulated reply: no model was asked.")
    assert lines[-1].startswith("kimi-k3.1-pro · effort max · ")


def test_a_demo_that_fails_is_one_line_and_a_status() -> None:
    ran = run("demo", "[[simulate: unauthorized]]", status=1)
    assert ran.stderr.startswith("kimi-magic: ")
    assert ran.stderr.count("\n") == 1


def test_simulate_serves_the_api_at_the_address_that_it_prints() -> None:
    body = {"model": "kimi-k3.1-pro", "max_tokens": 500, "messages": [{"role": "user", "content": "Hi"}]}
    with running(
        "simulate", "--port", "0", "--speed", "0", until=r"simulator is at (http://\S+[^.\s])"
    ) as found:
        reply = json.loads(get(f"{found[1]}/v1/messages", json.dumps(body).encode()))
    assert reply["type"] == "message"
    assert "Simulated reply" in reply["content"][-1]["text"]


@pytest.mark.parametrize(
    "wrong", ["--port 99999", "--port -1", "--port http", "--speed -1", "--speed fast", "--speed nan"]
)
def test_a_number_that_cannot_be_is_one_line(wrong: str) -> None:
    option, value = wrong.split()
    said = run("simulate", option, value, status=2).stderr.splitlines()[-1]
    assert said.startswith(f"kimi-magic simulate: error: argument {option}: a ")
    assert said.endswith(f"not {value!r}")


def test_a_port_that_is_taken_is_one_line_that_says_how_to_get_a_free_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = run("simulate", "--port", str(port), status=1).stderr
    assert said.startswith(f"kimi-magic: The simulator cannot listen on port {port}: ")
    assert said.endswith("--port 0 takes a free one.\n")
    assert said.count("\n") == 1


def test_it_says_its_version() -> None:
    assert run("--version").stdout == f"kimi-magic {kimi_magic.__version__}\n"


def test_lab_serves_the_quickstart_at_the_address_that_it_prints(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    with running("lab", str(folder), "--no-browser", until=LAB_ADDRESS) as found:
        base, token = found.groups()
        model = json.loads(get(f"{base}/api/contents/quickstart.ipynb?token={token}"))
        assert model["content"]["cells"][0]["source"].startswith("# A first session")
        assert b"jupyter-config-data" in get(found[0])
        notification = json.loads(
            get(f"{base}/lab/api/settings/@jupyterlab/apputils-extension:notification?token={token}")
        )
        defaults = notification["schema"]["properties"]
        assert defaults["fetchNews"]["default"] == "false"
        assert defaults["checkForUpdates"]["default"] is False

        port = base.rpartition(":")[2]
        (folder / "quickstart.ipynb").write_text("mine")
        with running("lab", str(folder), "--no-browser", "--port", port, until=LAB_ADDRESS) as second:
            assert second[1] != base
    assert (folder / "quickstart.ipynb").read_text() == "mine"
    assert (folder / "teaching.jsonl").exists()


def test_lab_says_in_one_line_where_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ran = run("lab", str(tmp_path / "file"), "--no-browser", status=1)
    assert ran.stderr.startswith("kimi-magic: The notebooks cannot be put into ")
    assert ran.stderr.count("\n") == 1


if __name__ == "__main__":
    write_tables()
