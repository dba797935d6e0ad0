"""A notebook carries its conversation in its outputs: whatever a front end, a hand or a tool does to the
file, what comes back is verbatim, or is reported and left out."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nbformat.v4 import new_code_cell, new_notebook, new_output

from kimi_magic.conversation import FAILED, Conversation, Exchange, Turn
from kimi_magic.errors import StoreError
from kimi_magic.recordings import Library
from kimi_magic.store import TWIN, Found, read_twins, twin_of
from kimi_magic.store.sealed import seal
from kimi_magic.usage import Record
from kimi_magic.wire import user

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)

BLOCKS: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "先查天气 \u200b🙂", "signature": "c2ln+/=="},
    {"type": "thinking", "thinking": "", "signature": "c2ln"},
    {"type": "redacted_thinking", "data": "QUJD"},
    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "深圳"}},
    {
        "type": "web_search_tool_result",
        "tool_use_id": "s1",
        "content": [
            {"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": "EqgfCioIARgBIiQ3"}
        ],
    },
    {"type": "future_block", "x": None, "n": 2**60 + 1, "f": 1.0, "e": 1e22, "nested": {"a": [None, True]}},
    {
        "type": "text",
        "text": "It rains.\r\n<b>\u2028",
        "citations": [{"type": "web_search_result_location", "encrypted_index": "Eo8=", "cited_text": None}],
    },
]
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
CALL = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "ok"}, IMAGE]}


def turn(name: str, parent: str | None = None, minutes: int = 0, **more: Any) -> Turn:
    messages = (user(name), {"role": "assistant", "content": [{"type": "text", "text": f"re {name}"}]})
    time = NOON + timedelta(minutes=minutes)
    return Turn(**{"id": name, "parent": parent, "messages": messages, "prompt": name, "time": time, **more})


def everything() -> Turn:
    """A turn that holds all kinds of blocks."""
    messages = (
        {"role": "user", "content": [IMAGE, {"type": "text", "text": "Look."}]},
        {"role": "assistant", "content": [BLOCKS[0], CALL]},
        {"role": "user", "content": [RESULT]},
        {"role": "assistant", "content": BLOCKS},
    )
    return turn("all", messages=messages)


def cell(*turns: Turn, conversation: Conversation | None = None, **more: Any) -> nbformat.NotebookNode:
    """A cell whose outputs these turns are."""
    conversation = conversation or Conversation()
    outputs = [
        new_output(
            "display_data", {"text/plain": "a reply", TWIN: twin_of(t, conversation, more.get("records", ()))}
        )
        for t in turns
    ]
    return new_code_cell("%%kimi\n?", outputs=outputs)


def saved(tmp_path: Path, *cells: nbformat.NotebookNode) -> Path:
    path = tmp_path / "笔记 1.ipynb"
    nbformat.write(new_notebook(cells=list(cells)), path)
    return path


def names(found: Found, conversation: str = "main") -> list[str]:
    return [t.id for t in found.conversations[conversation].path()]


def rewritten(path: Path, change: Callable[[Any], None]) -> Path:
    notebook = json.loads(path.read_text("utf-8"))
    change(notebook)
    path.write_text(json.dumps(notebook), "utf-8")
    return path


def as_javascript(value: Any) -> Any:
    """What `JSON.parse` and `JSON.stringify` make of it: every number is a double, and a whole one loses
    its point."""
    if isinstance(value, dict):
        return {key: as_javascript(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_javascript(item) for item in value]
    if isinstance(value, float | int) and not isinstance(value, bool):
        return int(float(value)) if float(value).is_integer() else float(value)
    return value


# --- verbatim -----------------------------------------------------------------------------------


def test_a_turn_comes_back_verbatim_through_a_front_end(tmp_path: Path) -> None:
    used = Record(time=NOON, turn="all", cost=Decimal("0.0060600"), input=120, conversation="main")
    path = saved(tmp_path, cell(everything(), conversation=Conversation(system="Be brief."), records=[used]))
    rewritten(path, lambda notebook: notebook.update(as_javascript(notebook)))
    nbformat.write(nbformat.read(path, as_version=4), path)
    found = read_twins(path)
    conversation = found.conversations["main"]
    assert json.dumps(conversation.turns["all"].to_json()) == json.dumps(everything().to_json())
    assert (conversation.head, conversation.system) == ("all", "Be brief.")
    assert found.records == (used,)
    assert found.problems == ()


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)


@given(values)
@settings(deadline=None, max_examples=60)
def test_any_block_survives(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    blocks = [{"type": "future", "x": value}, {"type": "text", "text": "t"}]
    before = turn("a", messages=(user("a"), {"role": "assistant", "content": blocks}))
    path = saved(tmp_path_factory.mktemp("any"), cell(before))
    rewritten(path, lambda notebook: notebook.update(as_javascript(notebook)))
    back = read_twins(path).conversations["main"].turns["a"]
    assert json.dumps(back.to_json()) == json.dumps(before.to_json())


def test_half_a_surrogate_pair_survives(tmp_path: Path) -> None:
    before = turn(
        "a", messages=(user("\ud83d"), {"role": "assistant", "content": [{"type": "text", "text": "\ude80"}]})
    )
    assert read_twins(saved(tmp_path, cell(before))).conversations["main"].turns["a"] == before


# --- what a hand may do -------------------------------------------------------------------------


def three(tmp_path: Path) -> Path:
    return saved(
        tmp_path, *(cell(turn(n, p, m)) for n, p, m in [("a", None, 0), ("b", "a", 1), ("c", "b", 2)])
    )


def twin(notebook: Any, number: int) -> dict[str, Any]:
    found: dict[str, Any] = notebook["cells"][number]["outputs"][0]["data"][TWIN]
    return found


def edit_text(notebook: Any) -> None:
    twin(notebook, 1)["turn"] = twin(notebook, 1)["turn"].replace("re b", "re B")


def cut_text(notebook: Any) -> None:
    twin(notebook, 1)["turn"] = twin(notebook, 1)["turn"][:-9]


def no_text(notebook: Any) -> None:
    twin(notebook, 1)["turn"] = {"id": "b"}


def a_list(notebook: Any) -> None:
    notebook["cells"][1]["outputs"][0]["data"][TWIN] = []


def resealed(change: Callable[[dict[str, Any]], None]) -> Callable[[Any], None]:
    """Somebody who knows how: the hash fits."""

    def edit(notebook: Any) -> None:
        whole = json.loads(twin(notebook, 1)["turn"])
        change(whole)
        twin(notebook, 1)["turn"], twin(notebook, 1)["sha256"] = seal(whole)

    return edit


EDITS = [
    (edit_text, "its turn was changed after it was saved; it was left out."),
    (cut_text, "its turn was changed after it was saved; it was left out."),
    (no_text, "its turn cannot be read; it was left out."),
    (a_list, "its turn cannot be read; it was left out."),
    (lambda notebook: twin(notebook, 1).update(version=9), "newer kimi_magic; upgrade"),
    (resealed(lambda whole: whole["turn"].update(version=9)), "newer kimi_magic"),
    (resealed(lambda whole: whole.pop("usage")), "cannot be read (KeyError('usage'))"),
    (resealed(lambda whole: whole["turn"]["messages"].pop()), "could not be sent again (messages[1].role"),
    (resealed(lambda whole: whole["turn"].update(messages=["x"])), "This is not a turn of a conversation"),
    (resealed(lambda whole: whole["turn"].update(time="2026-11-30T12:00:00")), "no zone"),
    (resealed(lambda whole: whole["turn"].update(cell=[])), "cannot be read (TypeError('cell'))"),
    (resealed(lambda whole: whole["turn"].update(status=[])), "cannot be read (TypeError('status'))"),
    (resealed(lambda whole: whole["turn"].update(messages=[], status="cut")), "cannot be read"),
    (resealed(lambda whole: whole["turn"].update(settings={"max_tokens": "x"})), "settings: max_tokens"),
    (resealed(lambda whole: whole["turn"].update(exchanges=[["x"]])), "not a turn of a conversation"),
    (
        resealed(lambda whole: whole["turn"].update(exchanges=[{"request": [], "blocks": 0, "message": {}}])),
        "cannot be read (TypeError('exchanges'))",
    ),
    (resealed(lambda whole: whole.update(conversation=[])), "cannot be read (TypeError('conversation'))"),
    (resealed(lambda whole: whole.update(usage="x")), "cannot be read (AttributeError("),
    (resealed(lambda whole: whole.update(system=5)), "cannot be read (TypeError('conversation'))"),
]


@pytest.mark.parametrize(("edit", "words"), EDITS, ids=range(len(EDITS)))
def test_a_twin_that_was_edited_or_cut_is_reported_and_left_out(
    tmp_path: Path, edit: Callable[[Any], None], words: str
) -> None:
    found = read_twins(rewritten(three(tmp_path), edit))
    assert names(found) == ["a", "c"]
    assert found.problems[0].startswith("Cell 2: ")
    assert words in found.problems[0]
    assert found.problems[1:] == (
        "Conversation 'main': the turn before “c” is not in the notebook; it follows “a” now.",
    )


def test_turns_in_a_circle_are_left_out(tmp_path: Path) -> None:
    found = read_twins(saved(tmp_path, cell(turn("a", "b"), turn("b", "a"), turn("c", None, -1))))
    assert set(found.conversations["main"].turns) <= {"c"}


# --- what became of the outputs -----------------------------------------------------------------


def story(tmp_path: Path, *cells: Sequence[Turn], conversation: Conversation | None = None) -> Found:
    return read_twins(saved(tmp_path, *(cell(*turns, conversation=conversation) for turns in cells)))


def test_moved_cells_do_not_change_the_order_of_a_conversation(tmp_path: Path) -> None:
    cells = [[turn("a")], [turn("b", "a", 1)], [turn("c", "b", 2)]]
    random.Random(1).shuffle(cells)
    assert names(story(tmp_path, *cells)) == ["a", "b", "c"]


def test_a_stale_turn_does_not_come_back(tmp_path: Path) -> None:
    """Cell 1 was run again: what followed its old turn has no way back and is older."""
    found = story(tmp_path, [turn("a2", None, 9)], [turn("b", "a", 1)], [turn("c", "b", 2)])
    assert names(found) == ["a2"]
    assert list(found.conversations["main"].turns) == ["a2"]
    assert found.problems == ()
    assert [t.id for t in found.turns] == ["a2", "b", "c"]


def test_a_cleared_output_leaves_the_rest_in_a_row(tmp_path: Path) -> None:
    first = story(tmp_path, [], [turn("b", "a", 1)], [turn("c", "b", 2)])
    assert names(first) == ["b", "c"]
    assert first.problems == (
        "Conversation 'main': the turn before “b” is not in the notebook; it follows nothing now.",
    )
    middle = story(tmp_path, [turn("a")], [], [turn("c", "b", 2)], [turn("d", "c", 3)])
    assert names(middle) == ["a", "c", "d"]


def test_a_miss_near_a_turn_whose_context_is_lost_still_names_it(tmp_path: Path) -> None:
    recorded = (Exchange("f00", 1, {"id": "m", "stop_reason": "end_turn"}),)
    found = story(tmp_path, [turn("a")], [], [replace(turn("c", "b", 2), exchanges=recorded)])
    library = Library()
    for each in found.turns:
        library.add_turn(each, "a.ipynb", partial(found.before, each))
    missed = library.miss({"model": "kimi-k3.1-pro", "messages": [user("?"), user("c")]})
    assert "(a.ipynb) differs in what came before the prompt, or a setting" in str(missed)


def test_a_turn_never_follows_one_that_was_made_after_it(tmp_path: Path) -> None:
    found = story(tmp_path, [turn("a2", None, 9)], [turn("c", "b", 2)], [turn("d", "c", 10)])
    assert names(found) == ["c", "d"]


def test_a_clock_that_went_back_makes_no_circle(tmp_path: Path) -> None:
    assert names(story(tmp_path, [turn("b", "lost", 5)], [turn("c", "b", 3)])) == ["b"]


def test_a_cell_that_failed_when_it_was_run_again_is_left_out(tmp_path: Path) -> None:
    failed = turn("b2", "a", 9, status=FAILED, messages=(user("b"),))
    found = story(tmp_path, [turn("a")], [failed], [turn("c", "b", 2)])
    assert names(found) == ["a", "c"]
    assert found.conversations["main"].turns["b2"] == failed


def test_a_copied_cell_counts_once(tmp_path: Path) -> None:
    found = story(tmp_path, [turn("a")], [turn("b", "a", 1)], [turn("b", "a", 1)])
    assert names(found) == ["a", "b"]


def test_undone_turns_stay_undone(tmp_path: Path) -> None:
    conversation = Conversation().with_turn(turn("a")).with_turn(turn("b", "a", 1)).undo()
    found = story(tmp_path, [turn("a")], [turn("b", "a", 1)], conversation=conversation)
    back = found.conversations["main"]
    assert names(found) == ["a"]
    assert back.states() == {"a": "active", "b": "left"}


def test_a_summary_stands_for_the_turns_that_are_lost(tmp_path: Path) -> None:
    summary = turn("s", None, 5, compacts="b")
    whole = story(tmp_path, [turn("a")], [turn("b", "a", 1)], [summary], [turn("c", "s", 6)])
    assert names(whole) == ["s", "c"]
    assert [t.id for t in whole.conversations["main"].undo().undo().path()] == ["a", "b"]
    lost = story(tmp_path, [summary], [turn("c", "s", 6)])
    assert names(lost) == ["s", "c"]
    assert lost.conversations["main"].undo().undo().path() == ()


def test_conversations_are_told_apart_and_a_turn_of_none_is_in_none(tmp_path: Path) -> None:
    path = saved(
        tmp_path,
        cell(turn("a")),
        cell(turn("x"), conversation=Conversation("报告 第1版", system="S")),
        new_code_cell("", outputs=[new_output("display_data", {TWIN: twin_of(turn("o"), None, ())})]),
    )
    found = read_twins(path)
    assert set(found.conversations) == {"main", "报告 第1版"}
    assert found.conversations["报告 第1版"].system == "S"
    assert [t.id for t in found.turns] == ["a", "x", "o"]


# --- files --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"cells": 3}', '{"cells": [{"outputs": [3]}]}', "\x00"]
)
def test_what_is_no_notebook_says_so(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.ipynb"
    path.write_text(text, "utf-8")
    with pytest.raises(StoreError, match="is not a notebook"):
        read_twins(path)


def test_a_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"cannot be read: No such file"):
        read_twins(tmp_path / "a.ipynb")


def test_a_notebook_without_turns_has_none(tmp_path: Path) -> None:
    assert read_twins(saved(tmp_path, new_code_cell("1 + 1"))) == Found()


def test_a_restored_turn_never_changes_one_that_is_there(tmp_path: Path) -> None:
    """The notebook has lost what stood between; the store has not."""
    here = Conversation().with_turn(turn("a")).with_turn(turn("b", "a", 1)).with_turn(turn("c", "b", 2))
    found = story(tmp_path, [turn("a")], [turn("c", "b", 2)])
    joined = here.joined(found.conversations["main"])
    assert [t.id for t in joined.path()] == ["a", "b", "c"]
    assert joined.turns == here.turns
    assert replace(joined, system=None) == here
