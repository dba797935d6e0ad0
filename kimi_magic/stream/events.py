"""The events of a streamed reply, one type each, named as the API names them.

`decode_event` reads one event's data. What is documented becomes its own type; an unknown event or
delta becomes `UnknownEvent` or `UnknownDelta` with its JSON, because the API says that new kinds may
appear. Dispatch is on `type` inside the data, not on the `event:` line, which gateways drop.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from ..wire import Json


class _Typed(msgspec.Struct, frozen=True, tag_field="type"):
    @property
    def type(self) -> str:
        """The API's name of this kind."""
        return str(self.__struct_config__.tag)


class TextDelta(_Typed, frozen=True, tag="text_delta", gc=False):
    text: str


class ThinkingDelta(_Typed, frozen=True, tag="thinking_delta", gc=False):
    thinking: str


class InputJsonDelta(_Typed, frozen=True, tag="input_json_delta", gc=False):
    partial_json: str


class SignatureDelta(_Typed, frozen=True, tag="signature_delta", gc=False):
    signature: str


class CitationsDelta(_Typed, frozen=True, tag="citations_delta"):
    citation: Json


class UnknownDelta(_Typed, frozen=True, tag=""):
    """A delta of a kind that is not documented."""

    json: Json

    @property
    def type(self) -> str:
        return str(self.json.get("type", ""))


Delta = TextDelta | ThinkingDelta | InputJsonDelta | SignatureDelta | CitationsDelta | UnknownDelta


class MessageStart(_Typed, frozen=True, tag="message_start"):
    message: Json


class ContentBlockStart(_Typed, frozen=True, tag="content_block_start"):
    index: int
    content_block: Json


class ContentBlockDelta(_Typed, frozen=True, tag="content_block_delta"):
    index: int
    delta: Delta


class ContentBlockStop(_Typed, frozen=True, tag="content_block_stop"):
    index: int


class MessageDelta(_Typed, frozen=True, tag="message_delta"):
    delta: Json
    """stop_reason and stop_sequence."""
    usage: Json | None = None
    """Running totals."""


class MessageStop(_Typed, frozen=True, tag="message_stop"):
    pass


class Ping(_Typed, frozen=True, tag="ping"):
    pass


class ErrorEvent(_Typed, frozen=True, tag="error"):
    """An error after the 200; raised by `MessageStream`, never handed on."""

    error: Any = None
    message: Any = None
    """Some gateways put it here."""
    request_id: Any = None


class UnknownEvent(_Typed, frozen=True, tag=""):
    """An event of a kind that is not documented."""

    json: Json

    @property
    def type(self) -> str:
        return str(self.json.get("type", ""))


Event = (
    MessageStart
    | ContentBlockStart
    | ContentBlockDelta
    | ContentBlockStop
    | MessageDelta
    | MessageStop
    | Ping
    | UnknownEvent
)


_DOCUMENTED = (
    MessageStart,
    ContentBlockStart,
    ContentBlockDelta,
    ContentBlockStop,
    MessageDelta,
    MessageStop,
    Ping,
    ErrorEvent,
)
_NAMES = {str(kind.__struct_config__.tag).encode() for kind in _DOCUMENTED}
_decode = msgspec.json.Decoder(Event | ErrorEvent).decode


def decode_event(name: bytes, data: bytes) -> Event | ErrorEvent | None:
    """The event that `data` holds; None for what is no event (`[DONE]`, empty data, a gateway's own
    note under a name of its own).

    Raises ValueError where a documented event, or one without a name, is not a JSON object.
    """
    try:
        return _decode(data)  # type: ignore[no-any-return]  # a Decoder of a union is untyped
    except (msgspec.DecodeError, RecursionError):
        return _decode_slowly(name, data)


def _decode_slowly(name: bytes, data: bytes) -> Event | ErrorEvent | None:
    if not data.strip() or data.strip() == b"[DONE]":
        return None
    try:
        value = parse_json(data)
    except ValueError:
        if name and name not in _NAMES:
            return None
        if name == b"error":  # some gateways write a line of text
            return ErrorEvent(data.decode("utf-8", "replace"))
        raise
    if not isinstance(value, dict):
        if name and name not in _NAMES:
            return None
        raise ValueError(f"an event that is no JSON object: {value!r:.80}")
    return _from_json(value, name)


def parse_json(data: bytes | str) -> Any:
    """JSON as lenient as the field needs: bytes that are not UTF-8 become U+FFFD, half surrogate
    pairs (`\\ud83c` alone) stay, to be joined with the half that follows.

    Raises ValueError for anything else that is not JSON.
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeEncodeError):
        pass
    except RecursionError:
        raise ValueError("JSON nested too deeply") from None
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    try:
        return json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("JSON nested too deeply") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _from_json(value: Json, name: bytes) -> Event | ErrorEvent:
    kind = value.get("type") or name.decode("utf-8", "replace")
    index = _index(value.get("index"))
    match kind:
        case "message_start":
            return MessageStart(_object(value.get("message")))
        case "content_block_start":
            return ContentBlockStart(index, _object(value.get("content_block")))
        case "content_block_delta":
            return ContentBlockDelta(index, _delta(_object(value.get("delta"))))
        case "content_block_stop":
            return ContentBlockStop(index)
        case "message_delta":
            usage = value.get("usage")
            return MessageDelta(_object(value.get("delta")), usage if isinstance(usage, dict) else None)
        case "message_stop":
            return MessageStop()
        case "ping":
            return Ping()
        case "error":
            return ErrorEvent(value.get("error"), value.get("message"), value.get("request_id"))
    if "error" in value and "type" not in value:  # the shape that OpenAI-like gateways send
        return ErrorEvent(value["error"], request_id=value.get("request_id"))
    return UnknownEvent(value)


def _index(value: Any) -> int:
    return int(value) if isinstance(value, (int, float)) and -(2**53) < value < 2**53 else 0


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


_DELTAS: dict[str, tuple[Any, str, type]] = {
    "text_delta": (TextDelta, "text", str),
    "thinking_delta": (ThinkingDelta, "thinking", str),
    "input_json_delta": (InputJsonDelta, "partial_json", str),
    "signature_delta": (SignatureDelta, "signature", str),
    "citations_delta": (CitationsDelta, "citation", dict),
}


def _delta(value: Json) -> Delta:
    make, key, kind = _DELTAS.get(str(value.get("type")), (None, "", str))
    if make is None or not isinstance(value.get(key, kind()), kind):
        return UnknownDelta(value)
    return make(value.get(key, kind()))  # type: ignore[no-any-return]
