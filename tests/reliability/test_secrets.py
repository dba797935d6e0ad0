"""The key is nowhere: not in any output, error, traceback, log or file, whatever the server sends back.

Every command is run, every kind of failure brought about, with `%xmode Verbose` and DEBUG logging on.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kernels import Kernel
from loopback import Answer, Loopback, http
from test_wire_cases import raw

from kimi_magic.magics.commands import COMMANDS
from kimi_magic.magics.help import TOPICS
from kimi_magic.magics.options import OPTIONS

SECRET = "sk-hunt-Zq7WvK3xTn8RbY2mLc5D"
BODY = SECRET.removeprefix("sk-")
PIECES = {BODY[i : i + 6] for i in range(len(BODY) - 5)}

ECHOES = [
    http({"error": {"type": SECRET, "message": f"bad key {SECRET}"}, "request_id": SECRET}, "401 No"),
    http({"error": {"message": f"Incorrect API key: {SECRET[:14]}****{SECRET[-8:]}"}}, "403 No"),
    http({"error": {"message": f"model {SECRET}"}}, "400 Bad Request"),
    http(f"<title>{SECRET}</title>", "502 Bad Gateway"),
    http(f'data: {{"type": "error", "error": {{"type": "x", "message": "{SECRET[4:22]}"}}}}\n\n'),
    http(f"data: {SECRET}\n\n"),
    f"{SECRET} {SECRET}\r\n\r\n".encode(),
    b"",
]
LOG = """
import logging, sys
logging.basicConfig(level=logging.DEBUG, filename="debug.log", force=True)
logging.getLogger().addHandler(logging.StreamHandler(sys.stdout))
for name in ("httpx", "httpcore", "kimi_magic", "asyncio"):
    logging.getLogger(name).setLevel(logging.DEBUG)
"""
TOOL = "def add(a: int, b: int) -> int:\n    'Adds.'\n    raise RuntimeError(repr(kimi.session.client))"
WORDS = {
    "save": ("talk.json", "talk.md", "talk.py"), "load": ("talk.json",), "record": ("tape.jsonl", "off"),
    "replay": ("auto", "off"), "use": ("main", "nothing"), "system": ("Be brief.",), "wait": ("", "9"),
    "usage": ("", "--by model", "--cache", "--save usage.csv", "--plot"),
    "budget": ("", "9.00 --per day", "off"),
    "price": ("", "kimi-k3.1-pro input=2"), "doctor": ("", "--online"), "help": ("", *TOPICS),
    "show": ("", "1"), "code": ("", "1"), "stop": ("", "1"),
}  # fmt: skip
"""Command → what it is called with; once with nothing where it is not here."""
VALUES = {
    "model": "pro", "effort": "low", "max-tokens": "4k", "system": "Brief", "cache": "5m", "image": "no.png",
    "file": "no.txt", "stop": "END", "out": "answer", "tool": "add", "tool-choice": "auto", "max-steps": "2",
    "schema": "int", "search": "2", "conversation": "other", "replay": "only",
}  # fmt: skip
PYTHON = [
    "%tb", "kimi.ask('Hi')", "kimi.ask('Hi', nonsense=1)", "await kimi.aask('Hi')",
    "kimi.map('{{ text }}', ['a', 'b'], progress=False)", "kimi.estimate('{{ text }}', ['a'])",
    "kimi, kimi.session, kimi.session.client, kimi.settings, kimi.worker, kimi.usage",
    "from kimi_magic import Client, AsyncClient; Client(), AsyncClient()",
    "Client().create(messages=[{'role': 'user', 'content': 'Hi'}], max_tokens=99)",
    "list(Client().stream(messages=[{'role': 'user', 'content': 'Hi'}], max_tokens=99))",
    "{k: repr(v) for k, v in vars(kimi.session.client).items()}",
    "from kimi_magic.keys import find_key; find_key(), {1: find_key()}, 1 / 0",
    "def frame():\n    key, client = find_key(), kimi.session.client\n    raise ValueError(client)\nframe()",
    "kimi.usage.df().to_csv('frame.csv')", "[t.to_json() for t in kimi.conversation.turns.values()]",
    "%config KimiMagic", "%kimi?", "kimi.ask?",
]  # fmt: skip


def cells() -> Iterator[str]:
    for option in OPTIONS:
        yield f"%%kimi --{option.name} {shlex.quote(VALUES[option.name]) if option.metavar else ''}\nHi"
    yield from PYTHON
    for command in COMMANDS:
        yield from (f"%kimi {command} {words}".rstrip() for words in WORDS.get(command, ("",)))


def test_every_command_and_option_is_run() -> None:
    assert set(WORDS) <= set(COMMANDS)
    assert set(VALUES) == {option.name for option in OPTIONS if option.metavar}


def test_no_six_characters_of_the_key_come_out(tmp_path: Path) -> None:
    whole = raw("00_baseline")
    answers = [Answer(answer) for echo in ECHOES for answer in (whole, echo)]
    environ = {"KIMI_MAGIC_STORE": "on", "KIMI_MAGIC_HOME": str(tmp_path / "home"), "KIMI_API_KEY": SECRET}
    with (
        Loopback(answers * 40) as server,
        Kernel(**environ, KIMI_BASE_URL=server.url, KIMI_MAGIC_NOTEBOOK=str(tmp_path / "a.ipynb")) as kernel,
    ):
        kernel.run(f"%cd -q {tmp_path}\n{LOG}\n%load_ext kimi_magic\nfrom kimi_magic import kimi")
        kernel.run("%xmode Verbose")
        kernel.run("from kimi_magic.retry import Policy\nkimi.session.client._setup.policy = Policy(tries=1)")
        kernel.run(TOOL)
        for number, code in enumerate(cells()):
            kernel.run(code, f"cell {number}")
        used = [r.headers.get("authorization") for r in server.requests]
        said = json.dumps(kernel.all, default=str) + json.dumps(kernel.seen, default=str)
    assert set(used) == {f"Bearer {SECRET}"}
    assert len(used) >= 25
    assert "[key]" in said, "it was echoed, and taken out"
    assert _leaks(said.encode()) == {}
    files = {p.relative_to(tmp_path): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert {Path("debug.log"), Path("talk.json"), Path("home/kimi_magic.db")} <= set(files)
    assert b"httpcore" in files[Path("debug.log")]
    for path, data in files.items():
        assert _leaks(data) == {}, path


def _leaks(data: bytes) -> dict[str, Any]:
    """Piece of the key → what stands around it."""
    found = {piece: re.search(b".{0,90}" + piece.encode() + b".{0,20}", data) for piece in PIECES}
    return {piece: match[0] for piece, match in found.items() if match is not None}
