"""How a request is refused: the first rule that it breaks, as the documented error that names the field."""

from __future__ import annotations

from typing import Any

from ..errors import AuthenticationError, BadRequestError
from ..wire import Json


def check_mark(holder: Json, field: str, lenient: bool) -> None:
    marked = holder.get("cache_control") is not None
    require(
        lenient or not marked, f"{field}.cache_control: only the request's top-level cache_control counts."
    )


def whole_number(field: str, value: Any, limit: int | None) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    upper = "…" if limit is None else f" to {limit:,}"
    good = whole and value >= 1 and (limit is None or value <= limit)
    require(good, f"{field}: must be a whole number from 1{upper}, not {value!r}.")


def require(good: bool, message: str) -> None:
    if not good:
        raise bad_request(message)


def bad_request(message: str) -> BadRequestError:
    return BadRequestError(message, status=400, type="invalid_request_error")


def unauthorized(message: str) -> AuthenticationError:
    return AuthenticationError(message, status=401, type="authentication_error")
