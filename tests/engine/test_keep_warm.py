"""The cache of a large conversation is kept warm by itself: while tools run for long, and while nobody goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import anthropic
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sevenfold
from sevenfold.events import Acted, Answered, CacheBroke, Compacted, Proposed
from sevenfold.layers.idle import Pause, choose, weigh_wait
from sevenfold.layers.keep_warm import Warmth
from sevenfold.profiles import Price
from tests.engine.working import ASKED, World, output, world

pytestmark = pytest.mark.spec("S37.14")

WARM = {"keep_warm": True, "idle_least_tokens": 30_000, "context_window": 200_000, "idle_resume_share": 0.9}
BEFORE_IT_EXPIRES = 275.0
PRICE = Price(input=2.0, output=10.0, write_5m=2.5, write_1h=4.0, read=0.2)


def waiting(here: World, **settings: Any) -> sevenfold.Session:
    """A large session whose newest answer calls a tool that has not come back."""
    session = here.session(settings={**WARM, **settings})
    session.user(ASKED)
    here.work(session, 12, 12_000)
    assert session.complete().calls
    return session


def beat(session: sevenfold.Session) -> None:
    """What happens every ten seconds."""
    session.conversation.state(Warmth).look()
    session.settle(30)


def reads(here: World) -> int:
    return here.line.sources.count("keep_alive")


def test_while_a_tool_runs_the_cache_is_read_before_it_expires_and_found_when_the_tool_is_done() -> None:
    with world() as here, waiting(here) as session:
        beat(session)
        assert reads(here) == 0, "there is time"
        for number in (1, 2, 3):
            here.clock.advance(BEFORE_IT_EXPIRES)
            beat(session)
            beat(session)
            assert reads(here) == number
        here.clock.advance(200)
        here.events.clear()
        session.tool_results({call: output(100) for call in session.conversation.waiting})
        session.complete()
        assert not here.told(CacheBroke)
        assert here.told(Answered)[0].cache_read_tokens > 0.9 * session.gauge.seen


def test_each_read_is_proposed_with_its_price_and_reported_and_a_listener_may_refuse_it() -> None:
    with world() as here, waiting(here) as session:
        here.clock.advance(BEFORE_IT_EXPIRES)
        beat(session)
        (proposed,) = here.told(Proposed, layer="idle")
        (acted,) = here.told(Acted, layer="idle")
        assert proposed.usd > 0
        assert (acted.mechanism, acted.what) == ("keep_alive", "kept the cache alive")
        assert "tools have run for 2" in acted.why
        assert {task.kind for task in session.tasks} == {"keep_alive"}
    with world() as here, waiting(here) as session:
        here.veto = lambda event: isinstance(event, Proposed) and event.layer == "idle"
        here.clock.advance(BEFORE_IT_EXPIRES)
        beat(session)
        beat(session)
        assert reads(here) == 0
        assert len(here.told(Proposed, layer="idle")) == 1, "asked once in a pause"


@pytest.mark.parametrize(
    "settings", [{"keep_warm": False}, {"idle_least_tokens": 150_000}, {"spending_cap_usd": 0.0}]
)
def test_nothing_is_read_when_it_is_switched_off_not_worth_it_or_not_to_be_paid(
    settings: dict[str, Any],
) -> None:
    with world() as here, waiting(here, **settings) as session:
        here.clock.advance(BEFORE_IT_EXPIRES)
        beat(session)
        assert reads(here) == 0


def test_however_long_a_tool_runs_keeping_the_cache_costs_no_more_than_writing_it_again() -> None:
    with world() as here, waiting(here) as session:
        before = 0
        while True:
            here.clock.advance(BEFORE_IT_EXPIRES)
            beat(session)
            if reads(here) == before:
                break
            before = reads(here)
            assert before < 100
        price = session.conversation.profile.price(session.gauge.seen)
        assert price is not None
        spent = sum(event.usd or 0.0 for event in here.told(Acted, layer="idle"))
        assert before > 1
        assert spent <= session.gauge.high * price.write_5m / 1e6


def test_a_session_that_nobody_leads_keeps_its_cache_for_a_while_and_compacts_nothing() -> None:
    with world() as here, waiting(here, expected_requests=60) as session:
        session.tool_results({call: output(100) for call in session.conversation.waiting})
        here.mind._work = lambda: [{"type": "text", "text": "Done."}]  # type: ignore[method-assign]
        session.complete()
        count = 0
        for _ in range(40):
            here.clock.advance(BEFORE_IT_EXPIRES)
            beat(session)
            count = max(count, reads(here))
        assert 1 <= count <= 10
        assert not here.told(Compacted)


def test_where_a_driver_decides_about_pauses_nothing_happens_by_itself() -> None:
    with world() as here, waiting(here, idle_compaction=True) as session:
        session.tool_results({call: output(100) for call in session.conversation.waiting})
        here.mind._work = lambda: [{"type": "text", "text": "Done."}]  # type: ignore[method-assign]
        session.complete()
        session.idle()
        here.clock.advance(BEFORE_IT_EXPIRES)
        beat(session)
        assert reads(here) == 0


def test_an_async_session_keeps_its_cache_as_well() -> None:
    async def run(here: World) -> float:
        options = here.options(settings=WARM)
        sdk = anthropic.AsyncAnthropic(api_key="simulated-key", base_url=here.url)
        async with sdk, sevenfold.AsyncSession.in_memory(**{**options, "client": sdk}) as session:
            await session.user(ASKED)
            for _ in range(12):
                done = await session.complete()
                here.clock.advance(5)
                await session.tool_results({call.id: output(12_000) for call in done.calls})
            done = await session.complete()
            here.clock.advance(BEFORE_IT_EXPIRES)
            await session.steps.run(session.conversation.state(Warmth).look)
            await session.settle(30)
            here.clock.advance(BEFORE_IT_EXPIRES)
            await session.tool_results({call.id: output(100) for call in done.calls})
            here.events.clear()
            await session.complete()
            read: float = here.told(Answered)[0].cache_read_tokens
            return read / session.gauge.seen

    with world() as here:
        assert asyncio.run(run(here)) > 0.9


def test_after_the_end_nothing_is_read() -> None:
    with world() as here:
        with waiting(here) as session:
            warmth = session.conversation.state(Warmth)
        here.clock.advance(BEFORE_IT_EXPIRES)
        warmth.look()
        assert reads(here) == 0


@given(st.integers(1_000, 900_000), st.sampled_from([300, 3_600]), st.floats(0, 1e6))
def test_while_tools_run_no_choice_costs_more_than_doing_nothing(
    size: int, lifetime: int, elapsed: float
) -> None:
    pause = Pause(
        size=size,
        size_after=size,
        summary_usd=0.0,
        price=PRICE,
        lifetime=lifetime,
        resumes=0.5,
        soon=0.2,
        requests=10,
    )
    choices = weigh_wait(pause, elapsed)
    made = choose(choices)
    assert (made.usd or 0.0) <= (choices[0].usd or 0.0)
    assert made.name in ("nothing", "keep_alive")
