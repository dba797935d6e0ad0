"""One question for each row of a table: `kimi.map`.

mapper     from a template and rows to a table
rows       a DataFrame, or anything that can be walked, as the names that a template uses
jobs       the requests that the rows make, equal ones once
run        the batch while it runs: what is done is kept at once, so that it can go on later
keeper     storing what is done
allowance  what it may cost: rows wait where a budget could not bear them all
gate       how many at once: a server that says "too many" slows all of them
asking     one request, here or in another process
table      what came of it, as columns
columns    those in pandas and polars
progress   a line or a bar
estimate   what it may cost, before anything is sent
"""

from .asking import Elsewhere
from .estimate import Estimate
from .gate import Gate
from .mapper import Batch, Door, Mapper
from .run import Progress

__all__ = ["Batch", "Door", "Elsewhere", "Estimate", "Gate", "Mapper", "Progress"]
