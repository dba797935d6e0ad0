"""Turns and the ways that a conversation went through them. Values only: nothing here waits, stores or
sends, and every change gives a new value.

turn  one user message and everything that was done for it; it knows the turn before it
path  the conversation: its turns, the active path, and where a new turn goes
"""

from .path import Conversation, Place
from .turn import COMPLETE, CUT, FAILED, INTERRUPTED, REFUSED, TWIN_VERSION, Exchange, Turn, sendable

__all__ = [
    "COMPLETE",
    "CUT",
    "FAILED",
    "INTERRUPTED",
    "REFUSED",
    "TWIN_VERSION",
    "Conversation",
    "Exchange",
    "Place",
    "Turn",
    "sendable",
]
