"""Where others run it: another environment's kernel, papermill, `jupyter execute`, `ipython -c`, homes that
cannot be written, encodings that are not UTF-8."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import nbformat
import pytest
import slim
from kernels import Kernel
from nbformat.v4 import new_code_cell, new_notebook

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # jupyter_client's own

HOMES = ("HOME", "USERPROFILE", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")
GIVEN = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "KIMI_MAGIC_HOME")
LOAD = "%load_ext kimi_magic"


def run(
    *command: str, cwd: Path, environ: Mapping[str, str] | None = None, status: int = 0
) -> subprocess.CompletedProcess[bytes]:
    ran = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=cwd, env={**os.environ, **(environ or {})}, capture_output=True, timeout=300, check=False,
    )  # fmt: skip
    assert ran.returncode == status, (ran.stdout + ran.stderr).decode(errors="replace")
    return ran


def ipython(lines: Sequence[str], cwd: Path, environ: Mapping[str, str] | None = None) -> bytes:
    """What `ipython -c` prints, and that it complains of nothing."""
    ran = run("IPython", "--no-banner", "--colors=NoColor", "-c", "\n".join(lines), cwd=cwd, environ=environ)
    assert b"Traceback" not in ran.stdout + ran.stderr
    return ran.stdout


def test_ipython_c_asks_shows_and_goes_on(tmp_path: Path) -> None:
    said = ipython([LOAD, "%kimi -o first Hello there.", "%kimi -e low And now.", "%kimi history"], tmp_path)
    assert b"Hello there." in said
    assert b"Conversation main: 2 turns are sent along." in said


def test_an_error_in_ipython_c_is_a_line_and_a_status(tmp_path: Path) -> None:
    code = f"{LOAD}\n%kimi [[simulate: unauthorized]]\nprint('not reached')"
    ran = run("IPython", "--no-banner", "--colors=NoColor", "-c", code, cwd=tmp_path, status=1)
    assert b"AuthenticationError: " in ran.stdout + ran.stderr
    assert b"Traceback" not in ran.stdout + ran.stderr
    assert b"not reached" not in ran.stdout


# --- notebooks without a front end --------------------------------------------------------------


def notebook(path: Path, *sources: str) -> None:
    nbformat.write(new_notebook(cells=[new_code_cell(source) for source in sources]), path)


def text(path: Path, cell: int) -> str:
    """The text of a cell's outputs."""
    outputs = nbformat.read(path, as_version=4).cells[cell].outputs
    return "\n".join(o.get("text", "") or o.get("data", {}).get("text/plain", "") for o in outputs)


def execute(path: Path, **environ: str) -> None:
    code = "from nbclient.cli import main; main()"
    subprocess.run(
        [sys.executable, "-c", code, "--inplace", path.name],
        cwd=path.parent, env={**os.environ, **environ}, check=True, capture_output=True, timeout=300,
    )  # fmt: skip


def test_jupyter_execute_runs_a_notebook_and_its_outputs_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "笔记.ipynb"
    notebook(path, LOAD, "%%kimi -e low\nSay 你好.", "%kimi history")
    execute(path, KIMI_MAGIC_HOME=str(tmp_path / "home"))
    saved = nbformat.read(path, as_version=4)
    kinds = {kind for output in saved.cells[1].outputs for kind in output.get("data", {})}
    assert {"text/html", "text/plain", "text/markdown"} <= kinds
    assert "widget" not in str(kinds)
    assert "1 turn is sent along" in text(path, 2)


def test_injected_parameters_reach_the_prompt_as_papermill_puts_them_in(tmp_path: Path) -> None:
    """In a cell of their own, with the tag `injected-parameters`, behind the one with `parameters`."""
    home = {"KIMI_MAGIC_HOME": str(tmp_path / "home"), "KIMI_MAGIC_NOTEBOOK": str(tmp_path / "report.ipynb")}
    for site in ("South", "West"):
        path = tmp_path / f"out {site}.ipynb"
        cells = [
            new_code_cell('site = "North"', metadata={"tags": ["parameters"]}),
            new_code_cell(f'# Parameters\nsite = "{site}"', metadata={"tags": ["injected-parameters"]}),
            new_code_cell(LOAD),
            new_code_cell("%%kimi -e low\nDescribe {{ site }} in brief."),
            new_code_cell("from kimi_magic import kimi; print([m['content'] for m in kimi.messages[::2]])"),
        ]
        nbformat.write(new_notebook(cells=cells), path)
        execute(path, **home)
        assert f"Describe {site} in brief." in text(path, 4)
        assert text(path, 4).count("Describe") == 1, "a second run takes the place of the first"


def test_vs_code_s_variable_names_the_notebook(tmp_path: Path) -> None:
    with Kernel(KIMI_MAGIC_STORE="on", KIMI_MAGIC_HOME=str(tmp_path)) as kernel:
        kernel.run(f"__vsc_ipynb_file__ = {str(tmp_path / 'a.ipynb')!r}")
        kernel.run(LOAD)
        assert kernel.run("%%kimi -e low\nHi", "vscode-notebook-cell:1").error == ""
        kernel.run("from kimi_magic import kimi")
        assert kernel.value("kimi.notebook") == str(tmp_path / "a.ipynb")


def test_a_kernel_without_anywidget_shows_static_replies_and_doctor_says_why(tmp_path: Path) -> None:
    wheel = slim.built("wheel", tmp_path)
    python = slim.environment(tmp_path / "venv", wheel, without=("anywidget", "psygnal"))
    with Kernel(str(python), JPY_SESSION_NAME=str(tmp_path / "a.ipynb"), PYTHONPATH="") as kernel:
        kernel.run(LOAD)
        cell = kernel.run("%%kimi\nHi", "1")
        assert cell.error == ""
        assert "text/html" in cell.bundles()[-1]
        assert "widget" not in str([m["msg_type"] for m in kernel.seen])
        said = kernel.run("%kimi doctor").bundles()[-1]["text/plain"]
        assert "static: anywidget is not installed beside this kernel" in said
        assert "pip install anywidget" in said
        assert max(map(len, said.splitlines())) <= 100


# --- homes --------------------------------------------------------------------------------------


def without_home(**given: str) -> dict[str, str]:
    """A kernel's environment in which nothing says where to write."""
    gone = {*HOMES, *GIVEN}
    return {**{k: v for k, v in os.environ.items() if k not in gone}, **given}


def homes(tmp_path: Path) -> dict[str, dict[str, str]]:
    (tmp_path / "file").touch()
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    return {
        "below a file": without_home(HOME=str(tmp_path / "file" / "home")),
        "read-only": without_home(HOME=str(closed)),
        "not there": without_home(HOME="/proc/nobody"),
        "none": without_home(),
    }


@pytest.mark.parametrize("kind", ["below a file", "read-only", "not there", "none"])
@pytest.mark.skipif(os.name != "posix", reason="HOME is of Unix")
def test_a_home_that_cannot_be_written_is_a_note_and_the_notebook_goes_on(tmp_path: Path, kind: str) -> None:
    environ = homes(tmp_path)[kind]
    if kind == "none":  # then the system's list of users says; nothing is left there
        environ["KIMI_MAGIC_STORE"] = "off"
    lines = [LOAD, "%kimi -e low Hello there.", "%kimi -e low And now.", "%kimi history", "%kimi doctor"]
    code = "\n".join(lines)
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "IPython", "--no-banner", "-c", code],
        cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Traceback" not in ran.stdout + ran.stderr
    assert "2 turns are sent along" in ran.stdout
    if kind in ("below a file", "not there"):
        assert ran.stdout.count("Nothing can be kept in ") == 1, "it is said once"
        assert "KIMI_MAGIC_HOME" in ran.stdout
        assert "wrong  store" in ran.stdout


# --- encodings ----------------------------------------------------------------------------------

ENCODINGS: dict[str, dict[str, str]] = {
    "gbk": {"PYTHONIOENCODING": "gbk", "PYTHONUTF8": "0"},
    "latin-1": {"PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"},
    "ascii": {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"},
}
ASKED = "-e low Say “你好” – é, 🙂, ∑ and \u202e\ud7ff."


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_terminal_that_cannot_show_a_character_shows_the_rest(tmp_path: Path, name: str) -> None:
    home = {"KIMI_MAGIC_HOME": str(tmp_path / "家"), **ENCODINGS[name]}
    ask = f"get_ipython().run_line_magic('kimi', {ASKED!a})"  # what is typed comes in the same encoding
    said = ipython([LOAD, ask, "%kimi history", "%kimi save talk.md"], tmp_path, home)
    assert b"1 turn is sent along" in said
    said.decode(name)
    assert "你好" in (tmp_path / "talk.md").read_text("utf-8")
    assert (tmp_path / "家" / "kimi_magic.db").exists()


@pytest.mark.parametrize("name", ENCODINGS)
def test_the_command_speaks_in_any_encoding(tmp_path: Path, name: str) -> None:
    environ = {"KIMI_MAGIC_HOME": str(tmp_path / "home"), **ENCODINGS[name]}
    for command in (["demo", "Say 你好 🙂."], ["usage"], ["doctor"]):
        ran = run("kimi_magic.cli", *command, cwd=tmp_path, environ=environ)
        assert ran.stderr == b""
        assert ran.stdout.decode(name).strip()
