"""`kimi-magic lab`, from the address that it prints to the first reply."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import LAB_ADDRESS, get, running
from front_end import PICTURES
from playwright.sync_api import Browser, expect

pytestmark = pytest.mark.browser


def test_its_address_shows_the_quickstart_ready_to_run_and_nothing_in_the_way(
    chromium: Browser, tmp_path: Path
) -> None:
    with running("lab", str(tmp_path), "--no-browser", until=LAB_ADDRESS) as address:
        get(address[0])
        page = chromium.new_page(viewport={"width": 1280, "height": 900})
        page.goto(address[0])
        page.get_by_role("heading", name="A first session with Kimi").wait_for(timeout=60_000)
        page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(timeout=60_000)

        page.locator(".jp-Notebook .jp-CodeCell").first.click()
        for _ in range(6):  # down to the first question
            page.keyboard.press("Shift+Enter")
        badge = page.locator(".kimi-badge")
        badge.wait_for(timeout=60_000)
        expect(page.get_by_text("no model has read this")).to_be_visible()
        expect(page.locator(".Toastify__toast, .jp-Dialog")).to_have_count(0)
        PICTURES.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=PICTURES / "lab-command.png")
        page.close()
