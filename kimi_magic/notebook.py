"""Which notebook this is: a label under which conversations are found again, never a reason to fail.

`JPY_SESSION_NAME` is how Jupyter's server tells a kernel its notebook. Whatever a kernel starts inherits
it (papermill in a cell, `!jupyter execute …`); such a process is not that notebook, and is known by its
parent, which was started with the same name, as no server is. On Windows the `python` of a virtual
environment is a launcher: it starts the real one with its own environment, and is no parent in this sense.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import ModuleType
from typing import Any


@lru_cache
def started_with() -> Mapping[str, str]:
    """The environment of the process that started this one; empty where nobody can say."""
    import psutil  # type: ignore[import-untyped]  # it has none

    try:
        above = psutil.Process(os.getppid())
        if _is_launcher(above.exe(), psutil.Process().exe()):
            above = above.parent()
        return dict(above.environ()) if above is not None else {}
    except (psutil.Error, OSError):
        return {}


def _is_launcher(above: str, own: str) -> bool:
    """Whether the program above this one is what Python says it runs as, while it runs as another."""
    try:
        return os.path.samefile(above, sys.executable) and not os.path.samefile(own, sys.executable)
    except OSError:  # one of them was replaced meanwhile
        return False


def jupyter_session(
    environ: Mapping[str, str], above: Callable[[], Mapping[str, str]] = started_with
) -> str | None:
    """What Jupyter's server calls the notebook of this very process; None where no server started it.

    above: the environment of the process above, asked only where there is a name.
    """
    name = environ.get("JPY_SESSION_NAME")
    return None if name is None or above().get("JPY_SESSION_NAME") == name else name


def notebook_path(
    names: Mapping[str, Any],
    environ: Mapping[str, str],
    above: Callable[[], Mapping[str, str]] = started_with,
) -> str | None:
    """The notebook's path: what the user says, what VS Code says, what Jupyter's server says; None where
    nobody does (a terminal, nbclient, nbconvert).

    names: the notebook's variables.
    """
    said = (
        environ.get("KIMI_MAGIC_NOTEBOOK"),
        names.get("__vsc_ipynb_file__"),
        jupyter_session(environ, above),
    )
    found = next((path for path in said if isinstance(path, str) and path.strip()), None)
    return None if found is None else label(found)


def label(path: str, rules: ModuleType = os.path) -> str:
    """The absolute path, and on Windows with the drive as a capital: VS Code says `c:\\a.ipynb` where
    Jupyter says `C:\\a.ipynb`. rules: `posixpath` or `ntpath`."""
    drive, rest = rules.splitdrive(rules.abspath(path))
    return f"{drive[:1].upper()}{drive[1:]}{rest}"
