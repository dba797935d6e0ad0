"""Which notebook this is: a label under which conversations are found again, never a reason to fail.

`JPY_SESSION_NAME` is how Jupyter's server tells a kernel its notebook. Whatever a kernel starts inherits
it (papermill in a cell, `!jupyter execute …`); such a process is not that notebook, and is known by its
parent, which was started with the same name, as no server is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from os.path import abspath
from typing import Any


@lru_cache
def started_with() -> Mapping[str, str]:
    """The environment that the process above this one was started with; empty where nobody can say."""
    try:
        import psutil  # type: ignore[import-untyped]  # ipykernel brings it; without a kernel it is not needed
    except ImportError:
        return {}
    try:
        return dict(psutil.Process(os.getppid()).environ())
    except (psutil.Error, OSError):
        return {}


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
    return None if found is None else abspath(found)
