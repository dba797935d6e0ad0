"""`Tool`: a function that the model may call. Made once, checked then; each call gives an `Outcome` and
raises nothing but an interrupt."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..errors import ToolError
from ..wire import Block, Json, TextBlock, ToolResultBlock, ToolUseBlock
from . import docstrings, hints
from .dialect import in_dialect
from .results import BUDGET, Write, as_content, cut
from .running import caught, run

if TYPE_CHECKING:
    from pydantic import BaseModel

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_UNNAMED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
PRINTED = "Printed:\n"
"""How the text block begins that holds what a function printed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one call."""

    content: tuple[Block, ...]
    """Text and images, bounded, never empty."""
    is_error: bool = False
    note: str = ""
    """What was left out of it, for the user; "" for nothing."""

    def block(self, call: ToolUseBlock) -> ToolResultBlock:
        """The block that answers `call`."""
        match self.content:
            case (TextBlock() as only,):
                return ToolResultBlock.of(call.id, only.text, is_error=self.is_error)
        return ToolResultBlock.of(call.id, self.content, is_error=self.is_error)


DECLINED = "The user did not allow"
BROKEN_OFF = "Interrupted:"
"""How a refusal begins that is no failure of the function."""


def refusal(text: str) -> Outcome:
    """An outcome that says why nothing came of a call."""
    return Outcome((TextBlock.of(text),), is_error=True)


@dataclass(frozen=True, slots=True)
class Tool:
    """A function of the user's, as the model knows it. Make one with `Tool.of`.

    confirm: ask the user before each call. timeout: seconds, None for no limit; a plain function that
    exceeds it is given up, not ended.
    """

    function: Callable[..., Any]
    name: str
    description: str
    input_schema: Json
    """JSON Schema of the arguments, in the server's dialect."""
    confirm: bool = False
    timeout: float | None = None
    _arguments: type[BaseModel] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        confirm: bool = False,
        timeout: float | None = None,
    ) -> Tool:
        """The tool that a function is: parameters from its hints and defaults, words from its docstring.

        `*args` and `**kwargs` are not offered. Raises `ToolError` for what cannot be a tool: no name
        that the server takes, a parameter whose type has no JSON form, or one that refers to itself.
        """
        if not callable(function):
            raise ToolError(
                f"A value of type {type(function).__name__} is no function.",
                hint="Give a function, or a Tool.",
            )
        given = str(name or getattr(function, "__name__", ""))
        if not _NAME.fullmatch(given):
            raise ToolError(
                f"A tool cannot be called {given!r}: 1 to 64 ASCII letters, digits, _ and -.",
                hint='Name it: Tool.of(function, name="…") or @kimi.tool(name="…").',
            )
        if timeout is not None and not timeout > 0:
            raise ToolError(f"Tool {given!r}: timeout must be a number of seconds above 0, not {timeout!r}.")
        words, about = docstrings.read(inspect.getdoc(function))
        try:
            model = hints.model_of(_parameters(function, about))
            schema = in_dialect(hints.schema_of(model))
        except (ValueError, RecursionError) as error:
            raise ToolError(
                f"Function {given!r} cannot be a tool: {error}.",
                hint="Use what JSON has: str, int, float, bool, list, dict, Literal, enums, dataclasses.",
            ) from error
        return cls(function, given, (description or words).strip(), schema, confirm, timeout, model)

    def to_json(self) -> Json:
        """As a request has it."""
        said = {"description": self.description} if self.description else {}
        return {"name": self.name, **said, "input_schema": self.input_schema}

    def call(self, use: ToolUseBlock, write: Write, budget: int = BUDGET) -> Outcome:
        """Call the function as the model asked. Only `KeyboardInterrupt` gets through; every mistake, the
        model's or the function's, is an outcome that the model can read."""
        if use.raw_input is not None:
            return refusal(f"The arguments are not a JSON object: {cut(use.raw_input, 500)[0]}")
        try:
            values = self._values(use.input)
        except ValueError as error:
            return refusal(f"The arguments do not fit: {error}")
        printed = ""
        try:
            with caught() as output:
                try:
                    value = run(lambda: self._call(values), self.timeout, is_async=self._is_async)
                finally:
                    printed = output.getvalue()
            content, note = as_content(value, write, budget)
            failed = False
        except (Exception, SystemExit, asyncio.CancelledError) as error:  # noqa: BLE001 - the user's code
            content, note, failed = (TextBlock.of(_said(error, budget)),), "", True
        if printed.strip():
            text, missing = cut(printed.rstrip("\n"), budget)
            content, note = (*content, TextBlock.of(PRINTED + text)), note or missing
        return Outcome(content, failed, note)

    @property
    def _is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    def _values(self, arguments: Json) -> dict[str, Any]:
        if self._arguments is None:  # made by hand: the schema is the author's own, and so is the check
            return dict(arguments)
        return hints.values_of(self._arguments, arguments)

    def _call(self, values: dict[str, Any]) -> Any:
        if self._arguments is None:
            return self.function(**values)
        parameters = inspect.signature(self.function).parameters
        first = [n for n in values if parameters[n].kind is inspect.Parameter.POSITIONAL_ONLY]
        return self.function(*[values.pop(n) for n in first], **values)


def function_tools(tools: Iterable[Tool | Callable[..., Any]]) -> tuple[Tool, ...]:
    """Tools, sorted by name: the order is part of what the server caches. Raises `ToolError` for a name
    that stands there twice."""
    made = sorted((t if isinstance(t, Tool) else Tool.of(t) for t in tools), key=lambda t: t.name)
    for one, other in pairwise(made):
        if one.name == other.name and one.function != other.function:
            raise ToolError(f"Two tools are called {one.name!r}.", hint='Name one: @kimi.tool(name="…").')
    return tuple({tool.name: tool for tool in made}.values())


def _parameters(function: Callable[..., Any], about: dict[str, str]) -> list[hints.Parameter]:
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError) as error:
        raise ValueError("its parameters are not known") from error
    known = hints.hints_of(function)
    return [
        hints.Parameter(
            name,
            known.get(name, _by_default(p.default)),
            ... if p.default is p.empty else p.default,
            about.get(name, ""),
        )
        for name, p in signature.parameters.items()
        if p.kind not in _UNNAMED
    ]


def _by_default(default: object) -> Any:
    """The type of a parameter without a hint: that of a plain default, else any."""
    return type(default) if type(default) in (bool, int, float, str) else Any


def _said(error: BaseException, budget: int) -> str:
    """Type and message; never blank."""
    try:
        message = str(error).strip()
    except Exception:  # noqa: BLE001 - an exception's own __str__ may raise anything
        message = ""
    return cut(f"{type(error).__name__}: {message}" if message else type(error).__name__, budget)[0]
