"""Replies that were said before, found again by the request that they answered. Values only.

A `Library` holds recordings from a store, from a notebook's outputs and from cassettes. It looks them
up by the hash of the whole request (model, settings, system, tools, all messages; not whether it was
streamed), and explains a miss: that nothing has its question, or the first difference to the nearest one.

cassettes   `Recording`, as a cassette has it, and made of a message
finding     `Library`
misses      what is nearest to a request that nothing answers, and what differs
"""

from .cassettes import KEPT_HEADERS, Chunks, Recording, from_lines, from_message, to_line
from .finding import Library
from .misses import difference

__all__ = [
    "KEPT_HEADERS",
    "Chunks",
    "Library",
    "Recording",
    "difference",
    "from_lines",
    "from_message",
    "to_line",
]
