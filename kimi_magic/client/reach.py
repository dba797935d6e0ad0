"""Whether a server is there and takes the key: one request that asks nothing, so that nothing is billed."""

from __future__ import annotations

from typing import Any

import httpx

from ..errors import AuthenticationError, ConnectError, GatewayError, TimeoutError
from ..keys import SET_A_KEY, Key
from .logs import keep_out
from .pools import one_line


def reach(url: str, key: Key | None = None, *, transport: Any = None, seconds: float = 10.0) -> int:
    """Post an empty object, which every server of the API refuses; the HTTP status of its answer.

    url: as `base_urls` gives it. transport: an httpx transport in place of the network. Raises
    `ConnectError` or `TimeoutError` where nothing answers, `AuthenticationError` where the key is refused,
    `GatewayError` where there is no API, and `ConfigError` for a proxy or certificates that are not usable.
    """
    if key is not None:
        keep_out(key)
    headers = {"user-agent": "kimi-magic"} | ({"authorization": key.authorization()} if key else {})
    try:
        with one_line(transport):
            http = httpx.Client(transport=transport, timeout=seconds)
        with http:
            status = http.post(f"{url}/v1/messages", json={}, headers=headers).status_code
    except httpx.TimeoutException:
        raise TimeoutError(
            f"{url} did not answer within {seconds:g} s.", hint="Check the network and the proxy variables."
        ) from None
    except httpx.HTTPError as error:
        raise ConnectError(
            f"No connection to {url} ({type(error).__name__}: {error}).",
            hint="Check the network, KIMI_BASE_URL and the proxy variables.",
        ) from None
    if status in (401, 403):
        hint = "Check the key, and that it is one of this server." if key else SET_A_KEY
        refused = "refuses the key" if key else "wants a key"
        raise AuthenticationError(f"{url} {refused} ({status}).", hint=hint, status=status)
    if status in (404, 405) or status >= 500:
        raise GatewayError(
            f"{url} answers {status}, as no server of this API does.", hint="Check KIMI_BASE_URL."
        )
    return status
