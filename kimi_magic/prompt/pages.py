"""Files that are not one text: a notebook as its cells, a PDF as the text of its pages."""

from __future__ import annotations

import io
import json
import re
from typing import Any

from ..errors import PromptError
from .fit import cut, fenced

_OUTPUT = 1_000
"""Characters of one output of a notebook's cell."""
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def notebook_cells(text: str) -> list[str]:
    """Each cell of an `.ipynb` with its kind, its source and its outputs, long ones cut in the middle.

    Raises `PromptError` for what is no notebook of format 4.
    """
    try:
        cells = json.loads(text)["cells"]
        return [_cell(n, cell) for n, cell in enumerate(cells, 1)]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PromptError(
            "it is no notebook of format 4.", hint="Open it in Jupyter and save it, or rename it to .txt."
        ) from error


def _cell(n: int, cell: Any) -> str:
    kind, source = cell["cell_type"], _text(cell["source"])
    if kind != "code":
        return f"[cell {n}, {kind}]\n{source}\n"
    outputs = [shown for output in cell.get("outputs", ()) if (shown := _output(output))]
    body = "".join(f"Output:\n{fenced(shown)}\n" for shown in outputs)
    return f"[cell {n}, code]\n{fenced(source, 'python')}\n{body}"


def _output(output: Any) -> str:
    """An output's text; of a figure, that there is one."""
    data = output.get("data", {})
    if output["output_type"] == "stream":
        text = _text(output["text"])
    elif output["output_type"] == "error":
        text = f"{output['ename']}: {output['evalue']}"
    elif any(kind.startswith("image/") for kind in data):
        text = f"[{next(kind for kind in data if kind.startswith('image/'))}]"
    else:
        text = _text(data.get("text/plain", ""))
    return cut(_ANSI.sub("", text).strip("\n"), _OUTPUT)[0]


def _text(value: str | list[str]) -> str:
    return value if isinstance(value, str) else "".join(value)


class Pdf:
    """The pages of a PDF, their text read when it is asked for. Raises `PromptError`."""

    def __init__(self, data: bytes) -> None:
        try:
            import pypdf
        except ImportError:
            raise PromptError("reading a PDF needs the package pypdf.", hint="%pip install pypdf") from None
        try:
            self._reader: Any = pypdf.PdfReader(io.BytesIO(data))
            if self._reader.is_encrypted and not self._reader.decrypt(""):
                raise PromptError("the PDF is locked with a password.")
            self.count = len(self._reader.pages)
        except PromptError:
            raise
        except Exception as error:  # pypdf raises many types for damaged files
            raise PromptError(f"the PDF cannot be read: {error}.") from error

    def page(self, n: int) -> str:
        """`[page 3 of 12]` and the text of that page; n counts from 0."""
        try:
            text = self._reader.pages[n].extract_text().strip()
        except Exception as error:  # noqa: BLE001 - as above; one bad page is no reason to lose the others
            text = f"[this page cannot be read: {type(error).__name__}]"
        return f"[page {n + 1} of {self.count}]\n{text}\n"
