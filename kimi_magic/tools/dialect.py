"""Any JSON Schema → the dialect that the server takes, for tools and for structured output.

    references          inlined, with what stood beside them; so nothing stands beside `$ref`
    anyOf, oneOf        `anyOf` without `type` beside it, each branch with a type, none nested
    type: [a, b]        `anyOf`
    const, enum         `enum` with a type
    allOf               merged
    tuples              `items` of any of their types
    objects             closed (`additionalProperties: false`), unless their keys are open
    titles              left out: they repeat the names
    limits              (minimum, maxLength, pattern, format …) left out and said in the description:
                        the server refuses or ignores them, so the value is checked here when it comes

Same schema, same bytes: order is kept. The rules are those of the family's servers, which answer 400
for a schema in another dialect, even in turns that do not use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..wire import Json

LIMITS = (
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
)
"""Keywords that do not go out, and are said in words."""

_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
_BESIDE = ("description", "default", "examples")
"""What may stand beside any keyword."""
_KEPT = (*_BESIDE, "type", "enum")
_OPEN = ("patternProperties", "propertyNames", "unevaluatedProperties")


def in_dialect(schema: Mapping[str, Any]) -> Json:
    """The schema as it goes out. Raises ValueError, in words for the user, for one that cannot:
    it refers to itself, or to nothing."""
    root = dict(schema)
    return _written(root, root, ())


def _written(node: Any, root: Json, inside: tuple[str, ...]) -> Json:
    """One subschema. inside: the references that lead to it."""
    if not isinstance(node, dict):
        return {}  # true, false and what is no schema at all allow anything
    flat, inside = _flat(node, root, inside)
    said = {key: flat[key] for key in _BESIDE if key in flat}
    branches = _branches(flat, root, inside)
    if branches is not None:
        typed = all("type" in branch for branch in branches)
        return (
            {**said, "anyOf": branches} if typed and len(branches) > 1 else _merged(branches[0], said, typed)
        )
    made = {key: flat[key] for key in _KEPT if key in flat}
    if "enum" in made and "type" not in made:
        made["type"] = _type_of(made["enum"][0])
    if made.get("type") == "object" or (isinstance(flat.get("properties"), dict) and "type" not in made):
        made |= {"type": "object", **_object(flat, root, inside)}
    if made.get("type") == "array" and (items := _items(flat)) is not None:
        made["items"] = _written(items, root, inside)
    return _with_limits(made, flat)


def _merged(only: Json, said: Json, typed: bool) -> Json:
    """One branch that is left over, or anything where a branch allows anything."""
    return {**only, **said} if typed else said


def _flat(node: Json, root: Json, inside: tuple[str, ...]) -> tuple[Json, tuple[str, ...]]:
    """The node with its references followed and `allOf` merged in; what stands nearer wins."""
    flat = dict(node)
    while "$ref" in flat or "allOf" in flat:
        if "$ref" in flat:
            ref = str(flat.pop("$ref"))
            if ref in inside:
                raise ValueError(
                    f"{ref.rpartition('/')[2] or ref!r} holds itself, and the server takes no such type"
                )
            inside = (*inside, ref)
            flat = {**_found(ref, root), **flat}
        else:
            for part in flat.pop("allOf"):
                whole, inside = _flat(part, root, inside) if isinstance(part, dict) else ({}, inside)
                flat = _joined(whole, flat)
    return flat, inside


def _joined(part: Json, flat: Json) -> Json:
    both = {**part, **flat}
    if "properties" in part and "properties" in flat:
        both["properties"] = {**part["properties"], **flat["properties"]}
    if "required" in part and "required" in flat:
        both["required"] = list(dict.fromkeys([*part["required"], *flat["required"]]))
    return both


def _found(ref: str, root: Json) -> Json:
    """What a local reference leads to: `#`, `#/$defs/Name`."""
    target: Any = root
    for part in ref.removeprefix("#").split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        target = target.get(key) if isinstance(target, dict) else None
    if not ref.startswith("#") or not isinstance(target, dict):
        raise ValueError(f"the reference {ref!r} leads to nothing")
    return target


def _branches(flat: Json, root: Json, inside: tuple[str, ...]) -> list[Json] | None:
    """The written branches of a union, however it is spelled; None for a node that is none."""
    for key in ("anyOf", "oneOf"):
        if isinstance(flat.get(key), list) and flat[key]:
            rest = {k: v for k, v in flat.items() if k not in ("anyOf", "oneOf", *_BESIDE)}
            parts = [{**rest, **branch} if isinstance(branch, dict) else {} for branch in flat[key]]
            return _flattened([_written(part, root, inside) for part in parts])
    values = [flat["const"]] if "const" in flat else flat.get("enum")
    if isinstance(values, list) and values:
        kinds = dict.fromkeys(_type_of(value) for value in values)
        return [{"type": kind, "enum": [v for v in values if _type_of(v) == kind]} for kind in kinds]
    if isinstance(flat.get("type"), list):
        rest = {k: v for k, v in flat.items() if k not in _BESIDE}
        return [_written({**rest, "type": kind}, root, inside) for kind in flat["type"]]
    return None


def _flattened(branches: list[Json]) -> list[Json]:
    """Unions inside the union joined to it; each branch once."""
    flat: list[Json] = []
    for branch in branches:
        for one in branch.get("anyOf", [branch]):
            if one not in flat:
                flat.append(one)
    return flat


def _object(flat: Json, root: Json, inside: tuple[str, ...]) -> Json:
    properties = flat.get("properties")
    made: Json = {}
    if isinstance(properties, dict):
        made["properties"] = {key: _written(part, root, inside) for key, part in properties.items()}
        if required := [key for key in flat.get("required") or () if key in properties]:
            made["required"] = required
    more = flat.get("additionalProperties")
    if isinstance(more, dict) and more:
        made["additionalProperties"] = _written(more, root, inside) or True
    else:
        is_open = "properties" not in made or any(key in flat for key in _OPEN)
        made["additionalProperties"] = is_open and more is not False
    return made


def _items(flat: Json) -> Any:
    """The schema of an array's items; a tuple's are any of its parts."""
    parts = flat.get("prefixItems")
    if not isinstance(parts, list) or not parts:
        return flat.get("items")
    return {"anyOf": parts} if len(parts) > 1 else parts[0]


def _with_limits(made: Json, flat: Json) -> Json:
    """The description ends with what does not go out as keywords."""
    limits = "; ".join(f"{key}: {flat[key]}" for key in LIMITS if key in flat)
    if not limits:
        return made
    said = str(made.get("description") or "").strip()
    return {**made, "description": f"{said} ({limits})".strip()}


def _type_of(value: object) -> str:
    return _TYPES.get(type(value), "array" if isinstance(value, list) else "object")
