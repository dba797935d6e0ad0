"""The versions of Python, of this package, and of what it needs."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from importlib import metadata

from .finding import Finding

PACKAGE = "kimi-magic"
OTHERS = (
    "ipykernel",
    "jsonschema",
    "jupyter_server",
    "jupyterlab",
    "jupyterlab_widgets",
    "notebook",
    "pandas",
)
"""What matters beside the dependencies, where it is there."""


def versions() -> Iterator[Finding]:
    """Ours, Python's, and those of the dependencies, with the bounds that the package declares."""
    yield Finding("python", f"{platform.python_version()} ({platform.system()})")
    own = version_of(PACKAGE)
    if own is None:
        yield Finding("kimi_magic", "runs from a folder that is not installed.", "pip install -e .")
        return
    needed = dict(_bounds())
    there = {name: version_of(name) for name in (*needed, *OTHERS)}
    for name, least in needed.items():
        version = there[name]
        if version is None:
            yield Finding(name, "is not installed.", f"pip install {name}", is_wrong=True)
        elif _numbers(version) < _numbers(least):
            yield Finding(
                name,
                f"{version} is older than {least}.",
                f"pip install --upgrade {name}, then restart the kernel.",
                is_wrong=True,
            )
    found = [f"{name} {version}" for name, version in there.items() if version is not None]
    yield Finding("versions", ", ".join([f"{PACKAGE} {own}", *found]))


def _bounds() -> Iterator[tuple[str, str]]:
    """The dependencies that are no extras, and the oldest version of each."""
    for line in metadata.requires(PACKAGE) or ():
        found = re.match(r"([\w.-]+)\s*>=\s*([\d.]+)", line)
        if found is not None and "extra" not in line:
            yield found[1], found[2]


def version_of(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    """`1.10rc2` as (1, 10), without zeros at the end."""
    numbers = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, re.sub(r"(\.0)+$", "", numbers[0]).split("."))) if numbers else ()
