"""A file → text for a model: its name, what is to be said about it, and its text in a fence.

    File `data/sites.csv` (GBK; 3,120 lines left out, the first 980 and the last 470 shown):
    ```csv
    …
    ```

The fence is longer than any in the text. A text file goes out as it is (`encodings` says how it is
read), a notebook as its cells, a PDF as the text of its pages. Beyond the budget lines, cells or pages
are left out in the middle, where a mark says how many. What is no text is refused, with what to do.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from pathlib import Path

from ..counts import counted
from ..errors import PromptError
from ..paths import user_path
from ..pixels import media_type
from .encodings import decoded
from .fit import cut, fenced, fit, shown
from .pages import Pdf, notebook_cells
from .values import Inserted, clean

FILE_BUDGET = 200_000
"""Characters that one file may have before part of it is left out."""
LARGEST = 64 * 1024**2
"""Bytes of a file that is read at all."""

_BINARY = {
    b"PK\x03\x04": "a ZIP archive (.docx, .xlsx, .npz …)",
    b"\x1f\x8b": "a gzip archive",
    b"BZh": "a bzip2 archive",
    b"\xfd7zXZ": "an xz archive",
    b"(\xb5/\xfd": "a Zstandard archive",
    b"PAR1": "a Parquet table",
    b"ARROW1": "an Arrow table",
    b"SQLite format 3": "an SQLite database",
    b"\x89HDF": "an HDF5 file",
    b"\x93NUMPY": "a numpy array",
    b"\x7fELF": "a program",
    b"MZ": "a program",
    b"\xd0\xcf\x11\xe0": "an old Office document",
    b"RIFF": "sound or video",
    b"ID3": "sound",
}
_LOAD_IT = "Load it in a cell, and insert what you need of it with {{ name }}."


def file_text(name: str, budget: int = FILE_BUDGET) -> Inserted:
    """The file's text for a prompt, and a note of how it was read and what was left out.

    name: a path, as it is to be shown to the model. Raises `PromptError`.
    """
    path = user_path(name)
    data = read_file(path)
    try:
        text, notes, language = _said(path, data, budget)
    except PromptError as error:
        raise PromptError(f"{name}: {error.message}", hint=error.hint) from error.__cause__
    note = "; ".join(part for part in notes if part)
    title = f"File `{name}`{f' ({note})' if note else ''}:"
    return Inserted((clean(f"{title}\n{fenced(text, language)}\n\n"),), note)


def read_file(path: Path) -> bytes:
    """The bytes of a file of the user's. Raises `PromptError` where there is none, or too large a one."""
    name = str(path) if len(str(path)) <= 200 else f"{str(path)[:200]}…"
    try:
        if path.is_dir():
            raise PromptError(f"{name} is a folder.", hint="Attach its files one by one.")
        size = path.stat().st_size
        if size > LARGEST:
            raise PromptError(f"{name} has {size:,} bytes, and at most {LARGEST:,} are read.", hint=_LOAD_IT)
        return path.read_bytes()
    except FileNotFoundError:
        raise PromptError(f"there is no file {name} in {Path.cwd()}.", hint=_near(path)) from None
    except (OSError, ValueError) as error:  # no right to read, a path too long or with a zero byte
        reason = getattr(error, "strerror", None) or str(error)
        raise PromptError(f"{name} cannot be read: {reason}.") from error


def _near(path: Path) -> str:
    try:
        names = [other.name for other in path.parent.iterdir()]
    except OSError:
        return ""
    near = difflib.get_close_matches(path.name, names, n=1)
    return f"Did you mean {path.parent / near[0]}?" if near else ""


def _said(path: Path, data: bytes, budget: int) -> tuple[str, list[str], str]:
    """Text, notes, and the language for the fence."""
    if data.startswith(b"%PDF-"):
        pdf = Pdf(data)
        text, note = _fitted(pdf.count, pdf.page, "page", budget)
        if not re.sub(r"^\[page \d+ of \d+\]$", "", text, flags=re.MULTILINE).strip():
            raise PromptError(
                "the PDF has no text on its pages (a scan?).", hint="Send pages as images, with -i."
            )
        return text, ["" if note else counted(pdf.count, "page"), note], ""
    text, encoding = _decoded(data)
    if path.suffix.lower() == ".ipynb":
        cells = notebook_cells(text)
        text, note = _fitted(len(cells), lambda n: cells[n], "cell", budget)
        return text, ["" if note else counted(len(cells), "cell"), note], "markdown"
    text, note = _fitted_lines(text, budget)
    how = "" if encoding == "UTF-8" else encoding
    empty = "" if text.strip() else "an empty file"
    return text, [how, empty, note], _language(path)


def _decoded(data: bytes) -> tuple[str, str]:
    kind = media_type(data)
    if kind not in (None, "image/svg+xml"):
        raise PromptError(f"it is an image ({kind}).", hint="Attach it with -i.")
    found = decoded(data)
    if found is not None:
        return found
    unknown = "binary, or text in an encoding other than UTF-8, UTF-16 and GBK"
    what = next((what for magic, what in _BINARY.items() if data.startswith(magic)), unknown)
    raise PromptError(f"it is {what}.", hint=_LOAD_IT)


def _fitted_lines(text: str, budget: int) -> tuple[str, str]:
    if len(text) <= budget:
        return text, ""
    lines = text.splitlines(keepends=True)
    return _fitted(len(lines), lambda n: lines[n], "line", budget)


def _fitted(count: int, render: Callable[[int], str], noun: str, budget: int) -> tuple[str, str]:
    """The first and last of what a file consists of, within the budget; a long one itself is cut."""
    longest = max(budget // 4, 1)
    cut_inside: list[int] = []

    def item(n: int) -> str:
        text, missing = cut(render(n), longest)
        if missing:
            cut_inside.append(n)
        return text

    head, tail = fit(count, item, budget, gap=0)
    missing = count - len(head) - len(tail)
    notes = [f"long {noun}s are cut where marked"] if cut_inside else []
    if missing:
        left_out = f"{counted(missing, noun)} left out"
        notes.insert(0, f"{left_out}, {shown(len(head), len(tail))} of {count:,} shown")
        head.append(f"[{left_out} here]\n")
    return "".join([*head, *tail]), "; ".join(notes)


def _language(path: Path) -> str:
    """The word behind the fence: the file's ending, where it is one word."""
    ending = path.suffix.removeprefix(".").lower()
    return ending if re.fullmatch(r"[a-z0-9]{1,10}", ending) and ending != "txt" else ""
