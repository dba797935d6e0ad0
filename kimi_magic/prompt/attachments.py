"""Files and images that stand ahead of a prompt: the values of `-f` and `-i`.

`-f` takes a path. `-i` takes, and looks for in this order:

- a web address: the server fetches it;
- a value of the notebook, by the language of `{{ … }}` without or with its braces: a figure, an
  image, an array, the bytes of one, a path or address, or a list of those;
- `clipboard`: the image that was copied, on the machine where the kernel runs;
- the path of a file.

Elsewhere in these values `{{ … }}` inserts text, as in every option. Files come first, then images,
then the prompt. Where there is more than one image each has its name in a line above it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from urllib.parse import urlsplit

from ..errors import PromptError
from ..paths import user_path
from ..wire import ImageBlock, TextBlock
from .expansion import expand_text
from .files import FILE_BUDGET, file_text, read_file
from .lookup import resolve
from .parts import Part, Prompt, joined, part_of
from .pictures import LIMITS, ImageLimits, image_block
from .template import Placeholder, placeholder_at
from .values import Inserted

CLIPBOARD = "clipboard"


def attach(
    prompt: Prompt,
    namespace: Mapping[str, object],
    *,
    files: Sequence[str] = (),
    images: Sequence[str] = (),
    limits: ImageLimits = LIMITS,
    budget: int = FILE_BUDGET,
) -> Prompt:
    """The prompt with files and images ahead of it.

    namespace: the notebook's variables; limits: of one image; budget: characters of one file.
    Raises `PromptError`, one line that names the option and its value.
    """
    content: list[str | ImageBlock] = []
    parts: list[Part] = []
    for name in files:
        found = _file(name, namespace, budget)
        parts.append(part_of(name, "file", found, "-f"))
        content += found.content
    pictures = [(name, picture) for name in images for picture in _images(name, namespace, limits)]
    for name, picture in pictures:
        label = (f"Image `{name}`:\n",) if len(pictures) > 1 else ()
        named = Inserted((*label, *picture.content), picture.note)
        parts.append(part_of(name, "image", named, "-i"))
        content += named.content
    behind = (block.text if isinstance(block, TextBlock) else block for block in prompt.blocks)
    content += [item for item in behind if isinstance(item, (str, ImageBlock))]
    return Prompt(tuple(joined(content)), (*parts, *prompt.parts))


def _file(name: str, namespace: Mapping[str, object], budget: int) -> Inserted:
    try:
        return file_text(expand_text(name, namespace), budget)
    except PromptError as error:
        raise PromptError(f"-f/--file: {error.message}", hint=error.hint) from error.__cause__


def _images(name: str, namespace: Mapping[str, object], limits: ImageLimits) -> Iterator[Inserted]:
    """What one `-i` gives: one image, or those of a list."""
    try:
        value = _value(name, namespace)
        several = isinstance(value, (list, tuple))
        for one in value if isinstance(value, (list, tuple)) else (value,):
            block, note = _image(one, limits)
            yield Inserted((block,), note)
        if several and not value:
            raise PromptError("there is no image in it.")
    except PromptError as error:
        word = name if len(name) <= 60 else f"{name[:60]}…"
        raise PromptError(f"-i/--image {word}: {error.message}", hint=error.hint) from error.__cause__


def _value(name: str, namespace: Mapping[str, object]) -> object:
    """What the word behind `-i` stands for: an address or path as text, or a value."""
    if _is_address(name):
        return expand_text(name, namespace)
    whole = placeholder_at(name, 0) if name.startswith("{{") else None
    if whole is not None and whole.end == len(name):
        return resolve(whole, namespace)
    bare = _named(name, namespace)
    if bare is not None:
        return resolve(bare, namespace)
    if name == CLIPBOARD:
        return _clipboard()
    if name.isidentifier() and not _is_file(name):
        names = [known for known in namespace if not known.startswith("_")]
        near = difflib.get_close_matches(name, names, n=1)
        raise PromptError(
            "there is neither a variable nor a file of this name.",
            hint=f"Did you mean {near[0]}?" if near else "",
        )
    return expand_text(name, namespace)


def _named(name: str, namespace: Mapping[str, object]) -> Placeholder | None:
    """The expression that a word without braces is, if it begins with a variable. A file goes before an
    expression, but not before a plain name."""
    found = placeholder_at(f"{{{{ {name} }}}}", 0)
    root = name.split(".")[0].split("[")[0]
    is_meant = found is not None and root in namespace and (name.isidentifier() or not _is_file(name))
    return found if is_meant else None


def _is_file(name: str) -> bool:
    try:
        return user_path(name).is_file()
    except (OSError, ValueError):
        return False


def _is_address(text: str) -> bool:
    return text.lower().startswith(("http://", "https://"))


def _image(value: object, limits: ImageLimits) -> tuple[ImageBlock, str]:
    if isinstance(value, str) and _is_address(value):
        if not urlsplit(value).hostname:
            raise PromptError(f"{value!r} is no web address.")
        return ImageBlock.at(value), ""
    if isinstance(value, (str, PurePath)):
        return image_block(read_file(user_path(value)), limits)
    return image_block(value, limits)


def _clipboard() -> object:
    """The copied image, or the paths of copied files."""
    try:
        from PIL import ImageGrab
    except ImportError:
        raise PromptError(
            "the clipboard is read by the package Pillow.", hint="%pip install pillow"
        ) from None
    try:
        found = ImageGrab.grabclipboard()
    except Exception as error:  # Pillow asks the system's own tools, which fail in many ways
        raise PromptError(f"the clipboard cannot be read here: {error}.") from error
    if not found:
        raise PromptError(
            "there is no image in the clipboard.",
            hint="It is that of the machine where the kernel runs.",
        )
    return found
