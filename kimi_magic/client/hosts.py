"""Base URLs in all the spellings that people write.

Every form posts to exactly one `/v1/messages` behind the given prefix: with or without a slash at
the end, with or without `/v1`, or the whole path.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import httpx

from ..errors import ConfigError

_ENDPOINT = re.compile(r"(/+v1)*(/+messages)?/*\Z")
"""What of a path may stand there and is written anew."""
_HINT = "It looks like https://host or http://127.0.0.1:8000 (KIMI_BASE_URL)."

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
    urls = [url for url in given.split(",") if url.strip()] if isinstance(given, str) else given
    if not isinstance(urls, (list, tuple)):
        raise ConfigError(f"A base URL is text, not a value of type {type(urls).__name__}.", hint=_HINT)
    if not urls:
        raise ConfigError("No base URL is given.", hint=_HINT)
    return tuple(_normal(url) for url in urls)


def _normal(url: str) -> str:
    url = str(url).strip(" \t\"'")  # Windows' `set` keeps quotes in a value
    try:
        parts = urlsplit(url)
        (parts.hostname or "").encode("idna")
        usable = parts.scheme in ("http", "https") and parts.port != 0 and bool(httpx.URL(url).host)
        usable = usable and url.isprintable() and " " not in url
    except (ValueError, httpx.InvalidURL):
        usable = False
    if not usable:
        raise ConfigError(f"The base URL {url!r} is not usable.", hint=_HINT)
    if parts.query or parts.fragment or parts.username or parts.password:
        raise ConfigError(
            "The base URL has a query, a fragment or a password in it.",
            hint="Give scheme, host, port and path only (KIMI_BASE_URL).",
        )
    path = _ENDPOINT.sub("", parts.path)
    return f"{parts.scheme}://{parts.netloc}{path}"
