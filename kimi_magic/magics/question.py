"""`%kimi what is x?` asks the model: IPython would take the `?` at its end for a call for help.

A transformer of IPython's own kind, for lines that begin with `%kimi ` and end in `?` only; it works on
tokens, so such a line inside a string stays text. `%kimi?` and `%kimi ?` still show IPython's help.
"""

from __future__ import annotations

import tokenize
from collections.abc import Sequence
from typing import Self

from IPython.core.inputtransformer2 import EscapedCommand


class QuestionLine(EscapedCommand):
    """Makes the call of the magic, ahead of IPython's transformer for help."""

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
