"""Two JSON Schemas made into one that asks for both, and how deep a schema must go.

Merging is best effort (`additionalProperties` of one and `properties` of the other cannot always be
told apart): what is made from the result is tested against the original.
"""

from __future__ import annotations

import math
from typing import Any

from ..wire import Json
from .fits import UnresolvedError, resolve, same

_GREATER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains")
_SMALLER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains")


def merge(a: Json, b: Json) -> Json:
    """A schema for values that fit both."""
    merged = dict(a)
    for key, value in b.items():
        merged[key] = _both(key, merged[key], value) if key in merged else value
    for key in ("anyOf", "oneOf"):
        # Each of two lists of branches must hold; the second waits in allOf until the first is chosen.
        if key in a and key in b:
            merged[key] = a[key]
            merged["allOf"] = [*merged.get("allOf", []), {key: b[key]}]
    return merged


def _both(key: str, one: Any, two: Any) -> Any:
    if key in _GREATER:
        return max(one, two)
    if key in _SMALLER:
        return min(one, two)
    if key == "type":
        return _common_types(one, two)
    if key == "enum":
        return [item for item in one if any(same(item, other) for other in two)]
    if key == "required":
        return [*one, *(name for name in two if name not in one)]
    if key == "allOf":
        return [*one, *two]
    if key in ("properties", "patternProperties"):
        return {**one, **{k: _schemas(one[k], v) if k in one else v for k, v in two.items()}}
    if key in ("items", "additionalProperties", "propertyNames"):
        return _schemas(one, two)
    return two


def _schemas(one: Any, two: Any) -> Any:
    if one is False or two is False:
        return False
    if not isinstance(one, dict) or not isinstance(two, dict):
        return two if isinstance(two, dict) else one
    return {"allOf": [one, two]}


def _common_types(one: Any, two: Any) -> Any:
    first, second = (kinds if isinstance(kinds, list) else [kinds] for kinds in (one, two))
    common = [kind for kind in first if kind in second]
    if "integer" not in common and {"integer", "number"} <= {*first, *second}:
        common.append("integer")
    return common[0] if len(common) == 1 else common


def height(schema: Any, root: Json, seen: tuple[str, ...] = ()) -> float:
    """Levels that a value of this schema must have; infinity where it only leads to itself."""
    if not isinstance(schema, dict):
        return 0
    ref = schema.get("$ref")
    if ref is not None:
        if ref in seen:
            return math.inf
        try:
            return height(resolve(ref, root), root, (*seen, ref))
        except UnresolvedError:
            return math.inf
    properties = schema.get("properties") or {}
    parts = [properties.get(name) for name in schema.get("required") or ()]
    if schema.get("minItems"):
        parts += [*(schema.get("prefixItems") or ()), schema.get("items")]
    deepest = max((1 + height(part, root, seen) for part in parts), default=0)
    for key in ("anyOf", "oneOf"):
        if schema.get(key):
            deepest = max(deepest, min(height(part, root, seen) for part in schema[key]))
    return max(deepest, *(height(part, root, seen) for part in schema.get("allOf") or ()), 0)
