"""The architecture as a test: imports point down, lazy ones too, and an outside library has one home."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "kimi_magic"

LAYERS = [
    {"errors", "console", "notebook"},
    {"wire", "keys", "paths", "counts", "pixels"},
    {"stream", "retry", "usage", "conversation", "prompt", "tools", "simulator"},
    {"insight"},
    {"render", "recordings"},
    {"transports", "store"},
    {"client"},
    {"session"},
    {"batch", "config", "display"},
    {"api"},
    {"doctor"},
    {"panel"},
    {"magics"},
    {"__init__"},
    {"cli"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}

OWNERS = {
    "httpx": {"client", "transports"},
    "sqlite3": {"store"},
    "IPython": {"display", "magics", "__init__"},
    "ipywidgets": {"display", "panel"},
    "anywidget": {"display", "panel"},
    "markdown_it": {"render"},
    "nh3": {"render"},
    "pygments": {"render"},
    "traitlets": {"config", "display", "panel", "magics"},
    "keyring": {"keys"},
    "psutil": {"notebook"},
    "jupyterlab": {"cli"},
    "pandas": {"batch", "prompt", "usage"},
    "polars": {"batch", "prompt", "usage"},
    "pyarrow": {"batch", "prompt", "usage"},
    "pypdf": {"prompt"},
    "numpy": {"prompt"},
    "PIL": {"prompt"},
    "matplotlib": {"render"},
    "tqdm": {"batch"},
    "pydantic": {"tools"},
    "typing_extensions": {"tools"},
    "jsonschema": {"tools"},
}
"""Outside library → its homes. One that is not named here may be imported where it is needed."""


def modules() -> dict[str, list[Path]]:
    """Top-level name → its files: a package of the name is the module of the name."""
    found: dict[str, list[Path]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        found.setdefault(path.relative_to(PACKAGE).parts[0].removesuffix(".py"), []).append(path)
    return found


def imports_of(path: Path) -> set[str]:
    """What any import in the file names, wherever it stands: absolute, `kimi_magic.…` for our own."""
    here = ("kimi_magic", *path.relative_to(PACKAGE).parent.parts)
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(here[: len(here) - node.level + 1]) if node.level else ""
            whole = ".".join(part for part in (base, node.module) if part)
            names |= {f"{whole}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "import_module":
            literal = isinstance(node.args[0], ast.Constant)
            assert literal or path == PACKAGE / "__init__.py", "an import that this test cannot read"
    return names


MODULES = modules()
FILES = [(name, path) for name, paths in MODULES.items() for path in paths]
IDS = [str(path.relative_to(PACKAGE)) for _, path in FILES]


def siblings(path: Path) -> set[str]:
    """Our own top-level modules that a file imports; `from kimi_magic import X` is the package itself."""
    ours = {name.split(".")[1] for name in imports_of(path) if name.startswith("kimi_magic.")}
    return {name if name in MODULES else "__init__" for name in ours}


def test_every_module_has_a_layer() -> None:
    assert set(MODULES) - set(LEVEL) == set()


@pytest.mark.parametrize(("name", "path"), FILES, ids=IDS)
def test_imports_point_down(name: str, path: Path) -> None:
    above = {s for s in siblings(path) - {name} if LEVEL[s] >= LEVEL[name]}
    assert above == set()


def parts(package: str) -> dict[str, set[str]]:
    """Module of a package → the modules of the same package that it imports."""
    inside: dict[str, set[str]] = {}
    stems = {path.stem for path in MODULES[package]}
    for path in MODULES[package]:
        prefix = f"kimi_magic.{package}."
        names = {n.removeprefix(prefix).split(".")[0] for n in imports_of(path) if n.startswith(prefix)}
        inside[path.stem] = names & stems
    return inside


@pytest.mark.parametrize("package", [name for name, paths in MODULES.items() if len(paths) > 1])
def test_modules_of_a_package_import_each_other_in_one_direction(package: str) -> None:
    waiting = {stem: uses - {"__init__"} for stem, uses in parts(package).items() if stem != "__init__"}
    while free := {stem for stem, uses in waiting.items() if not uses & set(waiting)}:
        waiting = {stem: uses for stem, uses in waiting.items() if stem not in free}
    assert waiting == {}


@pytest.mark.parametrize(("name", "path"), FILES, ids=IDS)
def test_an_outside_library_has_one_home(name: str, path: Path) -> None:
    roots = {imported.split(".")[0] for imported in imports_of(path)}
    assert {root for root in roots if name not in OWNERS.get(root, {name})} == set()


def test_what_is_imported_is_the_standard_library_or_declared() -> None:
    """So that a fresh install works: each other root is in `OWNERS` or one of the few below."""
    roots = {imported.split(".")[0] for _, path in FILES for imported in imports_of(path)}
    known = {*sys.stdlib_module_names, *OWNERS, "kimi_magic", "msgspec", "platformdirs", "jupyter_core"}
    assert roots - known == set()


def test_nobody_imports_a_private_name_of_another_module() -> None:
    private = {
        f"{name}: {imported}"
        for name, path in FILES
        for imported in imports_of(path)
        if imported.startswith("kimi_magic.")
        and imported.split(".")[1] != name
        and any(part.startswith("_") and not part.startswith("__") for part in imported.split("."))
    }
    assert private == set()
