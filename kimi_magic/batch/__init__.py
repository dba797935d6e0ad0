"""One question for each row of a table: `kimi.map`.

    rows       a DataFrame, or anything that can be walked, as the names that a template uses
    jobs       the requests that the rows make, equal ones once
    gate       how many at once: a server that says "too many" slows all of them
    asking     one request, here or in another process
    run        the batch while it runs: what is done is kept at once, so that it can go on later
    table      what came of it, as columns
    progress   a line or a bar
    estimate   what it may cost, before anything is sent
"""

from .asking import Elsewhere, Item, Outcome
from .estimate import Estimate, estimate
from .gate import Gate
from .jobs import Job, Jobs, plan_jobs
from .progress import Bar
from .rows import Rows, read_rows
from .run import Progress, Run, Settings
from .table import result

__all__ = [
    "Bar",
    "Elsewhere",
    "Estimate",
    "Gate",
    "Item",
    "Job",
    "Jobs",
    "Outcome",
    "Progress",
    "Rows",
    "Run",
    "Settings",
    "estimate",
    "plan_jobs",
    "read_rows",
    "result",
]
