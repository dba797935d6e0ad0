"""`kimi`, the notebook's chat from Python, and the same door for the magics.

It puts the parts together: settings → client (or the embedded simulator) → session → a view. All of
it is made on first use, so that loading costs nothing.
"""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Callable, Sequence
from contextlib import aclosing
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..client import AsyncClient
from ..config import KimiMagic
from ..conversation import Conversation
from ..display import Progress, Several, View, by_input, by_nobody, show
from ..errors import ConfigError
from ..prompt import ImageLimits, image_block
from ..render import ShownUsage
from ..session import SUMMARISE, Confirm, Job, Jobs, Plan, Session, ToolCalls, TurnStream, Worker
from ..wire import Block, Json, TextBlock, content_blocks
from .access import Access
from .asking import ask_of
from .audience import Audience, Silent
from .moves import file_of
from .reply import Reply, reply_of
from .toolbox import Toolbox

if TYPE_CHECKING:  # where there is a table to ask about, and not for each cell
    from ..batch import Estimate, Mapper


class Kimi(Toolbox):
    """The notebook's chat.

    settings: else from the environment. client: else as `connect` finds it. notebook: its path,
    where it is known.
    """

    def __init__(
        self,
        settings: KimiMagic | None = None,
        client: AsyncClient | None = None,
        notebook: str | None = None,
    ) -> None:
        super().__init__()
        self.settings = settings or KimiMagic.from_environment()
        self.worker = Worker()
        self.current_cell: Callable[[], str | None] = lambda: None
        """Gives the cell that runs, for `ask`; the magics know it."""
        self._access = Access(self.settings, self.worker, client, notebook)
        self.jobs: Jobs[Reply] = Jobs()
        """The replies in the background."""
        self.audience: list[Audience] = []
        """Who shows the chat beside the cell that asks."""
        self.make_panel: Callable[[], Any] | None = None
        """Makes the panel, in a notebook."""
        self._panel: Any = None

    @property
    def session(self) -> Session:
        return self._access.session(self.settings.replay)

    @property
    def simulated(self) -> bool:
        """Whether the embedded simulator answers; known once `session` was used."""
        return self._access.simulated

    @property
    def notebook(self) -> str | None:
        """Its path, where it is known."""
        return self._access.notebook

    def notebook_file(self) -> Path | None:
        """The file of this notebook, where it is known and there."""
        return file_of(self.notebook)

    @property
    def cassette(self) -> Path | None:
        """What replies are written to, if anything."""
        return self._access.cassette

    def record(self, path: Path | None) -> None:
        """Write the replies from now on to a cassette; None ends it. Raises `StoreError` where it cannot be
        written, and `ConfigError` where this chat was given its client."""
        self._access.record(path)

    def compact(self, view: View | None = None) -> Reply:
        """Let the model sum up the conversation. From then on its summary is sent in the place of the turns
        so far; `Conversation.undo` brings them back. Raises what `run` raises, and `ConversationError`
        where there is nothing to sum up."""
        content = (TextBlock.of(SUMMARISE),)
        return self.run(
            self.plan(content, prompt="%kimi compact", cell=self.current_cell(), compact=True), view
        )

    def play(self, path: Path) -> int:
        """Let replays find the recordings of a cassette; how many there are."""
        return self._access.replays.play(path)

    def ask(
        self,
        prompt: str | Block | Sequence[Block],
        *,
        view: View | None = None,
        **options: Any,
    ) -> Reply:
        """Ask, wait, and return the reply.

        prompt: text, or content blocks. It goes out as it is: no `{{ name }}` is inserted, as cells and `map`
        do; an f-string does it. view: shows it while it comes. options, None for the default:

            model           "kimi-k3.1-pro" or "kimi-k3.1-pro-highspeed"
            effort          "low", "high" or "max"
            max_tokens      of the reply, thinking included; else what suits the effort
            system          the system prompt of this turn
            cache_ttl       "5m" or "1h": keep the prompt in the server's cache
            stop_sequences  up to 5 texts that end the reply
            images          figures, images, arrays or the bytes of an image file, ahead of the prompt
            tools           functions, `Tool`s, or names of registered ones
            tool_choice     "auto", "any" or "none"
            max_steps       most rounds of tool calls
            schema          a type that `reply.value` will be of, or a JSON Schema
            search          how often the server may search; True for the usual number
            conversation    its name; new=True begins it afresh, once=True leaves it alone
            cell            the cell that the turn belongs to; append=True adds one to it
            replay          "off", "auto" or "only": recorded replies instead of new ones

        The reply has .text, .thinking, .value, .rows, .sources, .tool_calls, .message, .usage and .cost.
        Raises what `run` raises.
        """
        return self.run(self._question(prompt, options), view)

    def _question(self, prompt: str | Block | Sequence[Block], options: dict[str, Any]) -> Plan:
        """The plan for a prompt from Python."""
        content = (prompt,) if isinstance(prompt, Block) else tuple(content_blocks(prompt))
        text = "".join(b.text for b in content if isinstance(b, TextBlock))
        pictures = [image_block(value, self._limits())[0] for value in options.pop("images", ())]
        asked = {"prompt": text, "cell": self.current_cell(), **options}
        return self.plan((*pictures, *content), **asked)

    def plan(self, content: Sequence[Block], **options: Any) -> Plan:
        """The request for a user message, with the settings as defaults."""
        s = self.settings
        replay = options.get("replay") or s.replay
        session, replays = self._access.session(replay), self._access.replays
        replays.player.speed = 0.0  # the recorded pace is for those who look on
        ask = ask_of(content, options, s, session.current, self.as_tool)
        if replay != "off":
            session.warnings += replays.gather(self.notebook_file(), s.cassette)
        return session.plan(ask)

    def run(self, plan: Plan, view: View | None = None) -> Reply:
        """Run a plan. Raises the `KimiError` that ended the turn, or `Interrupted`; the turn is kept
        in either case."""
        return self._follow(self._started(plan, view), view or Silent(), by_input)

    def _started(self, plan: Plan, view: View | None) -> TurnStream:
        if view is not None or self.audience:
            self._access.replays.player.speed = self.settings.replay_speed
        return self._access.session(plan.ask.replay).start(plan)

    def begin(
        self,
        plan: Plan,
        view: View | None = None,
        *,
        confirm: Confirm = by_nobody,
        keep: Callable[[Reply | Job[Reply]], None] = lambda _: None,
    ) -> Job[Reply]:
        """Run a plan in the background. view: is told once here, in the thread that calls, and then in
        the job's own. confirm: asks the user about tools that want it.
        keep: gets the job before it begins, and the reply, where there is one. When the
        process ends, what has arrived is kept."""
        if not self.jobs.used:
            atexit.register(self.jobs.stop)
        stream, shown = self._started(plan, view), view or Silent()
        shown.update(Progress((), 0.0, plan.request.model, queued=stream.is_queued))

        def follow(stream: TurnStream) -> Reply:
            reply = self._follow(stream, shown, confirm)
            keep(reply)
            return reply

        job = self.jobs.add(stream, follow)
        keep(job)
        job.begin()
        return job

    async def aask(self, prompt: str | Block | Sequence[Block], **options: Any) -> Reply:
        """`ask`, awaited: the caller's loop stays free, and other cells' replies may come meanwhile. Tools
        run in threads of their own. Cancelling it ends the reply; what arrived is kept.

        Raises what `ask` raises.
        """
        plan = self._question(prompt, options)
        stream = self._access.session(plan.ask.replay).start(plan)
        try:
            async with aclosing(self.worker.aiterate(stream.events)) as events:
                async for event in events:
                    if isinstance(event, ToolCalls):
                        await asyncio.to_thread(event.run_all, stream.answer)
        finally:
            self.refresh()
        return reply_of(stream)

    def map(
        self, template: str, rows: Any, *, schema: Any = None, concurrency: int = 8, **options: Any
    ) -> Any:
        """Ask once for each row, and return the rows with the replies as further columns.

        template: a prompt whose `{{ column }}` are the row's values. rows: a DataFrame or Series of pandas
        or polars, which gives a DataFrame back; or an iterable of dicts or plain values, which gives a list
        of dicts. schema: as for `ask`; its properties become columns, else there is one, `reply`.
        concurrency: rows at once. options: those of `ask` but `images` and `view`, and

            values    a dict of names that all rows have
            name      of the batch, under which its replies are stored; else the notebook's
            budget    the most that it may cost: 2.00; simulated rows cost nothing
            resume    False asks again for what is stored
            executor  a `concurrent.futures.Executor` whose workers send the requests
            progress  False shows none

        Equal rows are asked once. A row that lacks a value of the template (None, NaN, NaT, NA) fails without
        being asked; an empty text is a value. A row that fails has its error in `kimi_error`, and is asked
        again by the next run; so is what an interrupt or a budget left open. Raises what is wrong with all
        rows alike, and `Interrupted`.

        tools: a row's reply is what the model says after its last call, and its columns of usage are the
        sums of its requests. The functions run in this kernel, in threads, so those of several rows may run
        at once. `resume` goes by their names, parameters and docstrings, not by what they do.
        """
        return self._mapper.map(template, rows, {"schema": schema, "concurrency": concurrency, **options})

    async def amap(
        self, template: str, rows: Any, *, schema: Any = None, concurrency: int = 8, **options: Any
    ) -> Any:
        """`map`, awaited: the caller's loop stays free. Cancelling it keeps what is done."""
        asked = {"schema": schema, "concurrency": concurrency, **options}
        return await self._mapper.amap(template, rows, asked)

    def estimate(self, template: str, rows: Any, *, schema: Any = None, **options: Any) -> Estimate:
        """What `map` with the same arguments would send and may cost; nothing is sent."""
        return self._mapper.estimate(template, rows, {"schema": schema, **options})

    @cached_property
    def _mapper(self) -> Mapper:
        from ..batch import Door, Mapper

        return Mapper(
            Door(self.worker, lambda: self.session, self.plan, self._limits, self._access.elsewhere)
        )

    @property
    def last_map(self) -> Any:
        """What the last `map` has done, also where it was interrupted; None before the first."""
        return None if self._mapper.last is None else self._mapper.last.table()

    def _limits(self) -> ImageLimits:
        return ImageLimits(self.settings.image_max_bytes, self.settings.image_max_side)

    def _follow(self, stream: TurnStream, view: View, confirm: Confirm) -> Reply:
        try:
            watching = [watch for one in self.audience if (watch := one.watch(stream)) is not None]
            show(stream, self.worker, Several([view, *watching]), confirm=confirm)
        finally:
            stream.stop()  # nothing where it has ended; where it never began, others need not wait for it
            self.refresh()
        return reply_of(stream)

    def panel(self) -> Any:
        """The panel of this chat; the last value of a cell shows itself. Raises `ConfigError` where there
        is no notebook."""
        if self._panel is None:
            if self.make_panel is None:
                raise ConfigError("There is no notebook to show a panel in.")
            self._panel = self.make_panel()
        return self._panel

    def refresh(self) -> None:
        """Let the audience show the chat as it is now."""
        for one in list(self.audience):
            one.refresh()

    @property
    def usage(self) -> ShownUsage:
        """All requests of this notebook, as rows; `usage.all()` has those of every notebook."""
        return ShownUsage(self.session.records, self.session.ledger, price_of=self.session.price)

    @property
    def conversation(self) -> Conversation:
        """The current conversation: its turns, and the active path."""
        return self.session.conversation()

    @property
    def messages(self) -> tuple[Json, ...]:
        """What the next request would send ahead of its prompt."""
        return self.conversation.messages(self.conversation.head)

    @property
    def conversations(self) -> tuple[str, ...]:
        """The names of the notebook's conversations; none before the first use."""
        made = self._access.made
        return tuple(made.conversations) if made is not None else ()

    def take_warnings(self) -> tuple[str, ...]:
        """Lines that the user has not been told yet, once; but for those that a reply under way tells."""
        made = self._access.made
        return () if made is None or self.jobs.running else made.take_warnings()

    def close(self) -> None:
        """End what runs in the background, and the connections. A further question opens new ones."""
        self.jobs.stop()
        atexit.unregister(self.jobs.stop)
        if self._panel is not None:
            self._panel.close()
            self._panel = None
        self._access.close()

    def __repr__(self) -> str:
        return "<kimi: the notebook's chat; ask(), usage, conversation, messages>"
