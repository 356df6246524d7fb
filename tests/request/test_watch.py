"""When a loss in the prompt cache is reported, and as what."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from sevenfold.profiles import find
from sevenfold.record import blocks
from sevenfold.record.usage import Usage
from sevenfold.record.wire import Message
from sevenfold.request.frame import Frame, Lifetimes
from sevenfold.request.watch import EXPIRED, UNEXPLAINED, Sent, Watched, rewrite_usd

PROFILE = find("claude-sonnet-5-5")
FRAME = Frame.of("m", 9, system=[blocks.text("static").raw], tools=[])


def sent(at: float = 0.0, lifetimes: Lifetimes | None = None) -> Sent:
    words = blocks.text("hello")
    return Sent(FRAME, (Message("user", (words,), words.raw),), lifetimes or Lifetimes("5m", "5m"), at)


def read(tokens: int) -> Usage:
    return Usage(cache_read_input_tokens=tokens, input_tokens=10)


@pytest.mark.spec("S21.22")
@pytest.mark.parametrize(
    ("cached", "fall", "told"),
    [
        (10_000, 1_900, False),  # a large share, but few tokens
        (10_000, 2_100, True),
        (100_000, 4_900, False),  # many tokens, but a small share
        (100_000, 5_100, True),
        (100_000, 0, False),
        (100_000, -9_000, False),  # more was read than the last request had left
    ],
)
def test_a_loss_is_told_if_it_is_large_both_in_tokens_and_as_a_share(
    cached: int, fall: int, told: bool
) -> None:
    watched = Watched(sent(), cached).look(sent(at=5.0), PROFILE)
    after, broke = watched.judge(read(cached - fall), PROFILE)
    assert (broke is not None) == told
    if broke is not None:
        assert (broke.tokens, broke.cause, broke.expected) == (fall, UNEXPLAINED, False)
        assert broke.usd == rewrite_usd(fall, Lifetimes("5m", "5m"), PROFILE)
    assert after.cached == cached - fall
    assert after.pending is None


@pytest.mark.spec("S21.22")
def test_the_first_request_of_a_prefix_loses_nothing() -> None:
    watched = Watched(cached=90_000).look(sent(), PROFILE)
    assert watched.judge(read(0), PROFILE)[1] is None


@pytest.mark.spec("S21.22")
@pytest.mark.parametrize(
    ("lifetime", "pause", "expired"),
    [
        ("5m", 299.0, False),
        ("5m", 300.0, False),
        ("5m", 301.0, True),
        ("1h", 3_599.0, False),
        ("1h", 3_601.0, True),
    ],
)
def test_a_cache_has_expired_once_the_pause_is_longer_than_its_lifetime(
    lifetime: str, pause: float, expired: bool
) -> None:
    lifetimes = Lifetimes(lifetime, lifetime)
    watched = Watched(sent(lifetimes=lifetimes), 50_000).look(sent(pause, lifetimes), PROFILE)
    assert watched.forecast.expired == expired
    assert watched.forecast.tokens == (50_000 if expired else 0)
    broke = watched.judge(read(0), PROFILE)[1]
    assert broke is not None
    assert (broke.cause, broke.expected, broke.elapsed) == (
        EXPIRED if expired else UNEXPLAINED,
        expired,
        pause,
    )


@pytest.mark.spec("S21.22")
def test_a_fork_that_writes_no_tail_refreshes_the_shared_prefix_and_leaves_its_size() -> None:
    before = Watched(sent(), 50_000)
    after, broke = before.look(sent(at=200.0), PROFILE).judge(read(50_000), PROFILE, keeps=False)
    assert broke is None
    assert (after.sent, after.cached, after.pending) == (replace(sent(), at=200.0), 50_000, None)
    lost, broke = before.look(sent(at=200.0), PROFILE).judge(read(0), PROFILE, keeps=False)
    assert broke is not None
    assert lost.sent == sent()


@pytest.mark.spec("S21.22")
def test_a_loss_that_a_decision_announced_is_expected_and_named_by_it() -> None:
    watched = Watched(sent(), 50_000).announce("clear").look(sent(at=5.0), PROFILE)
    after, broke = watched.judge(read(0), PROFILE)
    assert broke is not None
    assert (broke.cause, broke.expected) == ("clear", True)
    assert after.announced == ""


@pytest.mark.spec("S21.22")
def test_half_of_the_messages_can_read_the_cache_of_their_part() -> None:
    words = blocks.text("hello " * 2_000)
    message = Message("user", (words,), words.raw)
    whole = replace(sent(), messages=(message, message))
    part = Watched(whole, 10_000).up_to(1)
    assert part.sent is not None
    assert part.sent.messages == (message,)
    assert part.cached == pytest.approx(5_000, abs=50)
    assert Watched(whole, 10_000).up_to(2) == Watched(whole, 10_000)
