"""The notebook's chat from Python: what `from kimi_magic import kimi` gives, and what the magics use.

chat      `Kimi`: ask, map, usage, conversation
reply     `Reply`: what came of one question, and how it is shown
connect   settings → client, or the embedded simulator
replays   recordings that answer again
toolbox   functions as tools
"""

from .chat import Audience, Kimi
from .connect import connect
from .reply import Reply, view_of

__all__ = ["Audience", "Kimi", "Reply", "connect", "view_of"]
