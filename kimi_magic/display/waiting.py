"""What stands in the place of a reply before anything came of it."""

from __future__ import annotations

from ..render import running
from .show import Progress


def waiting(progress: Progress) -> str:
    """The line, as HTML; a further attempt says why there is one."""
    attempt = progress.retry
    trouble = f"attempt {attempt.number} after: {attempt.cause}" if attempt is not None else ""
    return running.waiting(progress.model, progress.seconds, trouble, queued=progress.queued)
