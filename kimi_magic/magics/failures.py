"""The last exception of the notebook: its cell, its traceback, and the variables that it involves.

Variables are told by type, shape, dtypes, columns and length; only small values stand there as they
are. What `hidden` finds secret stands nowhere. Our own errors are not the notebook's: they say
themselves what to do.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from types import FrameType, FunctionType, ModuleType
from typing import Any

from ..counts import counted
from ..errors import KimiError
from ..prompt import as_frame, is_array
from ..prompt.fit import cut, fenced
from .hidden import looks_secret, secret_texts, without_secrets

_MOST_NAMES = 40
_LONGEST = 1_200  # characters about one variable
_TRACEBACK = 8_000
_CELL = 20_000
_SHELL_NAMES = frozenset({"In", "Out", "get_ipython", "exit", "quit", "open", "display"})


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception, and the source of the cell that it ended, where it is known."""

    error: BaseException
    cell: str | None = None


class Failures:
    """Remembers the last exception that was not our own. shell: IPython's."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._last: Failure | None = None
        self._keep(getattr(sys, "last_value", None), None)  # of before we looked
        shell.events.register("post_run_cell", self._ended)

    def close(self) -> None:
        """Remember no more."""
        self._shell.events.unregister("post_run_cell", self._ended)

    @property
    def last(self) -> Failure | None:
        return self._last

    def _ended(self, result: Any) -> None:
        error = result.error_before_exec or result.error_in_exec
        self._keep(error, getattr(result.info, "raw_cell", None))

    def _keep(self, error: object, cell: str | None) -> None:
        if isinstance(error, BaseException) and not isinstance(
            error, (KimiError, KeyboardInterrupt, SystemExit)
        ):
            self._last = Failure(error, cell)

    def described(self, failure: Failure) -> str:
        """Cells, traceback and variables of a failure, as text for a model, without what is secret."""
        frames = list(_frames(failure.error))
        own = [frame for frame in frames if frame.f_globals is self._shell.user_ns]
        secrets = self._secrets(frames, own)

        def shown(text: str, longest: int) -> str:
            """Cut only when the secrets are out: half a key would not be found."""
            return cut(without_secrets(text, secrets), longest)[0]

        pieces = [
            f"{title}:\n{fenced(shown(source, _CELL), 'python')}"
            for title, source in self._cells(failure, own).items()
        ]
        pieces.append(f"Traceback:\n{fenced(shown(self._traceback(failure.error, own), _TRACEBACK))}")
        variables = [f"- {name}: {shown(what, _LONGEST)}" for name, what in self._variables(own)]
        if variables:
            title = "Variables involved (values are left out where they are large or may be secret):"
            pieces.append("\n".join([title, *variables]))
        return "\n\n".join(pieces)

    def _secrets(self, frames: list[FrameType], own: list[FrameType]) -> set[str]:
        """Texts to be taken out: of the notebook, the environment and all frames."""
        called = [frame.f_locals for frame in frames if frame not in own] if own else []
        found = secret_texts(os.environ, self._shell.user_ns, *(frame.f_locals for frame in own))
        return found | secret_texts(*called, of_libraries=True)

    def _cells(self, failure: Failure, own: list[FrameType]) -> dict[str, str]:
        """Title → source: the cell that failed, and those that define what it called."""
        files = [frame.f_code.co_filename for frame in own]
        if isinstance(failure.error, SyntaxError) and failure.error.filename:
            files.append(failure.error.filename)
        found = {self._name(file): source for file in files if (source := self._source(file))}
        if failure.cell is not None:
            first = next(iter(found), "Cell")
            return {first: failure.cell.rstrip("\n"), **{k: v for k, v in found.items() if k != first}}
        return found

    def _name(self, file: str) -> str:
        """`Cell In[3]` for a cell's file; else the file."""
        return " ".join(self._shell.compile.format_code_name(file) or (file,))

    def _source(self, file: str) -> str:
        """A cell as it was written; else as Python has it."""
        number = re.search(r"In\[(\d+)\]", self._name(file))
        written = self._shell.history_manager.input_hist_raw
        if number and int(number[1]) < len(written):
            return str(written[int(number[1])]).rstrip("\n")
        return "".join(linecache.getlines(file)).rstrip("\n")

    def _traceback(self, error: BaseException, own: list[FrameType]) -> str:
        """As Python prints it, from the cell on, with the names of cells for their files."""
        first = error.__traceback__
        while own and first is not None and first.tb_frame is not own[0]:
            first = first.tb_next
        if isinstance(error, SyntaxError) and not own:
            lines = traceback.format_exception_only(error)
        else:
            lines = traceback.format_exception(type(error), error, first)
        text = "".join(lines).rstrip("\n")
        files = dict.fromkeys(re.findall(r'File "([^"\n]+)"', text))
        for file in files:
            name = self._name(file)
            text = text if name == file else text.replace(f'File "{file}"', name)
        return text

    def _variables(self, own: list[FrameType]) -> list[tuple[str, str]]:
        """Each name that the code of the cells' own frames uses and what it is, innermost first."""
        found: dict[str, object] = {}
        for frame in reversed(own):
            for name in _names(frame):
                for names in (frame.f_locals, frame.f_globals):
                    if name in names and not name.startswith("_") and name not in _SHELL_NAMES:
                        found.setdefault(name, names[name])
        return [(name, what_is(name, value)) for name, value in islice(found.items(), _MOST_NAMES)]


def _names(frame: FrameType) -> Iterator[str]:
    """Names that the code of a frame uses; of a cell, whose statements run one by one, all in the cell."""
    code = frame.f_code
    if code.co_name == "<module>":
        source = "".join(linecache.getlines(code.co_filename))
        with suppress(SyntaxError, ValueError):
            yield from (node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name))
    yield from (*code.co_varnames, *code.co_freevars, *code.co_cellvars, *code.co_names)


def _frames(error: BaseException) -> Iterator[FrameType]:
    """From the first on that is not IPython's own, outermost first."""
    place = error.__traceback__
    while place is not None:
        if not place.tb_frame.f_globals.get("__name__", "").startswith("IPython."):
            yield place.tb_frame
        place = place.tb_next


def what_is(name: str, value: object) -> str:
    """What a variable is, in a line: never more of it than a small value."""
    kind = type(value).__name__
    if looks_secret(name) and not isinstance(value, (ModuleType, FunctionType, type)):
        return f"{kind} (not shown: its name looks secret)"
    try:
        return _structure(value, kind)
    except Exception as error:  # noqa: BLE001 - a class's own methods may raise anything
        return f"{kind} (it cannot be looked at: {type(error).__name__})"


def _structure(value: Any, kind: str) -> str:
    if frame := as_frame(value):
        columns = ", ".join(f"{n} ({t})" for n, t in zip(frame.names, frame.dtypes, strict=True))
        return f"{kind} of {counted(frame.rows, 'row')} × {counted(frame.width, 'column')}: {columns}"
    if is_array(value):
        return f"{kind} of shape {tuple(value.shape)}, dtype {value.dtype}"
    if isinstance(value, (str, bytes)):
        return _text(value, kind)
    if value is None or isinstance(value, (bool, int, float, complex)):
        return cut(f"{kind} {value!r}", 80)[0]
    if isinstance(value, Mapping):
        keys = ", ".join(f"{key!r} ({type(v).__name__})" for key, v in islice(value.items(), 30))
        return f"{kind} of {counted(len(value), 'key')}{': ' if keys else ''}{keys}"
    if isinstance(value, (list, tuple, set, frozenset)):
        kinds = sorted({type(item).__name__ for item in islice(value, 1000)})
        return f"{kind} of {counted(len(value), 'item')}{': ' if kinds else ''}{', '.join(kinds)}"
    return _object(value, kind)


def _text(value: str | bytes, kind: str) -> str:
    """A short text as it is, unless it looks made by chance, as keys do."""
    text = repr(value)
    chance = re.fullmatch(r"(?=.*[A-Z])(?=.*[a-z])(?=.*\d)[\w+/=-]{20,}", text.strip("b'\""))
    if len(text) <= 80 and isinstance(value, str) and not chance:
        return f"{kind} {text}"
    return f"{kind} of {counted(len(value), 'character' if kind == 'str' else 'byte')}"


def _object(value: Any, kind: str) -> str:
    if isinstance(value, ModuleType):
        return f"module {value.__name__} {getattr(value, '__version__', '')}".rstrip()
    if isinstance(value, type):
        return f"class {value.__qualname__}"
    if callable(value) and hasattr(value, "__name__"):
        return f"function {value.__name__}{inspect.signature(value)}"
    fields = getattr(value, "__dict__", {})
    inner = ", ".join(f"{n} ({type(v).__name__})" for n, v in islice(fields.items(), 20) if n[:1] != "_")
    return f"{type(value).__module__}.{kind}{' with ' if inner else ''}{inner}"
