"""A form that the front end has filled in → the question that it makes."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..api import Kimi
from ..counts import read_count
from ..errors import OptionError, PromptError
from ..prompt import ImageLimits, attach, doubts, expand
from ..session import Plan
from ..wire import CACHE_TTLS, CONTEXT_WINDOW, EFFORTS

MOST_SEARCHES = 9_999
NO_PROMPT = PromptError("There is no prompt.", hint="Write it into the box above the buttons.")


@dataclass(frozen=True, slots=True)
class Form:
    """What the user chose; None where nothing is chosen, and the settings hold."""

    prompt: str
    model: str | None = None
    effort: str | None = None
    max_tokens: int | None = None
    cache: str | None = None
    search: int | None = None
    tools: tuple[str, ...] = ()
    """Names of registered tools that are on."""
    files: tuple[str, ...] = ()
    """Paths of files, and of images."""

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Form:
        """The form of a message. Raises `OptionError` and `PromptError` for what cannot be."""
        prompt = str(said.get("prompt") or "")
        if not prompt.strip():
            raise NO_PROMPT
        return cls(
            prompt,
            str(said.get("model") or "") or None,
            _one_of(said, "effort", tuple(EFFORTS)),
            _number(said, "max_tokens", "Most tokens", CONTEXT_WINDOW),
            _one_of(said, "cache", CACHE_TTLS),
            _number(said, "search", "Web search, at most", MOST_SEARCHES),
            tuple(str(name) for name in said.get("tools") or ()),
            tuple(str(path) for path in said.get("files") or () if str(path).strip()),
        )


def plan_of(kimi: Kimi, names: Mapping[str, Any], form: Form, cell: str | None = None) -> Plan:
    """The request of a form. names: the notebook's variables, for `{{ … }}`. cell: the one whose turn is
    asked again. What the user is to be told is in the session's warnings. Raises what `Kimi.plan` raises,
    and `PromptError`."""
    settings = kimi.settings
    limits = ImageLimits(settings.image_max_bytes, settings.image_max_side)
    images = [path for path in form.files if path.lower().endswith(_IMAGES)]
    prompt = attach(
        expand(form.prompt, names, limits=limits),
        names,
        files=[path for path in form.files if path not in images],
        images=images,
        limits=limits,
        budget=settings.file_max_chars,
    )
    plan = kimi.plan(
        prompt.blocks,
        prompt=form.prompt,
        model=form.model,
        effort=form.effort,
        max_tokens=form.max_tokens,
        cache_ttl=form.cache,
        search=form.search,
        tools=[name for name in form.tools if name in kimi.tools] or None,
        cell=cell or f"panel {uuid.uuid4().hex[:12]}",
    )
    kimi.session.warnings += [*prompt.notes, *doubts([form.prompt], names)]
    return plan


_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".tif", ".tiff", ".bmp")


def _one_of(said: Mapping[str, Any], name: str, choices: tuple[str, ...]) -> str | None:
    value = said.get(name) or None
    if value is not None and value not in choices:
        raise OptionError(f"{name}: must be one of {', '.join(choices)}, not {value!r}.")
    return value


def _number(said: Mapping[str, Any], name: str, label: str, most: int) -> int | None:
    """What stands in a field, read as a cell's option is; None where nothing does. label: the field's."""
    written = said.get(name)
    if written is None or not str(written).strip():
        return None
    try:
        return read_count(str(written), most)
    except ValueError as error:
        raise OptionError(f"{label}: {error}") from None
