"""Base URLs in all the spellings that people write."""

from __future__ import annotations

from typing import Any

import pytest
from loopback import Answer, Loopback, http
from test_wire_cases import ASK, raw

from kimi_magic.client import BASE_URLS, AsyncClient, Client, base_urls
from kimi_magic.errors import BadRequestError, ConfigError


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("", "/v1/messages"),
        ("/", "/v1/messages"),
        ("/v1", "/v1/messages"),
        ("/v1/", "/v1/messages"),
        ("/v1/messages", "/v1/messages"),
        ("/v1/messages/", "/v1/messages"),
        ("//v1//", "/v1/messages"),
        ("/v1/v1", "/v1/messages"),
        ("/anthropic", "/anthropic/v1/messages"),
        ("/anthropic/v1/", "/anthropic/v1/messages"),
        ("/anthropic/v1/messages", "/anthropic/v1/messages"),
        ("/a/v1/b", "/a/v1/b/v1/messages"),
    ],
)
def test_every_spelling_posts_to_exactly_one_path(written: str, path: str) -> None:
    with (
        Loopback([Answer(raw("00_baseline"))]) as server,
        Client("sk-x", f" {server.url}{written} ") as client,
    ):
        assert client.create(**ASK).text == "Hello"
        assert [r.path for r in server.requests] == [path]
        assert server.requests[0].headers["host"] == f"127.0.0.1:{server.port}"


def test_an_answer_of_404_names_the_status() -> None:
    with (
        Loopback([Answer(http({"error": "no such path"}, "404 Not Found"))]) as server,
        Client("sk-x", server.url) as client,
        pytest.raises(BadRequestError, match="404"),
    ):
        client.create(**ASK)


@pytest.mark.parametrize("name", ["https", "HTTPS"])
def test_scheme_host_port_and_prefix_stay(name: str) -> None:
    assert base_urls(f"{name}://[::1]:8443/x//") == ("https://[::1]:8443/x",)


@pytest.mark.parametrize(
    "url",
    [
        "api.example.com", "ftp://host", "https://", "http://:80", "http://host:99999", "http://host:x", "http://[::1",
        "http://a..b", "http://a b", "", " ", ",", "http://" + "a" * 64, "http://host:0", "http://ho\x00st",
        "http://host?x=1", "http://host#x", "http://user@host", "http://user:secret-pass@host",
    ],
)  # fmt: skip
def test_what_is_no_base_url_is_refused_in_one_line_before_any_request(url: str) -> None:
    for make in (Client, AsyncClient, lambda key, given: base_urls(given)):
        with pytest.raises(ConfigError, match="KIMI_BASE_URL") as caught:
            make("sk-x", url)
        assert "\n" not in str(caught.value)
        assert "secret-pass" not in str(caught.value)


def test_an_empty_list_is_refused() -> None:
    with pytest.raises(ConfigError, match="No base URL"):
        base_urls([])


@pytest.mark.parametrize("given", [5, b"http://a.test", {"http://a.test"}, [5]])
def test_what_is_no_text_is_refused_in_one_line(given: Any) -> None:
    with pytest.raises(ConfigError, match="KIMI_BASE_URL"):
        Client("sk-x", given)


def test_quotes_around_a_url_are_dropped() -> None:
    assert base_urls(None, {"KIMI_BASE_URL": '"http://a.test/v1"'}) == ("http://a.test",)


def test_the_variable_gives_several_and_the_argument_comes_first() -> None:
    environ = {"KIMI_BASE_URL": "http://a.test, http://b.test/v1,"}
    assert base_urls(None, environ) == ("http://a.test", "http://b.test")
    assert base_urls("http://c.test", environ) == ("http://c.test",)
    assert base_urls(["http://c.test", "http://d.test/"], environ) == ("http://c.test", "http://d.test")


@pytest.mark.parametrize("environ", [{}, {"KIMI_BASE_URL": "  "}])
def test_without_both_the_pages_servers_are_used(environ: dict[str, str]) -> None:
    assert base_urls(None, environ) == BASE_URLS
