"""The one place where the server's errors become ours."""

from __future__ import annotations

import re
from typing import Any

from ..errors import (
    APIError,
    AuthenticationError,
    BadRequestError,
    OverloadedError,
    QuotaError,
    RateLimitError,
    ServerError,
)

_BY_STATUS: dict[int, type[APIError]] = {
    402: QuotaError,
    401: AuthenticationError,
    403: AuthenticationError,
    429: RateLimitError,
    529: OverloadedError,
}
_BY_TYPE: dict[str, type[APIError]] = {
    "authentication_error": AuthenticationError,
    "permission_error": AuthenticationError,
    "rate_limit_error": RateLimitError,
    "overloaded_error": OverloadedError,
    "api_error": ServerError,
    "invalid_request_error": BadRequestError,
    "not_found_error": BadRequestError,
    "request_too_large": BadRequestError,
    "billing_error": QuotaError,
}
_HINTS: dict[type[APIError], str] = {
    AuthenticationError: "Check KIMI_API_KEY (%kimi status says where the key comes from).",
    RateLimitError: "Wait a little and run the cell again.",
    QuotaError: "The account's quota is spent: top it up; trying again will not help.",
    OverloadedError: "The server is busy: run the cell again in a moment.",
    ServerError: "The fault is the server's: run the cell again in a moment.",
}
_QUOTA = re.compile(
    r"exceeded[_ ](your[_ ])?current[_ ](\w+[_ ])?quota|insufficient[_ ](user[_ ])?(quota|balance)"
    r"|(?<!频繁或)额度不足|余额不足"  # the page calls every 429 请求过于频繁或额度不足
)


def api_error(
    status: int | None,
    body: Any,
    *,
    request_id: str | None = None,
    retry_after: float | None = None,
) -> APIError:
    """The error that a reply's JSON body tells of, in the page's shape (`ErrorResponse`) or in
    the one that OpenAI-like gateways send. status: None for an `error` event in a 200 stream."""
    body = body if isinstance(body, dict) else {}
    inner = body.get("error", body)
    inner = inner if isinstance(inner, dict) else {"message": inner}
    kind = _printable(inner.get("type") or inner.get("code"), 80) or None
    text = _printable(inner.get("message") or body.get("detail"), 500) or "no message"
    cls = _error_class(status, kind, f"{inner.get('code')} {text}")
    hint = _HINTS.get(cls, "")
    if "reasoning_content" in text or ("thinking" in text and cls is BadRequestError):
        hint = "Thinking blocks of earlier turns must go back unchanged: start afresh with %kimi new."
    where = f"{status} {kind}" if status and kind else str(status or kind or "error")
    error = cls(f"The server answered {where}: {text.rstrip('.')}.", hint=hint, status=status, type=kind)
    error.request_id = request_id or _printable(body.get("request_id"), 200) or None
    error.retry_after = retry_after
    return error


def _printable(value: Any, longest: int) -> str:
    """The server's words without what would steer a terminal."""
    text = " ".join(str(value or "")[: 2 * longest].split())
    return "".join(c for c in text if c.isprintable())[:longest]


def _error_class(status: int | None, kind: str | None, text: str) -> type[APIError]:
    quota = _QUOTA.search(f"{kind} {text}".lower())
    if quota and status in (None, 402, 403, 429):
        return QuotaError
    if status is None and kind in _BY_TYPE:
        return _BY_TYPE[kind]
    if status is None:  # some gateways put a status where the type belongs
        status = int(kind) if kind and kind.isascii() and kind.isdigit() and len(kind) == 3 else 500
    return _BY_STATUS.get(status, ServerError if status >= 500 else BadRequestError)
