"""Where the state lives: in Jupyter's data folder, or where `KIMI_MAGIC_HOME` says."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ..paths import user_path


def store_path(environ: Mapping[str, str] | None = None) -> Path:
    """The SQLite file: `$KIMI_MAGIC_HOME/kimi_magic.db`, else `kimi_magic/kimi_magic.db` in
    Jupyter's data folder (as `jupyter --data-dir` prints it)."""
    environ = os.environ if environ is None else environ
    home = environ.get("KIMI_MAGIC_HOME", "").strip()
    return (user_path(home) if home else _jupyter_data() / "kimi_magic") / "kimi_magic.db"


def _jupyter_data() -> Path:
    try:
        from jupyter_core.paths import jupyter_data_dir
    except ImportError:  # a terminal without Jupyter: the same folder by its rule
        from platformdirs import user_data_path

        return user_data_path("jupyter", appauthor=False)
    return Path(jupyter_data_dir())
