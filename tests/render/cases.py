"""Cases in text files: a title, then parts that end with a line of one dot each."""

import json
import re
from pathlib import Path

DATA = Path(__file__).parent / "data"

COMMONMARK: list[str] = json.loads((DATA / "commonmark.json").read_text(encoding="utf-8"))


def read(name: str, parts: int) -> dict[str, list[str]]:
    """Title → its `parts` parts; `\\u0000` with four hex digits is that character, also half a pair."""
    text = (DATA / name).read_text(encoding="utf-8")
    lines = re.sub(r"\\u([0-9a-f]{4})", lambda match: chr(int(match[1], 16)), text).split("\n")
    cases: dict[str, list[str]] = {}
    at = 0
    while at < len(lines):
        title, at = lines[at], at + 1
        if not title:
            continue
        assert lines[at] == ".", f"no dot after {title!r}"
        cases[title] = []
        for _ in range(parts):
            end = lines.index(".", at + 1)
            cases[title].append("\n".join(lines[at + 1 : end]))
            at = end
        at += 1
    return cases
