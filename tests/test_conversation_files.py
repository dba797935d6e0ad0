"""A conversation as a file: JSON that is read back, markdown to read, a script to run."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from test_store import files_no_larger_than
from test_twins import BLOCKS, CALL, IMAGE, RESULT, everything, turn

from kimi_magic.conversation import FAILED, Conversation, Turn
from kimi_magic.errors import ConversationError, StoreError
from kimi_magic.simulator import Simulator
from kimi_magic.store import export, export_markdown, export_script, load_conversation, save_conversation
from kimi_magic.store.files import write_text
from kimi_magic.transports import serve
from kimi_magic.wire import user


def conversation(*turns: Turn, **more: Any) -> Conversation:
    made = Conversation(**more)
    for each in turns:
        made = made.with_turn(each)
    return made


def branched() -> Conversation:
    """One with a branch, an undone turn, a failed one, and all kinds of blocks."""
    made = conversation(everything(), turn("b", "all", 1), name="报告 第1版", system="你好🙂Ω")
    made = made.with_turn(turn("c", "b", 2)).undo()
    return made.with_turn(turn("f", "b", 3, status=FAILED, error="one line"))


# --- JSON ---------------------------------------------------------------------------------------


def test_a_conversation_that_was_saved_is_loaded_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "对话.json"
    save_conversation(branched(), path)
    back = load_conversation(path)
    assert back == branched()
    assert json.dumps([t.to_json() for t in back.turns.values()]) == json.dumps(
        [t.to_json() for t in branched().turns.values()]
    )
    assert "你好🙂Ω" in path.read_text("utf-8")


def test_half_a_surrogate_pair_is_saved_and_loaded(tmp_path: Path) -> None:
    odd = conversation(turn("a", messages=(user("half \ud83d a pair"), *turn("a").messages[1:])))
    save_conversation(odd, tmp_path / "a.json")
    assert load_conversation(tmp_path / "a.json") == odd


def edited(path: Path, change: Callable[[Any], object]) -> Path:
    value = json.loads(path.read_text("utf-8"))
    change(value)
    path.write_text(json.dumps(value), "utf-8")
    return path


DAMAGE: list[tuple[Callable[[Any], object], str]] = [
    (lambda v: v.update(format="x"), "is not a conversation that %kimi save wrote"),
    (lambda v: v.update(version=2), r"newer kimi_magic. Upgrade"),
    (lambda v: v.update(version="x"), "is damaged"),
    (lambda v: v.pop("turns"), "is damaged"),
    (lambda v: v.update(turns=3), "is damaged"),
    (lambda v: v.update(head="zz"), "is damaged"),
    (lambda v: v.update(head=["a"]), "is damaged"),
    (lambda v: v.update(head="f"), "its last turn is not complete"),
    (lambda v: v.update(undone=[[]]), "is damaged"),
    (lambda v: v.update(system=3), "its system prompt is no text"),
    (lambda v: v["turns"].pop(0), "a turn is missing"),
    (lambda v: v["turns"][0].update(parent="c"), "a turn is missing"),  # a circle
    (lambda v: v["turns"][1].update(version=9), "newer kimi_magic"),
    (lambda v: v["turns"][1]["messages"].reverse(), "could not be sent again"),
    (lambda v: v["turns"][1].update(cell=[]), "it cannot be read"),
    (lambda v: v["turns"][1].update(prompt=None), "it cannot be read"),
    (lambda v: v["turns"][1].update(settings={"output_config": 5}), "it cannot be read"),
]


@pytest.mark.parametrize(("change", "words"), DAMAGE, ids=range(len(DAMAGE)))
def test_a_file_that_was_damaged_loads_nothing(
    tmp_path: Path, change: Callable[[Any], object], words: str
) -> None:
    path = tmp_path / "a.json"
    save_conversation(branched(), path)
    with pytest.raises(StoreError, match=words) as caught:
        load_conversation(edited(path, change))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff\xfe", b"null"])
def test_what_is_no_conversation_says_so(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.json").write_bytes(data)
    with pytest.raises(StoreError, match="is not a conversation that %kimi save wrote"):
        load_conversation(tmp_path / "a.json")
    with pytest.raises(StoreError, match="cannot be read: No such file"):
        load_conversation(tmp_path / "b.json")


# --- what is written over -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.json", "报告 a.md", "a.py", "B.MD"])
def test_a_file_of_ours_is_written_anew_and_one_of_the_user_s_is_not(tmp_path: Path, name: str) -> None:
    path, told = tmp_path / name, conversation(turn("a"))
    export(told, path)
    longer = told.with_turn(turn("b", "a", 1))
    export(longer, path)
    written = path.read_bytes()
    export(told, tmp_path / f"other {name}")
    assert (tmp_path / f"other {name}").read_bytes() != written
    path.write_text("# My notes\n", "utf-8")
    with pytest.raises(StoreError, match=r"is there already.*Name another file, or move that one away\."):
        export(told, path)
    assert path.read_text("utf-8") == "# My notes\n"
    path.write_bytes(b"")  # nothing is lost
    export(longer, path)
    assert path.read_bytes() == written


@pytest.mark.parametrize("name", ["conv.txt", "conv", "a.jsonl", "a.json.bak", "main.markdown"])
def test_a_suffix_that_asks_for_no_format_writes_nothing(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError, match=r"as \.json, as \.md to read, or as \.py to run\. Name one"):
        export(conversation(turn("a")), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_and_a_folder_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"format": "kimi_magic conversation"', "utf-8")
    (tmp_path / "b.json").mkdir()
    for name in ("a.json", "b.json"):
        with pytest.raises(StoreError):
            export(conversation(turn("a")), tmp_path / name)


# --- writing ------------------------------------------------------------------------------------


def test_a_file_is_whole_or_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("before", "utf-8")
    path.chmod(0o640)
    with files_no_larger_than(10_000), pytest.raises(StoreError, match="cannot be written: File too large"):
        write_text(path, "long " * 9_000)
    assert path.read_text("utf-8") == "before"
    write_text(path, "after\n")
    assert path.read_bytes() == b"after\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_link_stays_a_link_and_a_new_file_is_as_the_user_wants_files(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    old = os.umask(0o027)
    try:
        write_text(tmp_path / "link", "x")
    finally:
        os.umask(old)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text("utf-8") == "x"
    assert stat.S_IMODE((tmp_path / "target").stat().st_mode) == 0o640


def test_a_folder_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be written: No such file"):
        save_conversation(branched(), tmp_path / "no" / "a.json")


def test_a_name_that_no_file_can_have_says_so(tmp_path: Path) -> None:
    for name in ("\x00", "\ud83d", "a" * 300):
        with pytest.raises(StoreError, match="cannot be written: "):
            save_conversation(branched(), tmp_path / name)
        with pytest.raises(StoreError, match="cannot be read: "):
            load_conversation(tmp_path / name)


# --- markdown -----------------------------------------------------------------------------------


def outline(text: str) -> list[tuple[str, list[str]]]:
    """The headings of level 2, and the kinds of blocks below each, as CommonMark reads them."""
    found: list[tuple[str, list[str]]] = []
    tokens = MarkdownIt().parse(text)
    for n, token in enumerate(tokens):
        if token.level:
            continue
        if token.type == "heading_open":
            if token.tag == "h2":
                found.append((tokens[n + 1].content, []))
        elif found and not token.type.endswith("_close"):
            found[-1][1].append(token.type.removesuffix("_open"))
    return found


LEAKS = [
    "```\nan open fence",
    "````md\n```\ninner\n```\n````",
    "~~~\nopen",
    "<!-- open\n\n## You",
    "<script>\n\n## You",
    "## You\n\nSetext\n======",
    "a\r## You\rb\r\n## You\r\n",
    "- a\n\n      ## You",
    "> quoted\n\n## You",
    "| a |\n|---|\n| ``` |",
    "text\n",
    "    ````",
]


@pytest.mark.parametrize("words", LEAKS)
def test_nothing_of_a_message_leaks_out_of_it(words: str) -> None:
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": words}]}
    call = {**CALL, "input": {"a": words}}
    told = {"type": "thinking", "thinking": words}
    said = {"type": "text", "text": words}
    messages = (
        user(words),
        {"role": "assistant", "content": [told, said, call]},
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": [told, said]},
    )
    text = export_markdown(conversation(turn("a", messages=messages, model="kimi-k3.1-pro"), system=words))
    assert outline(text) == [
        ("System", ["blockquote"]),
        ("You", ["blockquote"]),
        ("kimi-k3.1-pro", ["fence", "blockquote", "paragraph", "fence"]),
        ("Results", ["paragraph", "fence"]),
        ("kimi-k3.1-pro", ["fence", "blockquote"]),
    ]


@given(st.text(alphabet=" \n\r\t`~#>-=<!*_[]()|\\a1", min_size=1, max_size=60).filter(str.strip))
@settings(deadline=None, max_examples=150)
def test_there_are_as_many_messages_as_were_said(words: str) -> None:
    messages = (user(words), {"role": "assistant", "content": [{"type": "text", "text": words}]})
    told = conversation(*(turn(n, p, messages=messages, model="m") for n, p in [("a", None), ("b", "a")]))
    assert [head for head, _ in outline(export_markdown(told))] == ["You", "m", "You", "m"]


def test_all_kinds_of_blocks_are_exported() -> None:
    text = export_markdown(conversation(replace(everything(), model="kimi-k3.1-pro")))
    assert [head for head, _ in outline(text)] == ["You", "kimi-k3.1-pro", "Results", "kimi-k3.1-pro"]
    for words in ("[image]", "> Look.", "Calls `look`:", "> It rains.", "先查天气", "[future_block]"):
        assert words in text


def test_a_cited_reply_is_one_text_with_its_sources() -> None:
    def cite(name: str) -> dict[str, Any]:
        url = f"https://example.org/{name}"
        return {"type": "web_search_result_location", "url": url, "title": f"{name}\n```", "cited_text": "…"}

    said = [
        {"type": "text", "text": "Two things:\n\n- "},
        {"type": "text", "text": "it rains", "citations": [cite("b"), cite("a"), cite("b")]},
        {"type": "text", "text": "\n- "},
        {"type": "text", "text": "it is wet", "citations": [cite("a")]},
    ]
    found = {"type": "web_search_result", "url": "https://example.org/b", "title": "b"}
    search = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [found]}
    messages = (user("Weather?"), {"role": "assistant", "content": [search, *said]})
    text = export_markdown(conversation(turn("a", messages=messages, model="m")))
    assert "> Two things:\n>\n> - it rains[1][2]\n> - it is wet[2]\n" in text
    assert "Found:\n\n```\n1. b https://example.org/b\n```" in text
    assert "1. b ``` https://example.org/b\n2. a ``` https://example.org/a" in text
    kinds = ["paragraph", "fence", "blockquote", "paragraph", "fence"]
    assert outline(text) == [("You", ["blockquote"]), ("m", kinds)]


# --- script -------------------------------------------------------------------------------------


def run_script(path: Path, url: str, encoding: str = "utf-8") -> str:
    ran = subprocess.run(
        [sys.executable, str(path)],
        env={
            **os.environ,
            "KIMI_BASE_URL": url,
            "KIMI_API_KEY": "sk-of-the-user",
            "PYTHONIOENCODING": encoding,
        },
        capture_output=True,
        encoding=encoding,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_an_exported_script_asks_the_last_question_again(tmp_path: Path) -> None:
    quotes = "say '''three''' and \"\"\"three\"\"\" \\ and {{ this }} 你好🙂"
    settings = {
        "model": "kimi-k3.1-pro",
        "max_tokens": 2_000,
        "output_config": {"effort": "low"},
        "cache_control": {"type": "ephemeral", "ttl": "1h"},
        "stop_sequences": ["END"],
        "stream": True,
        "tools": [{"name": "look", "description": "d", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "none"},
        "system": "Be brief.",
    }
    told = conversation(
        turn("a"), turn("b", "a", settings=settings, messages=(user(quotes), *turn("b").messages[1:]))
    )
    write_text(tmp_path / "again.py", export_script(told))
    with serve(Simulator(speed=0)) as server:
        assert "你好🙂" in run_script(tmp_path / "again.py", server.url)
        assert "你好?" in run_script(tmp_path / "again.py", server.url, "gbk")


def test_a_script_can_be_read_where_quoting_allows() -> None:
    script = export_script(conversation(turn("你好")))
    assert "request = json.loads(r'''{\n" in script
    assert '"content": "你好"' in script
    compile(script, "script", "exec")


def test_there_is_no_script_of_nothing() -> None:
    with pytest.raises(ConversationError, match="has no turns to export"):
        export_script(Conversation())


# --- any machine --------------------------------------------------------------------------------

ENCODINGS: list[tuple[list[str], dict[str, str]]] = [
    (["-X", "warn_default_encoding", "-W", "error::EncodingWarning"], {}),
    (["-X", "utf8=0"], {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}),
]
PROGRAM = """
import sys
from pathlib import Path
from kimi_magic.store import *
from kimi_magic.transports import read_cassette
from kimi_magic.store.files import write_text
folder = Path(sys.argv[1])
told = load_conversation(folder / "a.json")
save_conversation(told, folder / "b.json")
write_text(folder / "c.md", export_markdown(told))
write_text(folder / "d.py", export_script(told))
Store(folder / "home" / "e.db").keep("笔记.ipynb", told, told.turns.values())
assert Store(folder / "home" / "e.db").load("笔记.ipynb").conversations[told.name] == told
read_cassette(folder / "f.jsonl")
"""


@pytest.mark.parametrize(("options", "environ"), ENCODINGS, ids=["warnings", "C"])
def test_all_files_are_utf_8_whatever_the_machine_speaks(
    tmp_path: Path, options: list[str], environ: dict[str, str]
) -> None:
    save_conversation(branched(), tmp_path / "a.json")
    (tmp_path / "f.jsonl").write_text(
        json.dumps(
            {"request": {"x": "你好"}, "status": 200, "headers": {}, "chunks": []}, ensure_ascii=False
        ),
        "utf-8",
    )
    (tmp_path / "program.py").write_text(PROGRAM, "utf-8")
    ran = subprocess.run(
        [sys.executable, *options, str(tmp_path / "program.py"), str(tmp_path)],
        env={**os.environ, **environ},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert load_conversation(tmp_path / "b.json") == branched()
    assert "你好🙂Ω" in (tmp_path / "c.md").read_text("utf-8")
    assert "你好🙂Ω" in (tmp_path / "b.json").read_text("utf-8")


def test_the_blocks_of_these_tests_are_of_all_kinds() -> None:
    kinds = {b["type"] for b in [*BLOCKS, CALL, RESULT, IMAGE]}
    assert len(kinds) == 9
    assert re.search("[^\x00-\x7f]", json.dumps(BLOCKS, ensure_ascii=False))
