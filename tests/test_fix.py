"""`%kimi fix` and `%kimi code`: what is sent of a failure, what never is, and where the code goes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import Kernel
from notebook import Notebook

from kimi_magic.errors import OptionError
from kimi_magic.magics.failures import what_is
from kimi_magic.magics.fix import code_blocks
from kimi_magic.magics.hidden import HIDDEN, looks_secret, secret_texts, without_secrets

SETUP = """
import numpy as np
import pandas as pd

df = pd.DataFrame({"site": ["north", "south"], "temp": [1.5, 2.0]})
grid = np.zeros((3, 4))
limit = 7
path = "data/sites.csv"
api_key = "hunter2-is-not-it"
config = {"n": 3, "password": "correct horse"}


def mean_of(frame, column):
    values = frame[column]
    return values.mean()
"""


@pytest.fixture
def notebook() -> Iterator[Notebook]:
    sys.last_value = None  # of an earlier test
    notebook = Notebook()
    notebook.run(SETUP)
    yield notebook
    notebook.close()


def asked(notebook: Notebook, cell: str, considering: str = "") -> str:
    """What `%kimi fix` sends after this cell."""
    assert notebook.run(cell) is not None
    assert notebook.run(f"%kimi fix {considering}") is None
    return notebook.text


# --- what is sent -------------------------------------------------------------------------------


def test_the_cell_the_traceback_and_the_variables_are_sent(notebook: Notebook) -> None:
    text = asked(notebook, 'scale = limit * 2\nmean_of(df, "tmp")', "the column's name")
    assert "Explain the cause" in text
    assert "Consider this: the column's name" in text
    assert '```python\nscale = limit * 2\nmean_of(df, "tmp")\n```' in text
    assert "def mean_of(frame, column):" in text
    assert "KeyError: 'tmp'" in text
    assert "in mean_of\n    values = frame[column]" in text
    assert "- frame: DataFrame of 2 rows × 2 columns: site (" in text
    assert "- column: str 'tmp'" in text
    assert "- limit: int 7" in text
    assert "- scale: int 14" in text
    assert "north" not in text.partition("Variables involved")[2]
    assert "- grid" not in text  # it is not involved
    assert "IPython" not in text


def test_magics_stand_in_the_cell_as_they_were_written(notebook: Notebook) -> None:
    assert "```python\n%time limit + 1\n1 / 0\n```" in asked(notebook, "%time limit + 1\n1 / 0")


def test_a_syntax_error_is_sent_with_its_cell(notebook: Notebook) -> None:
    text = asked(notebook, "x = (1,\n  2")
    assert "```python\nx = (1,\n  2\n```" in text
    assert "SyntaxError" in text
    assert "Variables involved" not in text


def test_a_chain_of_exceptions_is_sent_whole(notebook: Notebook) -> None:
    text = asked(
        notebook, "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('site') from e"
    )
    assert "ZeroDivisionError: division by zero" in text
    assert "direct cause" in text
    assert "ValueError: site" in text


def test_a_later_cell_that_works_and_a_mistake_with_kimi_change_nothing(notebook: Notebook) -> None:
    assert notebook.run("1 / 0") is not None
    assert notebook.run("%kimi hepl") is not None
    assert notebook.run("limit") is None
    assert notebook.run("%kimi fix") is None
    assert "ZeroDivisionError" in notebook.text


def test_the_last_exception_counts(notebook: Notebook) -> None:
    assert notebook.run("1 / 0") is not None
    assert notebook.run("%kimi status") is None
    assert "KeyError" in asked(notebook, "{}['a']")
    assert "ZeroDivisionError" not in notebook.text


def test_the_turn_is_part_of_the_conversation_under_the_words_of_the_line(notebook: Notebook) -> None:
    asked(notebook, "1 / 0", "units")
    assert [turn.prompt for turn in notebook.kimi.conversation.path()] == ["%kimi fix units"]


def test_a_long_traceback_and_a_long_cell_are_bounded(notebook: Notebook) -> None:
    assert len(asked(notebook, "raise ValueError('x' * 100_000)")) < 12_000
    text = asked(notebook, f"note = '''{'# note ' * 20_000}'''\n1 / 0")
    assert "characters left out here]" in text
    assert len(text) < 40_000


def test_without_an_exception_one_line_says_so(notebook: Notebook) -> None:
    error: Any = notebook.run("%kimi fix")
    assert isinstance(error, OptionError)
    assert str(error).startswith("No cell has failed in this kernel yet.")


# --- what is never sent -------------------------------------------------------------------------

SECRETS = {
    "a variable": "token = 'zq81-secret-zq81'\nraise ValueError(token)",
    "a literal": "connect(password='zq81-secret-zq81')",
    "a literal of bytes": "client_secret = b'zq81-secret-zq81'\n1 / 0",
    "a key of a dictionary": "settings = {'api_key': 'zq81-secret-zq81'}\nraise ValueError(settings)",
    "inside a list": "rows = [{'user': 'ada', 'passwd': 'zq81-secret-zq81'}]\nraise KeyError(str(rows))",
    "an attribute": "class C: pass\nc = C()\nc.auth = 'zq81-secret-zq81'\nraise ValueError(vars(c))",
    "inside another text": "secret = 'zq81-secret-zq81'\nraise ValueError(f'https://x.org/a{secret}b')",
    "an address": "u = 'https://ada:zq81-secret-zq81@x.org/'\nraise ValueError(u)",
    "a query": "u = 'https://x.org/?q=1&token=zq81-secret-zq81'\nraise ValueError(u)",
    "a header": "h = 'Bearer zq81-secret-zq81'\nraise ValueError(h)",
    "a local variable": "def f(pwd):\n    raise ValueError(pwd[::-1][::-1])\nf('zq81' + '-secret-' + 'zq81')",
    "an environment variable": "import os\nraise ValueError(os.environ['KIMI_TEST_SECRET'])",
    "a known form": "k = 'sk-zq81-secret-zq81'\nraise ValueError(k)",
    "an item": "import os\nos.environ['SOME_KEY'] = 'zq81-secret-zq81'\n1 / 0",
    "a nested secret": "cred = {'user': 'ada', 'deep': [{'x': 'zq81-secret-zq81'}]}\nraise ValueError(cred)",
    "a bare key": "key = 'zq81-secret-zq81'\n{}[key]",
    "a text of several lines": "password = '''\nzq81-secret-zq81\n'''\n1 / 0",
    "a literal with quotes": "password = 'a\\'zq81-secret-zq81'\nconnect",
    "an annotated name": "api_token: str = 'zq81-secret-zq81'\n1 / 0",
    "where a text is cut": "raise ValueError('-' * 5330 + 'Bearer zq81-secret-zq81' + '-' * 90_000)",
    "Chinese": "密码 = 'zq81-secret-zq81'\nraise ValueError(密码)",
}


@pytest.mark.parametrize("cell", SECRETS.values(), ids=SECRETS)
def test_no_secret_is_sent(cell: str, notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIMI_TEST_SECRET", "zq81-secret-zq81")
    monkeypatch.setenv("SOME_KEY", "")
    text = asked(notebook, cell)
    assert "zq81" not in text.replace("zq81' + '-secret-' + 'zq81", "")
    assert HIDDEN in text


def test_values_of_the_notebook_that_are_secret_are_in_no_variable(notebook: Notebook) -> None:
    text = asked(notebook, "mean_of(api_key, config)")
    assert "- api_key: str (not shown: its name looks secret)" in text
    assert "- config: dict of 2 keys: 'n' (int), 'password' (str)" in text
    assert "hunter2" not in text
    assert "horse" not in text


def test_a_column_that_was_looked_up_is_no_secret(notebook: Notebook) -> None:
    assert "KeyError: 'temp_2'" in asked(notebook, "df['temp_2']")
    assert "KeyError: 'humidity'" in asked(notebook, "key = 'humidity'\ndf[key]")


@pytest.mark.parametrize(
    "name",
    ["key", "api_key", "apiKey", "APIKEY", "OPENAI_API_KEY", "token", "accessToken", "password", "db_passwd",
     "secret", "client_secret", "auth", "HTTPAuth", "cred", "credentials", "private_key", "cookie", "_token",
     "口令"],
)  # fmt: skip
def test_these_names_look_secret(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name",
    ["df", "monkey", "author", "KeyError", "keyboard", "compass", "passenger", "hotkeys_x", "x", "site", ""],
)
def test_these_names_do_not(name: str) -> None:
    assert not looks_secret(name)


@settings(deadline=None)
@given(st.text(min_size=8), st.text(), st.text())
def test_a_secret_is_taken_out_wherever_it_stands(secret: str, before: str, after: str) -> None:
    found = secret_texts({"password": secret})
    text = without_secrets(f"{before}{secret}{after}", found)
    assert secret not in text or secret in HIDDEN * 3


@settings(deadline=None, max_examples=50)
@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_namespace_can_be_searched(value: object) -> None:
    secret_texts({"x": value, "token": value})


def test_a_namespace_that_contains_itself_can_be_searched() -> None:
    loop: dict[str, Any] = {"secret": "abcdefgh"}
    loop["loop"] = loop
    loop["token"] = [loop]
    assert "abcdefgh" in secret_texts(loop)
    assert "abcdefgh" in secret_texts(dict(os.environ), loop)


# --- variables ----------------------------------------------------------------------------------


class Broken:
    def __len__(self) -> int:
        raise RuntimeError("no")

    @property
    def __dict__(self) -> Any:  # type: ignore[override]  # as a proxy may have it
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "NoneType None"),
        (2.5, "float 2.5"),
        ("short", "str 'short'"),
        ("x" * 81, "str of 81 characters"),
        ("Ab1" * 10, "str of 30 characters"),
        (b"raw", "bytes of 3 bytes"),
        ([1, "a", None], "list of 3 items: NoneType, int, str"),
        ({"a": 1, 2: []}, "dict of 2 keys: 'a' (int), 2 (list)"),
        (set(), "set of 0 items"),
        (os, "module os"),
        (Notebook, "class Notebook"),
        (what_is, "function what_is(name: 'str', value: 'object') -> 'str'"),
        (10**100, "int 1"),
        (Broken(), "Broken (it cannot be looked at: RuntimeError)"),
    ],
    ids=range(14),
)
def test_a_variable_is_told_by_what_it_is(value: object, said: str) -> None:
    assert what_is("x", value).startswith(said)
    assert len(what_is("x", value)) < 150


# --- code ---------------------------------------------------------------------------------------

BLOCKS: list[tuple[str, list[tuple[str, str]]]] = [
    ("none", []),
    ("```python\nx = 1\n```", [("python", "x = 1")]),
    ("a\n```py title=x\nx\n```\nb\n~~~\ny\n~~~\n", [("py", "x"), ("", "y")]),
    ("````md\n```python\nx\n```\n````", [("md", "```python\nx\n```")]),
    ("1. Do\n   ```python\n   if x:\n       y\n   ```", [("python", "if x:\n    y")]),
    ("```{r}\nx\n```", [("r", "x")]),
    ("```python\nopen", [("python", "open")]),
    ("inline ```x``` only", []),
    ("```\n\n```", [("", "")]),
    ("~~~python\n```\n~~~", [("python", "```")]),
]


@pytest.mark.parametrize(("text", "blocks"), BLOCKS, ids=range(len(BLOCKS)))
def test_code_blocks_of_a_markdown_text(text: str, blocks: list[tuple[str, str]]) -> None:
    assert code_blocks(text) == blocks


@settings(deadline=None)
@given(st.text("`~ \npython"))
def test_any_text_can_be_searched_for_code(text: str) -> None:
    code_blocks(text)


def test_the_code_is_printed_where_no_front_end_can_take_it(notebook: Notebook) -> None:
    assert notebook.run("%kimi Write Python code that counts letters.") is None
    assert notebook.run("%kimi code") is None
    first, _, code = notebook.printed.partition("\n\n")
    assert first == "This front end cannot be given a cell; this is the code:"
    compile(code, "cell", "exec")
    assert not hasattr(notebook.shell, "rl_next_input")
    assert notebook.run("%kimi code 1") is None
    assert code in notebook.printed


def test_a_front_end_with_cells_gets_the_code_as_the_next_one(notebook: Notebook) -> None:
    assert notebook.run("%kimi Write Python code that counts letters.") is None
    notebook.shell.get_parent = lambda: {"metadata": {"cellId": "abc"}}  # as a kernel of a notebook has it
    assert notebook.run("%kimi code") is None
    assert notebook.printed.strip() == "The code is in the next cell."
    assert "import" in notebook.shell.rl_next_input


def test_a_reply_without_code_does_not_hide_the_code_of_the_one_before_it(notebook: Notebook) -> None:
    assert notebook.run("%kimi Write Python code that counts letters.") is None
    assert notebook.run("%kimi Hello.") is None
    assert notebook.run("%kimi code 1") is None
    first, _, code = notebook.printed.strip().partition("\n")
    assert first == (
        "The last reply has no code; this is of the one to 'Write Python code that counts letters.'."
    )
    assert "import" in code


def test_fix_says_how_its_code_gets_into_a_cell_and_so_it_does(notebook: Notebook) -> None:
    assert notebook.run("1 / 0") is not None
    assert notebook.run("%kimi fix") is None
    said = notebook.printed.strip().splitlines()[-1]
    assert said == "%kimi code puts the code into the next cell."
    notebook.shell.get_parent = lambda: {"metadata": {"cellId": "abc"}}  # as a kernel of a notebook has it
    assert notebook.run("%kimi code") is None
    assert notebook.printed.strip() == "The code is in the next cell."


def test_mistakes_with_code_are_one_line(notebook: Notebook) -> None:
    for line, message in {
        "%kimi code": "There is no reply yet.",
        "%kimi code x": "There is no reply yet.",
        "%kimi code 1 2": "%kimi code takes only N behind it.",
    }.items():
        assert message in str(notebook.run(line))
    assert notebook.run("%kimi Hello.") is None
    assert "There is no code block in the last reply, nor in those before" in str(notebook.run("%kimi code"))
    assert notebook.run("%kimi Write Python code that counts letters.") is None
    error = notebook.run("%kimi code 9")
    assert str(error) == "There is no block 9 in that reply. It has 1 python."
    assert isinstance(error, OptionError)


def test_in_a_kernel_the_front_end_is_sent_the_next_cell_and_tab_offers_images() -> None:
    with Kernel() as kernel:
        kernel.run("%load_ext kimi_magic\nimport pandas as pd\ndf = pd.DataFrame({'a': [1]})")
        kernel.run("from PIL import Image\nim = Image.new('L', (2, 2))")
        assert "KeyError" in kernel.run("df['b']", cell="one").error
        assert kernel.run("%kimi fix", cell="two").error == ""
        asked = kernel.run(ASKED, cell="three").printed
        assert "```python\ndf['b']\n```" in asked
        assert "- df: DataFrame of 1 row × 1 column: a (int64)" in asked
        assert kernel.run("%kimi code", cell="four").printed == "The code is in the next cell.\n"
        (payload,) = kernel.seen[-1]["content"]["payload"]
        assert (payload["source"], payload["replace"]) == ("set_next_input", False)
        assert "import" in payload["text"]
        assert kernel.run("%kimi code").printed.startswith("This front end cannot be given a cell;")
        assert {"im", "clipboard"} <= set(kernel.complete("%%kimi -i ")["matches"])


ASKED = "from kimi_magic import kimi\nprint(kimi.session.last.messages[0]['content'][0]['text'])"
