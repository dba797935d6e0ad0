"""`%%kimi` and `%kimi`: parse, call down, complete. The only module that registers with IPython.

    options, words   the cell language
    completion       what Tab offers
    commands         `%kimi status` and the like
    cells            which cell a magic runs in
    stage            where replies and tables are shown
    dry_run          the request, shown instead of sent

Both magics are `no_var_expand`: IPython's own expansion of `$x` and `{x}` would damage prompts.
"""

from __future__ import annotations

from typing import Any

from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

from ..api import Kimi
from ..errors import OptionError, PromptError
from ..prompt import Prompt, expand, expand_text
from ..session import Plan
from . import commands
from .cells import Cells
from .dry_run import dry_run
from .options import CellOptions, parse_cell, parse_line
from .stage import Stage


@magics_class
class KimiMagics(Magics):
    """The magics of one shell, on one `Kimi`."""

    def __init__(self, shell: Any, kimi: Kimi) -> None:
        super().__init__(shell)
        self.names: dict[str, Any] = shell.user_ns
        """The notebook's variables."""
        self.chat = kimi
        self.stage = Stage(shell, kimi.settings, lambda: kimi.session)
        self.cells = Cells(shell)

    @no_var_expand
    @line_cell_magic
    def kimi(self, line: str, cell: str | None = None) -> Any:
        """Ask Kimi: %%kimi with the prompt below, or %kimi with a subcommand or a question.

        %kimi help lists options and subcommands.
        """
        if cell is not None:
            return self._ask(parse_cell(line), cell.removesuffix("\n"))
        words = line.split()
        command = commands.find(words[0]) if words else commands.COMMANDS["help"]
        if command is not None:
            value = command.run(self.chat, self.stage, words[1:])
            self.stage.refresh()
            return value
        commands.check_spelling(line)
        options, prompt = parse_line(line)
        return self._ask(options, prompt)

    def _ask(self, options: CellOptions, template: str) -> None:
        if not template.strip():
            raise PromptError("There is no prompt.", hint="Write it below the %%kimi line.")
        prompt = expand(template, self.names, raw=options.raw)
        plan = self._plan(options, template, prompt)
        if options.dry_run:
            self._show_request(plan, prompt)
            return
        reply = self.chat.run(plan, self.stage.view())
        self.stage.refresh()
        if options.out:
            self.names[options.out] = reply

    def _plan(self, options: CellOptions, template: str, prompt: Prompt) -> Plan:
        return self.chat.plan(
            prompt.blocks,
            prompt=template,
            model=options.model,
            effort=options.effort,
            max_tokens=options.max_tokens,
            system=self._system(options),
            cache_ttl=options.cache,
            stop_sequences=options.stop or None,
            conversation=options.conversation,
            cell=self.cells.current(),
            new=options.new,
            once=options.once,
            append=options.append,
        )

    def _system(self, options: CellOptions) -> str | None:
        """The text of -s: as it stands, or of the variable that `@name` names."""
        text = options.system
        if text is None:
            return None
        if not text.startswith("@"):
            return expand_text(text, self.names, raw=options.raw)
        value = self.names.get(text[1:])
        if not isinstance(value, str):
            raise OptionError(
                f"-s/--system: there is no text in a variable {text[1:]!r}.",
                hint="Assign it, or write the text itself.",
            )
        return value

    def _show_request(self, plan: Plan, prompt: Prompt) -> None:
        conversation = self.chat.session.conversation(plan.ask.conversation)
        rows, body = dry_run(plan, prompt, conversation, self.chat.session.now())
        self.stage.table(rows, "Dry run: nothing was sent.")
        self.stage.say(body)


def load(shell: Any, kimi: Kimi) -> None:
    """Put the magics and their settings into a shell; loading again changes nothing. Where no key is
    found, one line says that a simulator will answer."""
    if isinstance(shell.magics_manager.registry.get("KimiMagics"), KimiMagics):
        return
    shell.register_magics(KimiMagics(shell, kimi))
    shell.configurables.append(kimi.settings)
    notice = kimi.notice()
    if notice:
        print(notice)


def unload(shell: Any) -> None:
    """Take them out again, and end what runs in the background."""
    magics = shell.magics_manager.registry.pop("KimiMagics", None)
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("kimi", None)
    if magics is not None:
        shell.configurables.remove(magics.chat.settings)
        magics.chat.close()
