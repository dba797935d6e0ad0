"""Signatures of thinking blocks: a thinking text always has the same one, and no other text has it.

So a client that changes a thinking block on its way back is found out. A signature that some other
server made cannot be judged and passes.
"""

from __future__ import annotations

import base64
import hashlib

_MARK = "c2ltdWxhdGVk"  # base64 of "simulated"


def sign(thinking: str) -> str:
    return _MARK + base64.b64encode(hashlib.sha512(thinking.encode()).digest()).decode()


def genuine(thinking: str, signature: str) -> bool:
    """False only where the signature is ours and belongs to another text."""
    return not signature.startswith(_MARK) or signature == sign(thinking)


def token(*parts: str, size: int = 24) -> str:
    """Letters and digits that follow from the parts alone: ids, encrypted content."""
    digest = hashlib.sha256("\x00".join(parts).encode("utf-8", "replace")).digest()
    return base64.b32encode(digest).decode().lower().rstrip("=")[:size]
