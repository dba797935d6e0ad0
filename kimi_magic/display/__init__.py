"""Events → outputs: a turn that runs, shown where it was asked.

    show       the loop: wait for events, look at the reply so far, let a view show it
    interrupts when the user's interrupt may strike
    static     a notebook's outputs: HTML in segments, then one finished output
    live       a widget that gets only what is new (deltas), then the same finished output
    terminal   text as it comes
    deltas     what is new, as messages; growing, waiting: a text, and the line before there is any
    several    one reply in several places
    confirm    asks the user whether a tool may run
    outputs    the only place that talks to IPython's display machinery

A view shows values (`Progress`, then an `Ending`); how often is its own business, since what an
update costs depends on how it is shown.
"""

from .confirm import by_input, by_nobody
from .deltas import SCRIPT, Deltas
from .live import LiveFrontEnd, LiveView
from .outputs import Outputs, ShellOutputs
from .several import Several
from .show import Ending, Progress, View, show
from .static import StaticView
from .terminal import TerminalView

__all__ = [
    "SCRIPT",
    "Deltas",
    "Ending",
    "LiveFrontEnd",
    "LiveView",
    "Outputs",
    "Progress",
    "Several",
    "ShellOutputs",
    "StaticView",
    "TerminalView",
    "View",
    "by_input",
    "by_nobody",
    "show",
]
