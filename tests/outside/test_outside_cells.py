"""`%%kimi` cells in a real kernel against servers that know nothing of us."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kernels import Kernel

LOAD = "%load_ext kimi_magic"
TOOLS = '''
def weather(city: str, days: int = 1) -> str:
    """The weather of a city."""
    return f"sunny in {city}"

def now() -> str:
    """The time."""
    return "noon, and still sunny"  # aimock looks at the last result
'''


@pytest.fixture(scope="module")
def aimock(aimock_url: str) -> Iterator[Kernel]:
    with Kernel(KIMI_BASE_URL=aimock_url, KIMI_API_KEY="sk-test") as kernel:
        assert kernel.run(LOAD).printed == ""  # there is a key: no word of a simulator
        kernel.run(TOOLS)
        yield kernel


def test_a_cell_shows_the_reply_and_its_thinking(aimock: Kernel) -> None:
    (bundle,) = aimock.run("%%kimi --once\nPlease think").bundles()
    assert "42" in bundle["text/plain"]
    assert "先想一想 🙂, then answer." in bundle["text/html"]
    assert "Simulated" not in bundle["text/html"]


def test_a_table_and_chinese_come_out_as_they_were_sent(aimock: Kernel) -> None:
    (bundle,) = aimock.run("%%kimi --once\ngreet").bundles()
    assert "你好, world 🌙" in bundle["text/plain"]
    assert "<table>" in bundle["text/html"]


def test_tools_run_and_their_results_come_back(aimock: Kernel) -> None:
    (bundle,) = aimock.run("%%kimi --once -t weather -t now\nHow is the weather?").bundles()
    assert "It is sunny in 深圳." in bundle["text/plain"]
    assert "sunny in 深圳" in bundle["text/html"]


def test_an_image_goes_out_beside_the_prompt(aimock: Kernel) -> None:
    aimock.run("from PIL import Image\ndot = Image.new('RGB', (8, 8), 'red')")
    cell = aimock.run("%%kimi --once -i dot\ngreet")
    assert cell.error == ""
    (bundle,) = cell.bundles()
    assert "你好, world 🌙" in bundle["text/plain"]


def test_a_wrong_key_is_one_line_and_shows_nothing_of_it(aimock_url: str) -> None:
    with Kernel(KIMI_BASE_URL=aimock_url, KIMI_API_KEY="sk-QWERTY7788ASDF") as kernel:
        kernel.run(LOAD)
        error = kernel.run("%%kimi --once\ngreet").error
    assert error.startswith("AuthenticationError: ")
    assert "\n" not in error.strip()
    assert "QWERTY" not in str(kernel.seen)


def test_a_cell_against_llmock(llmock_url: str) -> None:
    with Kernel(KIMI_BASE_URL=llmock_url, KIMI_API_KEY="sk-any-key-will-do") as kernel:
        kernel.run(LOAD)
        first = kernel.run("%%kimi\nSay something.", cell="a")
        again = kernel.run("%%kimi\nAnd more.", cell="b")
        turns = kernel.value("[t.status for t in __import__('kimi_magic').kimi.conversation.path()]")
    assert first.error == again.error == ""
    assert all(bundle["text/plain"].strip() for bundle in (*first.bundles(), *again.bundles()))
    assert turns == ["complete", "complete"]
