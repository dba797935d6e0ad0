"""What a `%%kimi` cell and a `%kimi` line do: from the options and the prompt to a reply that is shown."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..api import Kimi, Reply
from ..errors import OptionError, PromptError
from ..prompt import ImageLimits, Prompt, attach, doubts, expand, expand_text
from ..session import Job, Plan
from . import named
from .cells import Cells
from .dry_run import dry_run
from .interrupt import KernelInterrupt
from .names import Names
from .options import CellOptions
from .reading import parse_cell, parse_line
from .stage import Stage
from .verbatim import VALUE
from .words import pieces


class Runner:
    """Runs the magics of one shell, on one `Kimi`."""

    def __init__(self, shell: Any, kimi: Kimi) -> None:
        self._variables: dict[str, Any] = shell.user_ns
        self._names = Names(shell)
        self._chat = kimi
        self._cells = Cells(shell)
        self._stage = Stage(shell, kimi.settings, lambda: kimi.session)
        kimi.current_cell = self._cells.current
        kimi.audience.append(self._stage)
        self._interrupt = KernelInterrupt(shell, kimi.jobs)

    def close(self) -> None:
        """End what runs in the background, and leave the shell alone."""
        self._interrupt.close()
        self._stage.close()
        self._chat.close()

    def cell(self, line: str, body: str) -> None:
        """`%%kimi`. Raises what `Kimi.run` raises, and `OptionError` and `PromptError` before it."""
        template = body.removesuffix("\n")
        options = parse_cell(line)
        if not template.strip():
            raise PromptError("There is no prompt.", hint="Write it below the %%kimi line.")
        self._ask(options, template)

    def line(self, line: str) -> Any:
        """`%kimi`: a subcommand, whose value this is, or a question; the value of `x = %kimi question` is
        what `-o` would keep. Raises like `cell`."""
        from . import commands

        is_assigned = line.startswith(VALUE)
        line = line.removeprefix(VALUE)
        command = commands.find(line)
        if command is not None:
            value = command.run(self._chat, self._stage, pieces(line)[1:])
            self._chat.refresh()
            for warning in self._chat.take_warnings():
                self._stage.say(warning)
            return value
        options, template = parse_line(line)
        if not template.strip():
            stays = f" %kimi use {options.conversation} goes on there." if options.conversation else ""
            raise PromptError(
                "There is no prompt.", hint=f"Write it behind the options, in the same line.{stays}"
            )
        value = self._ask(options, template)
        return value if is_assigned else None

    def _ask(self, options: CellOptions, template: str) -> Reply | Job[Reply] | None:
        """The reply, its job where it comes in the background, or None where nothing was asked."""
        prompt = self._prompt(options, template)
        plan = self._plan(options, template, prompt)
        doubtful = doubts(() if options.raw else (options.system or "", template), self._names)
        if options.dry_run:
            self._show_request(plan, prompt)
            for line in doubtful:
                self._stage.say(line)
            return None
        self._chat.session.warnings += [*prompt.notes, *doubtful]
        if not options.append:
            self._chat.jobs.give_way(plan.ask.cell)
        view = self._stage.view(alone=self._cells.alone and not options.tool, background=options.background)
        keep = partial(self._keep, options.out)
        if options.background:
            return self._chat.begin(plan, view, keep=keep)
        reply = self._chat.run(plan, view)
        keep(reply)
        return reply

    def _keep(self, name: str | None, value: Reply | Job[Reply]) -> None:
        """Put the reply into the variable; as long as it comes in the background, its job."""
        if name:
            self._variables[name] = value

    def _prompt(self, options: CellOptions, template: str) -> Prompt:
        settings = self._chat.settings
        limits = ImageLimits(settings.image_max_bytes, settings.image_max_side)
        prompt = expand(template, self._names, raw=options.raw, limits=limits)
        return attach(
            prompt,
            self._names,
            files=options.file,
            images=options.image,
            limits=limits,
            budget=settings.file_max_chars,
        )

    def _plan(self, options: CellOptions, template: str, prompt: Prompt) -> Plan:
        return self._chat.plan(
            prompt.blocks,
            prompt=template,
            model=options.model,
            effort=options.effort,
            max_tokens=options.max_tokens,
            system=self._system(options),
            cache_ttl=options.cache,
            stop_sequences=options.stop or None,
            conversation=options.conversation,
            cell=self._cells.current(),
            new=options.new,
            once=options.once,
            append=options.append,
            replay=options.replay,
            tools=[named.tool(name, self._names, self._chat) for name in options.tool] or None,
            tool_choice=options.tool_choice,
            max_steps=options.max_steps,
            schema=named.schema(options.schema, self._names) if options.schema else None,
            search=options.search,
        )

    def _system(self, options: CellOptions) -> str | None:
        """The text of -s: as it stands, or of the variable that `@name` names."""
        text = options.system
        if text is None:
            return None
        if not text.startswith("@"):
            return expand_text(text, self._names, raw=options.raw)
        value = self._names.get(text[1:])
        if not isinstance(value, str):
            raise OptionError(
                f"-s/--system: there is no text in a variable {text[1:]!r}.",
                hint="Assign it, or write the text itself.",
            )
        return value

    def _show_request(self, plan: Plan, prompt: Prompt) -> None:
        conversation = self._chat.session.conversation(plan.ask.conversation)
        rows, body = dry_run(plan, prompt, conversation, self._chat.session.now())
        self._stage.table(rows, "Dry run: nothing was sent.")
        self._stage.say(body)
