"""One HTTP reply, whatever came: a stream, a whole message, an error, or something from a gateway.

Judged by what the body is, not by what its content type says: relays label streams as JSON and
errors as HTML. `feed` holds events back until the reply's content begins, so that whoever drives it
may still throw this attempt away and make another without anybody having seen a thing.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

import msgspec

from ..errors import GatewayError, IncompleteStreamError, KimiError, TimeoutError
from ..wire import Message, api_error
from .blocks import mended
from .events import Event, Ping, parse_json
from .message import MessageStream
from .sse import BOM

_FIELD = re.compile(rb"\s*[^\s:]*(:|\Z)|\s*(data|event|id|retry)\s")
"""How a stream's first line begins, and all of what was cut in it; a comment is a field without a name."""
_OPENING = 200
"""Bytes of a body that are kept, to be shown where they are no stream's."""
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.I | re.S)
_TAG = re.compile(r"<[^>]*>")


class Reply:
    """`feed(chunk, now)` yields events; `close(now_utc)` yields the last ones and checks the whole.

    status, headers: of the HTTP reply. now: seconds on any clock. progress_limit: seconds with
    nothing but pings after which `TimeoutError` is raised. Exhaust each iterator before the next call.
    """

    def __init__(
        self,
        status: int,
        headers: Mapping[str, str],
        *,
        now: float = 0.0,
        progress_limit: float = float("inf"),
    ) -> None:
        self.status = status
        self.headers = {k.lower(): v for k, v in headers.items()}
        self.request_id = self.headers.get("request-id") or self.headers.get("x-request-id")
        self._stream = MessageStream(self.request_id)
        self._body: list[bytes] | None = None if status // 100 == 2 else []  # of what is no stream
        self._head: bytes | None = b""  # what came before it is known which of the two this is
        self._opening = b""  # of a stream
        self._held: list[Event] | None = []  # until the content begins
        self._progress_at = now
        self._progress_limit = progress_limit

    @property
    def message(self) -> Message:
        """The reply so far."""
        return self._stream.message

    @property
    def done(self) -> bool:
        """The stream said that it is over; what follows does not count."""
        return self._stream.done

    def feed(self, chunk: bytes, now: float = 0.0) -> Iterator[Event]:
        if self._head is not None or self._body is not None:
            chunk = self._events_in(chunk)
        if len(self._opening) < _OPENING:
            self._opening = (self._opening + chunk)[:_OPENING]
        progress = self._body is not None
        for event in self._stream.feed(chunk):
            progress = progress or type(event) is not Ping
            if self._held is None:
                yield event
            else:
                yield from self._release(event)
        if progress:
            self._progress_at = now
        elif now - self._progress_at > self._progress_limit:
            raise self._failed(
                TimeoutError(
                    f"The server sent nothing but pings for {now - self._progress_at:.0f} s.",
                    hint="Run the cell again, or ask for less effort.",
                )
            )

    def close(self, now_utc: float = 0.0) -> Iterator[Event]:
        """The body has ended. now_utc: seconds since 1970, for a `Retry-After` that is a date."""
        if self._body is not None:
            for event in self._whole(b"".join(self._body), now_utc):
                yield from self._release(event)
        elif self.message == Message(request_id=self.request_id) and not _FIELD.match(self._opening):
            raise self._gateway_error(self._opening, now_utc)
        self._stream.close()
        yield from self._held or ()
        self._held = None

    def broken(self, cause: str) -> KimiError:
        """The error for a connection that broke inside the reply."""
        return self._failed(
            IncompleteStreamError(
                f"The connection broke in the middle of the reply ({cause}).",
                hint="What arrived is kept. Run the cell again.",
            )
        )

    def _failed(self, error: KimiError) -> KimiError:
        error.partial = self.message
        error.request_id = self.request_id
        return error

    def _release(self, event: Event) -> Iterator[Event]:
        """`event` and those that were held back before it, as soon as the content has begun."""
        held = [*(self._held or ()), event]
        self._held = held if self._held is not None and not self._stream.has_output else None
        if self._held is None:
            yield from held

    def _events_in(self, chunk: bytes) -> bytes:
        """The part of the body that is events: nothing where it is JSON or a page, which its first
        byte tells (`{`, `[`, `<`). White space before it is how some relays keep a connection alive."""
        if self._body is not None:
            self._body.append(chunk)
            return b""
        head = ((self._head or b"") + chunk).lstrip()
        start = head.removeprefix(BOM).lstrip()
        if not start or BOM.startswith(head):
            self._head = head[: len(BOM)]
            return b""
        self._head = None
        if start[:1] in (b"{", b"[", b"<"):
            self._body = [start]
            return b""
        return start

    def _whole(self, body: bytes, now_utc: float) -> Iterator[Event]:
        """A body that came in one piece: a message, as events, or the error that it is."""
        try:
            value = mended(parse_json(body.removeprefix(BOM)))
        except ValueError:
            value = None
        good = self.status // 100 == 2
        if not isinstance(value, dict):
            raise self._cut() if good and _is_cut(body) else self._gateway_error(body, now_utc)
        if not good or value.get("error") is not None or value.get("type") == "error":
            raise api_error(
                None if good else self.status,
                value,
                request_id=self.request_id,
                retry_after=self._retry_after(now_utc),
            )
        if not isinstance(value.get("content"), list) and value.get("type") != "message":
            raise self._gateway_error(body, now_utc)
        yield from self._stream.feed_whole(value)

    def _cut(self) -> KimiError:
        return self._failed(
            IncompleteStreamError(
                "The reply ended in the middle: it is JSON without its end.", hint="Run the cell again."
            )
        )

    def _gateway_error(self, body: bytes, now_utc: float) -> KimiError:
        text = body[:100_000].decode("utf-8", "replace")
        title = _TITLE.search(text)
        said = " ".join(html.unescape(title[1] if title else _TAG.sub(" ", text)).split())
        said = "".join(c for c in said if c.isprintable())
        busy = self.status >= 500 or self.status in (408, 429)
        return GatewayError(
            f"Something that is not the API answered with status {self.status}: {said[:120] or 'nothing'!r}.",
            hint="Run the cell again in a moment." if busy else "Check KIMI_BASE_URL and the proxy settings.",
            status=self.status,
            request_id=self.request_id,
            retry_after=self._retry_after(now_utc),
        )

    def _retry_after(self, now_utc: float) -> float | None:
        """Seconds that the server asks to wait: `retry-after-ms`, or `Retry-After` as seconds or as
        an HTTP date; None where it says nothing that can be read."""
        for header, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
            try:
                return max(0.0, float(self.headers[header]) * scale)
            except (KeyError, ValueError):
                continue
        try:
            date = parsedate_to_datetime(self.headers["retry-after"])
            return max(0.0, date.replace(tzinfo=date.tzinfo or UTC).timestamp() - now_utc)
        except (KeyError, ValueError, OverflowError):
            return None


def _is_cut(body: bytes) -> bool:
    """Whether it is the beginning of a JSON value."""
    try:
        msgspec.json.decode(body.removeprefix(BOM))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return "truncated" in str(error)
    return False
