"""The panel as a page of its own: what voila makes of a notebook that shows it."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import nbformat
import pytest
from front_end import PICTURES, free_port
from playwright.sync_api import Browser, expect

pytestmark = pytest.mark.browser


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    """Until somebody answers there, be it that there is nothing."""
    while process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=10).close()
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("voila has ended")


def test_voila_serves_the_panel(chromium: Browser, tmp_path: Path) -> None:
    pytest.importorskip("voila", reason="pip install voila")
    cells = [nbformat.v4.new_code_cell("%load_ext kimi_magic\n%kimi panel")]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(
        nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), tmp_path / "p.ipynb"
    )
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "voila",
        "p.ipynb",
        "--no-browser",
        f"--port={port}",
        "--Voila.ip=127.0.0.1",
    ]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log)
    try:
        wait_for(f"http://127.0.0.1:{port}/static/nothing", process)
        page = chromium.new_page()
        page.goto(f"http://127.0.0.1:{port}/")
        panel = page.locator(".kimi-panel")
        panel.wait_for(timeout=60_000)
        panel.get_by_label("Prompt.").fill("A formula, please.")
        panel.get_by_role("button", name="Send", exact=True).click()
        panel.locator("mjx-container").first.wait_for()
        expect(panel.locator(".kimi-turn")).to_have_count(1)
        assert not page.locator(".kimi-panel-saved").is_visible()
        PICTURES.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=PICTURES / "voila-panel.png", full_page=True)
        page.close()
    finally:
        process.terminate()
        process.wait(20)
