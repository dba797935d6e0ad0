"""The retry policy and the order of the base URLs: no client, no clock, no sleep."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kimi_magic import errors
from kimi_magic.errors import (
    APIError,
    AuthenticationError,
    BadRequestError,
    ConfigError,
    ConnectError,
    EmptyResponseError,
    GatewayError,
    IncompleteStreamError,
    KimiError,
    OverloadedError,
    QuotaError,
    RateLimitError,
    ServerError,
    StreamDecodeError,
    TimeoutError,
)
from kimi_magic.retry import Attempt, Hosts, Policy, attempts, is_retryable
from kimi_magic.wire import Message, TextBlock, ThinkingBlock, block

A, B = "https://a.test", "https://b.test"


def api(cls: type[APIError], status: int | None = None, retry_after: float | None = None) -> APIError:
    return cls("no", status=status, retry_after=retry_after)


def stale() -> ConnectError:
    error = ConnectError("gone")
    error.stale = True
    return error


def run(*failures: KimiError, urls: tuple[str, ...] = (A, B), tries: int = 4) -> list[Attempt]:
    plan = attempts(urls, Policy(tries=tries), lambda: 1.0)
    return [next(plan), *(plan.send(failure) for failure in failures)]


def places(made: list[Attempt]) -> list[str]:
    return [a.base_url for a in made]


@pytest.mark.parametrize(
    ("failure", "again"),
    [
        (ConnectError("x"), True),
        (TimeoutError("x"), True),
        (api(RateLimitError, 429), True),
        (api(ServerError, 500), True),
        (api(OverloadedError, 529), True),
        (api(OverloadedError), True),
        (api(BadRequestError, 408), True),
        (api(BadRequestError, 409), True),
        (api(GatewayError, 502), True),
        (api(GatewayError, 429), True),
        (EmptyResponseError("x"), True),
        (IncompleteStreamError("x"), True),
        (StreamDecodeError("x"), True),
        (api(QuotaError, 429), False),
        (api(QuotaError, 402), False),
        (api(AuthenticationError, 401), False),
        (api(BadRequestError, 400), False),
        (api(BadRequestError, 404), False),
        (api(GatewayError, 200), False),
        (api(GatewayError, 404), False),
        (ConfigError("x"), False),
    ],
)
def test_what_is_tried_again(failure: KimiError, again: bool) -> None:
    assert is_retryable(failure) is again
    if again:
        assert run(failure)[1].cause is failure
    else:
        with pytest.raises(type(failure)):
            run(failure)


@pytest.mark.parametrize(
    ("content", "again"),
    [
        ([], True),
        ([TextBlock.of("")], True),
        ([ThinkingBlock({"type": "thinking", "thinking": ""})], True),
        ([TextBlock.of("a")], False),
        ([ThinkingBlock({"type": "thinking", "thinking": "\n"})], False),
        ([block({"type": "redacted_thinking", "data": "x"})], False),
        ([block({"type": "tool_use", "id": "t", "name": "f", "input": {}})], False),
    ],
)
def test_nothing_is_tried_again_once_any_of_the_reply_could_be_seen(
    content: list[object], again: bool
) -> None:
    failure = api(OverloadedError)
    failure.partial = Message(content=tuple(content))  # type: ignore[arg-type]
    assert is_retryable(failure) is again


def test_an_unreachable_host_hands_over_at_once_and_the_second_round_waits() -> None:
    made = run(ConnectError("x"), ConnectError("x"), ConnectError("x"))
    assert places(made) == [A, B, A, B]
    assert [a.wait for a in made] == [0.0, 0.0, 0.5, 0.0]


def test_a_single_unreachable_host_is_waited_for() -> None:
    assert [a.wait for a in run(ConnectError("x"), ConnectError("x"), urls=(A,))] == [0.0, 0.5, 1.0]


def test_a_server_error_hands_over_after_the_wait_and_a_rate_limit_stays() -> None:
    made = run(api(ServerError, 500), api(RateLimitError, 429), api(GatewayError, 502))
    assert places(made) == [A, B, B, A]
    assert [a.wait for a in made] == [0.0, 0.5, 1.0, 2.0]


def test_a_broken_stream_stays_on_its_host() -> None:
    assert places(run(IncompleteStreamError("x"), EmptyResponseError("x"))) == [A, A, A]


def test_a_stale_connection_is_opened_again_once_at_once_and_does_not_count() -> None:
    made = run(stale(), stale(), tries=2)
    assert places(made) == [A, A, B]
    assert [a.wait for a in made] == [0.0, 0.0, 0.0]
    assert [a.number for a in made] == [1, 1, 2]


@pytest.mark.parametrize(
    ("asked", "wait"), [(0.0, 0.0), (7.0, 7.0), (3600.0, 60.0), (float("inf"), 60.0), (None, 0.5)]
)
def test_the_servers_own_wait_counts_up_to_the_longest(asked: float | None, wait: float) -> None:
    assert run(api(RateLimitError, 429, asked))[1].wait == wait


@given(st.lists(st.floats(0, 1), min_size=9, max_size=9))
def test_waits_grow_whatever_the_jitter_takes_off_and_never_exceed_the_longest(
    chances: list[float],
) -> None:
    draws = iter(chances)
    plan = attempts((A,), Policy(tries=10, first_wait=1.0, max_wait=8.0), lambda: next(draws))
    next(plan)
    before = 0.0
    for n in range(9):
        wait = plan.send(api(RateLimitError, 429)).wait
        assert min(8.0, 2**n * 0.75) <= wait <= min(8.0, 2**n)
        assert wait >= min(8.0, before * 1.5)
        before = wait


def test_after_the_last_try_the_last_failure_is_raised() -> None:
    last = api(OverloadedError, 529)
    with pytest.raises(OverloadedError) as caught:
        run(api(ServerError, 500), ConnectError("x"), last, tries=3)
    assert caught.value is last


@pytest.mark.parametrize(("urls", "asked"), [((A, B), [A, B]), ((A,), [A, A])])
def test_the_second_silence_is_the_end(urls: tuple[str, ...], asked: list[str]) -> None:
    assert places(run(TimeoutError("x"), urls=urls)) == asked
    last = TimeoutError("y")
    with pytest.raises(TimeoutError) as caught:
        run(TimeoutError("x"), last, urls=urls)
    assert caught.value is last


def test_what_failed_between_two_silences_gives_no_further_one() -> None:
    assert len(run(TimeoutError("x"), api(ServerError, 500), ConnectError("x"))) == 4
    with pytest.raises(TimeoutError):
        run(TimeoutError("x"), api(ServerError, 500), TimeoutError("x"))


@given(
    st.lists(
        st.sampled_from([ConnectError, TimeoutError, IncompleteStreamError, "stale", 429, 500]), max_size=12
    ),
    st.integers(1, 5),
    st.integers(1, 3),
)
def test_any_row_of_failures_ends_within_the_tries(kinds: list[object], tries: int, hosts: int) -> None:
    plan = attempts(tuple("abc"[:hosts]), Policy(tries=tries), lambda: 0.5)
    next(plan)
    sent = 1
    for kind in kinds:
        match kind:
            case "stale":
                failure: KimiError = stale()
            case int():
                failure = api(RateLimitError if kind == 429 else ServerError, kind)
            case _:
                failure = getattr(errors, kind.__name__)("x")  # type: ignore[attr-defined]
        try:
            attempt = plan.send(failure)
        except KimiError as error:
            assert error is failure  # noqa: PT017  # which of several it is, is the point
            break
        sent += 1
        assert 0 <= attempt.wait <= 60
    assert sent <= tries + 1  # one stale connection comes on top


def test_a_host_that_failed_rests_and_is_then_first_again() -> None:
    hosts = Hosts((A, B), rest=60.0)
    assert hosts.order(0.0) == (A, B)
    hosts.failed(A, 0.0)
    assert hosts.order(59.9) == (B, A)
    assert hosts.order(60.0) == (A, B)


def test_a_host_that_answers_rests_no_longer() -> None:
    hosts = Hosts((A, B))
    hosts.failed(A, 0.0)
    hosts.answered(A)
    hosts.answered(B)
    assert hosts.order(1.0) == (A, B)


def test_when_all_rest_the_one_that_failed_longest_ago_comes_first() -> None:
    hosts = Hosts((A, B))
    hosts.failed(B, 0.0)
    hosts.failed(A, 10.0)
    assert hosts.order(20.0) == (B, A)
    hosts.failed(B, 20.0)
    assert hosts.order(21.0) == (A, B)
