"""What is wrong with an installation, and how to mend it: findings as values, for `%kimi doctor` and
`kimi-magic doctor` to print.

Nothing is sent unless asked for (`online`), nothing that is written stays, and a key is never part of a
finding. What cannot be known here (the shell, its front end) the caller says.
"""

from __future__ import annotations

import difflib
import os
import platform
import re
import shutil
import stat
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryFile

from .client import BASE_URLS, SIMULATOR_URL, base_urls, reach
from .config import KimiMagic
from .counts import counted
from .errors import KimiError
from .keys import SET_A_KEY, Key, find_key
from .store import Store, store_path
from .usage import PRICES, PRICES_READ

PACKAGE = "kimi-magic"
OTHERS = (
    "ipykernel",
    "jsonschema",
    "jupyter_server",
    "jupyterlab",
    "jupyterlab_widgets",
    "notebook",
    "pandas",
)
"""What matters beside the dependencies, where it is there."""
OLD_PRICES = 180  # days
LEAST_SPACE = 100 * 1024**2  # bytes

_NO_SETTINGS = ("HOME", "NOTEBOOK")
"""`KIMI_MAGIC_…` variables that are no settings."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. about: what. says: how it is. remedy: what to do, where there is
    something to do. is_wrong: something does not work as it is."""

    about: str
    says: str
    remedy: str = ""
    is_wrong: bool = False

    @property
    def mark(self) -> str:
        return "wrong" if self.is_wrong else "note" if self.remedy else "ok"

    @classmethod
    def of(cls, about: str, error: KimiError) -> Finding:
        """An error as a finding."""
        return cls(about, error.message, error.hint or "%kimi help", is_wrong=True)


def lines(findings: Sequence[Finding]) -> str:
    """The findings as text, each remedy below its finding, and a last line that sums up."""
    said: list[str] = []
    for finding in findings:
        indents = f"{finding.mark:<6} {finding.about:<9} ", " " * 17
        said += textwrap.wrap(finding.says, 100, initial_indent=indents[0], subsequent_indent=indents[1])
        if finding.remedy:
            arrow = f"{indents[1]}→ ", f"{indents[1]}  "
            said += textwrap.wrap(finding.remedy, 100, initial_indent=arrow[0], subsequent_indent=arrow[1])
    return "\n".join([*said, verdict(findings)])


def verdict(findings: Sequence[Finding]) -> str:
    """One line that sums up."""
    wrong = sum(finding.is_wrong for finding in findings)
    verb = "is" if wrong == 1 else "are"
    return f"{wrong} of {counted(len(findings), 'finding')} {verb} wrong." if wrong else "Nothing is wrong."


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
    findings = [*_versions(), *_variables(environ)]
    if settings is None:
        try:
            settings = KimiMagic.from_environment(environ)
        except KimiError as error:
            findings.append(Finding.of("settings", error))
            settings = KimiMagic()
    findings += _server(settings, environ, online)
    findings += front_end or [_display(settings)]
    findings += _store(settings, environ)
    findings += _prices(today or date.today())
    return findings


# --- versions -----------------------------------------------------------------------------------


def _versions() -> Iterator[Finding]:
    """Ours, Python's, and those of the dependencies, with the bounds that the package declares."""
    yield Finding("python", f"{platform.python_version()} ({platform.system()})")
    own = _version(PACKAGE)
    if own is None:
        yield Finding("kimi_magic", "runs from a folder that is not installed.", "pip install -e .")
        return
    needed = dict(_bounds())
    there = {name: _version(name) for name in (*needed, *OTHERS)}
    for name, least in needed.items():
        version = there[name]
        if version is None:
            yield Finding(name, "is not installed.", f"pip install {name}", is_wrong=True)
        elif _numbers(version) < _numbers(least):
            yield Finding(
                name,
                f"{version} is older than {least}.",
                f"pip install --upgrade {name}, then restart the kernel.",
                is_wrong=True,
            )
    found = [f"{name} {version}" for name, version in there.items() if version is not None]
    yield Finding("versions", ", ".join([f"{PACKAGE} {own}", *found]))


def _bounds() -> Iterator[tuple[str, str]]:
    """The dependencies that are no extras, and the oldest version of each."""
    for line in metadata.requires(PACKAGE) or ():
        found = re.match(r"([\w.-]+)\s*>=\s*([\d.]+)", line)
        if found is not None and "extra" not in line:
            yield found[1], found[2]


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    """`1.10rc2` as (1, 10), without zeros at the end."""
    numbers = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, re.sub(r"(\.0)+$", "", numbers[0]).split("."))) if numbers else ()


# --- settings and server ------------------------------------------------------------------------


def _variables(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Variables that look like settings and are none."""
    known = [f"KIMI_MAGIC_{name.upper()}" for name in (*KimiMagic.class_traits(config=True), *_NO_SETTINGS)]
    for name in sorted(environ):
        if name.startswith("KIMI_MAGIC_") and name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            remedy = f"Did you mean {near[0]}?" if near else "Unset it; the README lists the settings."
            yield Finding("settings", f"{name} is no setting, and has no effect.", remedy)


def _server(settings: KimiMagic, environ: Mapping[str, str], online: bool) -> Iterator[Finding]:
    """The key's place, what answers, and, where that is asked for, whether it does."""
    try:
        key, urls = find_key(None, environ), base_urls(None, environ)
        simulated = settings.would_simulate(environ)
    except KimiError as error:
        yield Finding.of("key" if "key" in error.message else "server", error)
        return
    own = urls != BASE_URLS
    if key is not None:
        yield Finding("key", f"set, from {key.source}")
    elif own:
        yield Finding("key", "none; this server may need none.")
    else:
        yield Finding("key", "none", SET_A_KEY, is_wrong=not simulated)
    if simulated:
        why = "KIMI_MAGIC_SIMULATOR=always" if settings.simulator == "always" else "there is no key"
        yield Finding("server", f"the embedded simulator, since {why}: no model is asked ({SIMULATOR_URL})")
        return
    yield Finding("server", ", then ".join(urls) + (" (KIMI_BASE_URL)" if own else ""))
    if online:
        yield from _reached(urls, key)
    else:
        yield Finding("network", "not tried: nothing was sent. `doctor --online` does.")


def _reached(urls: Sequence[str], key: Key | None) -> Iterator[Finding]:
    for url in urls:
        try:
            reach(url, key)
        except KimiError as error:
            yield Finding.of("network", error)
        else:
            yield Finding("network", f"{url} answers" + (" and takes the key." if key else "."))


def _display(settings: KimiMagic) -> Finding:
    """How a notebook would show replies that run, as far as that is known outside of one."""
    if settings.display != "auto":
        return Finding("display", f"{settings.display}: by the setting display")
    if _version("anywidget") is None or _version("ipywidgets") is None:
        return Finding(
            "display",
            "static: anywidget is not installed here.",
            "For replies in a widget, pip install anywidget here and where the Jupyter server runs.",
        )
    return Finding("display", "live in a notebook of a Jupyter server, static elsewhere, text in a terminal")


# --- store and prices ---------------------------------------------------------------------------


def _store(settings: KimiMagic, environ: Mapping[str, str]) -> Iterator[Finding]:
    if settings.store == "off":
        yield Finding("store", "off: conversations and usage end with the kernel (KIMI_MAGIC_STORE=off).")
        return
    try:
        path = store_path(environ)
        size = path.stat().st_size if path.exists() else None
    except (OSError, RuntimeError) as error:  # the folder is not ours, or there is no home
        yield Finding("store", f"cannot be looked at: {error}.", _ELSEWHERE, is_wrong=True)
        return
    place = next(there for there in (path, *path.parents) if there.exists())
    if not _is_writable(place) or (size is None and not place.is_dir()):
        yield Finding("store", f"{place} cannot be written.", _ELSEWHERE, is_wrong=True)
    elif size is None:
        yield Finding("store", f"{path} is made with the first turn.")
    else:
        yield from _file(path, size)
    disk = shutil.disk_usage(place)
    if disk.total and disk.free < LEAST_SPACE:
        yield Finding("store", f"The disk has {disk.free / 1e6:.0f} MB left.", "Make room.", is_wrong=True)


_ELSEWHERE = "Set KIMI_MAGIC_HOME to a folder of your own; until then conversations are in memory only."


def _is_writable(place: Path) -> bool:
    """Whether a file can be changed, or one made in a folder: tried, since rights alone do not say it."""
    folder = place if place.is_dir() else place.parent  # SQLite puts a further file beside its own
    try:
        with TemporaryFile(dir=folder):
            return os.access(place, os.W_OK)
    except OSError:
        return False


def _file(path: Path, size: int) -> Iterator[Finding]:
    """The file itself: whole, and readable by its owner alone."""
    store = Store(path)
    try:
        problems = store.verify()
        yield Finding("store", f"{path}, {size / 1e6:.1f} MB, {counted(len(store.records()), 'request')}")
    except KimiError as error:
        yield Finding.of("store", error)
        return
    finally:
        store.close()
    remedy = f"What is whole is still used. To begin anew, move {path.name} away."
    yield from (Finding("store", problem, remedy, is_wrong=True) for problem in problems)
    if os.name == "posix":  # elsewhere the bits say nothing
        for place, mode in ((path, 0o600), (path.parent, 0o700)):
            bits = stat.S_IMODE(place.stat().st_mode)
            if bits & 0o077:
                yield Finding(
                    "store",
                    f"{place} is open to others (mode {bits:04o}).",
                    f"chmod {mode:o} '{place}'",
                    True,
                )


def _prices(today: date) -> Iterator[Finding]:
    age = (today - PRICES_READ).days
    models, days = counted(len(PRICES), "model"), counted(max(age, 0), "day")
    says = f"of {models}, read on {PRICES_READ.isoformat()}, {days} ago"
    remedy = "Upgrade kimi_magic, or set them: %kimi price" if age > OLD_PRICES else ""
    yield Finding("prices", says, remedy)
