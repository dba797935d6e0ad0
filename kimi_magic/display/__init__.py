"""Events → outputs: a turn that runs, shown where it was asked.

    show       the loop: wait for events, look at the reply so far, let a view show it
    interrupts when the user's interrupt may strike
    static     a notebook's outputs: HTML in segments, then one finished output
    terminal   text as it comes
    outputs    the only place that talks to IPython's display machinery

A view shows values (`Progress`, then an `Ending`); how often is its own business, since what an
update costs depends on how it is shown.
"""

from .live import LiveFrontEnd, LiveView
from .outputs import Outputs, ShellOutputs
from .show import Ending, Progress, View, show
from .static import StaticView
from .terminal import TerminalView

__all__ = [
    "Ending",
    "LiveFrontEnd",
    "LiveView",
    "Outputs",
    "Progress",
    "ShellOutputs",
    "StaticView",
    "TerminalView",
    "View",
    "show",
]
