"""Prompts reach the magics as they were written: three transformers of IPython's own kind, which touch
nothing but `%%kimi` cells and `%kimi` lines.

- IPython takes `>>>` and `In [1]:` at the beginning of lines for pasted prompts, and drops them.
- It takes the `?` at the end of `%kimi what is x?` for a call for help, also behind `x = `. `%kimi?` and
  `%kimi ?` still are.

A magic cannot see that its value is wanted, so `x = %kimi …` tells it (`VALUE`): the value of a question that
stands alone would be shown a second time, below its own output.
"""

from __future__ import annotations

import re
import tokenize
from collections.abc import Sequence
from typing import Any, Self

from IPython.core.inputtransformer2 import EscapedCommand, MagicAssign

VALUE = "<< "
"""What a line begins with whose value is kept: `NAME <<` without the name."""


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


class AssignedLine(MagicAssign):
    """Makes the call of the magic for `x = %kimi …`, ahead of IPython's transformers."""

    priority = 4

    def __init__(self, start: tuple[int, int]) -> None:
        """start: of the `%`. Of two transformers the one goes first that begins first in its line, and the
        help that a `?` calls for begins where the line does."""
        super().__init__((start[0], 0))  # type: ignore[no-untyped-call]  # IPython has no types
        self._column = start[1]

    @classmethod
    def find(cls, tokens_by_line: Sequence[Sequence[tokenize.TokenInfo]]) -> Self | None:
        """The first such line of the cell."""
        for tokens in tokens_by_line:
            found: Self | None = super().find([tokens])  # type: ignore[no-untyped-call]  # IPython has no types
            if found is None:
                continue
            begin = next(t for t in tokens if t.start == (found.start_line + 1, found._column))
            is_ours = re.match(r"%kimi(\s|$)", begin.line[found._column :])
            if is_ours and not begin.line.lstrip().startswith(("%", "!")):  # such a line is one magic
                return found
        return None

    def transform(self, lines: list[str]) -> list[str]:
        """The lines with the call in the place of the magic."""
        self.start_col = self._column
        changed: list[str] = super().transform(lines)
        call = "get_ipython().run_line_magic('kimi', "
        changed[self.start_line] = changed[self.start_line].replace(call, f"{call}{VALUE!r} + ", 1)
        return changed


def _is_question(line: str) -> bool:
    words = line.split()
    return words[0] == "%kimi" and words[1:] not in ([], ["?"], ["??"]) and words[-1].endswith("?")


def install(shell: Any) -> None:
    """Put them into the shell's input."""
    shell.input_transformer_manager.cleanup_transforms.insert(0, whole_cell)
    shell.input_transformer_manager.token_transformers += [AssignedLine, QuestionLine]


def remove(shell: Any) -> None:
    """Take them out again, those that are there."""
    manager = shell.input_transformer_manager
    manager.cleanup_transforms[:] = [t for t in manager.cleanup_transforms if t is not whole_cell]
    ours = (AssignedLine, QuestionLine)
    manager.token_transformers[:] = [t for t in manager.token_transformers if t not in ours]
