"""The store: whether it can be written, is whole, and is its owner's alone."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryFile

from ..config import KimiMagic
from ..counts import counted
from ..errors import KimiError
from ..store import Store, store_path
from .finding import Finding

LEAST_SPACE = 100 * 1024**2  # bytes


def store(settings: KimiMagic, environ: Mapping[str, str]) -> Iterator[Finding]:
    if settings.store == "off":
        yield Finding("store", "off: conversations and usage end with the kernel (KIMI_MAGIC_STORE=off).")
        return
    try:
        path = store_path(environ)
        size = path.stat().st_size if path.exists() else None
    except (OSError, RuntimeError) as error:  # the folder is not ours, or there is no home
        yield Finding("store", f"cannot be looked at: {error}.", _ELSEWHERE, is_wrong=True)
        return
    place = next(there for there in (path, *path.parents) if os.path.lexists(there))
    if not _is_writable(place) or (size is None and not place.is_dir()):
        yield Finding("store", f"{place} cannot be written.", _ELSEWHERE, is_wrong=True)
    elif size is None:
        yield Finding("store", f"{path} is made with the first turn.")
    else:
        yield from _file(path, size)
    if not place.exists():  # a link that leads nowhere
        return
    disk = shutil.disk_usage(place)
    if disk.total and disk.free < LEAST_SPACE:
        yield Finding("store", f"The disk has {disk.free / 1e6:.0f} MB left.", "Make room.", is_wrong=True)


_ELSEWHERE = "Set KIMI_MAGIC_HOME to a folder of your own; until then conversations are in memory only."


def _is_writable(place: Path) -> bool:
    """Whether a file can be changed, or one made in a folder: tried, since rights alone do not say it."""
    folder = place if place.is_dir() else place.parent  # SQLite puts a further file beside its own
    try:
        with TemporaryFile(dir=folder):
            return os.access(place, os.W_OK)
    except OSError:
        return False


def _file(path: Path, size: int) -> Iterator[Finding]:
    """The file itself: whole, and readable by its owner alone."""
    store = Store(path)
    try:
        problems = store.verify()
        yield Finding("store", f"{path}, {size / 1e6:.1f} MB, {counted(len(store.records()), 'request')}")
    except KimiError as error:
        remedy = f"{error.hint} To begin anew, move {path.name} away.".lstrip()
        yield Finding("store", error.message, remedy, is_wrong=True)
        return
    finally:
        store.close()
    remedy = f"What is whole is still used. To begin anew, move {path.name} away."
    yield from (Finding("store", problem, remedy, is_wrong=True) for problem in problems)
    if os.name == "posix":  # elsewhere the bits say nothing
        for place, mode in ((path, 0o600), (path.parent, 0o700)):
            bits = stat.S_IMODE(place.stat().st_mode)
            if bits & 0o077:
                yield Finding(
                    "store",
                    f"{place} is open to others (mode {bits:04o}).",
                    f"chmod {mode:o} '{place}'",
                    True,
                )
