"""What is wrong with an installation, and how to mend it: findings as values, for `%kimi doctor` and
`kimi-magic doctor` to print.

Nothing is sent unless asked for (`online`), nothing that is written stays, and a key is never part of a
finding. What cannot be known here (the shell, its front end) the caller says.

    finding   what was found, as a value and as text
    versions  of Python, of this package, and of what it needs
    asking    settings, key, server and recordings, and how replies are shown
    kept      the store
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import date

from ..config import KimiMagic
from ..counts import counted
from ..usage import PRICES, PRICES_READ
from .asking import display, replays, server, settings_of, variables
from .finding import Finding, lines, verdict
from .kept import store
from .versions import versions

__all__ = ["Finding", "examine", "lines", "verdict"]

OLD_PRICES = 180  # days


def examine(
    settings: KimiMagic | None = None,
    *,
    online: bool = False,
    front_end: Sequence[Finding] = (),
    environ: Mapping[str, str] | None = None,
    today: date | None = None,
) -> list[Finding]:
    """Look at everything.

    settings: those that hold; else the environment's. online: also ask the server whether it is there and
    takes the key, which costs nothing. front_end: what the caller knows of where replies are shown.
    """
    environ = os.environ if environ is None else environ
    findings = [*versions(), *variables(environ)]
    if settings is None:
        settings, unusable = settings_of(environ)
        findings += unusable
    findings += [*server(settings, environ, online), *replays(settings)]
    findings += front_end or [display(settings)]
    findings += store(settings, environ)
    findings += _prices(today or date.today())
    return findings


def _prices(today: date) -> Iterator[Finding]:
    age = (today - PRICES_READ).days
    models, days = counted(len(PRICES), "model"), counted(max(age, 0), "day")
    says = f"of {models}, read on {PRICES_READ.isoformat()}, {days} ago"
    remedy = "Upgrade kimi_magic, or set them: %kimi price" if age > OLD_PRICES else ""
    yield Finding("prices", says, remedy)
