"""`Schema`: a type that the reply follows, and the value that is read from the reply.

The server takes an object at the root only, so a list, a union or a scalar goes under the one key
`value` and is taken out again. Limits (`ge`, `max_length`, `pattern` …) are checked here.
"""

from __future__ import annotations

import json
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import CutReplyError, InvalidReplyError, RefusedReplyError, SchemaError
from ..wire import Json, Message
from . import hints
from .dialect import in_dialect

KEY = "value"
"""The key that wraps what is no object."""

_WORDS = {"type", "properties", "anyOf", "oneOf", "allOf", "enum", "const", "$ref", "items"}
"""A mapping with none of these is no schema."""
_FENCED = re.compile(r"\s*```(?:json)?[ \t]*\n(.*?)\n?```\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Schema:
    """Make one with `Schema.of`."""

    type: Any
    """The type, or the JSON Schema, as the user gave it."""
    name: str
    json: Json
    """As a request has it, in the server's dialect."""
    is_wrapped: bool
    _check: Callable[[Any], Any]
    _plain: Callable[[Any], Any]

    @classmethod
    def of(cls, type: Any) -> Schema:
        """The schema of a pydantic model, dataclass, TypedDict, enum, union, `list[…]`, scalar, or of a
        mapping that is a JSON Schema. Raises `SchemaError` for anything else, one that refers to itself
        too, and for a mapping where the package jsonschema is not installed."""
        if isinstance(type, Schema):
            return type
        if isinstance(type, Mapping):
            return cls._of_json(dict(type))
        if type is None or not (_is_hint(type)):
            raise SchemaError(
                f"A value of type {type.__class__.__name__} is no schema.",
                hint="Give a pydantic model, dataclass, TypedDict, enum, list[…] of them, or a JSON Schema.",
            )
        try:
            adapter = hints.adapter(type)
            written, wrapped = _written(hints.schema_of(adapter))
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"{hints.name_of(type)} cannot be a schema: {error}.") from error
        return cls(type, hints.name_of(type), written, wrapped, _by_type(adapter), adapter.dump_python)

    @classmethod
    def _of_json(cls, schema: Json) -> Schema:
        if not _WORDS & schema.keys():
            raise SchemaError("The mapping is no JSON Schema: it has no type and no properties.")
        try:
            written, wrapped = _written(schema)
            check = _by_schema(schema)
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"The JSON Schema cannot be used: {error}.") from error
        return cls(schema, str(schema.get("title") or "JSON"), written, wrapped, check, lambda value: value)

    def read(self, text: str, message: Message | None = None) -> Any:
        """The typed value of a reply. message: the reply, for its stop reason; every error carries it.

        Raises `RefusedReplyError`, `CutReplyError`, or `InvalidReplyError`, which names the fields.
        """
        reason = message.stop_reason if message is not None else None
        error: SchemaError
        if reason == "refusal":
            error = RefusedReplyError(f"The model refused to fill the schema {self.name}.")
        elif reason in ("max_tokens", "model_context_window_exceeded", "pause_turn", "stop_sequence"):
            error = CutReplyError(
                f"The reply was cut ({reason}) before the schema {self.name} was filled.",
                hint="Raise -n/--max-tokens; thinking counts too." if reason == "max_tokens" else "",
            )
        else:
            try:
                return self._value(text)
            except ValueError as fault:
                error = InvalidReplyError(f"The reply does not fit the schema {self.name}: {fault}.")
        error.partial = message
        raise error

    def rows(self, value: Any) -> list[Json]:
        """A value of this schema as records, one each for a list of objects: what a DataFrame takes."""
        plain = self._plain(value)
        items = plain if isinstance(plain, list) else [plain]
        return [item if isinstance(item, dict) else {KEY: item} for item in items]

    def _value(self, text: str) -> Any:
        fenced = _FENCED.fullmatch(text)
        try:
            value = json.loads(fenced[1] if fenced else text, parse_constant=_no_constant)
        except RecursionError as error:
            raise ValueError("its JSON is nested too deeply") from error
        except json.JSONDecodeError as error:
            raise ValueError(f"it is not JSON ({error})") from error
        if self.is_wrapped:
            if not isinstance(value, dict) or KEY not in value:
                raise ValueError(f"it has no {KEY!r}")
            value = value[KEY]
        return self._check(value)


def _written(schema: Json) -> tuple[Json, bool]:
    """The schema as it goes out, with an object at its root; and whether it had to be wrapped."""
    written = in_dialect(schema)
    if written.get("type") == "object":
        return written, False
    root = {"type": "object", "properties": {KEY: written}, "required": [KEY], "additionalProperties": False}
    return root, True


def _by_type(adapter: Any) -> Callable[[Any], Any]:
    from pydantic import ValidationError

    def check(value: Any) -> Any:
        try:
            return adapter.validate_python(value)
        except ValidationError as error:
            raise ValueError(hints.problems(error)) from error

    return check


def _by_schema(schema: Json) -> Callable[[Any], Any]:
    try:
        from jsonschema import SchemaError as Unusable
        from jsonschema.validators import validator_for
    except ImportError:
        raise SchemaError(
            "A JSON Schema is checked by the package jsonschema.", hint="%pip install jsonschema"
        ) from None
    kind = validator_for(
        schema, default=validator_for({"$schema": "https://json-schema.org/draft/2020-12/schema"})
    )
    try:
        kind.check_schema(schema)
    except Unusable as error:
        raise ValueError(f"{error.json_path}: {error.message}") from error
    validator = kind(schema, format_checker=kind.FORMAT_CHECKER)

    def check(value: Any) -> Any:
        faults = [f"{fault.json_path}: {fault.message}" for fault in validator.iter_errors(value)]
        if faults:
            raise ValueError("; ".join(faults[:5]))
        return value

    return check


def _no_constant(name: str) -> None:
    raise ValueError(f"it is not JSON ({name})")


def _is_hint(value: Any) -> bool:
    """A class, `list[City]`, `A | B`, `Annotated[…]`."""
    return isinstance(value, type) or typing.get_origin(value) is not None or typing.is_typeddict(value)
