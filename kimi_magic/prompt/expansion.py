"""A template with its values put in.

What is written over several lines (a table, a listing) and would stand in the middle of a line gets
a blank line on each side that has something else on it; the text around it is left as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..errors import PromptError
from ..wire import ImageBlock
from .fit import BUDGET
from .lookup import resolve, said
from .parts import Part, Prompt, joined, part_of
from .pictures import LIMITS, ImageLimits
from .template import Placeholder, placeholders
from .values import Inserted, clean, insert


def expand(
    template: str,
    namespace: Mapping[str, object],
    *,
    raw: bool = False,
    budget: int = BUDGET,
    limits: ImageLimits = LIMITS,
) -> Prompt:
    """The prompt that a template stands for.

    namespace: the notebook's variables; raw: nothing is inserted, the text goes as it is; budget:
    characters per value, beyond which part of a value other than text is left out, saying so; limits:
    those of an image, beyond which it is made smaller.
    Raises `PromptError`, one line that names the expression and where it stands.
    """
    content: list[str | ImageBlock] = []
    parts: list[Part] = []

    def add(expression: str, kind: str, inserted: Inserted) -> None:
        parts.append(part_of(expression, kind, inserted))
        content.extend(inserted.content)

    done = parted = 0  # parted: behind the last value that got a blank line behind it
    for found in () if raw else placeholders(template):
        if found.start > done:
            add("", "text", Inserted((clean(template[done : found.start]),)))
        kind, inserted = _inserted(found, template, namespace, budget, limits)
        if inserted.apart:
            inserted, parted = _apart(inserted, template, found, parted)
        add(found.source, kind, inserted)
        done = found.end
    if done < len(template):
        add("", "text", Inserted((clean(template[done:]),)))
    return Prompt(tuple(joined(content)), tuple(parts))


def expand_text(
    template: str, namespace: Mapping[str, object], *, raw: bool = False, budget: int = BUDGET
) -> str:
    """As `expand`, where only text can stand: an option's value. Raises `PromptError` for images."""
    prompt = expand(template, namespace, raw=raw, budget=budget)
    for part in prompt.parts:
        if part.images:
            raise PromptError(
                f"{{{{ {part.expression} }}}} is an image, and only text can stand in an option.",
                hint="Insert it in the prompt below.",
            )
    return prompt.text


def _apart(inserted: Inserted, template: str, found: Placeholder, parted: int) -> tuple[Inserted, int]:
    """The value with a blank line on each side on which its line has something else; and `parted`."""
    begin = max(template.rfind("\n", 0, found.start) + 1, parted)
    end = template.find("\n", found.end)
    before = "\n\n" if template[begin : found.start].strip() else ""
    after = "\n\n" if template[found.end : end if end >= 0 else None].strip() else ""
    content = tuple(f"{before}{item}{after}" if isinstance(item, str) else item for item in inserted.content)
    return replace(inserted, content=content), found.end if after else parted


def _inserted(
    found: Placeholder,
    template: str,
    namespace: Mapping[str, object],
    budget: int,
    limits: ImageLimits,
) -> tuple[str, Inserted]:
    """The value's class and what it becomes; errors say where."""
    try:
        value = resolve(found, namespace)
        return type(value).__name__, insert(value, spec=found.spec, budget=budget, limits=limits)
    except PromptError as error:
        raise PromptError(f"{_where(found, template)}: {error.message}", hint=error.hint) from error.__cause__
    except Exception as error:  # a __repr__ of the user's or an array of a library may raise anything
        where = _where(found, template)
        raise PromptError(f"{where}: it could not be written as text: {said(error)}.") from error


def _where(found: Placeholder, template: str) -> str:
    line = template.count("\n", 0, found.start) + 1
    column = found.start - template.rfind("\n", 0, found.start)
    written = template[found.start : found.end]
    shown = written if len(written) <= 60 else f"{written[:57]}…}}}}"
    return f"{shown} in line {line}, column {column}"
