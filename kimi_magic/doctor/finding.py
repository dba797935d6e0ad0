"""What was found, as a value and as text."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from ..counts import counted
from ..errors import KimiError


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. about: what. says: how it is. remedy: what to do, where there is
    something to do. is_wrong: something does not work as it is."""

    about: str
    says: str
    remedy: str = ""
    is_wrong: bool = False

    @property
    def mark(self) -> str:
        return "wrong" if self.is_wrong else "note" if self.remedy else "ok"

    @classmethod
    def of(cls, about: str, error: KimiError) -> Finding:
        """An error as a finding."""
        return cls(about, error.message, error.hint or "%kimi help", is_wrong=True)


def lines(findings: Sequence[Finding]) -> str:
    """The findings as text, each remedy below its finding, and a last line that sums up."""
    said: list[str] = []
    for finding in findings:
        indents = f"{finding.mark:<6} {finding.about:<9} ", " " * 17
        said += textwrap.wrap(finding.says, 100, initial_indent=indents[0], subsequent_indent=indents[1])
        if finding.remedy:
            arrow = f"{indents[1]}→ ", f"{indents[1]}  "
            said += textwrap.wrap(finding.remedy, 100, initial_indent=arrow[0], subsequent_indent=arrow[1])
    return "\n".join([*said, verdict(findings)])


def verdict(findings: Sequence[Finding]) -> str:
    """One line that sums up."""
    wrong = sum(finding.is_wrong for finding in findings)
    verb = "is" if wrong == 1 else "are"
    return f"{wrong} of {counted(len(findings), 'finding')} {verb} wrong." if wrong else "Nothing is wrong."
