"""What the sync and the async driver share: one `Exchange` a request, without any I/O of its own.

It turns a `wire.Request` into the HTTP request of an attempt, keeps the `Reply` of the attempt, and
makes every foreign error ours, with the key taken out of its text. What is left for a driver is to
send, to read and to sleep.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from .. import retry
from ..errors import ConfigError, ConnectError, KimiError, RequestError, TimeoutError
from ..stream import Event, Reply
from ..wire import Message, Request
from .keys import Key

SIMULATED = "x-kimi-simulator"
"""Header by which a simulator marks its replies."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Times in seconds. The first event of a reply can take minutes at effort max."""

    connect: float = 15.0
    silence: float = 600.0
    """Without a single byte."""
    progress: float = 1800.0
    """With nothing but pings."""

    def timeout(self) -> httpx.Timeout:
        return httpx.Timeout(self.silence, connect=self.connect, pool=None)


@dataclass(slots=True)
class Setup:
    """All that a client was made with."""

    key: Key | None
    hosts: retry.Hosts
    policy: retry.Policy
    limits: Limits
    clock: Callable[[], float]
    """Seconds, monotonic."""
    utc: Callable[[], float]
    """Seconds since 1970."""
    headers: dict[str, str] = field(default_factory=dict)


class Exchange:
    """One request and its attempts. `attempt` is what to do now; `reply` is what came of it."""

    def __init__(self, setup: Setup, request: Request) -> None:
        self._setup = setup
        self._body = request.encode()
        self._plan = retry.attempts(setup.hosts.order(setup.clock()), setup.policy, random.random)
        self.attempt = next(self._plan)
        self.reply: Reply | None = None

    @property
    def message(self) -> Message:
        return self.reply.message if self.reply is not None else Message()

    @property
    def simulated(self) -> bool:
        return self.reply is not None and SIMULATED in self.reply.headers

    def http_request(self) -> httpx.Request:
        """The attempt's request, ready to be sent."""
        headers = {"content-type": "application/json", "accept": "text/event-stream, application/json"}
        if self._setup.key is not None:
            headers["authorization"] = self._setup.key.authorization()
        return httpx.Request(
            "POST",
            f"{self.attempt.base_url}/v1/messages",
            headers=headers | self._setup.headers,
            content=self._body,
            extensions={"timeout": self._setup.limits.timeout().as_dict()},
        )

    def start(self, response: httpx.Response) -> Reply:
        """The head of the reply has come."""
        self._setup.hosts.answered(self.attempt.base_url)
        self.reply = Reply(
            response.status_code,
            response.headers,
            now=self._setup.clock(),
            progress_limit=self._setup.limits.progress,
        )
        return self.reply

    def feed(self, chunk: bytes) -> Iterator[Event]:
        assert self.reply is not None
        return self.reply.feed(chunk, self._setup.clock())

    def close(self) -> Iterator[Event]:
        assert self.reply is not None
        return self.reply.close(self._setup.utc())

    def next_attempt(self, cause: Exception) -> retry.Attempt:
        """What to try after `cause`; raises it, as ours, where that is the end."""
        failure = self._ours(cause)
        if isinstance(failure, (ConnectError, TimeoutError)) and not getattr(failure, "stale", False):
            self._setup.hosts.failed(self.attempt.base_url, self._setup.clock())
        self.attempt = self._plan.send(failure)
        return self.attempt

    def _ours(self, cause: Exception) -> KimiError:
        if isinstance(cause, KimiError):
            return self._scrubbed(cause)
        name = type(cause).__name__
        if self.reply is not None and isinstance(cause, httpx.TransportError):
            if isinstance(cause, httpx.ReadTimeout):
                error: KimiError = TimeoutError(
                    f"The server fell silent for {self._setup.limits.silence:.0f} s inside the reply.",
                    hint="What arrived is kept. Run the cell again.",
                )
                error.partial, error.request_id = self.reply.message, self.reply.request_id
                return error
            return self.reply.broken(name)
        return self._no_reply(cause, name)

    def _no_reply(self, cause: Exception, name: str) -> KimiError:
        url = self.attempt.base_url
        if isinstance(cause, (httpx.ReadTimeout, httpx.WriteTimeout)):
            return TimeoutError(
                f"{url} did not answer within {self._setup.limits.silence:.0f} s.", hint="Run the cell again."
            )
        if isinstance(cause, (httpx.UnsupportedProtocol, httpx.InvalidURL)):
            return ConfigError(f"{url}: {cause}.", hint="Check KIMI_BASE_URL and the proxy variables.")
        error = ConnectError(
            f"No connection to {url} ({name}{_reason(cause)}).",
            hint="Check the network, KIMI_BASE_URL and the proxy variables.",
        )
        error.stale = isinstance(cause, (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError))
        return error

    def _scrubbed(self, error: KimiError) -> KimiError:
        if self._setup.key is not None:
            clean = self._setup.key.scrub(str(error))
            if clean != str(error):
                error.message, error.hint, error.args = clean, "", (clean,)
        return error


def _reason(cause: Exception) -> str:
    text = " ".join(str(cause).split())
    return f": {text}" if text else ""


def build_request(stream: bool, fields: Mapping[str, Any]) -> Request:
    """A `Request` from keyword arguments in the API's words.

    `output_config` and `cache_control` are taken in the API's shape as well as by `effort`,
    `schema` and `cache_ttl`. Raises `RequestError` for a field that the API does not have.
    """
    fields = dict(fields)
    config = dict(fields.pop("output_config", None) or {})
    if config:
        fields.setdefault("effort", config.get("effort"))
        fields.setdefault("schema", (config.get("format") or {}).get("schema"))
    cache = fields.pop("cache_control", None)
    if cache is not None:
        fields.setdefault("cache_ttl", dict(cache).get("ttl", "5m"))
    choice = fields.get("tool_choice")
    if isinstance(choice, Mapping):
        fields["tool_choice"] = choice.get("type")
    unknown = sorted(set(fields) - set(Request.__dataclass_fields__))
    if unknown:
        raise RequestError(
            f"{unknown[0]}: not a field of this API.",
            hint=f"It has {', '.join(sorted(Request.__dataclass_fields__))}.",
        )
    for name in ("messages", "stop_sequences", "tools"):
        fields[name] = tuple(fields.get(name) or ())
    return Request(**{**fields, "stream": stream})
