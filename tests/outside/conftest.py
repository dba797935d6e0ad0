"""Servers and clients that are not ours, started on free loopback ports for the session.

npm packages are kept in the folder that `KIMI_TEST_NODE` names, Python ones each in a virtual
environment of its own, both below `.artifacts` and made on first use. What cannot be had is a skip, and
a failure with `KIMI_TEST_REQUIRE=1` (`tests/conftest.py`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from processes import free_port, running

HERE = Path(__file__).parent
ARTIFACTS = HERE.parent.parent / ".artifacts"
AIMOCK = "@copilotkit/aimock@1.43.0"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: installs packages of its own on the first run")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.outside)


def install(command: list[str], what: str) -> None:
    """Run an installer; where it does not work, what needs it is skipped."""
    made = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if made.returncode:
        pytest.skip(f"{what} could not be installed: {(made.stderr or made.stdout).strip()[-300:]}")


@pytest.fixture(scope="session")
def node_bin() -> Path:
    """The folder of the npm packages' commands."""
    folder = Path(os.environ.get("KIMI_TEST_NODE") or ARTIFACTS / "node")
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    if not (folder / "node_modules/@copilotkit/aimock").exists():
        folder.mkdir(parents=True, exist_ok=True)
        install([npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder), AIMOCK], AIMOCK)
    return folder / "node_modules/.bin"


@pytest.fixture(scope="session")
def venv() -> Callable[..., Path]:
    """`venv(name, *packages)` → the folder of the commands of a virtual environment that has them."""

    def make(name: str, *packages: str) -> Path:
        folder = ARTIFACTS / "venvs" / name
        done = folder / "installed.txt"
        wanted = "\n".join([sys.version, *packages])
        if not done.exists() or done.read_text(encoding="utf-8") != wanted:
            shutil.rmtree(folder, ignore_errors=True)
            install([sys.executable, "-m", "venv", str(folder)], f"A virtual environment for {name}")
            install([str(folder / "bin/pip"), "install", "--quiet", *packages], " ".join(packages))
            done.write_text(wanted, encoding="utf-8")
        return folder / "bin"

    return make


@pytest.fixture(scope="session")
def aimock_url(node_bin: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """aimock with the replies of `aimock.json`; its only key is `sk-test`."""
    port = free_port()
    command = [str(node_bin / "llmock"), "-p", str(port), "-h", "127.0.0.1", "--validate-on-load"]
    command += ["-f", str(HERE / "aimock.json")]
    log = tmp_path_factory.mktemp("aimock") / "log.txt"
    with running(command, port, log, AIMOCK_API_KEYS="sk-test", AIMOCK_REASONING_MODELS="kimi") as url:
        yield url


@pytest.fixture(scope="session")
def llmock_root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """llmock, where `/_llmock/…` is: it injects faults and judges the client."""
    pytest.importorskip("llmock")
    port = free_port()
    command = [
        str(Path(sys.executable).parent / "llmock"),
        "serve",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    with running(command, port, tmp_path_factory.mktemp("llmock") / "log.txt") as url:
        yield url


@pytest.fixture(scope="session")
def llmock_url(llmock_root: str) -> str:
    """llmock's Messages API as a base URL; it takes any key."""
    return f"{llmock_root}/anthropic"
