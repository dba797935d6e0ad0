"""Anything that shows a picture → an image block that the server takes. The rule:

- The type is what the bytes say. JPEG, PNG, GIF and WebP within the limits go out as they are, byte
  for byte. So does an animation, of which a model may see the first frame only.
- What is beyond a limit is made smaller, and what Pillow can open besides is made PNG; both are said
  in the note. Without Pillow, and for SVG, it is refused, naming the limit or the types.
- Figures, Pillow images and arrays are drawn as PNG first (`images`, `raster`), under the same limits.

The size that counts is that of the base64 text.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass

from ..errors import PromptError
from ..pixels import is_animated, media_type, pixel_size
from ..wire import IMAGE_TYPES, MAX_IMAGE_BYTES, MAX_IMAGE_SIDE, ImageBlock
from .arrays import is_array
from .images import drawn, is_image
from .raster import encoded, from_array, has_pillow, smaller

ACCEPTED = "JPEG, PNG, GIF and WebP"
_BYTES = (bytes, bytearray, memoryview)


@dataclass(frozen=True, slots=True)
class ImageLimits:
    """What one image may have at most."""

    base64_bytes: int = MAX_IMAGE_BYTES
    side: int = MAX_IMAGE_SIDE
    """Pixels of the longer side."""

    @property
    def file_bytes(self) -> int:
        """Bytes of a file whose base64 text is as long as may be."""
        return self.base64_bytes // 4 * 3


LIMITS = ImageLimits()


def shows_picture(value: object) -> bool:
    """Whether `image_block` can be meant: figures, images, image files' bytes, blocks; arrays not, since
    most are data."""
    if isinstance(value, _BYTES):
        return media_type(bytes(value[:4096])) is not None
    return isinstance(value, ImageBlock) or is_image(value)


def image_block(value: object, limits: ImageLimits = LIMITS) -> tuple[ImageBlock, str]:
    """The value as an image block, and a note of what was changed or left out ("" for nothing).

    value: a file's bytes, a figure, a Pillow image, an array, or a block, which stays as it is.
    Raises `PromptError`.
    """
    if isinstance(value, ImageBlock):
        return value, ""
    if isinstance(value, _BYTES):
        return _of_file(bytes(value), limits)
    if is_image(value):
        data, note = drawn(value)
    elif is_array(value):
        _need_pillow("an array is drawn")
        image, note = from_array(value)
        data = encoded(image)
    else:
        raise PromptError(
            f"a value of type {type(value).__name__} is no image.",
            hint="One is a figure, a Pillow image, an array, or the bytes of an image file.",
        )
    block, scaled = _of_file(data, limits)
    return block, _both(note, scaled)


def _of_file(data: bytes, limits: ImageLimits) -> tuple[ImageBlock, str]:
    kind = media_type(data)
    if kind is None:
        raise PromptError("the bytes are no image.", hint=f"The server takes {ACCEPTED}.")
    if kind not in IMAGE_TYPES:
        return _converted(data, kind, limits)
    size = pixel_size(data)
    if size is None:
        raise PromptError(f"this {kind} is damaged: its size in pixels cannot be read.")
    over = _over(len(data), size, limits)
    if not over:
        note = "an animation, of which the model may see the first frame only" if is_animated(data) else ""
        return _block(kind, data), note
    _need_pillow(f"{over}: making it smaller")
    form = "jpeg" if kind == "image/jpeg" else "png"
    result, note = smaller(data, form, limits.file_bytes, limits.side)
    frame = "the first frame of an animation" if is_animated(data) else ""
    return _block(f"image/{form}", result), _both(frame, _both(over, note))


def _converted(data: bytes, kind: str, limits: ImageLimits) -> tuple[ImageBlock, str]:
    """An image of a type that the server does not take, as PNG."""
    name = kind.removeprefix("image/").removeprefix("vnd.adobe.")
    if kind == "image/svg+xml":
        raise PromptError(
            f"SVG is not among the types that the server takes: {ACCEPTED}.",
            hint="Save it as PNG, or attach its source with -f.",
        )
    _need_pillow(f"the server takes {ACCEPTED}, and converting {name}")
    try:
        result, note = smaller(data, "png", limits.file_bytes, limits.side)
    except PromptError as error:
        raise PromptError(f"{name}: {error.message}", hint=f"Save it as one of {ACCEPTED}.") from error
    return _block("image/png", result), _both(f"{name} converted to PNG", note)


def _over(count: int, size: tuple[int, int], limits: ImageLimits) -> str:
    """Which limit an image is beyond, or ""."""
    if max(size) > limits.side:
        return f"{size[0]:,}×{size[1]:,} pixels, and the limit is {limits.side:,} a side"
    if count > limits.file_bytes:
        return f"{_encoded_length(count):,} bytes in base64, and the limit is {limits.base64_bytes:,}"
    return ""


def _encoded_length(count: int) -> int:
    return (count + 2) // 3 * 4


def _block(kind: str, data: bytes) -> ImageBlock:
    return ImageBlock.of(kind, base64.b64encode(data).decode("ascii"))


def _both(first: str, second: str) -> str:
    return "; ".join(part for part in (first, second) if part)


def _need_pillow(what: str) -> None:
    if not has_pillow():
        raise PromptError(f"{what} needs the package Pillow.", hint="%pip install pillow")
