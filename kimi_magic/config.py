"""Settings: `%config KimiMagic.model = "…"`, `ipython_config.py`, or the environment.

An environment variable `KIMI_MAGIC_<NAME>` gives the default of the setting of that name; what is set
by hand goes before it. What a cell says goes before both.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from traitlets import Enum, Float, Integer, TraitError, TraitType, Unicode
from traitlets.config import Config, Configurable
from traitlets.config.loader import DeferredConfig

from .errors import ConfigError
from .keys import SET_A_KEY, SIMULATOR_MODES, would_simulate
from .wire import (
    CACHE_TTLS,
    CONTEXT_WINDOW,
    EFFORT_LEVELS,
    EFFORTS,
    MAX_IMAGE_BYTES,
    MAX_IMAGE_SIDE,
    MODELS,
)

if TYPE_CHECKING:  # what money needs is imported where there is any
    from .usage import Budget


SHORT_MODELS = {"pro": MODELS[0], "highspeed": MODELS[1]}
"""Short form → `CreateMessageRequest.model`."""


def model_id(text: str) -> str:
    """Short forms and known ids in any case. Any other id passes here: whether the server can know it
    depends on the server."""
    known = SHORT_MODELS | {name: name for name in MODELS}
    return known.get(text.strip().lower(), text)


# `%config KimiMagic` shows the names of these types, and the choices of an Enum that is called one.


class Model(Unicode[str, Any]):
    """A model's id, also as -m of a cell takes it (`highspeed`); empty is the default."""

    def validate(self, obj: Any, value: Any) -> str:
        return model_id(super().validate(obj, value)) or MODELS[0]


class EffortEnum(Enum[Any]):
    """An effort. All that the server takes pass; those that differ are spoken of."""

    def info(self, as_rst: bool = False) -> str:
        return f"any of {['', *EFFORT_LEVELS]}"


class Tokens(Integer[int, Any]):
    """A number of tokens, also as -n of a cell takes it (`8k`); 0 is the default."""

    def validate(self, obj: Any, value: Any) -> int:
        if isinstance(value, str):
            from .counts import read_count

            try:
                value = 0 if value.strip() == "0" else read_count(value, CONTEXT_WINDOW)
            except ValueError:
                self.error(obj, value)
        number: int = super().validate(obj, value)
        return number

    def from_string(self, s: str) -> Any:
        return s


class Amount(Unicode[str, Any]):
    """A budget as text, or as a plain number; empty for none."""

    info_text = "an amount like 2.00, or 2.00/day or /notebook"

    def validate(self, obj: Any, value: Any) -> str:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        text: str = super().validate(obj, str(value) if is_number else value)
        try:
            _budget(text)
        except ValueError:
            self.error(obj, value)
        return text


class KimiMagic(Configurable):
    """Defaults of `%%kimi` cells, and how replies are shown."""

    model = Model(MODELS[0], help="Model of cells without -m; pro and highspeed are short forms.").tag(
        config=True
    )
    effort = EffortEnum(
        ("", *EFFORTS), "", help="Effort of cells without -e; empty is the server's default, max."
    ).tag(config=True)
    max_tokens = Tokens(
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
    budget = Amount(
        "", help="Most money to be spent: 2.00, or 2.00/day or /notebook; %kimi budget sets further ones."
    ).tag(config=True)
    replay = Enum(
        ("off", "auto", "only"),
        "off",
        help="Show what was recorded for the same request: never, where there is something, or only that.",
    ).tag(config=True)
    replay_speed = Float(
        1.0,
        min=0.0,
        help="Pace of replayed replies that are shown: 1 as recorded, 2 is twice that, 0 at once.",
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
            except (TraitError, ValueError):
                raise _unusable(f"KIMI_MAGIC_{name.upper()}", text, trait, str(trait.help)) from None
        return settings

    def update_config(self, config: Config) -> None:
        """Take in what was configured. Raises `ConfigError` for a value that is none."""
        try:
            super().update_config(config)
        except TraitError:
            for name, trait in self.traits(config=True).items():
                value = (config.get(type(self).__name__) or {}).get(name)
                if value is not None and not _takes(trait, self, value):
                    how = f"Set it by %config KimiMagic.{name} = …, then %load_ext kimi_magic."
                    raise _unusable(f"KimiMagic.{name}", value, trait, how) from None
            raise

    def ceiling(self) -> Budget | None:
        """The budget that is set here."""
        return _budget(self.budget)

    def would_simulate(self, environ: Mapping[str, str] | None = None) -> bool:
        """Whether the embedded simulator would answer."""
        return would_simulate(self.simulator, environ)

    def notice(self) -> str:
        """What to say when the extension is loaded: that no model will be asked, or why none can be; else
        nothing."""
        if self.replay == "only":
            return "kimi_magic: only recorded replies are shown, nothing is asked (KIMI_MAGIC_REPLAY=only)."
        try:
            if not self.would_simulate():
                return ""
        except ConfigError as error:
            return f"kimi_magic: {error}"
        if self.simulator == "always":
            return "kimi_magic: the embedded simulator answers, not a model (KIMI_MAGIC_SIMULATOR=always)."
        return f"kimi_magic: no API key found, so the embedded simulator answers, not a model. {SET_A_KEY}"


def _budget(text: str) -> Budget | None:
    """The budget that a text is. Raises ValueError for one that is none."""
    if not text.strip():
        return None
    from .usage import Budget

    return Budget.parse(text, "the setting budget (KIMI_MAGIC_BUDGET)")


def _takes(trait: TraitType[Any, Any], settings: KimiMagic, value: Any) -> bool:
    """Whether a value is one of the trait's. What came on a command line is text that is read only now."""
    value = value.get_value(trait) if isinstance(value, DeferredConfig) else value
    try:
        trait._validate(settings, value)  # the check that an assignment makes
    except TraitError:
        return False
    return True


def _unusable(setting: str, value: object, trait: TraitType[Any, Any], hint: str) -> ConfigError:
    shown = str(value) if isinstance(value, str) else value
    return ConfigError(f"{setting}={shown!r} is not usable: it has to be {_wanted(trait)}.", hint=hint)


def _wanted(trait: TraitType[Any, Any]) -> str:
    """What a setting may be, in the words of the README."""
    if isinstance(trait, Enum):
        all_values = EFFORT_LEVELS if isinstance(trait, EffortEnum) else trait.values or ()
        values = [value for value in all_values if value]
        return f"{', '.join(values[:-1])} or {values[-1]}"
    if isinstance(trait, Tokens):
        return f"a whole number from 1 to {CONTEXT_WINDOW:,} (8k is 8,192), or 0"
    if isinstance(trait, Integer | Float):
        kind = "a whole number" if isinstance(trait, Integer) else "a number"
        return f"{kind} from {trait.min:,g} on"
    return trait.info()
