"""What outlives a kernel: the one module that knows SQLite and file formats.

place        where the state lives
connection   one SQLite file: opened when it is used, changed in whole transactions
database     conversations and the ledger in it, one durable write a turn
money        its queries about usage, prices, budgets and batches
migrations   the schema, step by step, each step by its name
twins        turns that travel in the outputs of a notebook
found        what the database and the twins give back
sealed       JSON text with its hash
files        a conversation as a JSON file, as markdown, as a Python script
"""

from .database import Store
from .files import check_ours, export, export_markdown, export_script, load_conversation, save_conversation
from .found import Found
from .place import store_path
from .twins import TWIN, read_twins, twin_of

__all__ = [
    "TWIN",
    "Found",
    "Store",
    "check_ours",
    "export",
    "export_markdown",
    "export_script",
    "load_conversation",
    "read_twins",
    "save_conversation",
    "store_path",
    "twin_of",
]
