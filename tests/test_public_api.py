"""The public names: what a user may import, and that it costs nothing before it is used."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import kimi_magic
from kimi_magic import errors

NAMES = {
    "PRICES",
    "AsyncClient",
    "Client",
    "Interrupted",
    "Kimi",
    "KimiError",
    "KimiMagic",
    "Message",
    "Price",
    "Reply",
    "Schema",
    "Tool",
    "kimi",
    "load_ipython_extension",
    "unload_ipython_extension",
}


def test_the_public_names_are_these() -> None:
    assert set(kimi_magic.__all__) == NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_each_public_name_is_there(name: str) -> None:
    assert getattr(kimi_magic, name) is getattr(kimi_magic, name)


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing_of_the_kind'"):
        _ = kimi_magic.nothing_of_the_kind


def test_every_error_is_a_kimi_error_and_drawn_in_the_tree() -> None:
    made = {n for n, c in vars(errors).items() if inspect.isclass(c) and issubclass(c, errors.KimiError)}
    drawn = {word for word in (errors.__doc__ or "").split() if word in vars(errors)}
    assert made <= drawn


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_loading_the_extension_imports_nothing_heavy() -> None:
    heavy = ("httpx", "markdown_it", "nh3", "sqlite3", "pandas", "numpy", "matplotlib", "PIL", "ipywidgets")
    code = f"""
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell()
before = set(sys.modules)
shell.run_line_magic("load_ext", "kimi_magic")
new = set(sys.modules) - before
print(sorted(new & set({heavy!r})), len([n for n in new if n.startswith("pygments.lexers")]))
print(sorted(n for n in new if n.startswith("kimi_magic.") and n.count(".") == 1))
"""
    lines = run(code).splitlines()[-2:]
    assert lines[0] == "[] 0"
    ours = ("config", "console", "errors", "keys", "magics", "wire")
    assert lines[1] == str([f"kimi_magic.{name}" for name in ours])


def test_importing_the_package_imports_none_of_its_modules() -> None:
    code = "import sys, kimi_magic; print([n for n in sys.modules if n.startswith('kimi_magic.')])"
    assert run(code) == "[]"
