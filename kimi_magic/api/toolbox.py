"""The tools of a chat: functions that were registered, and those that are named on the spot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from ..errors import ToolError
from ..tools import Tool

F = TypeVar("F", bound=Callable[..., Any])


class Toolbox:
    """Registers tools and finds them."""

    def __init__(self) -> None:
        self.tools: dict[str, Tool] = {}
        """What `tool` registered, by name."""

    @overload
    def tool(self, function: F, /) -> F: ...

    @overload
    def tool(
        self,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        confirm: bool = False,
        timeout: float | None = None,
    ) -> Callable[[F], F]: ...

    def tool(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        confirm: bool = False,
        timeout: float | None = None,
    ) -> Any:
        """A decorator that registers a function as a tool, which `-t NAME` and `tools=["NAME"]` then
        find; the function stays what it is.

        name, description: else its own, and its docstring's. confirm: ask before each call. timeout:
        seconds. Raises `ToolError` for a function that cannot be one.
        """

        def register(given: F) -> F:
            made = Tool.of(given, name=name, description=description, confirm=confirm, timeout=timeout)
            self.tools[made.name] = made
            return given

        return register if function is None else register(function)

    def as_tool(self, tool: Tool | Callable[..., Any] | str) -> Tool:
        """The tool that is meant: a registered one by its name or its function, else made from the
        function. Raises `ToolError`."""
        if isinstance(tool, Tool):
            return tool
        if isinstance(tool, str):
            if tool not in self.tools:
                raise ToolError(f"There is no tool {tool!r}.", hint="Register it with @kimi.tool.")
            return self.tools[tool]
        registered = next((known for known in self.tools.values() if known.function == tool), None)
        return registered or Tool.of(tool)
