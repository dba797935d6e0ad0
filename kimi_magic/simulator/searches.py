"""Web searches as the server runs them: made-up results on reserved domains, cited in the text.

A reply searches when it was given the tool. `max_uses` bounds the searches of the whole reply, the
paused part included; a search beyond it comes back as the error `max_uses_exceeded`.
"""

from __future__ import annotations

import re

from ..wire import Json
from . import prose
from .reading import Reading, shorten
from .signing import token

_MOST = 50
_SITES = (
    ("example.org", "Example Organisation", "the question is older than it looks"),
    ("example.com", "Example Company", "most sources agree on the main point"),
    ("example.net", "Example Network", "the newest figures differ a little"),
)


def blocks(reading: Reading) -> list[Json]:
    """Search calls with their results, then the cited answer."""
    wanted, made = reading.wish("searches"), []
    for n in range(min(int(wanted.number(1)), _MOST) if wanted else 1):
        call = _call(reading, n)
        made += [call, _outcome(reading, call, n)]
    return [*made, *_answer(reading, made)]


def paused(reading: Reading) -> list[Json]:
    """The blocks before a pause: a search that has begun and has no result."""
    return [_call(reading, _searches(reading.paused))]


def resumed(reading: Reading) -> list[Json]:
    """What follows the paused blocks: the missing results, then the answer."""
    done = {block.get("tool_use_id") for block in reading.paused}
    open_calls = [b for b in reading.paused if b["type"] == "server_tool_use" and b["id"] not in done]
    results = [_outcome(reading, call, n) for n, call in enumerate(open_calls)]
    return [*results, *_answer(reading, [*open_calls, *results])]


def _searches(content: tuple[Json, ...]) -> int:
    return sum(block["type"] == "server_tool_use" for block in content)


def _query(reading: Reading) -> str:
    words = re.sub(r"[\s|*_`#\[\]<>]+", " ", reading.first_line).strip()
    return shorten(words, 60) or "kimi"


def _call(reading: Reading, n: int) -> Json:
    query = _query(reading) + (f" ({n + 1})" if n else "")
    name = "srvtoolu_" + token(reading.seed, "search", str(n))
    return {"type": "server_tool_use", "id": name, "name": "web_search", "input": {"query": query}}


def _outcome(reading: Reading, call: Json, n: int) -> Json:
    limit, failing = (reading.search or {}).get("max_uses"), reading.wish("search-error")
    content: list[Json] | Json = _results(call["input"]["query"])
    if failing is not None and n == 0:
        content = _error(failing.word("unavailable"))
    elif limit is not None and n >= limit:
        content = _error("max_uses_exceeded")
    return {"type": "web_search_tool_result", "tool_use_id": call["id"], "content": content}


def _error(code: str) -> Json:
    return {"type": "web_search_tool_result_error", "error_code": code}


def _results(query: str) -> list[Json]:
    slug = "-".join(re.findall(r"[a-z0-9]+", query.lower())[:6]) or "page"
    return [
        {
            "type": "web_search_result",
            "url": f"https://{host}/{slug}",
            "title": f"{owner}: {query}",
            "encrypted_content": token(query, host, size=52),
            "page_age": f"November {n + 1}, 2026",
        }
        for n, (host, owner, _) in enumerate(_SITES)
    ]


def _answer(reading: Reading, made: list[Json]) -> list[Json]:
    """Text blocks: an introduction, a cited sentence for each source, the rest of the reply."""
    say, query = prose.phrases(reading), _query(reading)
    results = [b["content"] for b in made if b["type"] == "web_search_tool_result"]
    failed = [content["error_code"] for content in results if isinstance(content, dict)]
    found = next((content for content in results if isinstance(content, list)), [])
    texts = [say.no_search.format(query=query, code=code) for code in failed]
    texts += [say.found.format(query=query)] if found else []
    blocks = [_text(prose.text(reading) + "\n\n" + "\n\n".join(texts))]
    for page, (_, owner, claim) in zip(found, _SITES, strict=False):
        sentence = say.searched.format(title=owner, claim=claim)
        citation = {
            "type": "web_search_result_location",
            "cited_text": claim,
            "encrypted_index": token(page["encrypted_content"], "index"),
            "title": page["title"],
            "url": page["url"],
        }
        blocks += [
            _text("\n\n- " if len(blocks) == 1 else "\n- "),
            {**_text(sentence), "citations": [citation]},
        ]
    return blocks


def _text(text: str) -> Json:
    return {"type": "text", "text": text}
