"""What was used and what it cost: one flat record a request, sums, prices, budgets, the cache.

    records     one request
    prices      what a token costs, with all that it cost before
    totals      sums, whole or by day, model, conversation, notebook
    selection   which records
    table       records as rows, and as frames
    files       records as CSV and JSON Lines
    budget      how much may be spent, and what a request may cost
    cache       what the server's cache did, and should do

Rules:

- the four input counts exclude each other (`MessageUsage`): `input`, `cache_read`,
  `cache_write_5m`, `cache_write_1h`; `thinking` is a part of `output`;
- what the server did not say is None, never 0; a reply that was cut has no output count, since
  the one that came with its start is not a total;
- times are UTC and say so; costs are exact (`Decimal`), and None where no price is known.
"""

from .budget import PERIODS, Budget, most
from .cache import LIFE, Advice, advise, expires, saved_by_cache
from .files import read_records, write_records
from .prices import (
    ALWAYS,
    ANY,
    KINDS,
    MILLION,
    PRICES,
    PRICES_READ,
    Price,
    PriceBook,
    PriceVersion,
    amount,
    money,
)
from .records import FIELDS, Record, cold_cost, cost_of, has_unpriced_searches, with_counts
from .selection import Moment, Selection, moment
from .table import UsageTable
from .totals import GROUPS, Totals, grouped, totals

__all__ = [
    "ALWAYS",
    "ANY",
    "FIELDS",
    "GROUPS",
    "KINDS",
    "LIFE",
    "MILLION",
    "PERIODS",
    "PRICES",
    "PRICES_READ",
    "Advice",
    "Budget",
    "Moment",
    "Price",
    "PriceBook",
    "PriceVersion",
    "Record",
    "Selection",
    "Totals",
    "UsageTable",
    "advise",
    "amount",
    "cold_cost",
    "cost_of",
    "expires",
    "grouped",
    "has_unpriced_searches",
    "moment",
    "money",
    "most",
    "read_records",
    "saved_by_cache",
    "totals",
    "with_counts",
    "write_records",
]
