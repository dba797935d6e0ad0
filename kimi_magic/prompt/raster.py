"""Pixels, with Pillow: an image of any mode made plain, and one that is too large made smaller.

What is written anew is upright and carries nothing but its pixels (no EXIF, so no place where a photo
was taken, and no second rotation). A JPEG stays one, all else becomes PNG. CMYK and other colour
models become RGB; palettes and transparency stay, but where pixels are mixed palettes become RGB;
16-bit, integer and float pixels become 8-bit grey, spread from the darkest to the lightest if they
do not fit.
"""

from __future__ import annotations

import io
import math
import warnings
from typing import Any

from ..errors import PromptError
from .arrays import as_numpy

_AS_THEY_ARE = frozenset({"1", "L", "LA", "P", "RGB", "RGBA"})
_DEEP = ("I", "F")  # modes that begin so have more than 8 bits a pixel


def has_pillow() -> bool:
    try:
        import PIL.Image  # noqa: F401 - whether it is there is the question
    except ImportError:
        return False
    return True


def opened(data: bytes) -> Any:
    """A `PIL.Image.Image` of a file's bytes, at its first frame. Raises `PromptError`."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the user's own image
            image = Image.open(io.BytesIO(data))
            image.load()
    except Exception as error:  # Pillow's plug-ins raise many types; each becomes one line
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise PromptError(f"it cannot be decoded: {reason.rstrip('.')}.") from error
    return image


def plain(image: Any) -> tuple[Any, str]:
    """The image upright and in a mode that PNG has, at the frame where it stands; and a note."""
    from PIL import ImageOps

    upright = ImageOps.exif_transpose(image)
    if upright.mode.startswith(_DEEP):
        return _eight_bits(upright)
    if upright.mode == "La":  # Pillow converts it to nothing else
        upright = upright.convert("LA")
    if upright.mode not in _AS_THEY_ARE:
        has_alpha = "A" in upright.getbands() or "a" in upright.getbands()
        upright = upright.convert("RGBA" if has_alpha else "RGB")
    return upright, ""


def _eight_bits(image: Any) -> tuple[Any, str]:
    import numpy as np

    return from_array(np.asarray(image))


def encoded(image: Any, form: str = "png") -> bytes:
    """The pixels as a PNG or JPEG file, without metadata but for the colour profile. form: png or jpeg."""
    out = io.BytesIO()
    profile = image.info.get("icc_profile")
    kept = {"transparency": image.info["transparency"]} if "transparency" in image.info else {}
    bare = image.copy()
    bare.info = kept
    if form == "jpeg":
        bare.save(out, format="jpeg", quality=90, icc_profile=profile)
    else:
        bare.save(out, format="png", icc_profile=profile)
    return out.getvalue()


def smaller(data: bytes, form: str, most: int, side: int) -> tuple[bytes, str]:
    """The image within `most` bytes and `side` pixels, and what was done. form: png or jpeg.

    Raises `PromptError` where it cannot be decoded.
    """
    image, note = plain(opened(data))
    width, height = image.size
    scale = min(1.0, side / max(image.size))
    while True:
        size = max(1, int(width * scale)), max(1, int(height * scale))
        result = encoded(_resized(image, size), form)
        if len(result) <= most or size == (1, 1):
            break
        scale *= min(0.9, math.sqrt(most / len(result)))
    how = "written anew with all its pixels"
    if scale < 1:
        how = f"scaled from {width:,}×{height:,} to {size[0]:,}×{size[1]:,} pixels"
    return result, "; ".join(part for part in (note, how) if part)


def _resized(image: Any, size: tuple[int, int]) -> Any:
    from PIL import Image

    if image.size == size:
        return image
    if image.mode in ("1", "P"):  # their pixels cannot be mixed
        mode = "L" if image.mode == "1" else "RGBA" if "transparency" in image.info else "RGB"
        image = image.convert(mode)
    return image.resize(size, Image.Resampling.LANCZOS)


def from_array(value: Any) -> tuple[Any, str]:
    """An array as an image: height × width, or with 1, 3 or 4 channels (grey, RGB, RGBA) as the last
    or the first axis. bool, uint8 and floats from 0 to 1 are taken as they are; other numbers are
    spread over black … white, which the note says. Raises `PromptError`."""
    import numpy as np
    from PIL import Image

    array = as_numpy(value)
    shape = tuple(array.shape)
    if array.ndim == 3 and shape[0] in (1, 3, 4) and min(shape[1:]) > 4:
        array = np.moveaxis(array, 0, 2)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if not array.size or array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (3, 4)):
        raise PromptError(
            f"an array of shape {shape} is no image.",
            hint="One is height × width, with 3 or 4 channels behind where it is in colour.",
        )
    pixels, note = _as_bytes(array)
    return Image.fromarray(np.ascontiguousarray(pixels)), note


def _as_bytes(array: Any) -> tuple[Any, str]:
    """The numbers as uint8, and a note where they were spread."""
    import numpy as np

    if array.dtype == np.uint8:
        return np.asarray(array), ""
    if array.dtype == bool:
        return array.astype(np.uint8) * np.uint8(255), ""
    if array.dtype.kind not in "iuf":
        raise PromptError(f"an array of dtype {array.dtype} is no image.")
    numbers = np.asarray(array, dtype=float)
    finite = numbers[np.isfinite(numbers)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    note = ""
    if array.dtype.kind == "f" and low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    elif low >= 0 and high <= 255 and array.dtype.kind != "f":
        low, high = 0.0, 255.0
    else:
        note = f"pixel values {low:g} … {high:g} shown as black … white"
    spread = (numbers - low) / ((high - low) or 1.0) * 255
    return np.nan_to_num(spread, nan=0.0, posinf=255.0, neginf=0.0).round().astype(np.uint8), note
