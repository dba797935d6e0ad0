"""Every test runs as on a machine where Kimi and Jupyter are new: no key, no settings, no history.

With `KIMI_TEST_REQUIRE=1` a skipped test is a failed one, so that a run can be known to be complete. With
`-n 2` two processes share the suite.
"""

from __future__ import annotations

import os
import re
import signal
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

OURS = ("KIMI_", "EVOLINK_", "JUPYTER", "JPY_", "IPYTHONDIR")
KEPT = ("KIMI_TEST_", "KIMI_CHROMIUM", "KIMI_SOAK")


def pytest_configure(config: pytest.Config) -> None:
    """Tests may start processes, so this is done to the environment itself, once."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # shells start what is in the background so
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in list(os.environ):
        if name.startswith(OURS) and not name.startswith(KEPT):
            del os.environ[name]
    home = tempfile.TemporaryDirectory(prefix="kimi-tests-", ignore_cleanup_errors=True)
    config.add_cleanup(home.cleanup)
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        os.environ[name] = str(Path(home.name) / name.lower())
    os.environ["JUPYTER_PLATFORM_DIRS"] = "1"
    os.environ["KIMI_MAGIC_SIMULATOR_SPEED"] = "0"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("KIMI_TEST_REQUIRE") == "1":
        report.outcome = "failed"
        report.longrepr = f"KIMI_TEST_REQUIRE=1, and this was skipped: {call.excinfo and call.excinfo.value}"
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What waits for the network comes first. What draws comes last: Playwright keeps an event loop in the
    thread that it ran in, so nothing after it could run one."""
    items.sort(key=lambda item: ("tests/outside/" not in item.nodeid, "tests/browser/" in item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Each process takes one group of tests after the other, in their order."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group(nodeid)

    config.option.loadscopereorder = False
    return Groups(config, log)


def group(nodeid: str) -> str:
    """What one process has to run alone: a file; all that needs servers of others, which are installed once;
    all of one front end, which has one server."""
    path, _, name = nodeid.partition("::")
    if path.startswith("tests/outside/"):
        return "outside"
    if path.startswith("tests/browser/"):
        return "Notebook" if re.search(r"[\[-]notebook[-\]]", name) else "JupyterLab"
    return path
