"""Files attached to a prompt: how they are read, what is said about them, what is refused."""

from __future__ import annotations

import io
import json
import pickle
import random
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from notebook import Notebook
from PIL import Image

from kimi_magic.errors import PromptError
from kimi_magic.prompt import Prompt, attach, expand
from kimi_magic.prompt.encodings import decoded

CHINESE = "地点,温度\n深圳湾观测站,二十三度\n气温从五月开始持续上升，原因还不清楚。\n"
GERMAN = "Größe;Höhe\nMünchen – „Föhn“ für 5 €\n"


def attached(path: Path, budget: int = 200_000, shown: str = "") -> Prompt:
    return attach(expand("Why?", {}), {}, files=[shown or str(path)], budget=budget)


def written(folder: Path, data: bytes | str, name: str = "a.csv") -> Path:
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


# --- the form -----------------------------------------------------------------------------------


def test_a_file_stands_ahead_of_the_prompt_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "a,b\n1,2\n", "sites 1.csv")
    prompt = attached(tmp_path, shown="sites 1.csv")
    assert prompt.text == "File `sites 1.csv`:\n```csv\na,b\n1,2\n```\n\nWhy?"
    assert [(part.title, part.type, part.characters) for part in prompt.parts] == [
        ("-f sites 1.csv", "file", len(prompt.text) - 4),
        ("text as written", "text", 4),
    ]


def test_files_come_first_then_images_then_the_prompt(tmp_path: Path) -> None:
    one, two = written(tmp_path, "1"), written(tmp_path, "2", "b.md")
    prompt = attach(
        expand("Why?", {}), {"im": Image.new("L", (2, 2))}, files=[str(one), str(two)], images=["im"]
    )
    assert [block.type for block in prompt.blocks] == ["text", "image", "text"]
    assert prompt.text == f"File `{one}`:\n```csv\n1\n```\n\nFile `{two}`:\n```md\n2\n```\n\nWhy?"


@pytest.mark.parametrize("inside", ["```", "text\n````python\nx\n````\n", "`````` and ```"])
def test_the_fence_is_longer_than_any_inside(inside: str, tmp_path: Path) -> None:
    """Case R06."""
    text = attached(written(tmp_path, inside, "a.txt")).text
    fence = re.findall(r"^`{3,}", text, re.MULTILINE)[0]
    assert len(fence) > max(len(run) for run in re.findall("`+", inside))
    assert text.endswith(f"\n{fence}\n\nWhy?")
    assert text.count(fence) == 2


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])))
def test_utf8_text_goes_out_as_it_is(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = written(tmp_path_factory.getbasetemp(), text, "any.txt")
    assert text in attached(path).text


def test_line_ends_and_outer_blank_lines_stay(tmp_path: Path) -> None:
    assert "```csv\n\r\na\r\n\r\n```" in attached(written(tmp_path, "\r\na\r\n\r\n")).text


# --- encodings ----------------------------------------------------------------------------------

READ: list[tuple[bytes, str, str]] = [
    (CHINESE.encode("utf-8"), CHINESE, ""),
    (CHINESE.encode("utf-8-sig"), CHINESE, "UTF-8 with BOM"),
    (CHINESE.encode("utf-16"), CHINESE, "UTF-16"),
    (b"\xfe\xff" + CHINESE.encode("utf-16-be"), CHINESE, "UTF-16"),
    (CHINESE.encode("utf-32"), CHINESE, "UTF-32"),
    (CHINESE.encode("gbk"), CHINESE, "GBK"),
    (CHINESE.encode("gb18030"), CHINESE, "GBK"),
    ("a,b\n1,2\n".encode("utf-16-le"), "a,b\n1,2\n", "UTF-16 without BOM"),
    ("a,b\n1,2\n".encode("utf-16-be"), "a,b\n1,2\n", "UTF-16 without BOM"),
    (GERMAN.encode("cp1252"), GERMAN, "Windows-1252, a guess"),
    ("Élan naïve coûté à Orléans".encode("cp1252"), "Élan naïve coûté à Orléans", "Windows-1252, a guess"),
    (b"m/z,MZ\n1,2", "m/z,MZ\n1,2", ""),
    (b"MZ,intensity\n1,2", "MZ,intensity\n1,2", ""),
    (b"\x1b[31mred\x1b[0m\n", "\x1b[31mred\x1b[0m\n", ""),
]


@pytest.mark.parametrize(("data", "text", "note"), READ, ids=range(len(READ)))
def test_text_is_read_by_what_its_bytes_say(data: bytes, text: str, note: str, tmp_path: Path) -> None:
    prompt = attached(written(tmp_path, data))
    assert text in prompt.text
    assert prompt.parts[0].note == note
    assert (f" ({note}):\n" in prompt.text) == bool(note)


@settings(deadline=None)
@given(st.text("的一是了在人有我他这中大来上国个到说们地出道也时年 abc,123\n", min_size=8))
def test_what_was_written_in_gbk_is_read_back(text: str) -> None:
    found = decoded(text.encode("gbk"))
    assert found is not None
    assert found[0] == text


@settings(deadline=None)
@given(st.binary())
def test_any_bytes_are_text_or_refused(data: bytes) -> None:
    found = decoded(data)
    assert found is None or "\0" not in found[0]


def test_an_empty_file_is_said_to_be_one(tmp_path: Path) -> None:
    assert attached(written(tmp_path, "")).text.startswith(
        f"File `{tmp_path / 'a.csv'}` (an empty file):\n```csv\n```"
    )


# --- refusals -----------------------------------------------------------------------------------


def zipped() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("word/document.xml", "<w/>")
    return out.getvalue()


def array() -> bytes:
    out = io.BytesIO()
    np.save(out, np.arange(100))
    return out.getvalue()


def image() -> bytes:
    out = io.BytesIO()
    Image.new("L", (2, 2)).save(out, format="png")
    return out.getvalue()


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (zipped(), "a ZIP archive"),
        (array(), "a numpy array"),
        (pickle.dumps({"a": list(range(50))}), "binary, or text in an encoding other than"),
        (b"SQLite format 3\0" + bytes(80), "an SQLite database"),
        (random.Random(1).randbytes(2000), "binary, or text in an encoding other than"),
        (
            "これは日本語の文章です。読めますか。".encode("shift_jis"),
            "binary, or text in an encoding other than",
        ),
        ("Привет, мир! Как дела сегодня?".encode("cp1251"), "binary, or text in an encoding other than"),
        (b"a\0b", "binary"),
    ],
    ids=range(8),
)
def test_what_is_no_text_is_refused_by_name(data: bytes, what: str, tmp_path: Path) -> None:
    path = written(tmp_path, data, "file.dat")
    with pytest.raises(PromptError) as caught:
        attached(path)
    assert str(caught.value).startswith(f"-f/--file: {path}: it is {what}")
    assert str(caught.value).endswith("Load it in a cell, and insert what you need of it with {{ name }}.")


def test_other_mistakes_are_one_line_with_the_next_step(tmp_path: Path) -> None:
    written(tmp_path, image(), "a.txt")
    written(tmp_path, "1", "sites.csv")
    for name, message in {
        "a.txt": "it is an image (image/png). Attach it with -i.",
        "stes.csv": f"Did you mean {tmp_path / 'sites.csv'}?",
        "no/way.csv": "there is no file",
        "": "is a folder",
        "a\0b": "cannot be read",
        "{{ nope }}": "there is no variable 'nope'",
    }.items():
        with pytest.raises(PromptError) as caught:
            attached(tmp_path, shown=f"{tmp_path}/{name}")
        assert message in str(caught.value)
        assert str(caught.value).startswith("-f/--file: ")
        assert "\n" not in str(caught.value)


def test_a_file_that_is_too_large_to_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "huge.csv"
    with path.open("wb") as file:
        file.truncate(64 * 1024**2 + 1)  # a sparse file: no byte of it is on the disk
    with pytest.raises(PromptError, match=r"has 67,108,865 bytes, and at most 67,108,864 are read"):
        attached(path)


# --- budget -------------------------------------------------------------------------------------


def test_the_middle_of_a_long_file_is_left_out_by_lines_and_said(tmp_path: Path) -> None:
    lines = [f"{n},深圳{n}\n" for n in range(1000)]
    prompt = attached(written(tmp_path, "".join(lines)), 1000)
    note = prompt.parts[0].note
    assert re.fullmatch(r"\d+ lines left out, the first \d+ and the last \d+ of 1,000 shown", note)
    assert f" ({note}):\n" in prompt.text
    assert "```csv\n0,深圳0\n1,深圳1\n" in prompt.text
    assert "998,深圳998\n999,深圳999\n```" in prompt.text
    kept = sum(line in prompt.text for line in lines)
    assert kept == 1000 - int(note.split()[0])
    assert len(prompt.text) < 1300


def test_a_long_line_is_cut_inside(tmp_path: Path) -> None:
    prompt = attached(written(tmp_path, f"{'x' * 5000}\nend"), 1000)
    assert "[4,751 of 5,001 characters left out here]" in prompt.text
    assert prompt.parts[0].note == "long lines are cut where marked"
    assert "\nend\n```" in prompt.text


@settings(deadline=None)
@given(st.integers(0, 200), st.integers(1, 400))
def test_a_file_never_goes_out_beyond_its_budget(
    tmp_path_factory: pytest.TempPathFactory, count: int, budget: int
) -> None:
    path = written(tmp_path_factory.getbasetemp(), "line\n" * count, "any.txt")
    prompt = attached(path, budget)
    assert prompt.text.count("line\n") <= max(budget // 5, 1) + 1
    left_out = re.search(r"\[(\d+) lines? left out here\]", prompt.text)
    assert prompt.text.count("line\n") + (int(left_out[1]) if left_out else 0) == count or budget < 20


# --- notebooks and PDF --------------------------------------------------------------------------


def notebook_file(folder: Path) -> Path:
    v4 = nbformat.v4
    code = v4.new_code_cell(
        "df.plot()",
        outputs=[
            v4.new_output("stream", text=["one\n", "two\n"]),
            v4.new_output("execute_result", {"text/plain": "x" * 5000}, execution_count=1),
            v4.new_output("display_data", {"image/png": "iVBORw0KGgo=", "text/plain": "<Figure>"}),
            v4.new_output("error", ename="KeyError", evalue="'a'", traceback=["\x1b[31mlong\x1b[0m"]),
        ],
    )
    notebook = v4.new_notebook(
        cells=[v4.new_markdown_cell("# Title\n```\nfence\n```"), code, v4.new_code_cell("")]
    )
    return written(folder, nbformat.writes(notebook), "a.ipynb")


def test_a_notebook_is_its_cells_with_short_outputs(tmp_path: Path) -> None:
    text = attached(notebook_file(tmp_path)).text
    assert "(3 cells):\n````markdown\n[cell 1, markdown]\n# Title\n```\nfence\n```\n" in text
    assert "[cell 2, code]\n```python\ndf.plot()\n```\nOutput:\n```\none\ntwo\n```\n" in text
    assert "xx[4,000 of 5,000 characters left out here]xx" in text
    assert "Output:\n```\n[image/png]\n```\n" in text
    assert "Output:\n```\nKeyError: 'a'\n```\n" in text
    assert "[cell 3, code]\n" in text
    assert "iVBOR" not in text
    assert text.endswith("\n````\n\nWhy?")


def test_of_a_long_notebook_cells_are_left_out(tmp_path: Path) -> None:
    cells = [nbformat.v4.new_code_cell(f"x = {n}") for n in range(100)]
    path = written(tmp_path, nbformat.writes(nbformat.v4.new_notebook(cells=cells)), "a.ipynb")
    assert re.fullmatch(
        r"\d+ cells left out, the first \d+ and the last \d+ of 100 shown", attached(path, 1000).parts[0].note
    )


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"cells": 5}', '{"cells": [{}]}', "not json"])
def test_what_is_no_notebook_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(PromptError, match="it is no notebook of format 4"):
        attached(written(tmp_path, text, "a.ipynb"))


def pdf(*pages: str) -> bytes:
    """A PDF with a line of text on each page."""
    count = len(pages)
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {count} /Kids [{' '.join(f'{4 + 2 * n} 0 R' for n in range(count))}] >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for n, text in enumerate(pages):
        drawing = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET" if text else ""
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * n} 0 R"
            " /Resources << /Font << /F1 3 0 R >> >> >>"
        )
        objects.append(f"<< /Length {len(drawing)} >>\nstream\n{drawing}\nendstream")
    out = b"%PDF-1.4\n"
    places = []
    for n, body in enumerate(objects, 1):
        places.append(len(out))
        out += f"{n} 0 obj\n{body}\nendobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    return (
        out
        + (
            f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
            f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF"
        ).encode()
    )


def test_a_pdf_is_the_text_of_its_pages_with_their_numbers(tmp_path: Path) -> None:
    path = written(tmp_path, pdf("The first page.", "The second."), "report.pdf")
    pages = "[page 1 of 2]\nThe first page.\n[page 2 of 2]\nThe second.\n"
    assert attached(path).text == f"File `{path}` (2 pages):\n```\n{pages}```\n\nWhy?"


def test_of_a_long_pdf_pages_are_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, pdf(*(f"This is page {n}." for n in range(30))), "report.pdf")
    assert re.fullmatch(
        r"\d+ pages left out, the first \d+ and the last \d+ of 30 shown", attached(path, 400).parts[0].note
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [(pdf("", ""), "no text on its pages"), (b"%PDF-1.4\nbroken", "the PDF cannot be read: ")],
)
def test_a_pdf_without_text_and_a_broken_one_are_refused(
    data: bytes, message: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(PromptError, match=message):
        attached(written(tmp_path, data, "report.pdf"))


def test_without_pypdf_a_pdf_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)  # as where it is not installed
    with pytest.raises(PromptError, match=r"reading a PDF needs the package pypdf. %pip install pypdf"):
        attached(written(tmp_path, pdf("a"), "report.pdf"))


# --- through the magic --------------------------------------------------------------------------


def test_the_option_attaches_files_and_the_reply_says_how_they_were_read(tmp_path: Path) -> None:
    notebook = Notebook(file_max_chars=1000)
    path = written(tmp_path, CHINESE.encode("gbk"))
    long = written(tmp_path, "line\n" * 1000, "long.txt")
    notebook.shell.user_ns["name"] = "a"
    assert notebook.ask(f"-f {tmp_path}/{{{{ name }}}}.csv -f {long}", "Why?") is None
    assert CHINESE in notebook.text
    assert notebook.text.endswith("Why?")
    assert "GBK" in notebook.printed
    assert "lines left out, the first " in notebook.printed
    assert notebook.kimi.conversation.path()[0].prompt == "Why?"
    error: Any = notebook.ask(f"-f {path}x", "Why?")
    assert isinstance(error, PromptError)
    assert len(notebook.server.bodies) == 1
    assert json.dumps(notebook.server.bodies[0])
    notebook.close()
