"""Figures and images of the notebook, drawn as PNG.

matplotlib, Pillow, plotly and altair are recognised by the names of their classes, so none of them
is imported for a prompt without one. Figures are drawn as their own settings say.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from ..errors import PromptError


def origins(value: object) -> list[tuple[str, str]]:
    """(top-level module, name) of the value's class and its bases, nearest first."""
    return [(cls.__module__.partition(".")[0], cls.__name__) for cls in type(value).__mro__]


def is_image(value: object) -> bool:
    """A figure or an image: what never stands for itself as text."""
    return _drawer(value) is not None


def drawn(value: object) -> tuple[bytes, str]:
    """The figure or image as a PNG file, and a note of what was left out ("" for nothing)."""
    draw = _drawer(value)
    if draw is None:
        raise PromptError(f"a {type(value).__name__} is not a figure or an image.")
    return draw(value)


def _drawer(value: object) -> Callable[[Any], tuple[bytes, str]] | None:
    return next((_DRAWERS[name] for name in origins(value) if name in _DRAWERS), None)


def _matplotlib(figure: Any) -> tuple[bytes, str]:
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue(), ""


def _axes(axes: Any) -> tuple[bytes, str]:
    """matplotlib's Axes, seaborn's grids: the whole figure that they stand in."""
    return _matplotlib(axes.figure)


def _pillow(image: Any) -> tuple[bytes, str]:
    """Upright by its EXIF tag; of an animation the frame that it stands at."""
    from .raster import encoded, plain

    frames = getattr(image, "n_frames", 1)
    upright, note = plain(image)
    return encoded(upright), f"one of {frames} frames" if frames > 1 else note


def _plotly(figure: Any) -> tuple[bytes, str]:
    try:
        return bytes(figure.to_image(format="png")), ""
    except Exception as error:  # plotly and kaleido raise many types; each becomes one line
        raise _no_drawing("plotly", "kaleido", error) from error


def _altair(chart: Any) -> tuple[bytes, str]:
    out = io.BytesIO()
    try:
        chart.save(out, format="png")
    except Exception as error:  # as with plotly
        raise _no_drawing("altair", "vl-convert-python", error) from error
    return out.getvalue(), ""


def _no_drawing(library: str, helper: str, error: Exception) -> PromptError:
    reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return PromptError(
        f"{library} could not draw the figure as an image: {reason.rstrip('.')}.",
        hint=f"Drawing needs the package {helper}; or insert the figure's data.",
    )


_DRAWERS: dict[tuple[str, str], Callable[[Any], tuple[bytes, str]]] = {
    ("matplotlib", "Figure"): _matplotlib,
    ("matplotlib", "Axes"): _axes,
    ("seaborn", "Grid"): _axes,
    ("PIL", "Image"): _pillow,
    ("plotly", "BaseFigure"): _plotly,
    ("altair", "TopLevelMixin"): _altair,
}
