"""What a stranger installs: the sdist, the wheel, and how much comes with them."""

from __future__ import annotations

import os
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
import slim

MOST_DISTRIBUTIONS = 23
MOST_MEGABYTES = 20.0
"""Beside ipykernel and ipywidgets, without compiled files; whoever adds one has to say so here."""

DATA = {
    "kimi_magic/notebooks/quickstart.ipynb",
    "kimi_magic/notebooks/research.ipynb",
    "kimi_magic/notebooks/teaching.ipynb",
    "kimi_magic/notebooks/teaching.jsonl",
    "kimi_magic/lab/labconfig/default_setting_overrides.json",
    "kimi_magic/py.typed",
}


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return slim.wheel_from_sdist(tmp_path_factory.mktemp("wheel"))


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as file:
        return {name for name in file.namelist() if ".dist-info/" not in name}


def test_the_wheel_from_the_sdist_holds_the_package_and_nothing_else(wheel: Path) -> None:
    package = slim.ROOT / "kimi_magic"
    sources = {
        f"kimi_magic/{path.relative_to(package).as_posix()}"
        for kind in ("*.py", "*.js", "*.css")
        for path in package.rglob(kind)
    }
    assert names(wheel) == sources | DATA


def test_the_sdist_holds_what_its_tests_need(wheel: Path) -> None:
    (sdist,) = wheel.parent.glob("*.tar.gz")
    with tarfile.open(sdist) as file:
        inside = {name.partition("/")[2] for name in file.getnames()}
    assert {"README.md", "pyproject.toml", "tests/conftest.py", "notebooks/quickstart.ipynb"} <= inside
    assert [name for name in inside if name.startswith((".artifacts", ".hypothesis", ".venv"))] == []


def test_what_comes_with_it_is_counted(wheel: Path) -> None:
    base = slim.closure(["ipykernel", "ipywidgets"])
    more = slim.closure(slim.requirements(wheel)) - base
    with zipfile.ZipFile(wheel) as file:
        own = sum(info.file_size for info in file.infolist())
    size = own + sum(path.stat().st_size for name in more for path in slim.files(name))
    assert len(more) + 1 <= MOST_DISTRIBUTIONS, sorted(more)
    assert size / 1e6 <= MOST_MEGABYTES


def test_the_wheel_alone_asks_shows_and_keeps_without_the_extras(wheel: Path, tmp_path: Path) -> None:
    python = slim.environment(tmp_path / "venv", wheel)
    code = "\n".join(
        [
            "%load_ext kimi_magic",
            "%kimi -o reply -e low Explain the Gini coefficient with a formula and code.",
            "%kimi doctor",
            "def add(a: int, b: int) -> int:\n    'Adds.'\n    return a + b",
            "%kimi -e low -t add Use the tool add.",
            "%kimi history",
            "%kimi usage",
            "import sys, kimi_magic",
            "print(kimi_magic.__file__, reply.turn.status, 'pandas' in sys.modules)",
        ]
    )
    environ = {**os.environ, "KIMI_MAGIC_HOME": str(tmp_path / "home"), "PYTHONPATH": ""}
    ran = subprocess.run(
        [str(python), "-m", "IPython", "--no-banner", "-c", code],
        capture_output=True, text=True, env=environ, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    where, status, pandas = ran.stdout.split("\n")[-2].split()
    assert Path(where).is_relative_to(tmp_path / "venv")
    assert (status, pandas) == ("complete", "False")
    assert "Nothing is wrong." in ran.stdout
    assert (tmp_path / "home" / "kimi_magic.db").exists()
