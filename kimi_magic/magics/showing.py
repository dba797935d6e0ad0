"""`%kimi show`: a stored reply once more, as it was shown when it ended."""

from __future__ import annotations

from collections.abc import Sequence

from ..api import Kimi
from ..conversation import Conversation, Turn
from ..errors import ConversationError, OptionError
from .branching import turn_named
from .stage import Stage


def show(kimi: Kimi, stage: Stage, words: Sequence[str]) -> None:
    """The last reply, the one of that number in `%kimi history`, or of that turn."""
    if len(words) > 1:
        raise OptionError("%kimi show takes one number or turn.", hint="%kimi history lists them.")
    conversation = kimi.conversation
    turn = _chosen(conversation, words[0] if words else "")
    stage.show_stored(turn, conversation, kimi.session.records)


def _chosen(conversation: Conversation, word: str) -> Turn:
    path = conversation.path()
    if not word and path:
        return path[-1]
    named = turn_named(conversation, word)
    if named is not None:
        return named
    what = f"no reply {word}" if word else "no reply yet"
    raise ConversationError(
        f"There is {what} in conversation {conversation.name!r}.", hint="%kimi history lists them."
    )
