"""What must not leave the notebook with an error: values whose names look secret.

The rule: the value of a variable, key, attribute or environment variable that is called key, token,
password, secret, auth, cred… is taken out of every text wherever it stands, and so are text literals
behind such a name in source code, and what has the form of a known kind of key. A bare `key` whose
value is a plain word is a column or a dictionary's key, and stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from types import BuiltinFunctionType, FunctionType, ModuleType

HIDDEN = "[hidden]"
_WORDS = frozenset({
    "key", "keys", "token", "tokens", "password", "passwd", "passphrase", "passcode", "passwort", "pass",
    "pwd", "pw", "pin", "secret", "secrets", "auth", "authorization", "authentication", "credential",
    "credentials", "cred", "creds", "bearer", "cookie", "cookies", "private", "jwt", "otp", "dsn",
})  # fmt: skip
_INSIDE = ("password", "passwd", "passphrase", "secret", "token", "apikey", "credential", "authoriz",
           "密码", "密钥", "口令", "令牌")  # fmt: skip
_COUNTS = ("tokens", "keys", "key")  # words of names that often hold numbers: max_tokens, key
_SHORT = 8  # characters below which a secret is only taken out as a word of its own
_LOOKED_AT = 20_000  # values, in all
_DEEPEST = 5
_PLAIN = re.compile(r"[^\W\d]+")

_LITERAL = re.compile(  # bounded everywhere: a long run of dashes is looked at once
    r"""(?P<before>(?<![\w.-])(?P<name>[\w.-]{1,80})["'\]]{0,3}\s{0,9}"""
    r"""(?::\s?[\w\[\]., |]{1,60}?)?[=:]\s{0,9}[rbfuRBFU]{0,2})"""
    r"""(?P<quote>\"{3}|'{3}|["'])(?P<text>(?:(?<=\"{3}|'{3})(?s:.)*?)|(?:\\.|[^\\\n])*?)(?P=quote)"""
)
_FORMS = re.compile(
    r"""
    -----BEGIN\ [A-Z\ ]*PRIVATE\ KEY-----.*?-----END\ [A-Z\ ]*PRIVATE\ KEY-----
    | \b(?:sk|pk|rk)[-_][\w-]{8,} | \bgh[pousr]_\w{16,} | \bgithub_pat_\w{16,} | \bglpat-[\w-]{16,}
    | \bhf_\w{16,} | \bxox[abeprs]-[\w-]{8,} | \bAKIA[0-9A-Z]{12,} | \bAIza[\w-]{20,}
    | \beyJ[\w-]{8,}\.[\w-]+\.[\w-]*
    | (?<=[Bb]earer\ )[\w.~+/=-]{6,} | (?<=[Bb]asic\ )[\w+/=]{8,}
    | (?<=://)[^\s/:@'"]+:[^\s/@'"]+(?=@)
    | (?<=[?&])(?:api_?key|access_token|token|key|sig|signature|password|auth|secret)=[^&\s'"]+
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


def looks_secret(name: str) -> bool:
    """By the words that a name is made of, in snake or camel case. `KeyError` is none."""
    if name.endswith(("Error", "Exception", "Warning")):
        return False
    words = {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}
    return bool(words & _WORDS) or any(part in name.lower().replace("_", "") for part in _INSIDE)


def secret_texts(*namespaces: Mapping[str, object], of_libraries: bool = False) -> set[str]:
    """The values of all names that look secret in these, as texts to be taken out.

    of_libraries: they are variables of library code, where a `key` or `token` is what is looked up or
    parsed, not what opens something.
    """
    found: set[str] = set()
    visits = iter(range(_LOOKED_AT))
    seen: set[int] = set()
    for names in namespaces:
        for name, value in list(names.items()):
            if not (of_libraries and _opens_nothing(name)):
                _collect(name, value, found, visits, seen)
    return found


def without_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """The text with `[hidden]` in the place of these, and of what looks like one by itself."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORT:
            text = text.replace(secret, HIDDEN)
        elif secret in text:  # `test` goes, `latest` stays
            text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", HIDDEN, text)
    return _FORMS.sub(HIDDEN, _LITERAL.sub(_without_literal, text))


def _opens_nothing(name: str) -> bool:
    """`casted_key`, `next_token`, unlike `api_key`, `access_token`."""
    return re.search("key|token", name, re.I) is not None and not re.search(
        "api|access|auth|private|secret|sign|encrypt|bearer|session|client|user", name, re.I
    )


def _without_literal(match: re.Match[str]) -> str:
    name = match["name"].rpartition(".")[2]
    if not looks_secret(name) or _is_harmless(name, match["text"]):
        return match[0]
    return f"{match['before']}{match['quote']}{HIDDEN}{match['quote']}"


def _is_harmless(name: str, value: str) -> bool:
    """`key = "species"`"""
    return name.lower() in ("key", "keys") and _PLAIN.fullmatch(value) is not None


def _collect(
    name: object, value: object, found: set[str], visits: Iterator[int], seen: set[int], depth: int = 0
) -> None:
    """Texts of a value if its name looks secret, else of what is inside it under such a name."""
    if depth > _DEEPEST or next(visits, None) is None:
        return
    if isinstance(name, str) and looks_secret(name):
        found.update(text for text in _texts(name, value, depth) if len(text) >= 4)
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    for inner, content in _inside(value, depth):
        _collect(inner, content, found, visits, seen, depth + 1)


def _inside(value: object, depth: int) -> list[tuple[object, object]]:
    if isinstance(value, (str, bytes, int, float, ModuleType, FunctionType, BuiltinFunctionType, type)):
        return []
    if isinstance(value, dict):
        return list(islice(value.items(), 1000))
    if isinstance(value, (list, tuple, set, frozenset)):
        return [("", item) for item in islice(value, 1000)]
    inner = getattr(value, "__dict__", None) if depth < 1 else None  # of a variable itself
    return list(islice(inner.items(), 200)) if isinstance(inner, dict) else []


def _texts(name: str, value: object, depth: int) -> Iterator[str]:
    """Every text and number in a value that is secret as a whole."""
    if isinstance(value, str):
        if not _is_harmless(name, value):
            yield value
            yield repr(value)[1:-1]  # as a traceback may have it
            yield from (line for line in value.splitlines() if len(line) >= 16)
    elif isinstance(value, (bytes, bytearray)):
        yield from (bytes(value).decode("latin-1"), repr(bytes(value))[2:-1])
    elif isinstance(value, (int, float)):
        if not isinstance(value, bool) and not name.lower().endswith(_COUNTS):
            yield str(value)
    elif depth <= _DEEPEST:
        for inner, content in _inside(value, depth):
            yield from _texts(inner if isinstance(inner, str) and inner else name, content, depth + 1)
