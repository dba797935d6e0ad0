"""Every test runs as on a machine where Kimi and Jupyter are new: no key, no settings, no history.

With `KIMI_TEST_REQUIRE=1` a skipped test is a failed one, so that a run can be known to be complete.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

OURS = ("KIMI_", "EVOLINK_", "JUPYTER", "JPY_", "IPYTHONDIR")
KEPT = ("KIMI_TEST_", "KIMI_CHROMIUM", "KIMI_SOAK")


def pytest_configure(config: pytest.Config) -> None:
    """Tests may start processes, so this is done to the environment itself, once."""
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
