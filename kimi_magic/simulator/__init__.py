"""The Messages API as a function: a server that runs without a model, a key or a network.

It says in every reply that it is simulated. What it says follows from the request's content alone:
the same request gives the same text, signature and message id; only request ids count on. It checks
requests by the API page, keeps a prefix cache, obeys `max_tokens` and stop sequences, calls tools,
searches, follows schemas, and fails on demand. No sockets and no sleeping here: a `Reply` is a value
whose chunks say how long to wait (`transports` does the waiting).

What a prompt brings about:

    a markdown table or CSV     its rows, columns and means, computed
    code, math, 中文            a fenced block that runs, formulas in every notation, Chinese
    "write 500 words", "20 KB"  a long text of that size
    an image                    its media type, pixel size and bytes
    the name of a tool          a call of it, several names several calls
    a schema                    JSON that fits it, with the values that the prompt names

Directives, as a line `[[simulate: NAME …]]` of the prompt or a suffix `MODEL:NAME=…` of the model.
Several may stand in one prompt; `xN` limits a fault to the first N tries (`overloaded x2`):

    in place of a reply  bad-request (400) · unauthorized (401) · forbidden (403) · rate-limited
                         [SECONDS] (429) · quota (429, final) · server-error (500) · overloaded (529)
                         · html (502, a page) · openai-error (429) · drop (no reply at all)
    on its way           early-error [TYPE] · stream-error [TYPE] · cut · broken · garbled ·
                         slow [SECONDS] · silence [SECONDS] · pings [SECONDS] · unknown
    in what it says      empty · refusal · redacted · unsigned · stop-reason NAME · long N [KB] ·
                         pause [xN] · searches N · search-error [CODE] · steps N

`directives.KNOWN` has a line on each.
"""

from .directives import KNOWN as DIRECTIVES
from .schema import example
from .service import MARK, Reply, Simulator

__all__ = ["DIRECTIVES", "MARK", "Reply", "Simulator", "example"]
