"""A JSON value for any JSON Schema, the same one each time, taken from the prompt where it can be.

Candidates are made in a sensible order and tested against the schema (`fits`); the first that fits
is the value. Deep inside, only what is required is made and the branch that ends soonest is taken,
so recursive schemas come to an end.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from ..wire import Json
from .fits import UnresolvedError, fits, resolve, same
from .hints import Hints
from .merging import height, merge
from .plausible import texts
from .refusals import bad_request

_DEEP, _TOO_DEEP = 4, 24
_TRIES = 72
_BUDGET = 20_000
"""Subschemas to visit before giving up: some schemas have no value, and no end of ways to look for one."""
_OBJECT_WORDS = ("properties", "required", "additionalProperties", "patternProperties", "minProperties")
_ARRAY_WORDS = ("items", "prefixItems", "minItems", "maxItems", "contains", "uniqueItems")
_NUMBER_WORDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_STRING_WORDS = ("pattern", "minLength", "maxLength", "format")


def example(schema: Any, hints: Hints, *, seed: str = "", optional: bool = True) -> Any:
    """A value that fits the schema.

    seed: varies what the prompt leaves open. optional: fill optional properties too; without it
    only those that the prompt names.
    Raises `BadRequestError` where there is no such value, or none that can be found.
    """
    root = schema if isinstance(schema, dict) else {}
    try:
        for value in _Maker(root, hints, seed, optional).tested(schema, "", 0):
            return value
    except (UnresolvedError, re.error, RecursionError) as error:
        raise bad_request(f"schema: {error}") from None
    except (TypeError, ValueError, AttributeError, KeyError, ArithmeticError) as error:
        # Only a keyword with a value of the wrong kind ("properties": 5) gets here.
        raise bad_request(f"schema: a keyword has an impossible value: {error}") from None
    raise bad_request("schema: no value fits this schema.")


class _Maker:
    def __init__(self, root: Json, hints: Hints, seed: str, optional: bool) -> None:
        self.root, self.hints, self.seed, self.optional = root, hints, seed, optional
        self.left = _BUDGET

    def tested(self, schema: Any, name: str, depth: int) -> Iterator[Any]:
        """Values that fit, a bounded number of tries."""
        self.left -= 1
        if self.left < 0:
            raise UnresolvedError("no value that fits this schema could be found.")
        if depth < _TOO_DEEP:
            tries = islice(self._candidates(schema, name, depth), _TRIES)
            yield from (value for value in tries if fits(value, schema, self.root))

    def _candidates(self, schema: Any, name: str, depth: int) -> Iterator[Any]:
        flat = self._flat(schema if isinstance(schema, dict) else {})
        if "const" in flat:
            yield flat["const"]
        elif "enum" in flat:
            yield from self._options(flat["enum"], name)
        elif branches := next((key for key in ("anyOf", "oneOf") if flat.get(key)), None):
            rest = {key: value for key, value in flat.items() if key != branches}
            for branch in self._ordered(flat[branches], depth):
                yield from self.tested(merge(rest, self._flat(branch)), name, depth + 1)
        elif "if" in flat:
            rest = {key: value for key, value in flat.items() if key not in ("if", "then", "else")}
            for part in (
                merge(self._flat(flat["if"]), self._flat(flat.get("then"))),
                self._flat(flat.get("else")),
            ):
                yield from self._candidates(merge(rest, part), name, depth + 1)
        else:
            kinds = _kinds(flat)
            for kind in kinds:
                yield from islice(self._of_kind(kind, flat, name, depth), _TRIES // len(kinds))

    def _flat(self, schema: Any) -> Json:
        """The schema, its references followed, its allOf and what depends on required names merged in."""
        flat = dict(schema) if isinstance(schema, dict) else {}
        for _ in range(_TOO_DEEP):
            if "$ref" in flat:
                target = resolve(flat.pop("$ref"), self.root)
                flat = merge(dict(target) if isinstance(target, dict) else {}, flat)
            elif flat.get("allOf"):
                for part in flat.pop("allOf"):
                    flat = merge(flat, self._flat(part))
            elif flat.get("dependentSchemas"):
                parts = flat.pop("dependentSchemas")
                for part in [parts[key] for key in flat.get("required") or () if key in parts]:
                    flat = merge(flat, self._flat(part))
            else:
                return flat
        raise UnresolvedError("$ref: leads round in a circle.")

    def _options(self, options: list[Any], name: str) -> Iterator[Any]:
        """What the prompt names, then the rest, beginning where the seed says."""
        said = [option for option in options if isinstance(option, str) and self.hints.says(option)]
        value = self.hints.named(name) or ""
        yield from sorted(said, key=lambda option: not value.lower().startswith(option.lower()))
        start = self._pick(name, len(options))
        yield from options[start:] + options[:start]

    def _ordered(self, branches: list[Any], depth: int) -> list[Any]:
        if depth < _DEEP:
            return [b for b in branches if not _is_null(b)] + [b for b in branches if _is_null(b)]
        return sorted(branches, key=lambda branch: height(branch, self.root))

    def _pick(self, name: str, size: int) -> int:
        return zlib.crc32(f"{self.seed}/{name}".encode("utf-8", "replace")) % max(size, 1)

    def _of_kind(self, kind: str, flat: Json, name: str, depth: int) -> Iterator[Any]:
        for value in list(self.hints.values(name, kind)):
            if fits(value, flat, self.root, formats=True):
                self.hints.used(value)
                yield value
        if kind == "object":
            yield from self._objects(flat, name, depth)
        elif kind == "array":
            yield from self._arrays(flat, name, depth)
        elif kind == "string":
            yield from texts(flat, name, self._pick(name, 1000))
        elif kind in ("integer", "number"):
            yield from _numbers(flat, kind, self._pick(name, 97) + 1)
        elif kind == "boolean":
            yield from (True, False) if self._pick(name, 2) else (False, True)
        else:
            yield None

    # --- objects and arrays ---

    def _objects(self, flat: Json, name: str, depth: int) -> Iterator[Json]:
        properties, required = flat.get("properties") or {}, list(flat.get("required") or ())
        wanted = [key for key in properties if key in required or self._wants(key, properties[key], depth)]
        needed = [key for key in properties if key in required]
        for keys in (wanted, needed) if wanted != needed else (needed,):
            names = [*keys, *(key for key in required if key not in properties)]
            value = self._object(flat, names, depth)
            if value is not None:
                yield value

    def _wants(self, key: str, schema: Any, depth: int) -> bool:
        if self.optional:
            return depth < _DEEP
        options = schema.get("enum") if isinstance(schema, dict) else None
        return self.hints.named(key) is not None or any(
            isinstance(option, str) and self.hints.says(option) for option in options or ()
        )

    def _object(self, flat: Json, names: list[str], depth: int) -> Json | None:
        value: Json = {}
        required = flat.get("required") or ()
        for key in names[: flat.get("maxProperties", len(names))]:
            made = list(islice(self.tested(_property(flat, key), key, depth + 1), 1))
            if made:
                value[key] = made[0]
            elif key in required:
                return None
        spare = (key for key in _spare_names(flat, self.root) if key not in value)
        while len(value) < flat.get("minProperties", 0):
            more = next(spare, None)
            if more is None:
                return None
            made = list(islice(self.tested(_property(flat, more), more, depth + 1), 1))
            if made:
                value[more] = made[0]
        return value

    def _arrays(self, flat: Json, name: str, depth: int) -> Iterator[list[Any]]:
        low, high = flat.get("minItems", 0), flat.get("maxItems", math.inf)
        prefix = flat.get("prefixItems") or []
        usual = len(prefix) if prefix else 2
        deep = depth >= _DEEP
        for size in dict.fromkeys((low if deep else min(max(low, usual), high), low, min(low + 1, high))):
            value = self._array(flat, name, int(size), depth)
            if value is not None:
                yield value

    def _array(self, flat: Json, name: str, size: int, depth: int) -> list[Any] | None:
        prefix, rest = flat.get("prefixItems") or [], flat.get("items", True)
        needed = flat.get("minContains", 1) if "contains" in flat else 0
        value: list[Any] = []
        for n in range(max(size, needed)):
            part = prefix[n] if n < len(prefix) else rest
            if len(prefix) <= n < len(prefix) + needed:
                part = merge(self._flat(part), self._flat(flat["contains"]))
            label = _singular(name) if n == 0 else f"{_singular(name)} {n + 1}"
            options: Iterable[Any] = self.tested(part, label, depth + 1)
            seed = self.seed
            if flat.get("uniqueItems"):
                self.seed = f"{seed}/{n}"  # what is deep inside has to differ too
                options = (item for item in options if not any(same(item, old) for old in value))
            made = list(islice(options, 1))
            self.seed = seed
            if not made:
                return None
            value += made
        return value


def _property(flat: Json, key: str) -> Any:
    named, patterns = flat.get("properties") or {}, flat.get("patternProperties") or {}
    parts = [named[key]] if key in named else []
    parts += [part for pattern, part in patterns.items() if re.search(pattern, key)]
    if not parts:
        return flat.get("additionalProperties", True)
    return parts[0] if len(parts) == 1 else {"allOf": parts}


def _spare_names(flat: Json, root: Json) -> Iterator[str]:
    yield from flat.get("properties") or {}
    for pattern in flat.get("patternProperties") or {}:
        yield from texts({"pattern": pattern}, "key", 0)
    if flat.get("additionalProperties") is not False:
        rule = flat.get("propertyNames", True)
        names = texts(rule, "key", 0) if isinstance(rule, dict) else (f"key{n}" for n in range(1, 200))
        yield from (key for key in names if fits(key, rule, root))


def _kinds(flat: Json) -> list[str]:
    """The types to try: those stated, else those that the keywords speak of."""
    stated = flat.get("type")
    if isinstance(stated, list):
        return [kind for kind in stated if kind != "null"] + [kind for kind in stated if kind == "null"]
    if stated is not None:
        return [str(stated)]
    groups = {
        "object": _OBJECT_WORDS,
        "array": _ARRAY_WORDS,
        "number": _NUMBER_WORDS,
        "string": _STRING_WORDS,
    }
    meant = [kind for kind, words in groups.items() if any(word in flat for word in words)]
    return [
        *meant,
        *(k for k in ("string", "integer", "boolean", "null", "array", "object") if k not in meant),
    ]


def _numbers(flat: Json, kind: str, usual: int) -> Iterator[Any]:
    low = max(flat.get("minimum", -math.inf), flat.get("exclusiveMinimum", -math.inf))
    high = min(flat.get("maximum", math.inf), flat.get("exclusiveMaximum", math.inf))
    step = flat.get("multipleOf") or (1 if kind == "integer" else 0)
    tries: list[float] = [usual * step if step else usual, usual, 0, 1]
    if step:
        start = (
            math.ceil(low / step)
            if low > -math.inf
            else math.floor(high / step) - 8
            if high < math.inf
            else 0
        )
        tries += [(start + k) * step for k in range(9)]
        tries += [(usual + k) * step for k in range(1, 40)]
    if low > -math.inf and high < math.inf:
        tries.append((low + high) / 2)
    tries += [edge + more for edge in (low, high) if abs(edge) < math.inf for more in (0, 1, -1, 0.5, -0.5)]
    for value in tries:
        if kind != "integer":
            yield value
        elif value == int(value):
            yield int(value)


def _is_null(branch: Any) -> bool:
    return isinstance(branch, dict) and branch.get("type") == "null"


def _singular(name: str) -> str:
    return name[:-1] if name.endswith("s") and not name.endswith("ss") else name
