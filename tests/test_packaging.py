"""What a stranger installs: the sdist, the wheel, and how much comes with them."""

from __future__ import annotations

import os
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
import slim
from packaging.requirements import Requirement

MOST_DISTRIBUTIONS = 18
MOST_MEGABYTES = 18.0
"""Beside ipykernel and ipywidgets, without compiled files (6 MB more); whoever adds one has to say so here
and in the README."""

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


@pytest.fixture(scope="session")
def alone(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that has the wheel without extras, and a kernel."""
    return slim.environment(tmp_path_factory.mktemp("alone") / "venv", wheel)


def ipython(python: Path, folder: Path, *lines: str) -> str:
    """What IPython prints when it runs the lines there."""
    environ = {**os.environ, "KIMI_MAGIC_HOME": str(folder / "home"), "PYTHONPATH": ""}
    ran = subprocess.run(
        [str(python), "-m", "IPython", "--no-banner", "-c", "\n".join(lines)],
        capture_output=True, text=True, env=environ, cwd=folder, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


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


@pytest.mark.parametrize("extra", ["lab", "test"])
def test_where_notebooks_are_at_home_json_schemas_are_checked(wheel: Path, extra: str) -> None:
    lines = [Requirement(line) for line in slim.requirements(wheel)]
    assert "jsonschema" in [one.name for one in lines if one.marker and one.marker.evaluate({"extra": extra})]


def test_the_wheel_alone_asks_shows_and_keeps_without_the_extras(alone: Path, tmp_path: Path) -> None:
    printed = ipython(
        alone,
        tmp_path,
        "%load_ext kimi_magic",
        "%kimi -o reply -e low Explain the Gini coefficient with a formula and code.",
        "%kimi doctor",
        "def add(a: int, b: int) -> int:\n    'Adds.'\n    return a + b",
        "%kimi -e low -t add Use the tool add.",
        "%kimi history",
        "%kimi usage",
        "import sys, kimi_magic",
        "print(kimi_magic.__file__, reply.turn.status, 'pandas' in sys.modules)",
    )
    where, status, pandas = printed.split("\n")[-2].split()
    assert Path(where).is_relative_to(alone.parent.parent)
    assert (status, pandas) == ("complete", "False")
    assert "Nothing is wrong." in printed
    assert (tmp_path / "home" / "kimi_magic.db").exists()


def test_the_wheel_alone_fills_types_and_says_what_a_json_schema_needs(alone: Path, tmp_path: Path) -> None:
    printed = ipython(
        alone,
        tmp_path,
        "%load_ext kimi_magic",
        "from kimi_magic import kimi",
        "from typing import TypedDict",
        "class City(TypedDict):\n    city: str",
        "%kimi -o reply -e low --once --schema City Name one.",
        "plain = {'type': 'object', 'properties': {'city': {'type': 'string'}}}",
        "try:\n    get_ipython().run_line_magic('kimi', '-e low --once --schema plain Name one.')",
        "except Exception as error:\n    print(f'{type(error).__name__}: {error}')",
        "print(list(reply.value), len(kimi.usage))",
    )
    error, asked = printed.splitlines()[-2:]
    assert error.startswith("SchemaError: ")
    assert error.endswith("A JSON Schema is checked by the package jsonschema. %pip install jsonschema")
    assert asked == "['city'] 1"
