"""Settings, key, server and recordings: whether a question would be answered, and how that is shown."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence

from ..client import BASE_URLS, SIMULATOR_URL, base_urls, reach
from ..config import KimiMagic
from ..counts import counted
from ..errors import KimiError
from ..keys import SET_A_KEY, Key, find_key
from ..paths import user_path
from ..transports import read_cassette
from ..wire import MODELS
from .finding import Finding
from .versions import version_of

_PREFIX = "KIMI_MAGIC_"
_NO_SETTINGS = ("HOME", "NOTEBOOK")
"""`KIMI_MAGIC_…` variables that are no settings."""


def variables(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Variables that look like settings and are none."""
    known = [name.upper() for name in (*KimiMagic.class_traits(config=True), *_NO_SETTINGS)]
    for variable in sorted(name for name in environ if name.startswith(_PREFIX)):
        name = variable.removeprefix(_PREFIX)
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            remedy = (
                f"Did you mean {_PREFIX}{near[0]}?" if near else "Unset it; the README lists the settings."
            )
            yield Finding("settings", f"{variable} is no setting, and has no effect.", remedy)


def settings_of(environ: Mapping[str, str]) -> tuple[KimiMagic, list[Finding]]:
    """The environment's settings, as far as they are usable, and a finding for each that is not."""
    usable, findings = dict(environ), []
    for name in KimiMagic.class_traits(config=True):
        variable = f"{_PREFIX}{name.upper()}"
        try:
            KimiMagic.from_environment({variable: environ[variable]} if variable in environ else {})
        except KimiError as error:
            findings.append(Finding.of("settings", error))
            del usable[variable]
    return KimiMagic.from_environment(usable), findings


def server(settings: KimiMagic, environ: Mapping[str, str], online: bool) -> Iterator[Finding]:
    """The key's place, what answers, and, where that is asked for, whether it does."""
    if settings.replay == "only":
        yield Finding("server", "none is asked: only recorded replies are shown (KIMI_MAGIC_REPLAY=only).")
        return
    wrong = []
    try:
        key, simulated = find_key(None, environ), settings.would_simulate(environ)
    except KimiError as error:
        wrong.append(Finding.of("key", error))
    try:
        urls = base_urls(None, environ)
    except KimiError as error:
        wrong.append(Finding.of("server", error))
    if wrong:
        yield from wrong
        return
    own = urls != BASE_URLS
    if not own and settings.model.partition(":")[0] not in MODELS:
        models = " or ".join(MODELS)
        yield Finding("model", f"{settings.model} is none of the server's.", f"Set it to {models}.", True)
    yield _key(key, own, simulated)
    if simulated:
        why = "KIMI_MAGIC_SIMULATOR=always" if settings.simulator == "always" else "there is no key"
        yield Finding("server", f"the embedded simulator, since {why}: no model is asked ({SIMULATOR_URL})")
        return
    yield Finding("server", ", then ".join(urls) + (" (KIMI_BASE_URL)" if own else ""))
    if online:
        yield from _reached(urls, key)
    else:
        yield Finding("network", "not tried: nothing was sent. `doctor --online` does.")


def _key(key: Key | None, own: bool, simulated: bool) -> Finding:
    """own: KIMI_BASE_URL names the server."""
    if key is not None:
        return Finding("key", f"set, from {key.source}")
    if own:
        return Finding("key", "none; this server may need none.")
    return Finding("key", "none", SET_A_KEY, is_wrong=not simulated)


def replays(settings: KimiMagic) -> Iterator[Finding]:
    """What is shown instead of asking, and whether its cassette is there."""
    if settings.replay == "off":
        return
    says = f"{settings.replay}: recordings of the store and the notebook"
    if settings.cassette:
        try:
            count = len(read_cassette(user_path(settings.cassette)))
        except KimiError as error:
            yield Finding(
                "replay",
                error.message,
                error.hint or "KIMI_MAGIC_CASSETTE names it, as seen from the folder of the notebook.",
                is_wrong=True,
            )
            return
        says += f", and {counted(count, 'recording')} of {settings.cassette}"
    yield Finding("replay", says)


def _reached(urls: Sequence[str], key: Key | None) -> Iterator[Finding]:
    for url in urls:
        try:
            reach(url, key)
        except KimiError as error:
            yield Finding.of("network", error)
        else:
            yield Finding("network", f"{url} answers" + (" and takes the key." if key else "."))


def display(settings: KimiMagic) -> Finding:
    """How a notebook would show replies that run, as far as that is known outside of one."""
    if settings.display != "auto":
        return Finding("display", f"{settings.display}: by the setting display")
    if version_of("anywidget") is None or version_of("ipywidgets") is None:
        return Finding(
            "display",
            "static: anywidget is not installed here.",
            "For replies in a widget, pip install anywidget here and where the Jupyter server runs.",
        )
    return Finding("display", "live in a notebook of a Jupyter server, static elsewhere, text in a terminal")
