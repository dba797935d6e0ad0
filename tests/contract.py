"""The API page as a judge: what is wrong with the shape of a request that a server of the suite gets."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

import jsonschema
import yaml

PAGE = Path(__file__).parent / "spec" / "messages-openapi.yaml"


@lru_cache(maxsize=1)
def _judge() -> jsonschema.Draft202012Validator:
    """The page's schema of a request. Other models pass, as they do on servers of one's own; and so do
    blocks of kinds that the page does not list, since they go back as they came."""
    schemas = yaml.safe_load(PAGE.read_text("utf-8"))["components"]["schemas"]
    del schemas["CreateMessageRequest"]["properties"]["model"]["enum"]
    listed = [
        schemas[each["$ref"].rpartition("/")[2]]["properties"]["type"]["enum"][0]
        for each in schemas["ContentBlock"]["oneOf"]
    ]
    other = {"type": "object", "required": ["type"], "properties": {"type": {"not": {"enum": listed}}}}
    schemas["ContentBlock"]["oneOf"].append(other)
    top = {"components": {"schemas": schemas}, "$ref": "#/components/schemas/CreateMessageRequest"}
    return jsonschema.Draft202012Validator(top)


def breach(body: bytes) -> str:
    """The first thing that the page does not allow; empty where there is none."""
    error = next(_judge().iter_errors(json.loads(body)), None)
    return "" if error is None else f"{error.json_path}: {error.message[:300]}"
