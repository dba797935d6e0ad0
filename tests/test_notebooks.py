"""The shipped notebooks run from top to bottom, offline, and are committed clean.

The lesson replays recordings: `python tests/test_notebooks.py` makes them anew.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))
OFFLINE = {
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "NO_PROXY": "127.0.0.1",
    "KIMI_MAGIC_REPLAY_SPEED": "0",
}
CASSETTE = "teaching.jsonl"


def run(notebook: nbformat.NotebookNode, folder: Path, **environ: str) -> None:
    """Run it where it lies, in a kernel that has nobody to ask."""
    client = NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.execute(env={**os.environ, **OFFLINE, **environ})


def test_there_is_a_quickstart_and_a_lesson() -> None:
    assert {"quickstart.ipynb", "teaching.ipynb"} <= {path.name for path in NOTEBOOKS}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_nbval_runs_the_notebook(path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "--nbval-lax", "--nbval-cell-timeout=120", "-q", str(path)],
        env={**os.environ, **OFFLINE, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_warns_of_nothing_and_each_reply_says_who_answered(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    run(notebook, path.parent)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert [o.text for o in outputs if o.get("name") == "stderr"] == []
    replies = [o.data for o in outputs if "application/vnd.kimi-magic.turn+json" in getattr(o, "data", {})]
    assert len(replies) >= 3
    for data in replies:
        assert all("Simulated reply" in data[kind] for kind in ("text/html", "text/markdown", "text/plain"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_is_committed_without_outputs_and_for_any_python(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    assert notebook.metadata.language_info == {"name": "python"}
    for cell in notebook.cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


def record() -> None:
    """Write the recordings of the lesson."""
    folder = NOTEBOOKS[0].parent
    notebook = nbformat.read(folder / "teaching.ipynb", as_version=4)
    (folder / CASSETTE).unlink(missing_ok=True)
    for cell in notebook.cells:
        cell.source = cell.source.replace(f"%kimi replay only {CASSETTE}", f"%kimi record {CASSETTE}")
    run(notebook, folder, KIMI_MAGIC_STORE="off", KIMI_MAGIC_SIMULATOR="always")


if __name__ == "__main__":
    record()
