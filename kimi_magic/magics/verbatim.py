"""Prompts reach the magics as they were written: two transformers of IPython's own kind, which touch
nothing but `%%kimi` cells and `%kimi` lines.

- IPython takes `>>>` and `In [1]:` at the beginning of lines for pasted prompts, and drops them.
- It takes the `?` at the end of `%kimi what is x?` for a call for help. `%kimi?` and `%kimi ?` still are.
"""

from __future__ import annotations

import re
import tokenize
from collections.abc import Sequence
from typing import Any, Self

from IPython.core.inputtransformer2 import EscapedCommand


def whole_cell(lines: list[str]) -> list[str]:
    """A `%%kimi` cell as the call of the magic, before any other transformer sees it."""
    first = next((n for n, line in enumerate(lines) if line.strip()), 0)
    begin = re.match(r"%%kimi(?:\s+|$)", lines[first]) if lines else None
    if begin is None:
        return lines
    options = lines[first][begin.end() :].rstrip()
    body = "".join(lines[first + 1 :]) or "\n"  # an empty one IPython would refuse, in its own words
    return [f"get_ipython().run_cell_magic('kimi', {options!r}, {body!r})\n"]


whole_cell.has_side_effects = True  # type: ignore[attr-defined]  # IPython's word for: not while one still types


class QuestionLine(EscapedCommand):
    """Makes the call of the magic, ahead of IPython's transformer for help. It works on tokens, so such
    a line inside a string stays text."""

    priority = 4  # that of help is 5

    @classmethod
    def find(cls, tokens_by_line: Sequence[Sequence[tokenize.TokenInfo]]) -> Self | None:
        """The first such line of the cell."""
        for tokens in tokens_by_line:
            first = next((t for t in tokens if t.type not in (tokenize.INDENT, tokenize.DEDENT)), None)
            if first is not None and first.string == "%" and _is_question(first.line[first.start[1] :]):
                return cls(first.start)
        return None


def _is_question(line: str) -> bool:
    words = line.split()
    return words[0] == "%kimi" and words[1:] not in ([], ["?"], ["??"]) and words[-1].endswith("?")


def install(shell: Any) -> None:
    """Put both into the shell's input."""
    shell.input_transformer_manager.cleanup_transforms.insert(0, whole_cell)
    shell.input_transformer_manager.token_transformers.append(QuestionLine)


def remove(shell: Any) -> None:
    """Take both out again."""
    shell.input_transformer_manager.cleanup_transforms.remove(whole_cell)
    shell.input_transformer_manager.token_transformers.remove(QuestionLine)
