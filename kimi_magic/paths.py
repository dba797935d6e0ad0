"""A path as a person writes it → a `Path`.

- `~` is the home folder. So is `~name` that of another, but not on Windows, where names of files begin with
  it (`~$report.docx`). What stands for no folder is a name like any other.
- On Windows double quotes are in no name, but in values: `set KIMI_MAGIC_CASSETTE="C:\\my data\\a.jsonl"`.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePath
from types import ModuleType


def user_path(written: str | PurePath, rules: ModuleType = os.path) -> Path:
    """The path that is meant. rules: `posixpath` or `ntpath`."""
    text = os.fspath(written)
    if rules.altsep:  # Windows
        text = text.strip('"')
        if text[:1] == "~" and text[1:2] not in ("", rules.sep, rules.altsep):
            return Path(text)
    return Path(rules.expanduser(text))
