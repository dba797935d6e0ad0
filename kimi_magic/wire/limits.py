"""What the API page fixes: names, limits, and the JSON that they stand in."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
"""A JSON object as Python has it."""

MODELS = ("kimi-k3.1-pro", "kimi-k3.1-pro-highspeed")
"""`CreateMessageRequest.model`, the first one the default."""

EFFORTS = {
    "low": "low",
    "high": "high",
    "max": "max",
    "medium": "high",
    "xhigh": "max",
    "minimal": "low",
    "none": "low",
}
"""`output_config.effort` → what the server makes of it (none does not turn thinking off)."""

EFFORT_LEVELS = tuple(effort for effort, works_as in EFFORTS.items() if effort == works_as)
"""The three that the API page names; the others work as one of them."""

CONTEXT_WINDOW = 1_048_576
"""Tokens: the model's context window, and the upper limit of `max_tokens`."""

MAX_STOP_SEQUENCES = 5
MAX_STOP_BYTES = 32
CACHE_TTLS = ("5m", "1h")
TOOL_CHOICES = ("auto", "any", "none")
IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
MAX_IMAGE_BYTES = 5 * 1024**2
"""Characters of an image in base64, and below the pixels of its longer side: the API page names no
limits, these are the field's."""
MAX_IMAGE_SIDE = 8_000

WEB_SEARCH: Json = {"type": "web_search_20250305", "name": "web_search"}
