"""One notebook's chat: what is asked → request → reply → turn → usage. Events come up, values go down.

asking    `Ask`, what the user wants; `Plan`, the request that it makes and where its turn goes
steps     the loop over requests and tool calls that one turn may take, as a generator
calls     the tool calls of a turn, handed to whoever shows it
turns     `TurnStream`: one turn while it runs; whatever happens, it ends as a `Turn` with records
session   `Session`: the conversations and the ledger of a notebook
worker    the thread that HTTP runs in, and the iterator that a cell waits on
"""

from .asking import Ask, Plan
from .calls import Confirm, ToolCalls
from .session import Session
from .turns import TurnStream
from .worker import Worker

__all__ = ["Ask", "Confirm", "Plan", "Session", "ToolCalls", "TurnStream", "Worker"]
