"""Functions and types ↔ JSON Schema; one call → one result; one structured reply → one value.

tool        `Tool`: a function that the model may call, and the call itself
schema      `Schema`: a type that the reply follows, and the value that is read from it
hints       type hints ↔ JSON Schema and validated values, by pydantic
dialect     any JSON Schema → the one that the server takes
docstrings  what a docstring says of a function and its parameters
running     a function, run with its output caught, async or with a time limit
results     what came of a call → bounded content blocks

pydantic is imported when the first function or type is looked at, not before. How a value is
written for a model is the caller's business (`Write`).
"""

from .results import BUDGET, Write, as_content
from .schema import Schema
from .tool import BROKEN_OFF, DECLINED, Outcome, Tool, function_tools, refusal

__all__ = [
    "BROKEN_OFF",
    "BUDGET",
    "DECLINED",
    "Outcome",
    "Schema",
    "Tool",
    "Write",
    "as_content",
    "function_tools",
    "refusal",
]
