"""The Messages API's JSON as typed values, and back. Values are not changed after they are made.

limits     what the API page fixes: models, efforts, sizes
blocks     content blocks, each the JSON object that came over the wire
messages   replies, their usage, and the messages of a request
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
from .failures import api_error
from .limits import (
    CACHE_TTLS,
    CONTEXT_WINDOW,
    EFFORTS,
    IMAGE_TYPES,
    MAX_IMAGE_BYTES,
    MAX_IMAGE_SIDE,
    MAX_STOP_BYTES,
    MAX_STOP_SEQUENCES,
    MODELS,
    WEB_SEARCH,
    Json,
)
from .messages import Message, Said, Usage, assistant, user
from .requests import Request, check_stop_sequences, fingerprint

__all__ = [
    "CACHE_TTLS",
    "CONTEXT_WINDOW",
    "EFFORTS",
    "IMAGE_TYPES",
    "MAX_IMAGE_BYTES",
    "MAX_IMAGE_SIDE",
    "MAX_STOP_BYTES",
    "MAX_STOP_SEQUENCES",
    "MODELS",
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
    "user",
]
