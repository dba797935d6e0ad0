"""Images in a prompt, from wherever they come: what the server gets, and what the user is told."""

from __future__ import annotations

import base64
import io
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.figure
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from notebook import Notebook
from PIL import Image

from kimi_magic.errors import PromptError
from kimi_magic.magics.completion import complete
from kimi_magic.pixels import is_animated, media_type, pixel_size
from kimi_magic.prompt import ImageLimits, attach, expand, image_block, insert, shows_picture, written
from kimi_magic.wire import ImageBlock, TextBlock

SMALL = ImageLimits(base64_bytes=4_000, side=100)


def saved(image: Image.Image, form: str, **more: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, format=form, **more)
    return out.getvalue()


def noise(width: int, height: int, mode: str = "RGB") -> Image.Image:
    """Pixels that no format makes small."""
    values = np.random.default_rng(1).integers(0, 256, (height, width, len(mode)), dtype=np.uint8)
    return Image.fromarray(values.squeeze())


def halves(width: int = 40, height: int = 20) -> Image.Image:
    """Left half red, right half blue."""
    image = Image.new("RGB", (width, height), "red")
    image.paste("blue", (width // 2, 0, width, height))
    return image


def photo(orientation: int, width: int = 40, height: int = 20) -> bytes:
    """A JPEG as a phone makes it: turned by a tag, with the place where it was taken."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    exif.get_ifd(0x8825)[2] = (52.0, 31.0, 12.5)
    return saved(halves(width, height), "jpeg", exif=exif, quality=95)


def bytes_of(block: object) -> bytes:
    assert isinstance(block, ImageBlock)
    data = base64.b64decode(block.source["data"])
    assert media_type(data) == block.source["media_type"]
    return data


def shown(value: object, limits: ImageLimits = ImageLimits()) -> Image.Image:  # noqa: B008 - frozen
    return Image.open(io.BytesIO(bytes_of(image_block(value, limits)[0])))


def figure() -> matplotlib.figure.Figure:
    made = matplotlib.figure.Figure(figsize=(1, 1))
    made.subplots().plot([1, 2])
    return made


# --- limits -------------------------------------------------------------------------------------


def padded(size: int) -> bytes:
    """A PNG of this many bytes: what stands behind its end is no part of the image."""
    png = saved(halves(), "png")
    return png + bytes(size - len(png))


@pytest.fixture
def notebook() -> Iterator[Notebook]:
    notebook = Notebook()
    yield notebook
    notebook.close()


def test_the_limit_counts_the_base64_text(notebook: Notebook, tmp_path: Path) -> None:
    """Case I01: 3,932,160 bytes are 5 MiB in base64, one more is too many."""
    path = tmp_path / "big.png"
    path.write_bytes(padded(3_932_160))
    assert notebook.ask(f"-i {path}", "What is it?") is None
    assert base64.b64decode(notebook.sent[0]["source"]["data"]) == path.read_bytes()
    path.write_bytes(padded(3_932_161))
    assert notebook.ask(f"-i {path}", "And now?") is None
    assert "5,242,884 bytes in base64, and the limit is 5,242,880; written anew" in notebook.printed
    assert notebook.run("%kimi And in words?") is None


@pytest.mark.parametrize("form", ["png", "jpeg"])
def test_what_is_too_many_bytes_is_scaled_until_it_fits(form: str) -> None:
    data = saved(noise(90, 90), form)
    block, note = image_block(data, SMALL)
    assert len(block.source["data"]) <= 4_000
    assert block.source["media_type"] == f"image/{form}"
    assert note.startswith(
        f"{(len(data) + 2) // 3 * 4:,} bytes in base64, and the limit is 4,000; scaled from 90×90 to "
    )
    width, height = shown(data, SMALL).size
    assert width == height > 10


def test_a_refused_image_leaves_the_conversation_as_it_was(notebook: Notebook, tmp_path: Path) -> None:
    (tmp_path / "a.svg").write_text("<svg/>")
    error = notebook.ask(f"-i {tmp_path / 'a.svg'}", "What is it?")
    assert isinstance(error, PromptError)
    assert notebook.run("%kimi And in words?") is None
    assert len(notebook.server.bodies) == 1
    assert len(notebook.server.bodies[0]["messages"]) == 1


def test_a_side_that_is_too_long_is_scaled_and_both_numbers_are_said(
    notebook: Notebook, tmp_path: Path
) -> None:
    """Case I06: byte size alone is no protection."""
    path = tmp_path / "long.png"
    path.write_bytes(saved(Image.new("L", (8001, 10)), "png"))
    assert notebook.ask(f"-i {path}", "What is it?") is None
    sent = base64.b64decode(notebook.sent[0]["source"]["data"])
    assert pixel_size(sent) == (8000, 9)
    assert (
        "8,001×10 pixels, and the limit is 8,000 a side; scaled from 8,001×10 to 8,000×9 pixels"
        in notebook.printed
    )
    blank = zlib.compress(bytes(8001) * 8000, 9)
    chunks = ((b"IHDR", struct.pack(">IIBBBBB", 8000, 8000, 8, 0, 0, 0, 0)), (b"IDAT", blank), (b"IEND", b""))
    png = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )
    path.write_bytes(png)
    assert notebook.ask(f"-i {path}", "What is it?") is None
    assert base64.b64decode(notebook.sent[0]["source"]["data"]) == png


def test_the_limits_are_settings_and_hold_for_inserted_figures(tmp_path: Path) -> None:
    notebook = Notebook(image_max_side=50)
    notebook.shell.user_ns["fig"] = figure()
    assert notebook.ask("", "Look: {{ fig }}") is None
    assert pixel_size(base64.b64decode(notebook.sent[1]["source"]["data"])) == (50, 50)
    assert (
        "{{ fig }}: 100×100 pixels, and the limit is 50 a side; scaled from 100×100 to 50×50 pixels."
        in notebook.printed
    )
    notebook.close()


def test_a_dry_run_shows_the_note_and_sends_nothing(notebook: Notebook, tmp_path: Path) -> None:
    path = tmp_path / "long.png"
    path.write_bytes(saved(Image.new("L", (8001, 10)), "png"))
    assert notebook.ask(f"-i {path} --dry-run", "What is it?") is None
    assert "scaled from 8,001×10" in notebook.printed
    assert "1 image" in notebook.printed
    assert notebook.server.bodies == []


def test_images_of_tools_go_by_the_same_limits() -> None:
    (block,), note = written(saved(noise(200, 20), "png"), limits=SMALL)
    assert pixel_size(bytes_of(block)) is not None
    assert max(pixel_size(bytes_of(block)) or ()) <= 100
    assert note
    (block,), _ = written(figure(), limits=SMALL)
    assert max(shown(block).size) <= 100
    assert written({"a": 1}) == (('{"a": 1}',), "")


def test_an_image_that_a_tool_returns_is_within_the_limits(notebook: Notebook) -> None:
    notebook.run("from PIL import Image\ndef draw() -> object:\n    return Image.new('L', (8001, 10))")
    assert notebook.ask("-t draw", "Use the tool draw.") is None
    (result,) = notebook.sent
    (image,) = result["content"]
    assert pixel_size(base64.b64decode(image["source"]["data"])) == (8000, 9)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 300), st.integers(1, 300), st.sampled_from(["png", "jpeg", "webp", "gif"]))
def test_whatever_goes_out_is_within_both_limits(width: int, height: int, form: str) -> None:
    block, _ = image_block(saved(noise(width, height), form), SMALL)
    data = bytes_of(block)
    assert len(block.source["data"]) <= SMALL.base64_bytes
    assert max(pixel_size(data) or ()) <= SMALL.side
    shown(block).load()


# --- orientation and metadata -------------------------------------------------------------------


@pytest.mark.parametrize("orientation", [3, 6, 8])
def test_a_photo_within_the_limits_goes_out_byte_for_byte(orientation: int) -> None:
    data = photo(orientation)
    assert bytes_of(image_block(data)[0]) == data


@pytest.mark.parametrize(
    ("orientation", "size", "red"),
    [(1, (100, 50), (10, 25)), (3, (100, 50), (90, 25)), (6, (50, 100), (25, 10)), (8, (50, 100), (25, 90))],
)
def test_a_photo_that_is_written_anew_is_upright_without_tags(
    orientation: int, size: tuple[int, int], red: tuple[int, int]
) -> None:
    """Case I04."""
    image = shown(photo(orientation, 900, 450), SMALL)
    assert image.size == size
    pixel = image.convert("RGB").getpixel(red)
    assert isinstance(pixel, tuple)
    assert pixel[0] > 200 > 50 > pixel[2]
    assert dict(image.getexif()) == {}


@pytest.mark.parametrize("limits", [ImageLimits(), SMALL])
def test_where_a_photo_was_taken_is_never_written_again(limits: ImageLimits) -> None:
    image = shown(Image.open(io.BytesIO(photo(6, 900, 450))), limits)
    assert image.size[1] == image.size[0] * 2
    assert dict(image.getexif()) == {}
    assert not image.info.get("exif")


# --- types and modes ----------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["png", "jpeg", "gif", "webp"])
def test_the_type_is_what_the_bytes_say_not_the_name(form: str, tmp_path: Path) -> None:
    path = tmp_path / "image.png"
    path.write_bytes(saved(halves(), form))
    prompt = attach(expand("?", {}), {}, images=[str(path)])
    assert bytes_of(prompt.blocks[0]) == path.read_bytes()
    assert isinstance(prompt.blocks[0], ImageBlock)
    assert prompt.blocks[0].source["media_type"] == f"image/{form}"


@pytest.mark.parametrize("form", ["tiff", "bmp", "ico"])
def test_a_type_that_the_server_does_not_take_becomes_png(form: str) -> None:
    block, note = image_block(saved(halves(), form))
    assert block.source["media_type"] == "image/png"
    image = shown(block).convert("RGB")
    assert image.getpixel((2, image.height // 2)) == (255, 0, 0)
    assert "converted to PNG" in note


@pytest.mark.parametrize(
    "text", ["<svg/>", '<?xml version="1.0"?>\n<!-- a -->\n<svg xmlns="x"></svg>', "\ufeff  <svg width='1'>"]
)
def test_svg_is_refused_with_the_accepted_types(text: str) -> None:
    with pytest.raises(
        PromptError, match="SVG is not among the types that the server takes: JPEG, PNG, GIF and WebP"
    ):
        image_block(text.encode())


@pytest.mark.parametrize("data", [b"", b"hello", b"%PDF-1.7", b"<p>svg</p>", b"\x89PNG"])
def test_what_is_no_image_is_refused_with_the_accepted_types(data: bytes) -> None:
    with pytest.raises(PromptError, match=r"no image\. The server takes JPEG, PNG, GIF and WebP"):
        image_block(data)


@pytest.mark.parametrize(("form", "length"), [("png", 20), ("jpeg", 20), ("gif", 8), ("webp", 20)])
def test_a_file_that_is_cut_in_its_header_is_refused(form: str, length: int) -> None:
    with pytest.raises(PromptError, match="damaged"):
        image_block(saved(halves(), form)[:length])


def test_a_file_that_cannot_be_decoded_is_refused_in_one_line() -> None:
    with pytest.raises(PromptError, match="it cannot be decoded"):
        image_block(saved(noise(300, 300), "png")[:9000], SMALL)


def animation(form: str) -> bytes:
    frames = [Image.new("RGB", (300, 20), shade) for shade in ("red", "green", "blue")]
    return saved(frames[0], form, save_all=True, append_images=frames[1:], duration=10)


@pytest.mark.parametrize("form", ["gif", "webp", "png"])
def test_an_animation_goes_out_whole_with_a_note_and_its_first_frame_where_it_is_scaled(form: str) -> None:
    data = animation(form)
    block, note = image_block(data)
    assert bytes_of(block) == data
    assert note == "an animation, of which the model may see the first frame only"
    block, note = image_block(data, SMALL)
    assert note.startswith("the first frame of an animation; 300×20 pixels, and")
    image = shown(block)
    assert getattr(image, "n_frames", 1) == 1
    assert image.convert("RGB").getpixel((5, 3)) in ((255, 0, 0), (255, 1, 0))
    assert not is_animated(saved(halves(), form))


@pytest.mark.parametrize(
    "mode",
    ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "LAB", "F", "I", "I;16", "PA", "La", "RGBa"],
)
def test_every_mode_goes_out_and_is_scaled(mode: str) -> None:
    image = Image.new(mode, (300, 200))
    assert shown(image).size == (300, 200)
    assert shown(image, SMALL).size == (100, 66)


def test_sixteen_bits_become_eight_from_the_darkest_to_the_lightest() -> None:
    deep = Image.fromarray(np.array([[1000, 2000, 3000]], dtype=np.uint16))
    block, note = image_block(deep)
    assert np.asarray(shown(block)).tolist() == [[0, 128, 255]]
    assert note == "pixel values 1000 … 3000 shown as black … white"


def test_transparency_stays() -> None:
    image = Image.new("RGBA", (300, 20), (255, 0, 0, 0))
    assert shown(image).convert("RGBA").getpixel((1, 1)) == (255, 0, 0, 0)
    assert shown(image, SMALL).mode == "RGBA"
    palette = image.convert("P")
    palette.info["transparency"] = 0
    assert shown(palette, SMALL).mode == "RGBA"


def test_cmyk_becomes_the_same_colour_in_rgb() -> None:
    image = shown(saved(Image.new("CMYK", (300, 20), (0, 255, 255, 0)), "jpeg"), SMALL)
    pixel = image.convert("RGB").getpixel((5, 3))
    assert isinstance(pixel, tuple)
    assert pixel[0] > 200 > 60 > pixel[1]


# --- arrays -------------------------------------------------------------------------------------

ARRAYS: list[tuple[Any, str, tuple[int, int], str]] = [
    (np.zeros((4, 6), dtype=np.uint8), "L", (6, 4), ""),
    (np.zeros((4, 6), dtype=bool), "L", (6, 4), ""),
    (np.zeros((4, 6, 1)), "L", (6, 4), ""),
    (np.zeros((4, 6, 3)), "RGB", (6, 4), ""),
    (np.zeros((4, 6, 4), dtype=np.uint8), "RGBA", (6, 4), ""),
    (np.zeros((3, 50, 60)), "RGB", (60, 50), ""),
    (np.array([[0, 200]]), "L", (2, 1), ""),
    (np.array([[-3.2, 7.9]]), "L", (2, 1), "pixel values -3.2 … 7.9 shown as black … white"),
    (np.array([[np.nan, 2.0, np.inf]]), "L", (3, 1), "pixel values 2 … 2 shown as black … white"),
]  # fmt: skip


@pytest.mark.parametrize(("array", "mode", "size", "note"), ARRAYS, ids=range(len(ARRAYS)))
def test_an_array_is_an_image(array: Any, mode: str, size: tuple[int, int], note: str) -> None:
    assert (shown(array).mode, shown(array).size, image_block(array)[1]) == (mode, size, note)


def test_values_of_an_array_are_those_of_the_pixels() -> None:
    assert np.asarray(shown(np.array([[0.0, 0.5, 1.0]]))).tolist() == [[0, 128, 255]]
    assert np.asarray(shown(np.array([[False, True]]))).tolist() == [[0, 255]]
    assert np.asarray(shown(np.array([[7, 250]]))).tolist() == [[7, 250]]
    assert np.asarray(shown(np.array([[0, 1000]]))).tolist() == [[0, 255]]


@pytest.mark.parametrize(
    "array", [np.zeros(5), np.zeros((0, 4)), np.zeros((4, 6, 2)), np.zeros((2, 2, 2, 2)), np.array([["a"]])]
)
def test_an_array_that_is_no_image_is_refused(array: Any) -> None:
    with pytest.raises(PromptError, match="is no image"):
        image_block(array)


def test_an_array_in_braces_is_numbers_and_a_figure_an_image() -> None:
    assert isinstance(insert(np.zeros((4, 6))).content[0], str)
    assert shows_picture(figure())
    assert shows_picture(saved(halves(), "png"))
    assert not shows_picture(np.zeros((4, 6)))
    assert not shows_picture(b"bytes")


# --- the option ---------------------------------------------------------------------------------

NAMES: dict[str, object] = {
    "fig": figure(),
    "pil": halves(),
    "arr": np.zeros((4, 6)),
    "raw": saved(halves(), "gif"),
    "both": [figure(), halves()],
    "holder": {"one": halves()},
    "url": "https://example.org/b.png",
    "text": "no path",
    "number": 5,
    "empty": [],
}


def given_images(*images: str, names: dict[str, object] = NAMES) -> list[str]:
    """Kinds of the blocks ahead of the prompt, texts as they are."""
    prompt = attach(expand("P", {}), names, images=images)
    return [
        b.text if isinstance(b, TextBlock) else b.source.get("media_type", b.source.get("url"))
        for b in prompt.blocks
    ]  # type: ignore[attr-defined]  # images, the others


@pytest.mark.parametrize(
    ("image", "kinds"),
    [
        ("fig", ["image/png"]),
        ("pil", ["image/png"]),
        ("arr", ["image/png"]),
        ("raw", ["image/gif"]),
        ("both[0]", ["image/png"]),
        ('holder["one"]', ["image/png"]),
        ("{{ fig }}", ["image/png"]),
        ("url", ["https://example.org/b.png"]),
        ("https://example.org/a.png?x=1", ["https://example.org/a.png?x=1"]),
        ("HTTP://example.org/a", ["HTTP://example.org/a"]),
    ],
)
def test_an_image_comes_from_a_name_or_an_address(image: str, kinds: list[str]) -> None:
    assert given_images(image) == [*kinds, "P"]


def test_several_images_have_their_names_in_the_order_given() -> None:
    assert given_images("fig", "url") == [
        "Image `fig`:\n", "image/png", "Image `url`:\n", "https://example.org/b.png", "P",
    ]  # fmt: skip
    assert given_images("both")[1::2] == ["image/png", "image/png"]


def test_a_path_may_hold_a_value_and_a_variable_may_hold_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("site 2.png", "fig.png", "plain"):
        Path(name).write_bytes(saved(halves(), "png"))
    names = {"n": 2, "where": tmp_path / "fig.png", "fig": "other"}
    for image in ("site {{ n }}.png", "where", "fig.png", "plain", "{{ where }}", "./fig.png"):
        assert given_images(image, names=names) == ["image/png", "P"]


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ("figg", "-i/--image figg: there is neither a variable nor a file of this name. Did you mean fig?"),
        ("nothing.png", "there is no file nothing.png in "),
        ("text", "there is no file no path in "),
        ("number", "a value of type int is no image. One is a figure"),
        ("empty", "there is no image in it"),
        ("holder['two']", "there is no 'two' in this dict"),
        ("{{ nope }}", "there is no variable 'nope'"),
        ("https://", "is no web address"),
        ("fig.savefig", "a value of type method is no image"),
        (".", "is a folder"),
        ("x" * 5000, "there is neither a variable nor a file"),
        (f"{'x' * 5000}.png", "cannot be read: File name too long"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_option(image: str, message: str) -> None:
    with pytest.raises(PromptError) as caught:
        given_images(image)
    assert message in str(caught.value)
    assert str(caught.value).startswith("-i/--image ")
    assert "\n" not in str(caught.value)


def test_a_clipboard_that_cannot_be_read_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("DISPLAY", raising=False)
    if sys.platform != "linux":
        pytest.skip("other systems have a clipboard")
    with pytest.raises(PromptError, match="-i/--image clipboard: the clipboard cannot be read here"):
        given_images("clipboard")
    assert given_images("clipboard", names={"clipboard": halves()}) == ["image/png", "P"]


def test_the_parts_say_what_stands_ahead() -> None:
    prompt = attach(expand("P", {}), NAMES, images=["fig"], limits=SMALL)
    assert [(part.title, part.type, part.images) for part in prompt.parts] == [
        ("-i fig", "image", 1),
        ("text as written", "text", 0),
    ]


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("-i ", ("arr", "fig", "pil", "raw", "clipboard", "a.png", "b.JPG", "deep/")),
        ("-i f", ("fig",)),
        ("--image=deep/", ("deep/d.webp",)),
        ("-i deep/d", ("deep/d.webp",)),
        ("-i .", (".hidden.png",)),
        ("-i nowhere/", ()),
        ("-i fig -i p", ("pil",)),
        ("-f ", ("a.png", "b.JPG", "deep/", "notes.txt", '"two words.csv"')),
        ("-f n", ("notes.txt",)),
        ("-f deep/", ("deep/d.webp",)),
    ],
)
def test_tab_offers_images_and_files(
    typed: str, offered: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("deep").mkdir()
    for name in ("a.png", "b.JPG", "notes.txt", "two words.csv", ".hidden.png", "deep/d.webp"):
        Path(name).touch()
    names = {**NAMES, "_fig": figure(), "df": {"a": 1}}
    assert complete(typed, len(typed), names).matches == offered


WITHOUT_PILLOW = """
import sys
sys.modules["PIL"] = None
from kimi_magic.errors import PromptError
from kimi_magic.prompt import ImageLimits, image_block
png = {png!r}
print(image_block(png)[1] == "")
for data, limits in ((png, ImageLimits(side=10)), ({bmp!r}, ImageLimits())):
    try:
        image_block(data, limits)
    except PromptError as error:
        print(error)
"""


def test_without_pillow_an_image_within_the_limits_goes_out_and_others_name_it() -> None:
    code = WITHOUT_PILLOW.format(png=saved(halves(), "png"), bmp=saved(halves(), "bmp"))
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    hint = "needs the package Pillow. %pip install pillow"
    assert ran.stdout.splitlines() == [
        "True",
        f"40×20 pixels, and the limit is 10 a side: making it smaller {hint}",
        f"the server takes JPEG, PNG, GIF and WebP, and converting bmp {hint}",
    ]


# --- headers ------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 300), st.integers(1, 300), st.sampled_from(["png", "jpeg", "gif", "webp"]), st.booleans()
)
def test_the_size_in_pixels_is_what_pillow_says(width: int, height: int, form: str, flag: bool) -> None:
    more = {"webp": {"lossless": flag}, "jpeg": {"progressive": flag}}.get(form, {})
    data = saved(Image.new("RGB", (width, height)), form, **more)
    assert pixel_size(data) == (width, height)
    assert pixel_size(animation("webp")) == (300, 20)


@settings(deadline=None)
@given(
    st.binary(max_size=64),
    st.sampled_from([b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"RIFF....WEBP", b""]),
)
def test_no_bytes_break_the_reading_of_headers(data: bytes, magic: bytes) -> None:
    size = pixel_size(magic + data)
    assert size is None or len(size) == 2
    assert is_animated(magic + data) in (True, False)
