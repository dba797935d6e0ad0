"""The variables of a notebook: every one can be looked up, and those that the user made are listed.

IPython puts names of its own among them (`open`, `exit`, `In`): nobody means those who mistypes a name or
presses Tab. They are told apart as `%who` does it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


class Names(Mapping[str, Any]):
    """The variables of a shell, as they are at each moment. Names that begin with an underscore are not
    listed either."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def __getitem__(self, name: str) -> Any:
        return self._shell.user_ns[name]

    def __iter__(self) -> Iterator[str]:
        hidden, other = self._shell.user_ns_hidden, object()
        return iter(
            [
                name
                for name, value in list(self._shell.user_ns.items())
                if not name.startswith("_") and value is not hidden.get(name, other)
            ]
        )

    def __len__(self) -> int:
        return sum(1 for _ in self)
