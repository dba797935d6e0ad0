"""`%%kimi` and `%kimi`: parse, call down, complete. The only module that registers with IPython.

    options, values  the options of a cell, and what their values may be
    reading, words   a line → options and prompt
    running          what a cell and a line do
    named, names     the functions, types and variables of the notebook
    dry_run          the request, shown instead of sent
    commands, help   the subcommands: their table, and what is said about them
    branching, carrying, history, showing, background, money, fix, status, health
                     what they do
    stage, notes     where replies and tables are shown, and what is said under them
    failures, hidden the last exception of the notebook, and what of it is secret
    completion, tab  what Tab offers, and its hook in IPython
    cells            which cell a magic runs in
    interrupt        the kernel's interrupt, for what runs in the background
    warm             what the first cell needs, imported while it is written
    verbatim         the hooks that keep a prompt as it was written

Both magics are `no_var_expand`: IPython's own expansion of `$x` and `{x}` would damage prompts.
Loading is quick: what asking needs is imported while the kernel waits, and at the latest when something
is asked.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

from ..config import KimiMagic
from ..console import forgive
from . import verbatim
from .tab import matcher
from .warm import Warm

if TYPE_CHECKING:
    from ..api import Kimi
    from .running import Runner


def _complete_help() -> str:
    """What `%%kimi?` shows: the same as `%kimi help`."""
    from .commands import described
    from .help import overview

    return overview(described())


@magics_class
class KimiMagics(Magics):
    """The magics of one shell. make: gives the chat, when it is first needed."""

    def __init__(self, shell: Any, settings: KimiMagic, make: Callable[[], Kimi]) -> None:
        super().__init__(shell)
        self._make = make
        self.chat: Kimi | None = None
        """None before the first use."""
        self._runner: Runner | None = None
        self.matcher = matcher(shell, lambda: self.chat)
        self._warm = Warm(shell, settings)
        self._settings = settings
        settings.observe(self._too_late, "store")

    @property
    def runner(self) -> Runner:
        if self._runner is None:
            self._warm.finish()
            from .running import Runner

            self.chat = self._make()
            self._runner = Runner(self.shell, self.chat)
        return self._runner

    def _too_late(self, change: Any) -> None:
        """Somebody has set what is read once, when the chat begins."""
        if self.chat is not None and self.chat.conversations:
            kept = "stay in memory" if change["old"] == "off" else "are kept on disk"
            print(
                f"kimi_magic: store={change['new']} takes effect after a restart of the kernel; until then"
                f" conversations and usage {kept}."
            )

    def close(self) -> None:
        """End what runs in the background."""
        self._settings.unobserve(self._too_late, "store")
        self._warm.end()
        if self._runner is not None:
            self._runner.close()

    @no_var_expand
    @line_cell_magic
    def kimi(self, line: str, cell: str | None = None) -> Any:
        """Ask Kimi: %%kimi with the prompt below, or %kimi with a subcommand or a question.

        %kimi help lists options and subcommands.
        """
        if cell is not None:
            return self.runner.cell(line, cell)
        return self.runner.line(line)

    # IPython asks for it before `__doc__`, which would have to be made now.
    kimi.getdoc = _complete_help  # type: ignore[union-attr]  # the decorators' types forget the function


def load(shell: Any, settings: KimiMagic, make: Callable[[], Kimi]) -> None:
    """Put the magics and their settings into a shell; loading again changes nothing. Where no key is
    found, one line says that a simulator will answer.

    make: gives the chat, when it is first needed. Raises `ConfigError` for a setting that is configured
    wrongly; the shell is as it was then.
    """
    if isinstance(shell.magics_manager.registry.get("KimiMagics"), KimiMagics):
        return
    settings.update_config(shell.config)  # before anything else: it may be refused
    magics = KimiMagics(shell, settings, make)
    shell.register_magics(magics)
    shell.configurables.append(settings)
    verbatim.install(shell)
    forgive(sys.stdout, sys.stderr)
    shell.Completer.custom_matchers.append(magics.matcher)
    notice = settings.notice()
    if notice:
        print(notice)


def unload(shell: Any) -> None:
    """Take them out again, and end what runs in the background."""
    magics = shell.magics_manager.registry.pop("KimiMagics", None)
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("kimi", None)
    if magics is None:
        return
    ours = (KimiMagic, KimiMagics)
    shell.configurables[:] = [c for c in shell.configurables if not isinstance(c, ours)]
    verbatim.remove(shell)
    shell.Completer.custom_matchers[:] = [m for m in shell.Completer.custom_matchers if m != magics.matcher]
    magics.close()
