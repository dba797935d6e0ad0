"""Subcommands for what goes on beside the cells: panel, jobs, stop, wait."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..api import Kimi, Reply
from ..counts import counted
from ..errors import Interrupted, KimiError, OptionError
from ..session import Job
from .stage import Stage, shortened


def panel(kimi: Kimi, stage: Stage, words: Sequence[str]) -> Any:
    """The panel, which shows itself. Raises `OptionError` in a terminal."""
    if stage.is_terminal:
        raise OptionError("A terminal has no panel.", hint="%kimi history lists the turns.")
    return kimi.panel()


def jobs(kimi: Kimi, stage: Stage, words: Sequence[str]) -> None:
    """What runs in the background, and what ran."""
    rows = [
        {
            "job": str(job.number),
            "state": job.state,
            "prompt": shortened(job.stream.plan.ask.prompt),
            "conversation": "" if job.stream.plan.ask.once else job.stream.plan.ask.conversation,
            "model": job.stream.plan.request.model,
            "error": shortened(str(job.error or "")),
        }
        for job in kimi.jobs
    ]
    stage.table(rows, _running(len(kimi.jobs.running)))


def _running(number: int) -> str:
    if not number:
        return "Nothing runs in the background."
    it = "it" if number == 1 else "them"
    return f"{counted(number, 'reply runs', 'replies run')} in the background; %kimi stop ends {it}."


def stop(kimi: Kimi, stage: Stage, words: Sequence[str]) -> None:
    """End a job, or all; what arrived stays in their cells. Raises `ConversationError`."""
    number = _number(words)
    ended = kimi.jobs.stop(number)
    if ended:
        stage.say(f"Stopped: {_named(ended)}.")
    elif number is None:
        stage.say(_running(0))
    else:
        (job,) = kimi.jobs.chosen(number)
        stage.say(f"Job {number} has ended already: {job.state}.")


def _named(jobs: Sequence[Job[Reply]]) -> str:
    """`job 1`, `jobs 1, 2`"""
    return f"{'job' if len(jobs) == 1 else 'jobs'} {', '.join(str(job.number) for job in jobs)}"


def wait(kimi: Kimi, stage: Stage, words: Sequence[str]) -> None:
    """Wait for a job, or for all. Raises the error of the first one that failed, when all have ended, and
    `Interrupted`.

    Their outputs are sent once more: a front end without a screen (nbclient, nbconvert) takes only what
    comes while a cell runs.
    """
    number = _number(words)
    waited = [job for job in kimi.jobs if not job.heard] if number is None else kimi.jobs.chosen(number)
    failure: BaseException | None = None
    for job in waited:
        try:
            job.result()
        except KimiError as error:
            failure = failure or error
        except Interrupted:
            pass  # the user's own wish, and its output says so
        except KeyboardInterrupt:  # it ends them all (`interrupt`)
            running = kimi.jobs.running
            told = f"This ends replies in the background, too: {_named(running)}." if running else _running(0)
            raise Interrupted(told) from None
        turn = job.stream.turn
        if turn is not None:
            stage.show_again(turn)
    if failure is not None:
        raise failure
    stage.say(f"Waited for {_named(waited)}." if waited else _running(0))


def _number(words: Sequence[str]) -> int | None:
    if words and not re.fullmatch(r"[0-9]{1,6}", words[0]):
        raise OptionError(f"{words[0]!r} is no number of a job.", hint="%kimi jobs lists them.")
    return int(words[0]) if words else None
