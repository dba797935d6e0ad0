"""A `Request` from keyword arguments in the API's words: what `create` and `stream` take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import RequestError
from ..wire import TOOL_CHOICES, Block, Request, Said, require, require_one


def build_request(given: Mapping[str, Any]) -> Request:
    """`output_config`, `cache_control` and `tool_choice` are taken in the API's shape as well as by
    `effort`, `schema`, `cache_ttl` and a word; blocks may stand in a message as they came in a reply, and
    `Tool`s among the tools.

    Raises `RequestError` for a field that the API does not have, and for what cannot be read. The rest is
    judged by `Request.check`.
    """
    fields = dict(given)
    config, cache = fields.pop("output_config", None), fields.pop("cache_control", None)
    if config is not None:
        for name, value in _output(config).items():
            fields.setdefault(name, value)
    if cache is not None:
        _read(cache, "cache_control", {"type", "ttl"})
        require_one("cache_control.type", ("ephemeral",), cache.get("type"))
        fields.setdefault("cache_ttl", cache.get("ttl") or "5m")
    choice = fields.get("tool_choice")
    if isinstance(choice, Mapping):
        require_one("tool_choice.type", TOOL_CHOICES, choice.get("type"))
        _read(choice, "tool_choice", {"type"})
        fields["tool_choice"] = choice["type"]
    _refuse_unknown("", fields, set(Request.__dataclass_fields__))
    stops = fields.get("stop_sequences")
    fields["stop_sequences"] = (stops,) if isinstance(stops, str) else _listed(stops, "stop_sequences")
    fields["tools"] = tuple(map(_tool, _listed(fields.get("tools"), "tools")))
    if isinstance(fields.get("system"), (list, tuple)):
        fields["system"] = _plain(fields["system"])
    messages = fields.get("messages")
    messages = tuple(messages) if isinstance(messages, str) else _listed(messages, "messages")
    fields["messages"] = messages if set(map(type, messages)) == {Said} else tuple(map(_message, messages))
    return Request(**fields)


def _output(config: Any) -> dict[str, Any]:
    """`effort` and `schema` of an `output_config`."""
    _read(config, "output_config", {"effort", "format"})
    form = config.get("format")
    if form is None:
        return {"effort": config.get("effort")}
    _read(form, "output_config.format", {"type", "schema"})
    require_one("output_config.format.type", ("json_schema",), form.get("type"))
    schema = form.get("schema")
    require(isinstance(schema, dict), "output_config.format.schema", "a JSON Schema object", schema)
    return {"effort": config.get("effort"), "schema": schema}


def _read(value: Any, field: str, known: set[str]) -> None:
    require(isinstance(value, Mapping), field, "an object", value)
    _refuse_unknown(f"{field}.", value, known)


def _refuse_unknown(where: str, fields: Mapping[str, Any], known: set[str]) -> None:
    for name in fields:
        if name not in known:
            raise RequestError(
                f"{where}{name}: not a field of this API.", hint=f"It has {', '.join(sorted(known))}."
            )


def _listed(value: Any, field: str) -> tuple[Any, ...]:
    if value is None:
        return ()
    require(isinstance(value, (list, tuple)), field, "a list", value)
    return tuple(value)


def _tool(tool: Any) -> Any:
    """A `tools.Tool` as its JSON."""
    to_json = getattr(tool, "to_json", None)
    return tool if to_json is None else to_json()


def _message(message: Any) -> Any:
    """A message whose blocks are JSON objects; what is no message is left for `Request.check`."""
    if isinstance(message, Said):
        return message
    content = message.get("content") if isinstance(message, Mapping) else None
    return {**message, "content": _plain(content)} if isinstance(content, (list, tuple)) else message


def _plain(blocks: Any) -> list[Any]:
    return [b.json if isinstance(b, Block) else b for b in blocks]
