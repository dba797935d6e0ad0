"""A value of the notebook → what goes into the prompt, by one rule.

    text                            as it is, however long; half surrogate pairs become U+FFFD
    numbers, None, dates, paths …   `str`
    lists, dicts, sets, dataclasses JSON-like text (`listing`)
    frames, series                  markdown or CSV, or a stated sample (`frames`)
    arrays, tensors                 shape, dtype and values, or a stated sample (`arrays`)
    figures, images                 an image block (`pictures`); also a list of nothing but images
    a reply                         its text
    exceptions                      type, message and the last calls of the traceback
    functions, classes              their source, where the notebook defines them
    bytes, iterators, methods …     refused, with what to insert instead
    anything else                   its `repr` (or `str`) where its class has its own, else refused

Whatever is longer than the budget, text excepted, is cut in the middle, and the cut is stated in the
text itself and in `Inserted.note`.
"""

from __future__ import annotations

import dataclasses
import inspect
import traceback
from collections.abc import Iterator
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any
from uuid import UUID

from ..errors import PromptError
from ..wire import ImageBlock, Message
from .arrays import array_text, is_array
from .fit import BUDGET, cut
from .frames import as_frame, frame_text
from .images import is_image, origins
from .listing import is_container, listing, own_text
from .pictures import LIMITS, ImageLimits, image_block, shows_picture

_CALLS_SHOWN = 8

_AS_STR = (
    bool,
    int,
    float,
    complex,
    type(None),
    Decimal,
    Fraction,
    date,
    time,
    timedelta,
    PurePath,
    UUID,
    Enum,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Inserted:
    """What a value becomes: texts and images in order, and what was left out ("" for nothing)."""

    content: tuple[str | ImageBlock, ...]
    note: str = ""
    apart: bool = False
    """It is written over several lines (a table, a listing, a traceback), and wants lines of its own. Text
    of the user's own never does: it is put where it is put."""


def insert(value: object, *, spec: str = "", budget: int = BUDGET, limits: ImageLimits = LIMITS) -> Inserted:
    """What stands for a value in a prompt.

    spec: a format spec as in an f-string (`.2f`), used on the value itself; budget: characters.
    Raises `PromptError` for a value that cannot go in.
    """
    if spec:
        return Inserted((clean(_formatted(value, spec)),))
    if is_image(value):
        block, note = image_block(value, limits)
        return Inserted((block,), note)
    if isinstance(value, (list, tuple)) and value and all(is_image(item) for item in value):
        images = [image_block(item, limits) for item in value]
        return Inserted(tuple(block for block, _ in images), next((note for _, note in images if note), ""))
    text, note = _text(value, budget)
    return Inserted((clean(text),), note, apart="\n" in text and not _is_prose(value))


def written(
    value: object, budget: int = BUDGET, limits: ImageLimits = LIMITS
) -> tuple[tuple[str | ImageBlock, ...], str]:
    """`insert` for what a tool returned: its content and note. Bytes of an image file are an image here,
    since a function returns what a prompt would name. Raises as `insert`."""
    if shows_picture(value):
        block, note = image_block(value, limits)
        return (block,), note
    inserted = insert(value, budget=budget, limits=limits)
    return inserted.content, inserted.note


def _is_prose(value: object) -> bool:
    """Text, or an object that stands for one (a reply)."""
    return isinstance(value, (str, Message)) or (dataclasses.is_dataclass(value) and _has_own_str(value))


def clean(text: str) -> str:
    """The text with surrogate pairs joined and lone halves replaced by U+FFFD."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _formatted(value: object, spec: str) -> str:
    try:
        return format(value, spec)
    except Exception as error:  # a class's own __format__ may raise anything
        raise PromptError(
            f"the format {spec!r} does not fit a value of type {type(value).__name__}: {error}."
        ) from error


def _text(value: Any, budget: int) -> tuple[str, str]:
    """Text and note, by the table above."""
    if isinstance(value, str):
        return str.__str__(value), ""
    if isinstance(value, _AS_STR) or ("numpy", "generic") in origins(value):
        return str(value), ""
    if frame := as_frame(value):
        return frame_text(frame, budget)
    if isinstance(value, Message):
        return value.text, ""
    if isinstance(value, BaseException):
        return cut(_error_text(value), budget)
    refusal = _refusal(value)
    if refusal:
        raise PromptError(f"a value of type {type(value).__name__} cannot be inserted.", hint=refusal)
    if is_array(value):
        return array_text(value, budget)
    if is_container(value) and not (dataclasses.is_dataclass(value) and _has_own_str(value)):
        return listing(value, budget)
    if isinstance(value, (FunctionType, type)):
        return cut(_source(value), budget)
    return _other(value, budget)


def _other(value: object, budget: int) -> tuple[str, str]:
    text = str(value) if dataclasses.is_dataclass(value) else own_text(value)
    if text is None:
        raise PromptError(
            f"a value of type {type(value).__name__} has no text of its own.",
            hint="Insert one of its attributes, or a string made from it in a cell.",
        )
    return cut(text, budget)


def _has_own_str(value: object) -> bool:
    return type(value).__str__ is not object.__str__


def _refusal(value: object) -> str:
    """What to insert instead of a value that is never inserted, or "" for others."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "Insert text (.decode()), or an image opened with PIL.Image.open."
    if isinstance(value, (MethodType, BuiltinFunctionType)):
        return "A prompt calls nothing: call it in a cell, and insert the result."
    if isinstance(value, ModuleType):
        return "Insert a value."
    if ("polars", "LazyFrame") in origins(value):
        return "Insert its .collect() from a variable."
    if isinstance(value, Iterator) and not is_container(value):
        return "Make it a list in a cell, and insert that."
    return ""


def _source(value: FunctionType | type) -> str:
    """Source of what the notebook itself defines; a library's is not what the user can mean."""
    try:
        if value.__module__ == "__main__":
            return inspect.getsource(value).rstrip("\n")
    except (OSError, TypeError) as error:
        raise PromptError(f"the source of {value.__name__} is not known: {error}.") from error
    raise PromptError(
        f"{value.__qualname__} is a {'class' if isinstance(value, type) else 'function'} of the module"
        f" {value.__module__}.",
        hint="A prompt calls nothing: call it in a cell, and insert the result.",
    )


def _error_text(error: BaseException) -> str:
    """The traceback as Python prints it, with the last calls only, and how many were left out."""
    calls = len(traceback.extract_tb(error.__traceback__))
    text = "".join(traceback.format_exception(error, limit=-_CALLS_SHOWN, chain=False)).rstrip("\n")
    if calls > _CALLS_SHOWN:
        text = f"[the last {_CALLS_SHOWN} of {calls} calls]\n{text}"
    return text
