"""A `{{ … }}` → the value that it names. No code runs, and what is refused says why.

The rules are those of `template`: a name of the notebook, then public attributes, and keys of constants.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Mapping
from itertools import islice
from types import (
    AsyncGeneratorType,
    BuiltinFunctionType,
    CodeType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    MethodType,
    ModuleType,
    TracebackType,
)
from typing import Any

from ..errors import PromptError
from .template import Placeholder

_CLOSED = (
    ModuleType, FunctionType, BuiltinFunctionType, MethodType, GeneratorType, CoroutineType,
    AsyncGeneratorType, FrameType, CodeType, TracebackType,
)  # fmt: skip
_AS_TEXT = 'For the braces themselves write {{ "{{…}}" }}, or use --raw.'


def resolve(placeholder: Placeholder, namespace: Mapping[str, object]) -> object:
    """The value that an expression names. Raises `PromptError`."""
    if placeholder.literal is not None:
        return placeholder.literal
    if placeholder.tree is None:
        raise PromptError("`!` conversions are not part of the language.", hint=_AS_TEXT)
    return _value(placeholder.tree, namespace)


def _value(node: ast.expr, namespace: Mapping[str, object]) -> Any:
    match node:
        case ast.Name(id=name):
            return _variable(_public(name), namespace)
        case ast.Attribute(value=owner, attr=name):
            _public(name)
            return _attribute(_value(owner, namespace), name)
        case ast.Subscript(value=owner, slice=key):
            index = _key(key)
            return _item(_value(owner, namespace), index)
        case ast.Call():
            refused = "a prompt runs no code, so nothing is called."
        case _:
            refused = "only a name with attributes and keys can stand in the braces."
    raise PromptError(refused, hint=f"Compute it in a cell and insert the variable. {_AS_TEXT}")


def _public(name: str) -> str:
    if name.startswith("_"):
        raise PromptError(
            f"names that begin with an underscore ({name}) are not inserted.",
            hint=f"Insert a variable; the last results are Out[n]. {_AS_TEXT}",
        )
    return name


def _variable(name: str, namespace: Mapping[str, object]) -> object:
    if name in namespace:
        return namespace[name]
    names = [known for known in namespace if not known.startswith("_")]
    near = difflib.get_close_matches(name, names, n=1)
    meant = f"Did you mean {near[0]}? " if near else ""
    raise PromptError(f"there is no variable {name!r}.", hint=f"{meant}{_AS_TEXT}")


def _attribute(owner: Any, name: str) -> Any:
    kind = type(owner).__name__
    if isinstance(owner, _CLOSED):
        raise PromptError(
            f"attributes of a value of type {kind} (.{name}) are not inserted.",
            hint="Put the value into a variable, and insert that.",
        )
    try:
        return getattr(owner, name)
    except AttributeError as error:
        near = difflib.get_close_matches(name, [n for n in dir(owner) if not n.startswith("_")], n=1)
        hint = f"Did you mean .{near[0]}?" if near else ""
        raise PromptError(f"this {kind} has no attribute {name!r}.", hint=hint) from error
    except Exception as error:  # a property may raise anything
        raise PromptError(f"the attribute {name!r} of this {kind} failed: {said(error)}.") from error


def _item(owner: Any, key: object) -> Any:
    try:
        return owner[key]
    except (KeyError, IndexError) as error:
        hint = ""
        if isinstance(key, str):
            known = [k for k in _keys(owner) if isinstance(k, str)]
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else ""
        raise PromptError(f"there is no {key!r} in this {type(owner).__name__}.", hint=hint) from error
    except Exception as error:  # __getitem__ of a library may raise anything
        raise PromptError(f"[{key!r}] of this {type(owner).__name__} failed: {said(error)}.") from error


def _keys(owner: Any) -> list[Any]:
    """Keys of a mapping, columns of a frame: the first ones, to look for a near one among them."""
    return list(islice(owner.keys(), 1000)) if hasattr(owner, "keys") else []


def said(error: Exception) -> str:
    """A foreign error in a few words: its type and the first line of its message."""
    first = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}{': ' if first else ''}{first.rstrip('.')}"


def _key(node: ast.expr) -> object:
    """A key as a value: constants, slices, and lists or tuples of them."""
    match node:
        case ast.Constant(value=str() | int() | float() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.Slice(lower=lower, upper=upper, step=step):
            return slice(*(part and _key(part) for part in (lower, upper, step)))
        case ast.Tuple(elts=parts):
            return tuple(_key(part) for part in parts)
        case ast.List(elts=parts):
            return [_key(part) for part in parts]
    raise PromptError(
        "a key in brackets is a number, a text in quotes or a slice.",
        hint=f"Compute it in a cell and insert the variable. {_AS_TEXT}",
    )
