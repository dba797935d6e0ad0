"""numpy arrays, and whatever can be looked at as one (tensors), as text for a model.

Shape and dtype, then every value in full precision, nested as the axes are; beyond the budget the
first and last rows, or values where a row itself is too long, with how many were left out. numpy's
print options play no part. numpy is imported only here, when there is an array.
"""

from __future__ import annotations

import json
from typing import Any

from ..counts import counted
from ..errors import PromptError
from .fit import fit, shown


def is_array(value: object) -> bool:
    """Something with a shape and a dtype that numpy can read: torch, jax, tensorflow, xarray-like."""
    # the class is asked, since an object may answer to any attribute
    return hasattr(type(value), "__array__") and hasattr(value, "shape") and hasattr(value, "dtype")


def as_numpy(value: Any) -> Any:
    """The array as numpy has it; a tensor is taken off its graph and device."""
    import numpy as np

    if hasattr(value, "detach"):
        value = value.detach().cpu()
    try:
        return np.asanyarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise PromptError(
            f"a {type(value).__name__} of dtype {value.dtype} cannot be read as an array: {error}.",
            hint="Convert it in a cell first, for example with .float().",
        ) from error


def array_text(value: Any, budget: int) -> tuple[str, str]:
    """The array's text, and a note of what was left out ("" for nothing)."""
    array = as_numpy(value)
    if array.ndim == 0:
        return item_text(array[()]), ""
    title = f"{type(value).__name__} of shape {tuple(array.shape)}, dtype {value.dtype}"
    if array.ndim > 1 and array.size // max(len(array), 1) <= budget // 8:
        head, tail = fit(len(array), lambda n: _nested(array[n]), budget, gap=2)
        count, noun = len(array), "row"
    else:
        array = array.ravel()
        head, tail = fit(array.size, lambda n: item_text(array[n]), budget, gap=2)
        count, noun = array.size, "value"
    missing = count - len(head) - len(tail)
    note = ""
    if missing:
        note = f"{counted(missing, noun)} left out, {shown(len(head), len(tail))} of {count:,} shown"
        head.append(f"[{counted(missing, noun)} left out here]")
    comma = ",\n" if noun == "row" else ", "
    body = comma.join([*head, *tail])
    return f"{title}{'; ' if note else ''}{note}:\n[{body}]", note


def item_text(value: Any) -> str:
    """One element: numbers in full, text in double quotes."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)


def _nested(array: Any) -> str:
    if array.ndim == 0:
        return item_text(array[()])
    # `[n, ...]` keeps the last axis an array, so a number keeps its dtype (and float32 its digits)
    return "[" + ", ".join(_nested(array[n, ...]) for n in range(len(array))) + "]"
