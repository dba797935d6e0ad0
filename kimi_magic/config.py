"""Settings: `%config KimiMagic.model = "…"`, `ipython_config.py`, or the environment.

An environment variable `KIMI_MAGIC_<NAME>` gives the default of the setting of that name; what is set
by hand goes before it. What a cell says goes before both.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from traitlets import Enum, Float, Integer, TraitError, Unicode
from traitlets.config import Configurable

from .errors import ConfigError
from .keys import SET_A_KEY, SIMULATOR_MODES, would_simulate
from .wire import CACHE_TTLS, CONTEXT_WINDOW, EFFORTS, MAX_IMAGE_BYTES, MAX_IMAGE_SIDE, MODELS


class KimiMagic(Configurable):
    """Defaults of `%%kimi` cells, and how replies are shown."""

    model = Unicode(MODELS[0], help="Model of cells without -m.").tag(config=True)
    effort = Enum(
        ("", *EFFORTS), "", help="Effort of cells without -e; empty is the server's default, max."
    ).tag(config=True)
    max_tokens = Integer(
        0,
        min=0,
        max=CONTEXT_WINDOW,
        help="Most tokens of a reply, thinking included; 0 is a default that suits the effort.",
    ).tag(config=True)
    cache = Enum(("", *CACHE_TTLS), "", help="Cache of cells without --cache; empty is the server's 5m.").tag(
        config=True
    )
    display = Enum(
        ("auto", "live", "static", "terminal"),
        "auto",
        help="How replies are shown while they come: live (a widget), static (HTML outputs), terminal"
        " (text), or auto by the front end. The finished output is the same.",
    ).tag(config=True)
    store = Enum(
        ("on", "off"), "on", help="Keep conversations and usage on disk; off keeps them in memory only."
    ).tag(config=True)
    budget = Unicode(
        "", help="Most money to be spent: 2.00, or 2.00/day or /notebook; %kimi budget sets further ones."
    ).tag(config=True)
    replay = Enum(
        ("off", "auto", "only"),
        "off",
        help="Show what was recorded for the same request: never, where there is something, or only that.",
    ).tag(config=True)
    replay_speed = Float(
        1.0, min=0.0, help="Pace of replayed replies: 1 as recorded, 2 twice as fast, 0 at once."
    ).tag(config=True)
    cassette = Unicode("", help="A file of recordings to replay from, beside the store and notebooks.").tag(
        config=True
    )
    image_max_bytes = Integer(
        MAX_IMAGE_BYTES, min=1_000, help="Most characters of an image in base64; larger ones are scaled."
    ).tag(config=True)
    image_max_side = Integer(
        MAX_IMAGE_SIDE, min=1, help="Most pixels of an image's longer side; larger ones are scaled."
    ).tag(config=True)
    file_max_chars = Integer(
        200_000,
        min=1_000,
        help="Most characters of a file attached by -f; the middle of longer ones is left out.",
    ).tag(config=True)
    simulator = Enum(
        SIMULATOR_MODES,
        "auto",
        help="The embedded simulator answers: where there is no key (auto), always, or never.",
    ).tag(config=True)
    simulator_speed = Float(
        120.0, min=0.0, help="Output tokens a second of the embedded simulator; 0 is as fast as it can."
    ).tag(config=True)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None, **more: Any) -> KimiMagic:
        """Settings with defaults from `KIMI_MAGIC_…`. Raises `ConfigError` for a value that is none."""
        environ = os.environ if environ is None else environ
        settings = cls(**more)
        for name, trait in cls.class_traits(config=True).items():
            text = environ.get(f"KIMI_MAGIC_{name.upper()}")
            if text is None or (settings.config.get(cls.__name__) or {}).get(name) is not None:
                continue
            try:
                setattr(settings, name, trait.from_string(text.strip()))
            except (TraitError, ValueError) as error:
                raise ConfigError(
                    f"KIMI_MAGIC_{name.upper()}={text!r} is not usable: {error}.",
                    hint=str(trait.help),
                ) from None
        return settings

    def would_simulate(self, environ: Mapping[str, str] | None = None) -> bool:
        """Whether the embedded simulator would answer."""
        return would_simulate(self.simulator, environ)

    def notice(self) -> str:
        """What to say when the extension is loaded: that no model will be asked, or why none can be; else
        nothing."""
        try:
            if not self.would_simulate():
                return ""
        except ConfigError as error:
            return f"kimi_magic: {error}"
        if self.simulator == "always":
            return "kimi_magic: the embedded simulator answers, not a model (KIMI_MAGIC_SIMULATOR=always)."
        return f"kimi_magic: no API key found, so the embedded simulator answers, not a model. {SET_A_KEY}"
