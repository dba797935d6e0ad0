"""Jobs, the panel and interrupts with older kernels, each in an environment of its own.

Slow, and it needs the network: only with `KIMI_TEST_KERNELS=1`. The environments stay in `.artifacts/venvs`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
VERSIONS = ["7.3.0", "6.31.0"]
"""Of ipykernel: one with widget messages in subshells, one without subshells."""
TESTS = ["tests/test_jobs.py", "tests/test_panel.py", "tests/test_kernel.py"]


def environment_with(version: str) -> Path:
    """The Python of an environment with this ipykernel."""
    folder = ROOT / ".artifacts" / "venvs" / f"ipykernel-{version}"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        install = [python, "-m", "pip", "install", "-q", f"ipykernel=={version}", "-e", f"{ROOT}[test]"]
        subprocess.run(install, check=True)
        (folder / "complete").touch()
    return python


if os.environ.get("KIMI_TEST_KERNELS") == "1":

    @pytest.mark.parametrize("version", VERSIONS)
    def test_an_older_kernel_does_the_same(version: str) -> None:
        command = [environment_with(version), "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
