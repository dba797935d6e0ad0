"""Everything that kimi_magic raises on purpose, one tree under `KimiError`.

    KimiError
    ├── ConfigError             a setting, key or base URL that cannot be used
    ├── OptionError             an option of a cell or a subcommand
    ├── PromptError             a value, file or image that cannot go into a prompt
    ├── RequestError            a request that the API page rules out; nothing was sent
    ├── ConversationError       no such conversation, turn or branch
    ├── BudgetError             a budget is spent; nothing was sent
    ├── StoreError              the state on disk cannot be read or written
    ├── ReplayError             a recorded reply was asked for and is not there
    ├── ToolError               a function that cannot be offered to the model
    ├── SchemaError             a type that cannot be a schema, or a reply that does not fill it
    │   ├── CutReplyError       it ended before the schema was filled
    │   ├── RefusedReplyError   the model refused
    │   └── InvalidReplyError   it is no JSON, or does not fit the schema
    ├── TransportError          no usable HTTP reply
    │   ├── ConnectError        no connection to the host
    │   └── TimeoutError        the host fell silent, or sent only pings
    ├── APIError                the server answered with an error
    │   ├── BadRequestError     400 and the other 4xx that repeating does not mend
    │   ├── AuthenticationError 401, 403
    │   ├── RateLimitError      429
    │   │   └── QuotaError      429 because the money is spent: final
    │   ├── ServerError         5xx
    │   │   └── OverloadedError 529, or an `overloaded_error` event
    │   └── GatewayError        something that is not the API answered (an HTML page …)
    └── StreamError             a reply that began and is not whole
        ├── IncompleteStreamError   it ended without saying why
        ├── StreamDecodeError       an event that is not JSON
        ├── EmptyResponseError      a finished reply without any content
        └── NoAnswerError           one that ended in its thinking, or at a call that nobody runs

    Interrupted                 by the user: a KeyboardInterrupt, so that no `except Exception` hides it

The text of each is one line: the cause, then the next step. `partial` holds what had arrived of
the reply (a `wire.Message`), `request_id` the server's name for the request, where known.
"""

from __future__ import annotations

import re
from typing import Any

_HARMFUL = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What a terminal or an editor would obey, or could not even encode: a server's words may hold it."""


class _OneLine(BaseException):
    """What IPython prints of our errors: the one line and no traceback, because the mistake is never
    in the code that the traceback would show."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        self.message = _HARMFUL.sub("\ufffd", " ".join(message.split()))
        self.hint = _HARMFUL.sub("\ufffd", " ".join(hint.split()))
        super().__init__(f"{self.message} {self.hint}".strip())

    def _render_traceback_(self) -> list[str]:
        """IPython's hook for an exception's own rendering (see `InteractiveShell.showtraceback`)."""
        return [f"{type(self).__name__}: {self}"]


class Interrupted(_OneLine, KeyboardInterrupt):
    """The user interrupted a reply; what had arrived is kept."""


class KimiError(_OneLine, Exception):
    """Base of all errors raised on purpose.

    `hint` is the next step, appended to the message.
    """

    partial: Any = None
    """What had arrived of the reply (`wire.Message`), or None."""
    request_id: str | None = None
    """The server's name for the request (`request_id` of the error body, or the header)."""


class ConfigError(KimiError):
    """A setting, key or base URL that cannot be used."""


class OptionError(KimiError):
    """An option of a `%%kimi` cell or of a `%kimi` subcommand that cannot be read."""


class PromptError(KimiError):
    """A value, file or image that cannot go into a prompt."""


class RequestError(KimiError):
    """The request breaks a rule of the API page; it was not sent."""


class ConversationError(KimiError):
    """No such conversation, turn or branch."""


class BudgetError(KimiError):
    """A budget is spent, so the request was not sent."""


class StoreError(KimiError):
    """The state on disk, or a file of a conversation, cannot be read or written."""


class ReplayError(KimiError):
    """A recorded reply was asked for and there is none."""


class ToolError(KimiError):
    """A function that cannot be offered to the model as a tool."""


class SchemaError(KimiError):
    """A type that cannot be a schema, or a structured reply that does not fill it (`partial` has it)."""


class CutReplyError(SchemaError):
    """The structured reply ended before the schema was filled (`max_tokens` …)."""


class RefusedReplyError(SchemaError):
    """The model refused to fill the schema."""


class InvalidReplyError(SchemaError):
    """The structured reply is no JSON, or breaks a rule of the schema."""


class TransportError(KimiError):
    """No usable HTTP reply."""


class ConnectError(TransportError):
    """No connection to the host, or it broke before a reply began."""

    stale = False
    """A kept-alive connection that the server had closed meanwhile: worth opening anew at once."""


class TimeoutError(TransportError):
    """The host fell silent, or sent nothing but pings, for longer than the limit."""


class APIError(KimiError):
    """The server answered with an error.

    status: the HTTP status, or None for an `error` event inside a 200 stream.
    type:   `error.type` of the body (`rate_limit_error` …), or None.
    retry_after: seconds that the server asks to wait, or None.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        status: int | None = None,
        type: str | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.type = type
        self.request_id = request_id
        self.retry_after = retry_after


class BadRequestError(APIError):
    """400, and every other 4xx that sending again would not mend."""


class AuthenticationError(APIError):
    """401 or 403: the key is missing, wrong, or may not use this model."""


class RateLimitError(APIError):
    """429: too many requests; worth another try later."""


class QuotaError(RateLimitError):
    """429 because the account's quota is spent (`exceeded_current_quota_error`): trying again is no use."""


class ServerError(APIError):
    """500 and above."""


class OverloadedError(ServerError):
    """529, or an `overloaded_error` event in a stream."""


class GatewayError(APIError):
    """Something in front of the API answered: an HTML page, or a body that is no API reply."""


class StreamError(KimiError):
    """A reply that began and is not whole; `partial` has what arrived."""


class IncompleteStreamError(StreamError):
    """The stream ended without a stop reason, or the connection broke inside the reply."""


class StreamDecodeError(StreamError):
    """An event whose data is not JSON."""


class EmptyResponseError(StreamError):
    """The server finished the reply without sending any content."""


class NoAnswerError(StreamError):
    """The reply ended (`max_tokens` …) without text, or at a call that nobody runs, so it cannot be sent
    back."""
