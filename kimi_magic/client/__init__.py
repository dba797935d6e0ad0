"""`Client` and `AsyncClient`: thin drivers that pump `retry` and `stream` over httpx.

defaults  which server, where a client was not told everything
hosts     base URLs in all spellings
fields    what a question is made of
exchange  what both drivers share: the HTTP request, the reply, foreign errors made ours
streams   one reply as it comes, blocking and async
lines     ending a blocking read from another thread
pools     a connection for each request that runs at the same time
drivers   the two classes
logs      keeping the key out of what httpx logs
reach     whether a server is there
"""

from ..keys import Key, find_key
from .defaults import NO_KEY, SIMULATOR_URL
from .drivers import AsyncClient, Client
from .exchange import Limits
from .hosts import BASE_URLS, base_urls
from .reach import reach
from .streams import AsyncMessageStream, SyncMessageStream

__all__ = [
    "BASE_URLS",
    "NO_KEY",
    "SIMULATOR_URL",
    "AsyncClient",
    "AsyncMessageStream",
    "Client",
    "Key",
    "Limits",
    "SyncMessageStream",
    "base_urls",
    "find_key",
    "reach",
]
