"""The notebook's outputs: mimebundles that are published, updated and cleared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Outputs(Protocol):
    """Where a view publishes. Data is a mimebundle; an id names an output for later updates."""

    def publish(self, data: Mapping[str, Any], display_id: str) -> None: ...

    def update(self, data: Mapping[str, Any], display_id: str) -> None: ...

    def clear(self) -> None:
        """Take away the cell's outputs when the next one comes."""


class ShellOutputs:
    """The outputs of the running cell of an IPython shell."""

    def __init__(self, shell: Any) -> None:
        self._publisher = shell.display_pub

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
