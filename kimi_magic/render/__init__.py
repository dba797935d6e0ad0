"""Values → what a reader sees: HTML, markdown, plain text, terminal text. Pure, and escaped once.

sanitise            what may pass, and what is cleaned away
markdown            a text, whole or while it streams (with math, cjk, dialect, code)
source, terminal    a text for exporters, and for terminals
pieces              a reply's blocks as the pieces that one sees
reply, running      a finished reply, and the segments of one that runs
footer, tables      the line under a reply; rows as tables
style               how it looks
"""

from .footer import footer, money
from .markdown import Incremental, render_markdown
from .pieces import calls, sources
from .reply import BADGE, ReplyView, bundle, closing_lines
from .source import plain_text, safe_markdown
from .tables import ShownUsage, table_html, table_text
from .terminal import DIM, Terminal

__all__ = [
    "BADGE",
    "DIM",
    "Incremental",
    "ReplyView",
    "ShownUsage",
    "Terminal",
    "bundle",
    "calls",
    "closing_lines",
    "footer",
    "money",
    "plain_text",
    "render_markdown",
    "safe_markdown",
    "sources",
    "table_html",
    "table_text",
]
