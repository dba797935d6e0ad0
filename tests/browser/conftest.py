"""One server and one page per front end, one Chromium for all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from front_end import FrontEnd, Server
from playwright.sync_api import Browser, expect, sync_playwright

CHROMIUM = os.environ.get("KIMI_CHROMIUM", "/usr/bin/chromium")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
SIZE = {"width": 1280, "height": 900}
PATIENCE = 20_000
"""ms to wait for what a page is to show: far more than it takes."""

expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    if not Path(CHROMIUM).exists():
        pytest.skip(f"there is no Chromium at {CHROMIUM}: install it, or set KIMI_CHROMIUM")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="session", params=["lab", "notebook"])
def shared(
    request: pytest.FixtureRequest, chromium: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FrontEnd]:
    """A front end that all tests take turns with."""
    with Server(tmp_path_factory.mktemp(request.param), request.param) as server:
        page = chromium.new_page(viewport=SIZE)  # type: ignore[arg-type]  # a dict of the right keys
        page.set_default_timeout(PATIENCE)
        yield FrontEnd(server, page)
        page.close()


@pytest.fixture
def front(shared: FrontEnd) -> FrontEnd:
    """A front end, as wide as a laptop's."""
    shared.page.set_viewport_size(SIZE)  # type: ignore[arg-type]  # a dict of the right keys
    return shared
