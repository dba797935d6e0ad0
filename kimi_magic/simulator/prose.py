"""The text of a reply: sections, each of which speaks when the prompt gives it something to say.

Everything in it is true: what the prompt says, what the request holds, what can be computed from it.
"""

from __future__ import annotations

import base64
import difflib
import re
from collections.abc import Callable, Iterator
from itertools import count as counting

from ..pixels import pixel_size
from ..wire import Json
from . import tables, tokens
from .cache import as_blocks
from .directives import KNOWN
from .phrases import CHINESE, ENGLISH, Phrases
from .reading import Reading, shorten

_CODE = re.compile(
    r"\b(code|function|script|python|program|implement|snippet|algorithm|regex)\b|代码|函数|程序|脚本|コード",
    re.IGNORECASE,
)
_MATH = re.compile(
    r"\b(math\w*|formulas?|equations?|integrals?|derivatives?|latex|proof|prove|theorem)\b"
    r"|公式|方程|积分|導|数学|数式|\\\(|\\\[|\$\$",
    re.IGNORECASE,
)
_SIZE = re.compile(
    r"\b(?:write|give|reply|answer|produce|explain|tell|generate|text|essay|report|summary)\b[^\n]{0,80}?"
    r"\b(\d[\d,]{0,9})[ -]?(words?|KB)\b|(?<!\d)(\d{1,9}) ?(字|KB)",
    re.IGNORECASE,
)
_LONG = re.compile(r"\blong (text|reply|answer|essay|report|story)\b|长文|长篇", re.IGNORECASE)
_LONGEST = 16 * 2**20
_THOUGHTS = {"low": 2, "high": 7, "max": 15}


def phrases(reading: Reading) -> Phrases:
    return CHINESE if reading.chinese else ENGLISH


def thinking(reading: Reading) -> str:
    """Longer with more effort."""
    say = phrases(reading)
    facts = _facts(reading)
    sentences = [text.format(**facts) for text in say.thinking[: _THOUGHTS[reading.effort]]]
    if reading.effort == "low":
        return (" " if say is ENGLISH else "").join(sentences)
    paragraphs = [sentences[n : n + 4] for n in range(0, len(sentences), 4)]
    return "\n\n".join((" " if say is ENGLISH else "").join(part) for part in paragraphs)


def text(reading: Reading) -> str:
    """The whole answer in markdown."""
    say = phrases(reading)
    size = _wanted_size(reading)
    topics = [part for section in _TOPICS if (part := section(reading, say))]
    if size is not None:
        topics += _filler(reading, say, *size)
    elif not topics and reading.search is None:
        topics = [_general(reading, say)]
    return "\n\n".join([_opening(reading, say), *topics, *filter(None, [_notes(reading, say)])])


def _facts(reading: Reading) -> Json:
    words = re.findall(r"\w+", reading.prompt) or [""]
    lines = len(reading.prompt.splitlines()) or 1
    count = len(reading.request["messages"])
    return {
        "first": reading.first_line,
        "words": _plural(len(words), "word"),
        "characters": len(reading.prompt),
        "lines": _plural(lines, "line"),
        "lines_zh": f"{lines} 行",
        "tokens": _plural(tokens.count(reading.prompt), "token"),
        "size": tokens.count(reading.prompt),
        "seen": _seen(reading),
        "longest": shorten(max(words, key=len), 40),
        "effort": reading.effort,
        "room": reading.request["max_tokens"],
        "messages": _plural(count, "message"),
        "count": count,
    }


def _plural(number: int, word: str) -> str:
    return f"one {word}" if number == 1 else f"{number:,} {word}s"


def _seen(reading: Reading) -> str:
    """What the request brings besides words."""
    say = phrases(reading)
    there = (
        reading.tools,
        reading.results,
        reading.images,
        tables.find(reading.prompt),
        reading.search,
        reading.schema,
    )
    names = [name for name, thing in zip(say.seen, there, strict=False) if thing] or [say.seen[-1]]
    text = (", " if say is ENGLISH else "、").join(names)
    return text[0].upper() + text[1:]


# --- sections -----------------------------------------------------------------------------------


def _opening(reading: Reading, say: Phrases) -> str:
    lines = [say.opening.format(first=reading.first_line)]
    if reading.earlier:
        before = next((line.strip() for line in reading.earlier[-1].splitlines() if line.strip()), "")
        lines.append(say.before.format(turn=len(reading.earlier) + 1, before=shorten(before)))
    return "\n\n".join(lines)


def _general(reading: Reading, say: Phrases) -> str:
    parts = [say.general.format(**_facts(reading))]
    system = "\n".join(
        str(block.get("text", "")) for block in as_blocks(reading.request.get("system") or ())
    ).strip()
    if system:
        parts[0] += "\n- " + say.system.format(system=shorten(system.splitlines()[0]))
    if not reading.earlier:
        parts.append(say.tips)
    return "\n\n".join(parts)


def _notes(reading: Reading, say: Phrases) -> str:
    unknown = [directive.name for directive in reading.wishes if not directive.known]
    nearest = [(difflib.get_close_matches(name, KNOWN, 1, 0) or ["cut"])[0] for name in unknown]
    return "\n".join(say.unknown.format(name=a, nearest=b) for a, b in zip(unknown, nearest, strict=True))


def _results(reading: Reading, say: Phrases) -> str:
    names = {
        block["id"]: block["name"]
        for message in reading.request["messages"]
        for block in as_blocks(message["content"])
        if block["type"] == "tool_use"
    }
    lines = []
    for block in reading.results:
        form = say.failed if block.get("is_error") else say.result
        content = "\n".join(item["text"] for item in as_blocks(block["content"]) if item["type"] == "text")
        lines.append(form.format(name=names[block["tool_use_id"]], value=_quoted(content)))
    return "\n".join(lines)


def _quoted(content: str) -> str:
    """A short value as code in the line, a long one as a fenced block below it."""
    if "\n" not in content and "`" not in content and len(content) < 200:
        return f"`{content}`" if content.strip() else "—"
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", content)), default=0))
    lines = "\n".join("  " + line for line in content.splitlines())
    return f"\n\n  {fence}\n{lines}\n  {fence}"


def _pictures(reading: Reading, say: Phrases) -> str:
    lines = []
    for n, block in enumerate(reading.images, 1):
        source = block["source"]
        if source["type"] == "url":
            lines.append(say.image_url.format(n=n, url=f"`{source['url']}`"))
            continue
        data = base64.b64decode(source["data"])
        size = pixel_size(data)
        shown = f"{size[0]} × {size[1]} pixels" if size else say.size
        lines.append(say.image.format(n=n, media=source["media_type"], size=shown, bytes=len(data)))
    return "\n".join(lines)


def _table(reading: Reading, say: Phrases) -> str:
    table = tables.find(reading.prompt)
    if table is None:
        return ""
    names = [name for name in table.columns if name]
    quoted = ", ".join(f"`{name}`" for name in names[:12]) + (", …" if len(names) > 12 else "")
    parts = [say.table.format(rows=len(table.rows), columns=len(names), names=quoted)]
    rows = tables.summary(table)
    if rows:
        cells = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
        parts.append("\n".join([say.table_head, "| --- | ---: | ---: | ---: |", *cells]))
        column, name, values = next(table.numeric())
        # Gaps are left out of the numbers, so the row is found by its cell.
        row = next(
            n for n, cells in enumerate(table.rows) if tables.number(cells[column].strip()) == max(values)
        )
        parts.append(
            say.greatest.format(column=name, value=tables.shown(max(values)), label=table.label(row))
        )
    return "\n\n".join(parts)


def _code(reading: Reading, say: Phrases) -> str:
    if not _CODE.search(reading.question):
        return ""
    table = tables.find(reading.prompt)
    column = next(table.numeric(), None) if table else None
    if column:
        _, name, values = column
        intro = say.code_data.format(column=name)
        body = (
            f"from statistics import mean\n\nvalues = {values!r}  # {' '.join(name.split())}\n"
            "print(f'mean of {len(values)} values: {mean(values):.6g}')"
        )
    else:
        intro = say.code
        body = (
            "from collections import Counter\n\n\ndef letters(text: str) -> Counter[str]:\n"
            '    """How often each letter occurs."""\n'
            "    return Counter(char for char in text.lower() if char.isalpha())\n\n\n"
            f"print(letters({reading.first_line!r}).most_common(3))"
        )
    return f"{intro}\n\n```python\n{body}\n```"


def _math(reading: Reading, say: Phrases) -> str:
    return say.math if _MATH.search(reading.question) else ""


Section = Callable[[Reading, Phrases], str]
_TOPICS: tuple[Section, ...] = (_results, _pictures, _table, _code, _math)


# --- long texts ---------------------------------------------------------------------------------


def _wanted_size(reading: Reading) -> tuple[int, str] | None:
    """(amount, unit) with the unit words, KB or 字; None where no size is asked for."""
    wish = reading.wish("long")
    if wish is not None:
        glued = re.fullmatch(r"[\d.]+([A-Za-z]+)", wish.word(""))
        unit = glued[1] if glued else "".join(wish.words[1:2])
        return int(wish.number(800)), "KB" if unit.lower() == "kb" else "words"
    found = _SIZE.search(reading.question)
    if found:
        amount, unit = found[1] or found[3], found[2] or found[4]
        return int(amount.replace(",", "")), "KB" if unit.lower() == "kb" else unit
    return (800, "words") if _LONG.search(reading.question) else None


def _filler(reading: Reading, say: Phrases, amount: int, unit: str) -> Iterator[str]:
    """Headings, paragraphs, lists, tables and code until the size is reached."""
    left = min(amount * 1024 if unit == "KB" else amount, _LONGEST)
    for n in counting():
        part = _filler_part(reading, say, n)
        size = len(part.encode()) + 2 if unit == "KB" else len(part if unit == "字" else part.split())
        yield part
        left -= size
        if left <= 0:
            return


def _filler_part(reading: Reading, say: Phrases, n: int) -> str:
    number, kind = divmod(n, 5)
    if kind == 0:
        return "## " + say.heading.format(topic=shorten(reading.first_line, 40), n=number + 1)
    if kind == 2 and number % 2:
        rows = "\n".join(f"| {k} | {k * k} | {(number * 37 + k * 11) % 100} |" for k in range(1, 6))
        return f"| n | n² | x |\n| ---: | ---: | ---: |\n{rows}"
    if kind == 3 and number % 3 == 1:
        return f"```python\ntotal = sum(n * n for n in range({number + 10}))\nprint(total)\n```"
    bank, glue = say.filler, " " if say is ENGLISH else ""
    sentences = [bank[(n * 3 + k) % len(bank)] for k in range(5)]
    return "\n".join("- " + line for line in sentences) if kind == 4 else glue.join(sentences)
