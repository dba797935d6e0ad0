"""Lint, format and types: part of the suite, so that one command says whether all is well."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CHECKS = {
    "lint": ["ruff", "check", "."],
    "format": ["ruff", "format", "--check", "."],
    "types": ["mypy"],
}


@pytest.mark.parametrize("check", CHECKS)
def test_the_code_passes(check: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", *CHECKS[check]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
