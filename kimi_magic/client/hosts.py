"""Base URLs in all the spellings that people write.

Every form posts to exactly one `/v1/messages` behind the given prefix: with or without a slash at
the end, with or without `/v1`, or the whole path.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from ..errors import ConfigError

BASE_URLS = ("https://direct.evolink.ai", "https://api.evolink.ai")
"""`servers` of the API page: long connections first, the second as the fallback."""


def base_urls(
    given: str | Sequence[str] | None = None, environ: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """The base URLs to use, without `/v1/messages`: the argument, `KIMI_BASE_URL` (several are
    separated by commas), else `BASE_URLS`. Raises `ConfigError` for what is no http(s) URL."""
    environ = os.environ if environ is None else environ
    if given is None:
        given = environ.get("KIMI_BASE_URL", "").strip() or BASE_URLS
    urls = given.split(",") if isinstance(given, str) else given
    return tuple(_normal(url) for url in urls)


def _normal(url: str) -> str:
    url = url.strip()
    try:
        parts = urlsplit(url)
        host = parts.hostname
        port = parts.port
    except ValueError:
        parts, host, port = None, None, None
    if parts is None or parts.scheme not in ("http", "https") or not host or port == 0:
        raise ConfigError(
            f"The base URL {url!r} is not usable.",
            hint="It looks like https://host or http://127.0.0.1:8000 (KIMI_BASE_URL).",
        )
    if parts.query or parts.fragment or parts.username or parts.password:
        raise ConfigError(
            "The base URL has a query, a fragment or a password in it.",
            hint="Give scheme, host, port and path only (KIMI_BASE_URL).",
        )
    path = parts.path.rstrip("/")
    path = path.removesuffix("/messages").removesuffix("/v1").rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path}"
