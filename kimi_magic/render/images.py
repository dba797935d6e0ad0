"""Images that a user or a tool sent: shown from their own bytes, never fetched from anywhere."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Sequence
from html import escape

from ..pixels import pixel_size
from ..wire import IMAGE_TYPES, Block, ImageBlock
from . import style
from .sanitise import clean

SMALL = 150_000
"""Characters of base64 up to which an image of the prompt is shown again: the notebook holds it anyway in
its turn, and a large one twice would make it heavy."""

_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def image_html(block: Block, alt: str, look: str = style.IMAGE) -> str:
    """The image; empty where it holds none that a page may show."""
    source = block.source if isinstance(block, ImageBlock) else {}
    data = str(source.get("data") or "")
    if source.get("media_type") not in IMAGE_TYPES or not _BASE64.fullmatch(data):
        return ""
    address = f"data:{source['media_type']};base64,{data}"
    return f'<img alt="{escape(alt)}" style="{look}" src="{address}">'


def sent_html(images: Sequence[Block]) -> str:
    """The images of the prompt, folded: what each is, and the small ones to look at."""
    if not images:
        return ""
    shown = [
        image_html(block, f"image {n} of the prompt: {about(block)}", style.THUMBNAIL)
        for n, block in enumerate(images, 1)
        if isinstance(block, ImageBlock) and len(str(block.source.get("data") or "")) <= SMALL
    ]
    return (
        f'<details class="kimi-images" style="{style.BOX}"><summary style="{style.SUMMARY}">'
        f"{escape(sent_line(images))}</summary>{''.join(shown)}</details>"
    )


def sent_line(images: Sequence[Block]) -> str:
    """What the images of the prompt are, in a line."""
    return f"Image{'s' * (len(images) > 1)} sent · {'; '.join(map(about, images))}"


def about(block: Block) -> str:
    """`PNG 640 × 480, 83 KB`, as much of it as can be known."""
    source = block.source if isinstance(block, ImageBlock) else {}
    if source.get("type") != "base64":
        return clean(f"at {source.get('url') or 'an address of its own'}")
    kind = clean(str(source.get("media_type") or "image")).removeprefix("image/").upper()
    try:
        data = b64decode(str(source.get("data") or ""))
    except (binascii.Error, ValueError):
        return kind
    size = pixel_size(data)
    pixels = f" {size[0]:,} × {size[1]:,}" if size else ""
    return f"{kind}{pixels}, {max(1, round(len(data) / 1000)):,} KB"
