"""The Messages API's JSON as typed values, and back. Values are not changed after they are made.

limits     what the API page fixes: models, efforts, sizes
blocks     content blocks, each the JSON object that came over the wire
messages   replies and their usage
runs       the messages of a request, checked, encoded and hashed once
checks     what the API page rules out in a request
requests   requests: checked before they go, and always the same bytes
failures   the server's errors as ours
"""

from .blocks import (
    Block,
    ImageBlock,
    RedactedThinkingBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    WebSearchResultBlock,
    block,
    content_blocks,
)
from .checks import check_stop_sequences, require, require_one
from .failures import api_error
from .limits import (
    CACHE_TTLS,
    CONTEXT_WINDOW,
    EFFORT_LEVELS,
    EFFORTS,
    IMAGE_TYPES,
    MAX_IMAGE_BYTES,
    MAX_IMAGE_SIDE,
    MAX_STOP_BYTES,
    MAX_STOP_SEQUENCES,
    MODELS,
    TOOL_CHOICES,
    WEB_SEARCH,
    Json,
)
from .messages import Message, Usage
from .requests import Request, fingerprint
from .runs import Said, assistant, grouped, user

__all__ = [
    "CACHE_TTLS",
    "CONTEXT_WINDOW",
    "EFFORTS",
    "EFFORT_LEVELS",
    "IMAGE_TYPES",
    "MAX_IMAGE_BYTES",
    "MAX_IMAGE_SIDE",
    "MAX_STOP_BYTES",
    "MAX_STOP_SEQUENCES",
    "MODELS",
    "TOOL_CHOICES",
    "WEB_SEARCH",
    "Block",
    "ImageBlock",
    "Json",
    "Message",
    "RedactedThinkingBlock",
    "Request",
    "Said",
    "ServerToolUseBlock",
    "TextBlock",
    "ThinkingBlock",
    "ToolResultBlock",
    "ToolUseBlock",
    "Usage",
    "WebSearchResultBlock",
    "api_error",
    "assistant",
    "block",
    "check_stop_sequences",
    "content_blocks",
    "fingerprint",
    "grouped",
    "require",
    "require_one",
    "user",
]
