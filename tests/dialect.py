"""The server's schema dialect, written down a second time for the tests: what the family answers 400 to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

LIMITS = {
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
    "pattern", "format", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties",
}  # fmt: skip


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Every subschema."""
    if not isinstance(schema, dict):
        return
    yield schema
    for child in [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]:
        yield from nodes(child)
    for key in ("items", "additionalProperties"):
        yield from nodes(schema.get(key))


def check(schema: dict[str, Any]) -> None:
    assert schema["type"] == "object"
    for node in nodes(schema):
        assert not {"$ref", "$defs", "allOf", "oneOf", "const", "title", *LIMITS} & set(node)
        assert not isinstance(node.get("type"), list)
        if "anyOf" in node:
            assert "type" not in node
            assert len(node["anyOf"]) > 1
            assert all("type" in branch for branch in node["anyOf"])
        if "properties" in node:
            assert node["additionalProperties"] is False
