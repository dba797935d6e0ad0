"""What `-t` and `--schema` name: functions and types of the notebook. Names are looked up, never run."""

from __future__ import annotations

import builtins
import difflib
import functools
import json
import re
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any

from ..api import Kimi
from ..errors import OptionError, SchemaError, ToolError
from ..tools import Schema, Tool

_SCALARS = ("str", "int", "float", "bool", "dict", "list")
_LIST = re.compile(r"list\[(.*)\]", re.DOTALL)


def tool(name: str, names: Mapping[str, Any], kimi: Kimi) -> Tool:
    """A function of the notebook, or one that `@kimi.tool` registered under this name.

    Raises `OptionError` where there is none, and `ToolError` for one that cannot be a tool.
    """
    value: Any = names.get(name)
    if callable(value) or isinstance(value, Tool):
        try:
            return kimi.as_tool(value)
        except ToolError as error:
            raise ToolError(f"-t/--tool: {error.message}", hint=error.hint) from None
    if name in kimi.tools:
        return kimi.tools[name]
    functions = [n for n, v in names.items() if not n.startswith("_") and is_function(v)]
    what = f"is a {type(value).__name__}, no function" if name in names else "is no function of this notebook"
    raise OptionError(
        f"-t/--tool: {name!r} {what}.",
        hint=_meant(name, [*functions, *kimi.tools]) or "%kimi tools lists them.",
    )


def schema(text: str, names: Mapping[str, Any]) -> Schema:
    """A type of the notebook, `list[…]` of one, `str`, `int`, `float`, `bool`, or a JSON Schema as it
    stands. Raises `OptionError` where there is none, and `SchemaError` for one that cannot be a schema.
    """
    try:
        wanted = json.loads(text) if text.lstrip().startswith("{") else _type(text.strip(), names)
    except ValueError as error:
        raise OptionError(f"--schema: this is no JSON ({error}).") from None
    try:
        return Schema.of(wanted)
    except SchemaError as error:
        raise SchemaError(f"--schema: {error.message}", hint=error.hint) from None


def _type(text: str, names: Mapping[str, Any]) -> Any:
    if match := _LIST.fullmatch(text):
        return list[_type(match[1].strip(), names)]  # type: ignore[misc]  # a type made at run time
    if text in names:
        return names[text]
    if text in _SCALARS:
        return getattr(builtins, text)
    models = [n for n, v in names.items() if not n.startswith("_") and is_model(v)]
    raise OptionError(
        f"--schema: there is no {text!r} in this notebook.",
        hint=_meant(text, models) or "Name a model, dataclass, TypedDict, list[…] of one, or a JSON Schema.",
    )


def _meant(name: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(names), n=1)
    return f"Did you mean {near[0]}?" if near else ""


def is_function(value: object) -> bool:
    """Something that Tab offers for `-t`: not what IPython itself puts among the names (`exit`, `open`)."""
    made_by = getattr(value, "__module__", None) or type(value).__module__
    kinds = (types.FunctionType, types.MethodType, functools.partial, Tool)
    return isinstance(value, kinds) and not str(made_by).startswith("IPython")


def is_model(value: object) -> bool:
    """Something that Tab offers for `--schema`: a class with fields or members, or a JSON Schema."""
    if isinstance(value, dict):
        return isinstance(value.get("type"), str) and value.get("type") in ("object", "array")
    is_record = hasattr(value, "model_json_schema") or hasattr(value, "__dataclass_fields__")
    return (isinstance(value, type) and (is_record or hasattr(value, "__members__"))) or typing.is_typeddict(
        value
    )
