"""Settings: the environment gives defaults, what is set by hand goes before it."""

from __future__ import annotations

from typing import Any

import pytest
from traitlets import TraitError
from traitlets.config import Config

from kimi_magic.config import KimiMagic
from kimi_magic.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("model", "some-model", "some-model"),
        ("effort", "low", "low"),
        ("max_tokens", " 4096 ", 4096),
        ("cache", "1h", "1h"),
        ("display", "terminal", "terminal"),
        ("store", "off", "off"),
        ("simulator", "never", "never"),
        ("simulator_speed", "0", 0.0),
    ],
)
def test_a_variable_of_the_environment_gives_a_default(name: str, text: str, value: object) -> None:
    settings = KimiMagic.from_environment({f"KIMI_MAGIC_{name.upper()}": text})
    assert getattr(settings, name) == value
    assert getattr(KimiMagic.from_environment({}), name) != value


def test_what_is_configured_goes_before_the_environment() -> None:
    config = Config({"KimiMagic": {"effort": "high"}})
    environ = {"KIMI_MAGIC_EFFORT": "low", "KIMI_MAGIC_CACHE": "1h"}
    settings = KimiMagic.from_environment(environ, config=config)
    assert (settings.effort, settings.cache) == ("high", "1h")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("EFFORT", "huge"),
        ("MAX_TOKENS", "many"),
        ("MAX_TOKENS", "-1"),
        ("MAX_TOKENS", "9999999"),
        ("SIMULATOR", "maybe"),
        ("SIMULATOR_SPEED", "fast"),
        ("DISPLAY", ""),
    ],
)
def test_a_value_that_is_none_is_one_line_that_names_the_variable(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"KIMI_MAGIC_{name}={text!r} is not usable") as caught:
        KimiMagic.from_environment({f"KIMI_MAGIC_{name}": text})
    assert caught.value.hint
    assert "\n" not in str(caught.value)


def test_every_setting_says_what_it_is_for() -> None:
    traits = KimiMagic.class_traits(config=True)
    assert [name for name, trait in traits.items() if not trait.help] == []
    with pytest.raises(TraitError):
        KimiMagic().effort = "huge"


@pytest.mark.parametrize(
    ("simulator", "environ", "answer"),
    [
        ("auto", {}, True),
        ("auto", {"KIMI_API_KEY": "k"}, False),
        ("auto", {"EVOLINK_API_KEY": "k"}, False),
        ("auto", {"KIMI_BASE_URL": "http://x"}, False),
        ("auto", {"KIMI_BASE_URL": " "}, True),
        ("always", {"KIMI_API_KEY": "k"}, True),
        ("never", {}, False),
    ],
)
def test_the_simulator_answers_where_there_is_no_key_or_as_it_is_told(
    simulator: str, environ: dict[str, Any], answer: bool
) -> None:
    assert KimiMagic(simulator=simulator).would_simulate(environ) is answer


def test_the_notice_says_why_no_model_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KIMI_API_KEY", "EVOLINK_API_KEY", "KIMI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    assert "Set the environment variable KIMI_API_KEY" in KimiMagic().notice()
    assert "KIMI_MAGIC_SIMULATOR=always" in KimiMagic(simulator="always").notice()
    assert KimiMagic(simulator="never").notice() == ""
    monkeypatch.setenv("KIMI_API_KEY", "two\nlines")
    assert "line break" in KimiMagic().notice()
