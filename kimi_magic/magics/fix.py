"""`%kimi fix` and `%kimi code`: help at the error, and the proposed cell put where it can be run.

`fix` asks about the last exception of the notebook. `code` takes a code block of the last reply and
makes it the next cell; where no front end can do that, it prints the code.
"""

from __future__ import annotations

import re
from typing import Any

from ..api import Kimi
from ..errors import OptionError
from ..wire import TextBlock
from .stage import Stage, shortened

_PYTHON = ("python", "py", "python3", "ipython", "ipython3", "pycon")
_FENCE = re.compile(
    r"^(?P<indent>[ \t]*)(?P<mark>`{3,}+|~{3,}+)[ \t]*(?P<info>[^`\n]*)\n"
    r"(?P<code>.*?)(?:^[ \t]*(?P=mark)[`~]*[ \t]*$|\Z)",
    re.DOTALL | re.MULTILINE,
)
_TASK = (
    "A cell of my Jupyter notebook failed. Explain the cause in a few sentences. Then give the corrected"
    " cell, whole, in one Python code block, so that it can take the place of the one that failed."
)


def fix(kimi: Kimi, stage: Stage, words: list[str]) -> None:
    """Ask about the last exception. words: what to consider. Raises `OptionError` where there is none.

    What it proposes is shown, and `code` is the way to a cell.
    """
    failure = stage.failures.last
    if failure is None:
        raise OptionError(
            "No cell has failed in this kernel yet.", hint="%kimi fix explains the last exception."
        )
    wish = f"\n\nConsider this: {' '.join(words)}" if words else ""
    question = f"{_TASK}{wish}\n\n{stage.failures.described(failure)}"
    written = " ".join(["%kimi fix", *words])
    plan = kimi.plan((TextBlock.of(question),), prompt=written, cell=kimi.current_cell())
    reply = kimi.run(plan, stage.view(alone=False))
    if code_blocks(reply.text):
        stage.say("%kimi code puts the code into the next cell.")


def code(kimi: Kimi, stage: Stage, words: list[str]) -> None:
    """Put a code block of the last reply that has one into the next cell. words: its number, the last
    Python block by default. Raises `OptionError` where there is none."""
    last = kimi.session.last
    turns = [*([last] if last is not None else []), *reversed(kimi.conversation.path())]
    if not turns:
        raise OptionError("There is no reply yet.", hint="Ask with %%kimi first.")
    turn, blocks = next(
        ((turn, found) for turn in turns if (found := code_blocks(turn.text))), (turns[0], [])
    )
    source = _chosen(blocks, words)
    if turn.id != turns[0].id:
        stage.say(f"The last reply has no code; this is of the one to {shortened(turn.prompt)!r}.")
    if _has_next_cell(stage.shell):
        stage.shell.set_next_input(source, replace=False)
        stage.say("The code is in the next cell.")
    else:
        stage.say(f"This front end cannot be given a cell; this is the code:\n\n{source}")


def code_blocks(text: str) -> list[tuple[str, str]]:
    """(language, code) of each fenced block of a markdown text; the last may still be open."""
    found = []
    for match in _FENCE.finditer(text):
        language = re.match(r"[\w+#-]*", match["info"].strip().lstrip("{."))
        dedented = re.sub(rf"^{match['indent']}", "", match["code"], flags=re.MULTILINE)
        found.append((language[0].lower() if language else "", dedented.rstrip("\n")))
    return found


def _chosen(blocks: list[tuple[str, str]], words: list[str]) -> str:
    listed = ", ".join(f"{n} {language or 'text'}" for n, (language, _) in enumerate(blocks, 1))
    if not blocks:
        raise OptionError("There is no code block in the last reply, nor in those before it.")
    if words:
        number = int(words[0]) if re.fullmatch(r"[0-9]{1,4}", words[0]) else 0
        if not 1 <= number <= len(blocks):
            raise OptionError(f"There is no block {words[0]} in that reply.", hint=f"It has {listed}.")
        return _runnable(*blocks[number - 1])
    python = [block for block in blocks if block[0] in _PYTHON] or [b for b in blocks if not b[0]]
    if not python:
        raise OptionError("There is no Python block in that reply.", hint=f"%kimi code N takes: {listed}.")
    return _runnable(*python[-1])


def _runnable(language: str, source: str) -> str:
    """The code as a cell of a Python notebook."""
    return f"%%bash\n{source}" if language in ("bash", "sh", "shell") else source


def _has_next_cell(shell: Any) -> bool:
    """A terminal's prompt takes text; so does a front end that gives its cells ids. Those that run a
    notebook without a screen (nbclient, nbconvert) give none, and drop it."""
    if hasattr(shell, "prompt_for_code"):
        return True
    get_parent = getattr(shell, "get_parent", None)
    parent = get_parent() if get_parent is not None else {}
    return bool(parent.get("metadata", {}).get("cellId"))
