"""The JSON Schema dialect of this family of servers, for tools and for structured output.

Refused: a keyword beside `$ref`; a reference that does not lead to `#/$defs/…`; `type` beside
`anyOf`; a branch of `anyOf` that has no type. One bad tool schema makes the whole request a 400.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..wire import Json

_ONE = ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else")
_LIST = ("anyOf", "oneOf", "allOf", "prefixItems")
_MAP = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")


def faults(schema: Json, field: str) -> Iterator[str]:
    """Every fault of a schema, each a sentence that begins with the path of the field."""
    for path, node in _nodes(schema, field):
        ref = node.get("$ref")
        if ref is not None:
            others = sorted(key for key in node if key != "$ref")
            if others:
                yield f"{path}: no other keyword may stand beside $ref, and {', '.join(others)} does."
            if not isinstance(ref, str) or not _leads(ref, schema):
                yield f"{path}.$ref: {ref!r} leads to nothing in #/$defs/."
        if "anyOf" in node and "type" in node:
            yield f"{path}: type may not stand beside anyOf; give each branch its type."
        for n, branch in enumerate(node["anyOf"] if isinstance(node.get("anyOf"), list) else ()):
            if isinstance(branch, dict) and not branch.keys() & {"type", "$ref", "anyOf"}:
                yield f"{path}.anyOf[{n}]: this branch has no type."


def _leads(ref: str, root: Json) -> bool:
    defs = root.get("$defs")
    return ref.startswith("#/$defs/") and isinstance(defs, dict) and ref.removeprefix("#/$defs/") in defs


def _nodes(schema: Any, path: str) -> Iterator[tuple[str, Json]]:
    """Every subschema with its path: names of properties and plain data are not schemas."""
    if not isinstance(schema, dict):
        return
    yield path, schema
    for key in _ONE:
        yield from _nodes(schema.get(key), f"{path}.{key}")
    for key in _LIST:
        for n, item in enumerate(schema[key] if isinstance(schema.get(key), list) else ()):
            yield from _nodes(item, f"{path}.{key}[{n}]")
    for key in _MAP:
        for name, item in (schema[key] if isinstance(schema.get(key), dict) else {}).items():
            yield from _nodes(item, f"{path}.{key}.{name}")
