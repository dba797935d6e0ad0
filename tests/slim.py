"""The wheel in an environment of its own, with what it declares and nothing else, made without a network.

The distributions that the wheel needs are those of the environment in which the tests run, linked into a
new one. So an import of something that is not declared fails there as it would for a stranger.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Collection, Iterable, Iterator
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parent.parent


def built(kind: str, folder: Path, source: Path = ROOT) -> Path:
    """The sdist or wheel of a source tree."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    return max(folder.glob("*.whl" if kind == "wheel" else "*.tar.gz"))


def wheel_from_sdist(folder: Path) -> Path:
    """As an installer makes it."""
    safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # not in Python 3.11.2
    with tarfile.open(built("sdist", folder)) as archive:
        archive.extractall(folder, **safely)
    (source,) = (path for path in folder.iterdir() if path.is_dir())
    return built("wheel", folder, source)


def requirements(wheel: Path) -> list[str]:
    """What the wheel declares, extras too."""
    with zipfile.ZipFile(wheel) as file:
        (name,) = (n for n in file.namelist() if n.endswith("dist-info/METADATA"))
        text = file.read(name).decode()
    return re.findall(r"^Requires-Dist: (.*)$", text, re.MULTILINE)


def closure(required: Iterable[str]) -> set[str]:
    """The names of all distributions that requirements lead to, without extras."""
    from packaging.requirements import Requirement

    found: set[str] = set()
    waiting = [Requirement(line) for line in required]
    while waiting:
        one = waiting.pop()
        name = canonical(one.name)
        if name in found or (one.marker is not None and not one.marker.evaluate({"extra": ""})):
            continue
        found.add(name)
        waiting += [Requirement(line) for line in metadata.requires(name) or ()]
    return found


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def files(name: str) -> Iterator[Path]:
    """The files of a distribution that are there, without compiled ones."""
    for file in metadata.files(name) or ():
        path = Path(str(file.locate()))
        if path.suffix != ".pyc" and path.is_file():
            yield path


def environment(folder: Path, wheel: Path, without: Collection[str] = ()) -> Path:
    """The interpreter of a new environment: the wheel, a kernel, and what both need, but `without`."""
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    place = next(folder.glob("lib/python*/site-packages"))
    home = Path(metadata.distribution("ipykernel").locate_file(""))
    for name in closure([*requirements(wheel), "ipykernel"]) - set(without):
        for top in {path.relative_to(home).parts[0] for path in files(name) if path.is_relative_to(home)}:
            if not (place / top).exists():
                (place / top).symlink_to(home / top)
    with zipfile.ZipFile(wheel) as file:
        file.extractall(place)
    return folder / "bin" / "python"
