"""What a prompt is made of: its blocks, and the record of its parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..wire import Block, ImageBlock, TextBlock
from .values import Inserted


@dataclass(frozen=True, slots=True)
class Part:
    """One piece of a prompt, as a dry run lists it."""

    expression: str
    """What stands between the braces or behind the option; "" for text as written."""
    type: str
    """The value's class (`DataFrame`, `str` …); `text` for text as written, `file`, `image`."""
    characters: int
    """Of the text that was put in."""
    images: int
    """Image blocks that were put in."""
    note: str
    """What was left out or changed; "" for nothing."""
    option: str = ""
    """The option that put it there (`-f`); "" for a piece of the prompt itself."""

    @property
    def title(self) -> str:
        """`{{ df }}`, `-f data.csv`, `text as written`."""
        if self.option:
            return f"{self.option} {self.expression}"
        return f"{{{{ {self.expression} }}}}" if self.expression else "text as written"


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

    @property
    def notes(self) -> list[str]:
        """Lines for the user: what was left out or changed."""
        return [f"{part.title}: {part.note}." for part in self.parts if part.note]


def part_of(expression: str, kind: str, inserted: Inserted, option: str = "") -> Part:
    """The record of one piece."""
    texts = [item for item in inserted.content if isinstance(item, str)]
    images = len(inserted.content) - len(texts)
    return Part(expression, kind, sum(map(len, texts)), images, inserted.note, option)


def joined(content: Iterable[str | ImageBlock]) -> Iterator[Block]:
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
