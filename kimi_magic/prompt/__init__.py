"""Template and namespace → content blocks: the text of a prompt with the notebook's values in it.

`expand` gives a `Prompt`: the blocks to send, and the record of its parts, so that the size of what
goes out is known before it goes. `attach` puts files and images ahead of it.

    template      the language of `{{ … }}`           lookup      the value that one names
    expansion     a template with its values put in   parts, fit  what goes out, and how much of it
    values        a value → text or images            listing, frames, arrays: its kinds
    pictures      anything that shows a picture → an image block, within limits
    images, raster   figures drawn as PNG; pixels, with Pillow
    attachments   the values of -f and -i             files, encodings, pages: what a file says
"""

from __future__ import annotations

from .arrays import is_array
from .attachments import attach
from .expansion import expand, expand_text
from .fit import BUDGET
from .frames import as_frame
from .parts import Part, Prompt
from .pictures import ImageLimits, image_block, shows_picture
from .template import Placeholder, doubts, overlooked, placeholder_at
from .values import Inserted, insert, written

__all__ = [
    "BUDGET",
    "ImageLimits",
    "Inserted",
    "Part",
    "Placeholder",
    "Prompt",
    "as_frame",
    "attach",
    "doubts",
    "expand",
    "expand_text",
    "image_block",
    "insert",
    "is_array",
    "overlooked",
    "placeholder_at",
    "shows_picture",
    "written",
]
