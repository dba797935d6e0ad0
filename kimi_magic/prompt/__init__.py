"""Template and namespace → content blocks: the text of a prompt with the notebook's values in it.

`expand` gives a `Prompt`: the blocks to send, and the record of its parts, so that the size of what
goes out is known before it goes. The language is that of `template`, the form of values that of
`values`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ..errors import PromptError
from ..wire import Block, ImageBlock, TextBlock
from .fit import BUDGET
from .template import Placeholder, placeholder_at, placeholders, resolve, said
from .values import Inserted, clean, insert

__all__ = [
    "BUDGET",
    "Inserted",
    "Part",
    "Placeholder",
    "Prompt",
    "expand",
    "expand_text",
    "insert",
    "placeholder_at",
]


@dataclass(frozen=True, slots=True)
class Part:
    """One piece of a prompt, as a dry run lists it."""

    expression: str
    """What stands between the braces; "" for text as written."""
    type: str
    """The value's class (`DataFrame`, `str` …); `text` for text as written."""
    characters: int
    """Of the text that was put in."""
    images: int
    """Image blocks that were put in."""
    note: str
    """What was left out; "" for nothing."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a template became. No blocks for an empty template."""

    blocks: tuple[Block, ...]
    """Text and image blocks in order, never two text blocks in a row, none empty."""
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return "".join(block.text for block in self.blocks if isinstance(block, TextBlock))


def expand(
    template: str, namespace: Mapping[str, object], *, raw: bool = False, budget: int = BUDGET
) -> Prompt:
    """The prompt that a template stands for.

    namespace: the notebook's variables; raw: nothing is inserted, the text goes as it is; budget:
    characters per value, beyond which part of a value other than text is left out, saying so.
    Raises `PromptError`, one line that names the expression and where it stands.
    """
    content: list[str | ImageBlock] = []
    parts: list[Part] = []

    def add(expression: str, kind: str, inserted: Inserted) -> None:
        texts = [item for item in inserted.content if isinstance(item, str)]
        images = len(inserted.content) - len(texts)
        parts.append(Part(expression, kind, sum(map(len, texts)), images, inserted.note))
        content.extend(inserted.content)

    done = 0
    for found in () if raw else placeholders(template):
        if found.start > done:
            add("", "text", Inserted((clean(template[done : found.start]),)))
        add(found.source, *_inserted(found, template, namespace, budget))
        done = found.end
    if done < len(template):
        add("", "text", Inserted((clean(template[done:]),)))
    return Prompt(tuple(_blocks(content)), tuple(parts))


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


def _inserted(
    found: Placeholder, template: str, namespace: Mapping[str, object], budget: int
) -> tuple[str, Inserted]:
    """The value's class and what it becomes; errors say where."""
    try:
        value = resolve(found, namespace)
        return type(value).__name__, insert(value, spec=found.spec, budget=budget)
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


def _blocks(content: Iterable[str | ImageBlock]) -> Iterator[Block]:
    """Adjacent text in one block; empty text in none."""
    texts: list[str] = []
    for item in content:
        if isinstance(item, str):
            texts.append(item)
            continue
        if text := "".join(texts):
            yield TextBlock.of(text)
        texts = []
        yield item
    if text := "".join(texts):
        yield TextBlock.of(text)
