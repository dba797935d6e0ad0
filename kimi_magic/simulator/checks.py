"""Requests judged by the OpenAPI page and the notes on the wire, each refusal naming its field.

Strict is what the server documents. Lenient lets through what other clients add out of habit:
`x-api-key`, other model names, sampling fields, marks on blocks, `tools: []`, a named tool_choice,
two messages of one role in a row, schemas in any dialect.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..wire import CACHE_TTLS, CONTEXT_WINDOW, EFFORTS, MAX_STOP_BYTES, MAX_STOP_SEQUENCES, Json
from . import dialect
from .history import check_messages, check_text
from .refusals import check_mark, require, unauthorized, whole_number

_FIELDS = {
    "model",
    "max_tokens",
    "messages",
    "system",
    "stream",
    "tools",
    "tool_choice",
    "stop_sequences",
    "cache_control",
    "output_config",
}


def check_key(headers: Mapping[str, str], refused: Collection[str], *, lenient: bool) -> None:
    """401 unless `Authorization: Bearer KEY` is there and the key is not a refused one."""
    scheme, _, key = headers.get("authorization", "").strip().partition(" ")
    key = key.strip() if scheme.lower() == "bearer" else ""
    if not key and lenient:
        key = headers.get("x-api-key", "").strip()
    if not key:
        raise unauthorized("Authorization: a header 'Authorization: Bearer KEY' is needed.")
    if key in refused:
        raise unauthorized("Authorization: this API key is not valid.")


def check_request(request: Json, models: Collection[str], *, lenient: bool) -> None:
    """Raise `BadRequestError` for the first thing that the page rules out."""
    extra = sorted(request.keys() - _FIELDS)
    require(lenient or not extra, f"{extra and extra[0]}: this API has no such field.")
    for name in ("model", "max_tokens", "messages"):
        require(request.get(name) is not None, f"{name}: this field is required.")
    model = request["model"]
    require(isinstance(model, str) and bool(model), f"model: must be text, not {model!r}.")
    known = lenient or model.partition(":")[0] in models
    require(known, f"model: must be one of {', '.join(models)}, not {model!r}.")
    whole_number("max_tokens", request["max_tokens"], CONTEXT_WINDOW)
    require(isinstance(request.get("stream", False), bool), "stream: must be true or false.")
    _check_system(request.get("system"), lenient)
    _check_tools(request, lenient)
    _check_stops(request.get("stop_sequences"))
    _check_cache_control(request.get("cache_control"))
    _check_output(request.get("output_config"), lenient)
    check_messages(request["messages"], lenient)


def _check_system(system: Any, lenient: bool) -> None:
    if system is None or isinstance(system, str):
        return
    require(isinstance(system, list), "system: must be text or a list of text blocks.")
    for n, block in enumerate(system):
        field = f"system[{n}]"
        require(isinstance(block, dict) and block.get("type") == "text", f"{field}: must be a text block.")
        check_text(block, field)
        check_mark(block, field, lenient)


def _check_tools(request: Json, lenient: bool) -> None:
    tools, choice = request.get("tools"), request.get("tool_choice")
    require(tools is None or isinstance(tools, list), "tools: must be a list.")
    names: set[str] = set()
    for n, tool in enumerate(tools or ()):
        require(isinstance(tool, dict), f"tools[{n}]: must be an object.")
        _check_tool(tool, f"tools[{n}]", lenient)
        require(tool["name"] not in names, f"tools[{n}].name: {tool['name']!r} stands there twice.")
        names.add(tool["name"])
    if choice is None:
        return
    kind = choice.get("type") if isinstance(choice, dict) else choice
    allowed = ("auto", "any", "none", *(("tool",) if lenient else ()))
    require(kind in allowed, f"tool_choice.type: must be one of {', '.join(allowed)}, not {kind!r}.")
    require(kind != "any" or bool(names), "tool_choice.type: 'any' needs at least one tool.")
    require(kind != "tool" or choice.get("name") in list(names), "tool_choice.name: there is no such tool.")


def _check_tool(tool: Json, field: str, lenient: bool) -> None:
    name, kind, schema = tool.get("name"), tool.get("type"), tool.get("input_schema")
    require(isinstance(name, str) and 0 < len(name) <= 128, f"{field}.name: must be 1 to 128 characters.")
    check_mark(tool, field, lenient)
    if kind == "web_search_20250305":
        require(name == "web_search", f"{field}.name: must be web_search, not {name!r}.")
        if tool.get("max_uses") is not None:
            whole_number(f"{field}.max_uses", tool["max_uses"], None)
        return
    require(kind in (None, "custom"), f"{field}.type: there is no tool of type {kind!r}.")
    require(isinstance(schema, dict), f"{field}.input_schema: must be a JSON Schema object.")
    root = schema.get("type") if isinstance(schema, dict) else None
    require(lenient or root == "object", f"{field}.input_schema.type: must be object, not {root!r}.")
    _check_schema(schema, f"{field}.input_schema", lenient)


def _check_schema(schema: Any, field: str, lenient: bool) -> None:
    fault = None if lenient else next(dialect.faults(schema, field), None)
    require(fault is None, str(fault))


def _check_stops(stops: Any) -> None:
    if stops is None:
        return
    require(isinstance(stops, list), "stop_sequences: must be a list of texts.")
    require(
        len(stops) <= MAX_STOP_SEQUENCES, f"stop_sequences: at most {MAX_STOP_SEQUENCES}, not {len(stops)}."
    )
    for n, stop in enumerate(stops):
        size = len(stop.encode()) if isinstance(stop, str) else 0
        fits = 1 <= size <= MAX_STOP_BYTES
        require(fits, f"stop_sequences[{n}]: must have 1 to {MAX_STOP_BYTES} bytes, {stop!r} has {size}.")


def _check_cache_control(mark: Any) -> None:
    if mark is None:
        return
    require(isinstance(mark, dict), "cache_control: must be an object.")
    require(
        mark.get("type") == "ephemeral", f"cache_control.type: must be ephemeral, not {mark.get('type')!r}."
    )
    ttl = mark.get("ttl")
    require(ttl is None or ttl in CACHE_TTLS, f"cache_control.ttl: must be 5m or 1h, not {ttl!r}.")


def _check_output(config: Any, lenient: bool) -> None:
    if config is None:
        return
    require(isinstance(config, dict), "output_config: must be an object.")
    effort, form = config.get("effort"), config.get("format")
    allowed = ", ".join(EFFORTS)
    require(
        effort is None or effort in list(EFFORTS), f"output_config.effort: one of {allowed}, not {effort!r}."
    )
    if form is None:
        return
    good = isinstance(form, dict) and form.get("type") == "json_schema"
    require(good, "output_config.format.type: must be json_schema.")
    require(
        isinstance(form.get("schema"), dict), "output_config.format.schema: must be a JSON Schema object."
    )
    _check_schema(form["schema"], "output_config.format.schema", lenient)
