"""The notebook's chat from Python: what `from kimi_magic import kimi` gives, and what the magics use.

chat      `Kimi`: ask, map, usage, conversation
access    its session, with the client that the settings ask for
asking    the options of a question
audience  who shows the chat beside the cell
reply     `Reply`: what came of one question, and how it is shown
connect   settings → client, or the embedded simulator
moves     a notebook's file and the store's label for it, where they have parted
replays   recordings that answer again
toolbox   functions as tools
"""

from .audience import Audience
from .chat import Kimi
from .connect import connect
from .moves import OFFER
from .reply import Reply, view_of

__all__ = ["OFFER", "Audience", "Kimi", "Reply", "connect", "view_of"]
