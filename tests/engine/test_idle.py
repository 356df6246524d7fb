"""An idle conversation whose cache is about to expire, and one whose cache has."""

from __future__ import annotations

import asyncio
from typing import Any

import anthropic
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sevenfold
from sevenfold.events import Acted, Answered, CacheBroke, Proposed
from sevenfold.layers.idle import Pause, choose, likelihoods, weigh
from sevenfold.profiles import Price
from tests.engine.working import ASKED, Mind, World, output, world

PRICE = Price(input=2.0, output=10.0, write_5m=2.5, write_1h=4.0, read=0.2)
SMALL = {"idle_least_tokens": 30_000, "context_window": 200_000}


OFTEN = {"idle_resume_share": 0.9, "expected_requests": 60}
"""The user comes back as a rule, and works on for long."""


def pause(**known: Any) -> Pause:
    usual: dict[str, Any] = {
        "size": 150_000,
        "size_after": 30_000,
        "summary_usd": 0.1,
        "price": PRICE,
        "lifetime": 300,
        "resumes": 0.5,
        "soon": 0.25,
        "requests": 10,
    }
    return Pause(**{**usual, **known})


def chosen(**known: Any) -> str:
    return choose(weigh(pause(**known))).name


@pytest.mark.spec("S4.19")
def test_the_price_and_the_likelihood_of_a_resume_decide() -> None:
    assert chosen(resumes=0.0, soon=0.0) == "nothing"
    assert chosen(resumes=0.95, soon=0.95, summary_usd=0.4) == "keep_alive"
    assert chosen(resumes=0.9, soon=0.1) == "compact"
    assert chosen(size_after=149_000) != "compact"


@pytest.mark.spec("S4.19")
@given(st.floats(0, 1), st.floats(0, 1), st.integers(1_000, 900_000), st.floats(0, 5))
def test_no_choice_costs_more_than_doing_nothing(
    resumes: float, share: float, size: int, usd: float
) -> None:
    choices = weigh(
        pause(resumes=resumes, soon=resumes * share, size=size, size_after=size // 5, summary_usd=usd)
    )
    made = choose(choices)
    assert (made.usd or 0.0) <= (choices[0].usd or 0.0)


@pytest.mark.spec("S4.19")
def test_the_users_own_pauses_outweigh_the_setting() -> None:
    assert likelihoods([], 270, 300, 0.5) == (0.5, 0.25)
    often, soon = likelihoods([400.0] * 20, 270, 300, 0.1)
    assert often > 0.8
    assert soon > 0.8
    late, soon = likelihoods([9_000.0] * 20, 270, 300, 0.1)
    assert late > 0.8
    assert soon < 0.1
    later, _ = likelihoods([], 1_170, 300, 0.5)
    assert later < 0.1, "the longer it lasts, the less likely"


def rested(here: World, session: sevenfold.Session) -> None:
    session.user(ASKED)
    while (done := session.complete()).calls:
        here.answer(session, done, 12_000)


def talk(here: World, **settings: Any) -> sevenfold.Session:
    return here.session(settings={**SMALL, **settings})


class Resting(Mind):
    """A model that works for a while and then has done what it was asked."""

    def __init__(self, calls: int = 12) -> None:
        super().__init__()
        self._left = calls

    def _work(self) -> list[dict[str, Any]]:
        self._left -= 1
        return super()._work() if self._left >= 0 else [{"type": "text", "text": "Done."}]


@pytest.mark.spec("S4.19", "S8.2")
def test_nothing_happens_before_it_is_time_or_when_it_is_switched_off() -> None:
    with world(Resting()) as here, talk(here) as session:
        rested(here, session)
        early = session.idle()
        assert early.chosen == "nothing"
        assert early.again is not None
        assert 200 < early.again <= 270
    with world(Resting()) as here, talk(here, idle_compaction=False) as session:
        rested(here, session)
        here.clock.advance(270)
        assert session.idle().again is None


@pytest.mark.spec("S4.19")
def test_a_large_conversation_is_compacted_while_it_is_warm_and_that_is_reported() -> None:
    with world(Resting()) as here, talk(here, **OFTEN) as session:
        rested(here, session)
        here.clock.advance(session.idle().again or 0.0)
        before = session.gauge.seen
        done = session.idle()
        assert done.chosen == "compact"
        assert [one.name for one in done.choices] == ["nothing", "keep_alive", "compact"]
        (proposed,), (acted,) = here.told(Proposed, layer="idle"), here.told(Acted, layer="idle")
        assert proposed.usd == acted.usd > 0
        assert session.gauge.seen < before / 2
        assert session.idle().chosen == "nothing", "once in a pause"
        session.user("Go on.")
        assert session.complete().text


@pytest.mark.spec("S4.19")
def test_a_listener_may_refuse_and_is_not_asked_again_in_that_pause() -> None:
    with world(Resting()) as here, talk(here, **OFTEN) as session:
        here.veto = lambda event: isinstance(event, Proposed) and event.layer == "idle"
        rested(here, session)
        here.clock.advance(session.idle().again or 0.0)
        before = session.gauge.seen
        assert session.idle().chosen == "nothing"
        assert session.idle().again is None
        assert session.gauge.seen == before
        assert len(here.told(Proposed, layer="idle")) == 1


@pytest.mark.spec("S4.19")
def test_pauses_before_a_compaction_count_as_well() -> None:
    with world(Resting()) as here, talk(here, idle_resume_share=0.0) as session:
        rested(here, session)
        for _ in range(12):
            here.clock.advance(310)
            session.user("And?")
            session.complete()
        session.compact()
        session.user(output(160_000))
        session.complete()
        here.clock.advance(session.idle().again or 0.0)
        assert "end in a resume 75% of the time" in session.idle().why


@pytest.mark.spec("S4.19")
def test_a_keep_alive_read_lets_the_next_message_read_the_cache() -> None:
    with world(Resting()) as here, talk(here, idle_resume_share=1.0, expected_requests=1) as session:
        rested(here, session)
        # Pauses a little longer than the lifetime, all of which ended in a resume.
        for _ in range(12):
            here.clock.advance(310)
            session.user("And?")
            session.complete()
        here.clock.advance(session.idle().again or 0.0)
        done = session.idle()
        assert done.chosen == "keep_alive"
        assert done.again is not None
        here.clock.advance(200)
        here.events.clear()
        session.user("Go on.")
        session.complete()
        assert not here.told(CacheBroke)
        assert here.told(Answered)[0].cache_read_tokens > 0.9 * session.gauge.seen


@pytest.mark.spec("S4.19")
def test_after_the_cache_expired_the_next_message_has_a_price_and_there_are_cheaper_choices() -> None:
    with world(Resting()) as here, talk(here) as session:
        rested(here, session)
        assert session.next_costs() == ()
        here.clock.advance(4_000)
        costs = {one.name: one.usd or 0.0 for one in session.next_costs()}
        assert list(costs) == ["go on", "compact", "new session"]
        assert costs["new session"] < costs["go on"]
        session.user("Go on.")
        session.complete()
        written = here.told(Answered)[-1].usd
        assert costs["go on"] == pytest.approx(written, rel=0.1)


@pytest.mark.spec("S22.23")
@pytest.mark.parametrize("notes", [False, True])
@pytest.mark.parametrize("calls", [6, 10, 16])
def test_what_a_resume_costs_with_all_that_follows_from_it_is_within_the_band_that_was_quoted(
    notes: bool, calls: int
) -> None:
    with world(Resting(calls)) as here, talk(here, notes=notes) as session:
        rested(here, session)
        session.settle(30)
        here.clock.advance(4_000)
        quoted = session.next_costs()
        assert quoted
        going = quoted[0]
        before = session.conversation.account.usd or 0.0
        session.user("Go on.")
        session.complete()
        session.settle(30)
        paid = (session.conversation.account.usd or 0.0) - before
        assert going.low is not None
        assert going.high is not None
        assert going.low <= paid <= going.high
        assert going.usd == pytest.approx(paid, rel=0.35)
        assert ("notes" in going.layers) == notes
        assert going.high < 3 * going.low


@pytest.mark.spec("S4.19")
def test_an_async_session_decides_the_same() -> None:
    async def run(here: World) -> str:
        options = here.options(settings={**SMALL, **OFTEN})
        sdk = anthropic.AsyncAnthropic(api_key="simulated-key", base_url=here.url)
        async with sdk, sevenfold.AsyncSession.in_memory(**{**options, "client": sdk}) as session:
            await session.user(ASKED)
            while (done := await session.complete()).calls:
                here.clock.advance(5)
                await session.tool_results({call.id: output(12_000) for call in done.calls})
            here.clock.advance((await session.idle()).again or 0.0)
            return (await session.idle()).chosen

    with world(Resting()) as here:
        assert asyncio.run(run(here)) == "compact"
