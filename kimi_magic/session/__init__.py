"""One notebook's chat: what is asked → request → reply → turn → usage. Events come up, values go down.

asking    `Ask`, what the user wants; `Plan`, the request that it makes and where its turn goes
steps     the loop over requests and tool calls that one turn may take, as a generator
calls     the tool calls of a turn, handed to whoever shows it
ending    whether a reply can be sent back, and the error of one that cannot
turns     `TurnStream`: one turn while it runs; whatever happens, it ends as a `Turn` with records
lanes     turns of one conversation run one after the other
jobs      turns that run beside the cells
purse     what it costs, and how much it may cost
keeping   what goes into the store, and what happens when it cannot
window    how full the model's context window is
session   `Session`: the conversations and the ledger of a notebook
worker    the thread that HTTP runs in, and the iterator that a cell waits on
"""

from .asking import Ask, Plan, check_names
from .calls import Confirm, ToolCalls
from .jobs import Job, Jobs
from .lanes import Lanes
from .purse import Purse
from .session import Session
from .turns import Surroundings, TurnStream
from .window import SUMMARISE, tokens
from .worker import Worker

__all__ = [
    "SUMMARISE",
    "Ask",
    "Confirm",
    "Job",
    "Jobs",
    "Lanes",
    "Plan",
    "Purse",
    "Session",
    "Surroundings",
    "ToolCalls",
    "TurnStream",
    "Worker",
    "check_names",
    "tokens",
]
