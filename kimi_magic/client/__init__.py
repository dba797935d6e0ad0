"""`Client` and `AsyncClient`: thin drivers that pump `retry` and `stream` over httpx.

keys      the API key: where it comes from, what is wrong with it, and keeping it out of sight
hosts     base URLs in all spellings
exchange  what both drivers share: the HTTP request, the reply, foreign errors made ours
drivers   the two classes and their streams
"""

from .drivers import AsyncClient, AsyncMessageStream, Client, SyncMessageStream
from .exchange import Limits
from .hosts import BASE_URLS, base_urls
from .keys import Key, find_key

__all__ = [
    "BASE_URLS",
    "AsyncClient",
    "AsyncMessageStream",
    "Client",
    "Key",
    "Limits",
    "SyncMessageStream",
    "base_urls",
    "find_key",
]
