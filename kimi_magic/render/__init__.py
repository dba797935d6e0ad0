"""Values → what a reader sees: HTML, markdown, plain text, terminal text. Pure, and escaped once.

sanitise            what may pass, and what is cleaned away
markdown            a text, whole or while it streams (with math, tex, cjk, dialect, code)
source, terminal    a text for exporters, and for terminals
pieces              a reply's blocks as the pieces that one sees
calls, data, images a tool call, a structured reply, and images
reply, running      a finished reply, and the segments of one that runs
footer, tables      the line under a reply; rows as tables
usage, plot         usage as tables, and as a picture
style               how it looks
"""

from ..usage import money
from .footer import footer
from .markdown import Incremental, render_markdown
from .pieces import call_records, sources
from .reply import BADGE, REPLAYED_SIMULATED, ReplyView, bundle, closing_lines
from .source import one_line, plain_text, safe_markdown
from .tables import table_html, table_text
from .terminal import DIM, Terminal
from .usage import ShownUsage, cache_table, price_rows, summary

__all__ = [
    "BADGE",
    "DIM",
    "REPLAYED_SIMULATED",
    "Incremental",
    "ReplyView",
    "ShownUsage",
    "Terminal",
    "bundle",
    "cache_table",
    "call_records",
    "closing_lines",
    "footer",
    "money",
    "one_line",
    "plain_text",
    "price_rows",
    "render_markdown",
    "safe_markdown",
    "sources",
    "summary",
    "table_html",
    "table_text",
]
