"""Type hints ↔ JSON Schema and validated values, by pydantic, which is imported when it is first needed."""

from __future__ import annotations

import dataclasses
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..wire import Json

if TYPE_CHECKING:
    from pydantic import BaseModel, TypeAdapter, ValidationError

_SHOWN = 5  # mistakes of one value that are named


@dataclasses.dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function: hint is its type, with `Annotated` as it stands."""

    name: str
    hint: Any
    default: Any = ...
    """`...` for one that must be given."""
    description: str = ""


def model_of(parameters: list[Parameter]) -> type[BaseModel]:
    """A model with a field for each parameter. Raises ValueError, in words for the user, for a type
    that has no JSON form. Fields have neutral names, since a parameter may be called `json` or `_x`."""
    from pydantic import ConfigDict, Field, create_model

    fields: dict[str, Any] = {}
    for n, p in enumerate(parameters):
        hint = _current(typing.Optional[p.hint] if p.default is None else p.hint)  # noqa: UP045 - at run time
        _adapter(hint, p.name)
        about: dict[str, Any] = {"description": text} if (text := _described(p)) else {}
        fields[f"p{n}"] = (hint, Field(p.default, alias=p.name, **about))
    config = ConfigDict(extra="forbid", protected_namespaces=())
    return create_model("Arguments", __config__=config, **fields)


def values_of(model: type[BaseModel], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments validated and coerced, in the order of the parameters; those not given have their
    default. Raises ValueError, which names what is wrong."""
    from pydantic import ValidationError

    try:
        made = model.model_validate(dict(arguments))
    except ValidationError as error:
        raise ValueError(problems(error)) from error
    return {str(f.alias): getattr(made, name) for name, f in type(made).model_fields.items()}


def adapter(hint: Any) -> TypeAdapter[Any]:
    """What reads values of a type. Raises ValueError like `model_of`."""
    return _adapter(_current(hint), "")


def _adapter(hint: Any, where: str) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError

    try:
        made = TypeAdapter(hint)
        schema_of(made)
    except PydanticUndefinedAnnotation as error:
        raise ValueError(f"{_of(where)}{name_of(hint)}: the name {error.name!r} is not defined") from error
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError, ValueError) as error:
        if getattr(error, "code", None) == "typed-dict-version":
            raise ValueError(
                f"{_of(where)}{name_of(hint)} has a field that is a typing.TypedDict, and before Python 3.12"
                " that must be typing_extensions.TypedDict"
            ) from error
        raise ValueError(f"{_of(where)}a value of type {name_of(hint)} cannot be written as JSON") from error
    return made


def _of(where: str) -> str:
    return f"parameter {where!r}: " if where else ""


def schema_of(source: type[BaseModel] | TypeAdapter[Any]) -> Json:
    """pydantic's JSON Schema, as it validates."""
    generator = _generator()
    if isinstance(source, type):
        return source.model_json_schema(by_alias=True, schema_generator=generator)
    return source.json_schema(by_alias=True, schema_generator=generator)


@lru_cache(maxsize=1)
def _generator() -> Any:
    from pydantic.json_schema import GenerateJsonSchema

    class Quiet(GenerateJsonSchema):
        """A default that JSON cannot write is left out without a warning."""

        ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - pydantic's own

    return Quiet


def problems(error: ValidationError) -> str:
    """The mistakes in one line: where, and what."""
    lines = []
    for one in error.errors(include_url=False, include_context=False, include_input=True)[:_SHOWN]:
        where = ".".join(str(part) for part in one["loc"]) or "the value"
        got = "" if one["type"] in ("missing", "json_invalid") else f", not {_short(one['input'])}"
        lines.append(f"{where}: {one['msg']}{got}")
    more = error.error_count() - len(lines)
    return "; ".join(lines) + (f"; and {more} more" if more > 0 else "")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


def name_of(hint: Any) -> str:
    """The type as the user would write it."""
    if typing.get_origin(hint) is typing.Annotated:
        return name_of(hint.__origin__)
    if isinstance(hint, type) and not typing.get_args(hint):
        return hint.__name__
    return re.sub(r"\b(?:typing|__main__)\.", "", str(hint))


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The hints of a function, those written as text looked up where it was defined. Raises ValueError
    for a name that is not there."""
    owner: Any = function
    if isinstance(function, type):
        owner = vars(function).get("__init__", function.__new__)
    elif not isinstance(function, (types.FunctionType, types.MethodType)):
        owner = getattr(function, "__wrapped__", getattr(type(function), "__call__", function))  # noqa: B004 - it is read
    try:
        return typing.get_type_hints(owner, include_extras=True)
    except NameError as error:
        raise ValueError(f"the hint {error.name!r} is not defined") from error
    except TypeError:  # a builtin has none
        return {}


def _described(parameter: Parameter) -> str | None:
    """By the hint itself (`Annotated[int, "…"]`, or a `Field`, which pydantic reads: None), else by the
    docstring."""
    extras = getattr(parameter.hint, "__metadata__", ())
    if any(getattr(extra, "description", None) for extra in extras):
        return None
    return next((extra for extra in extras if isinstance(extra, str)), parameter.description) or None


def _member(kind: Any, required: bool) -> Any:
    """The hint of a TypedDict's key. What it says itself counts: where it was written as text, the class
    does not know of it."""
    if typing.get_origin(kind) in (typing.Required, typing.NotRequired):
        required = typing.get_origin(kind) is typing.Required
        (kind,) = typing.get_args(kind)
    return _current(kind) if required else typing.NotRequired[_current(kind)]


def _current(hint: Any) -> Any:
    """The type with each `typing.TypedDict` as pydantic takes it: before Python 3.12 it takes only that
    of typing_extensions, which is the same but for what it remembers."""
    if sys.version_info >= (3, 12):
        return hint
    if typing.is_typeddict(hint) and type(hint).__module__ == "typing":
        import typing_extensions

        annotations = typing.get_type_hints(hint, include_extras=True)
        fields = {key: _member(kind, key in hint.__required_keys__) for key, kind in annotations.items()}
        make: Any = typing_extensions.TypedDict  # called, since the fields are known at run time only
        made = make(hint.__name__, fields)
        made.__doc__ = hint.__doc__
        return made
    if (arguments := typing.get_args(hint)) and typing.get_origin(hint) is not typing.Literal:
        renewed = tuple(_current(a) if not isinstance(a, list) else a for a in arguments)
        if typing.get_origin(hint) is typing.Annotated:
            return typing.Annotated[(renewed[0], *hint.__metadata__)]
        if isinstance(hint, types.UnionType):
            return typing.Union[renewed]  # noqa: UP007 - made at run time
        if renewed != arguments:
            return (
                hint.copy_with(renewed)
                if hasattr(hint, "copy_with")
                else hint.__class__(typing.get_origin(hint), renewed)
            )
    return hint
