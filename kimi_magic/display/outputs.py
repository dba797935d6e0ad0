"""The notebook's outputs: mimebundles that are published, updated and cleared."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Mapping
from typing import Any, Protocol


class Outputs(Protocol):
    """Where a view publishes. Data is a mimebundle; an id names an output for later updates."""

    def publish(self, data: Mapping[str, Any], display_id: str) -> None: ...

    def update(self, data: Mapping[str, Any], display_id: str) -> None: ...

    def clear(self) -> None:
        """Take away the cell's outputs when the next one comes."""

    def cleared(self) -> bool:
        """Whether somebody else has cleared the cell's outputs since this was last asked (a tool that calls
        `clear_output`): then none that was published can be updated."""


class ShellOutputs:
    """The outputs of the running cell of an IPython shell."""

    def __init__(self, shell: Any) -> None:
        self._publisher = shell.display_pub
        self._clears = _Clears.of(self._publisher)
        self._cell = _cell_of(getattr(self._publisher, "parent_header", None))
        self._seen = self._clears.count[self._cell]

    @property
    def captured(self) -> bool:
        """Whether `%%capture` collects the outputs: then only finished ones are worth a message."""
        from IPython.core.displaypub import CapturingDisplayPublisher

        return isinstance(self._publisher, CapturingDisplayPublisher)

    def publish(self, data: Mapping[str, Any], display_id: str) -> None:
        self._publisher.publish(data=dict(data), metadata={}, transient={"display_id": display_id})

    def update(self, data: Mapping[str, Any], display_id: str) -> None:
        self._publisher.publish(
            data=dict(data), metadata={}, transient={"display_id": display_id}, update=True
        )

    def clear(self) -> None:
        self._publisher.clear_output(wait=True)
        self._seen = self._clears.count[self._cell]

    def cleared(self) -> bool:
        before, self._seen = self._seen, self._clears.count[self._cell]
        return self._seen != before


class _Clears:
    """How often the outputs of each cell were cleared, by the id of its request: ipykernel's publisher lets
    a hook see each of its messages. Others say nothing."""

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()

    @classmethod
    def of(cls, publisher: Any) -> _Clears:
        """The one of this publisher, which listens from now on."""
        if publisher not in _listening:
            _listening[publisher] = made = cls()
            if hasattr(publisher, "register_hook"):
                publisher.register_hook(made)
        return _listening[publisher]

    def __call__(self, message: dict[str, Any]) -> dict[str, Any]:
        if message["header"]["msg_type"] == "clear_output":
            self.count[_cell_of(message["parent_header"])] += 1
        return message


_listening: weakref.WeakKeyDictionary[Any, _Clears] = weakref.WeakKeyDictionary()


def _cell_of(header: Mapping[str, Any] | None) -> str:
    return str((header or {}).get("msg_id", ""))
