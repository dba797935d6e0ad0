"""Settings: the environment gives defaults, what is set by hand goes before it."""

from __future__ import annotations

from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets import TraitError
from traitlets.config import Config
from traitlets.config.loader import DeferredConfigString

from kimi_magic.api import Kimi
from kimi_magic.config import KimiMagic
from kimi_magic.errors import ConfigError
from kimi_magic.magics import load, unload
from kimi_magic.magics.verbatim import whole_cell


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("model", "some-model", "some-model"),
        ("model", "highspeed", "kimi-k3.1-pro-highspeed"),
        ("model", " Kimi-K3.1-Pro-Highspeed", "kimi-k3.1-pro-highspeed"),
        ("effort", "low", "low"),
        ("max_tokens", " 4096 ", 4096),
        ("max_tokens", "8k", 8192),
        ("budget", "2/day", "2/day"),
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


def test_no_model_is_the_default_and_pro_is_its_short_form() -> None:
    for text in ("", "pro"):
        assert KimiMagic.from_environment({"KIMI_MAGIC_MODEL": text}).model == KimiMagic().model


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
        ("BUDGET", "a lot"),
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


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("EFFORT", "low, high or max"),
        ("CACHE", "5m or 1h"),
        ("MAX_TOKENS", "a whole number from 1 to 1,048,576 (8k is 8,192), or 0"),
        ("IMAGE_MAX_BYTES", "a whole number from 1,000 on"),
        ("SIMULATOR_SPEED", "a number from 0 on"),
        ("BUDGET", "an amount like 2.00, or 2.00/day or /notebook"),
    ],
)
def test_it_says_what_the_setting_takes_in_the_words_of_the_readme(name: str, wanted: str) -> None:
    with pytest.raises(ConfigError) as caught:
        KimiMagic.from_environment({f"KIMI_MAGIC_{name}": "bogus"})
    assert caught.value.message == f"KIMI_MAGIC_{name}='bogus' is not usable: it has to be {wanted}."


@pytest.mark.parametrize("value", ["lowest", DeferredConfigString("lowest"), 5])
def test_what_is_configured_wrongly_is_one_line_and_changes_nothing(value: object) -> None:
    settings = KimiMagic(effort="high")
    with pytest.raises(
        ConfigError, match=r"KimiMagic.effort=.?(lowest|5).? is not usable: it has to be low,"
    ):
        settings.update_config(Config({"KimiMagic": {"effort": value}}))
    assert settings.effort == "high"
    settings.update_config(Config({"KimiMagic": {"budget": 0.5}}))
    assert settings.budget == "0.5"


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
    assert "only recorded replies" in KimiMagic(replay="only").notice()
    monkeypatch.setenv("KIMI_API_KEY", "two\nlines")
    assert "line break" in KimiMagic().notice()


def test_config_lists_the_settings_with_plain_types_and_the_efforts_that_differ(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shell = InteractiveShell(config=Config({"HistoryManager": {"hist_file": ":memory:"}}))
    load(shell, KimiMagic(simulator="always"), lambda: pytest.fail("not needed"))
    capsys.readouterr()
    shell.run_line_magic("config", "KimiMagic")
    listed = capsys.readouterr().out
    unload(shell)
    for name in KimiMagic.class_traits(config=True):
        assert f"KimiMagic.{name}=<" in listed
    assert "<_" not in listed
    assert "Choices: any of ['', 'low', 'high', 'max']" in listed


def test_a_setting_that_is_configured_wrongly_is_refused_at_each_load_until_it_is_mended(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shell = InteractiveShell(config=Config({"HistoryManager": {"hist_file": ":memory:"}}))
    settings = KimiMagic(simulator="always", store="off", display="terminal")
    chat = Kimi(settings)
    load(shell, settings, lambda: chat)
    shell.run_line_magic("config", "KimiMagic.effort = 'lowest'")
    for _ in range(3):  # what `%reload_ext` does
        unload(shell)
        with pytest.raises(ConfigError, match=r"KimiMagic.effort='lowest' is not usable: it has to be low,"):
            load(shell, settings, lambda: chat)
        assert whole_cell not in shell.input_transformer_manager.cleanup_transforms
    shell.run_line_magic("config", "KimiMagic.effort = 'low'")
    load(shell, settings, lambda: chat)
    capsys.readouterr()
    shell.run_line_magic("kimi", "status")
    assert "effort low" in capsys.readouterr().out
    unload(shell)


def test_what_another_has_taken_out_of_the_shell_is_no_error_when_it_is_unloaded() -> None:
    shell = InteractiveShell(config=Config({"HistoryManager": {"hist_file": ":memory:"}}))
    load(shell, KimiMagic(simulator="always"), lambda: pytest.fail("not needed"))
    shell.input_transformer_manager.cleanup_transforms.clear()
    shell.input_transformer_manager.token_transformers.clear()
    shell.Completer.custom_matchers.clear()
    unload(shell)
    assert "kimi" not in shell.magics_manager.magics["line"]
