"""Whether a JSON value fits a JSON Schema (draft 2020-12, without remote references).

Small, because its one use is to test candidates that were made for the schema. A keyword that
stands here not at all restricts nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sized
from typing import Any
from urllib.parse import unquote

from ..wire import Json
from .plausible import has_format

MAX_DEPTH = 60


class UnresolvedError(Exception):
    """A `$ref` that leads nowhere, or round in a circle."""


def resolve(ref: object, root: Json) -> Any:
    """The subschema that `#/…` points to."""
    node: Any = root
    if not isinstance(ref, str) or not ref.startswith("#"):
        raise UnresolvedError(f"$ref: {ref!r} does not point into this schema.")
    for part in [p.replace("~1", "/").replace("~0", "~") for p in unquote(ref[1:]).split("/") if p]:
        if isinstance(node, list) and part.isdigit() and int(part) < len(node):
            node = node[int(part)]
        elif isinstance(node, dict) and part in node:
            node = node[part]
        else:
            raise UnresolvedError(f"$ref: {ref!r} leads to nothing in this schema.")
    return node


def fits(value: Any, schema: Any, root: Json, depth: int = 0, *, formats: bool = False) -> bool:
    """formats: also judge texts by `format`, which a validator may do or leave."""
    if not isinstance(schema, dict):
        return schema is not False
    if depth > MAX_DEPTH:
        raise UnresolvedError("$ref: leads round in a circle.")

    def inner(value: Any, schema: Any) -> bool:
        return fits(value, schema, root, depth + 1, formats=formats)

    if formats and isinstance(value, str) and not has_format(value, schema.get("format")):
        return False
    return all(
        check(value, schema[key], schema, inner) for key, check in _CHECKS.items() if key in schema
    ) and ("$ref" not in schema or inner(value, resolve(schema["$ref"], root)))


def same(a: Any, b: Any) -> bool:
    """Equality as JSON has it: 1 and 1.0 are equal, 1 and true are not."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return bool(a == b)


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_type(value: Any, name: str) -> bool:
    if name == "integer":
        return is_number(value) and value == int(value)
    if name == "number":
        return is_number(value)
    kinds: dict[str, type] = {"string": str, "boolean": bool, "array": list, "object": dict}
    return value is None if name == "null" else isinstance(value, kinds.get(name, object))


Inner = Callable[[Any, Any], bool]
Check = Callable[[Any, Any, Json, Inner], bool]


def _types(names: Any) -> list[str]:
    return names if isinstance(names, list) else [names]


def _properties(value: Any, _: Any, schema: Json, inner: Inner) -> bool:
    """properties, patternProperties and additionalProperties together, since they share the names."""
    if not isinstance(value, dict):
        return True
    named, patterns = schema.get("properties") or {}, schema.get("patternProperties") or {}
    for key, item in value.items():
        parts = [named[key]] if key in named else []
        parts += [part for pattern, part in patterns.items() if re.search(pattern, key)]
        if not all(inner(item, part) for part in parts or [schema.get("additionalProperties", True)]):
            return False
    return True


def _items(value: Any, _: Any, schema: Json, inner: Inner) -> bool:
    if not isinstance(value, list):
        return True
    prefix = schema.get("prefixItems") or []
    rest = schema.get("items", True)
    return all(inner(item, prefix[n] if n < len(prefix) else rest) for n, item in enumerate(value))


def _contains(value: Any, part: Any, schema: Json, inner: Inner) -> bool:
    if not isinstance(value, list):
        return True
    found = sum(inner(item, part) for item in value)
    return bool(schema.get("minContains", 1) <= found <= schema.get("maxContains", found))


def _unique(value: Any, wanted: Any, _: Json, __: Inner) -> bool:
    if not wanted or not isinstance(value, list):
        return True
    return not any(same(item, other) for n, item in enumerate(value) for other in value[:n])


def _condition(value: Any, part: Any, schema: Json, inner: Inner) -> bool:
    return inner(value, schema.get("then" if inner(value, part) else "else", True))


def _multiple(value: Any, step: Any, _: Json, __: Inner) -> bool:
    if not is_number(value):
        return True
    quotient = value / step
    return bool(quotient == int(quotient))


def _sized(kind: type[Sized], test: Callable[[int, Any], bool]) -> Check:
    return lambda value, limit, schema, inner: not isinstance(value, kind) or test(len(value), limit)


def _bound(test: Callable[[Any, Any], bool]) -> Check:
    return lambda value, limit, schema, inner: not is_number(value) or test(value, limit)


_CHECKS: dict[str, Check] = {
    "type": lambda v, names, s, inner: any(is_type(v, name) for name in _types(names)),
    "const": lambda v, const, s, inner: same(v, const),
    "enum": lambda v, enum, s, inner: any(same(v, item) for item in enum),
    "minimum": _bound(lambda v, limit: v >= limit),
    "maximum": _bound(lambda v, limit: v <= limit),
    "exclusiveMinimum": _bound(lambda v, limit: v > limit),
    "exclusiveMaximum": _bound(lambda v, limit: v < limit),
    "multipleOf": _multiple,
    "minLength": _sized(str, lambda size, limit: size >= limit),
    "maxLength": _sized(str, lambda size, limit: size <= limit),
    "pattern": lambda v, p, s, inner: not isinstance(v, str) or bool(re.search(p, v)),
    "minItems": _sized(list, lambda size, limit: size >= limit),
    "maxItems": _sized(list, lambda size, limit: size <= limit),
    "uniqueItems": _unique,
    "prefixItems": _items,
    "items": _items,
    "contains": _contains,
    "minProperties": _sized(dict, lambda size, limit: size >= limit),
    "maxProperties": _sized(dict, lambda size, limit: size <= limit),
    "required": lambda v, names, s, inner: not isinstance(v, dict) or v.keys() >= set(names),
    "properties": _properties,
    "patternProperties": _properties,
    "additionalProperties": _properties,
    "propertyNames": lambda v, part, s, inner: not isinstance(v, dict) or all(inner(k, part) for k in v),
    "dependentRequired": lambda v, needs, s, inner: (
        not isinstance(v, dict) or all(v.keys() >= set(names) for key, names in needs.items() if key in v)
    ),
    "dependentSchemas": lambda v, parts, s, inner: (
        not isinstance(v, dict) or all(inner(v, part) for key, part in parts.items() if key in v)
    ),
    "anyOf": lambda v, parts, s, inner: any(inner(v, part) for part in parts),
    "oneOf": lambda v, parts, s, inner: sum(inner(v, part) for part in parts) == 1,
    "allOf": lambda v, parts, s, inner: all(inner(v, part) for part in parts),
    "not": lambda v, part, s, inner: not inner(v, part),
    "if": _condition,
}
