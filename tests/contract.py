"""The API page as a judge, of requests and of replies."""

from __future__ import annotations

import json
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

import jsonschema
import yaml

PAGE = yaml.safe_load((Path(__file__).parent / "spec" / "messages-openapi.yaml").read_text("utf-8"))


def judge(name: str, page: Any = PAGE) -> jsonschema.Draft202012Validator:
    """The judge by one of the page's schemas."""
    top = {"$ref": f"#/components/schemas/{name}", "components": page["components"]}
    return jsonschema.Draft202012Validator(top)


@lru_cache(maxsize=1)
def _lenient() -> jsonschema.Draft202012Validator:
    """The page's schema of a request. Other models pass, as they do on servers of one's own; and so do
    blocks of kinds that the page does not list, since they go back as they came."""
    page = deepcopy(PAGE)
    schemas = page["components"]["schemas"]
    del schemas["CreateMessageRequest"]["properties"]["model"]["enum"]
    listed = [
        schemas[each["$ref"].rpartition("/")[2]]["properties"]["type"]["enum"][0]
        for each in schemas["ContentBlock"]["oneOf"]
    ]
    other = {"type": "object", "required": ["type"], "properties": {"type": {"not": {"enum": listed}}}}
    schemas["ContentBlock"]["oneOf"].append(other)
    return judge("CreateMessageRequest", page)


def breach(body: bytes) -> str:
    """The first thing that the page does not allow in a request that a server of the suite gets; empty
    where there is none."""
    error = next(_lenient().iter_errors(json.loads(body)), None)
    return "" if error is None else f"{error.json_path}: {error.message[:300]}"
