"""Which notebook this is: a label under which conversations are found again, never a reason to fail."""

from __future__ import annotations

from collections.abc import Mapping
from os.path import abspath
from typing import Any


def notebook_path(names: Mapping[str, Any], environ: Mapping[str, str]) -> str | None:
    """The notebook's path: what the user says, what VS Code says, what Jupyter's server says; None where
    nobody does (a terminal, nbclient, nbconvert).

    names: the notebook's variables.
    """
    said = (
        environ.get("KIMI_MAGIC_NOTEBOOK"),
        names.get("__vsc_ipynb_file__"),
        environ.get("JPY_SESSION_NAME"),
    )
    found = next((path for path in said if isinstance(path, str) and path.strip()), None)
    return None if found is None else abspath(found)
