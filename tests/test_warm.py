"""What a kernel imports between loading and its first cell."""

from __future__ import annotations

from pathlib import Path

from kernels import Kernel

from kimi_magic.magics.warm import PAUSE
from kimi_magic.simulator import Simulator
from kimi_magic.transports import serve

LOAD = "%load_ext kimi_magic"
NEW = """
import sys
new = set(sys.modules) - before
print(sorted(name for name in new if name.split(".")[0] not in sys.stdlib_module_names))
"""


def until(module: str) -> str:
    """A cell that leaves the kernel's loop free, and ends when that is imported."""
    return f"import asyncio, sys\nwhile {module!r} not in sys.modules:\n    await asyncio.sleep(0)"


def later() -> str:
    """A cell that leaves the kernel's loop free for longer than the warming waits."""
    return f"import asyncio\nawait asyncio.sleep({3 * PAUSE})"


def assert_warm(last: str, folder: Path, **environ: str) -> None:
    """When that has been imported, the first cell imports nothing from outside the standard library."""
    with Kernel(**environ, KIMI_MAGIC_STORE="on", KIMI_MAGIC_HOME=str(folder)) as kernel:
        kernel.run(LOAD)
        kernel.run(until(last))
        kernel.run("before = set(sys.modules)")
        assert kernel.run("%%kimi\nHi").error == ""
        assert kernel.run(NEW).printed == "[]\n"


def test_what_the_first_cell_needs_is_there_before_it(tmp_path: Path) -> None:
    assert_warm("kimi_magic.magics.running", tmp_path)


def test_so_is_the_widget_of_live_replies(tmp_path: Path) -> None:
    assert_warm("ipywidgets", tmp_path, JPY_SESSION_NAME="a.ipynb")


def test_so_is_what_a_server_is_asked_with(tmp_path: Path) -> None:
    with serve(Simulator(speed=0)) as server:
        last = "anyio._backends._asyncio"
        assert_warm(last, tmp_path, KIMI_API_KEY="k", KIMI_BASE_URL=server.url)


def test_a_cell_in_the_middle_of_it_does_the_rest() -> None:
    with Kernel() as kernel:
        kernel.run(f"{LOAD}\n{until('httpx')}")
        cell = kernel.run("%%kimi\nHi")
        assert cell.error == ""
        assert [output["output_type"] for output in cell.outputs] == ["display_data"]


def test_what_cannot_be_imported_is_the_error_of_the_cell_that_needs_it() -> None:
    with Kernel() as kernel:
        kernel.run(f"import sys\nsys.modules['nh3'] = None\n{LOAD}")
        waited = kernel.run(later())
        assert kernel.value("[name in sys.modules for name in ('httpx', 'kimi_magic.session')]") == [
            True,
            False,
        ]
        assert waited.outputs == []
        assert [m["msg_type"] for m in kernel.all if m["content"].get("name") == "stderr"] == []
        assert "nh3" in kernel.run("%%kimi\nHi").error
        kernel.run("del sys.modules['nh3']")
        assert kernel.run("%%kimi\nHi").error == ""


def test_unloading_ends_it() -> None:
    with Kernel() as kernel:
        kernel.run(f"{LOAD}\n%unload_ext kimi_magic\n{later()}")
        assert kernel.value("'kimi_magic.client' in __import__('sys').modules") is False


def test_an_extension_that_all_kernels_load_waits_for_its_first_cell(tmp_path: Path) -> None:
    config = tmp_path / "profile_default/ipython_config.py"
    config.parent.mkdir()
    config.write_text('c.InteractiveShellApp.extensions = ["kimi_magic"]\n', "utf-8")
    with Kernel(IPYTHONDIR=str(tmp_path)) as kernel:
        kernel.run(later())
        assert kernel.value("'kimi_magic.client' in __import__('sys').modules") is False
        assert kernel.run("%%kimi\nHi").error == ""
