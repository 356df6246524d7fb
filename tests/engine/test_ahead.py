"""Compacting ahead of need: a summary is made beside the session and put in when it is ready."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import anthropic
import pytest

import sevenfold
from bench import background
from sevenfold.errors import ProviderFailed
from sevenfold.events import Acted, Compacted, SteppedAside
from sevenfold.lab.simulator.brains import ModelPrompt
from tests.engine.working import ASKED, MODELS, Mind, World, messages, noted, output, texts, world
from tests.hooks.hooking import hooks
from tests.support import PROVING

AHEAD = {"background_compaction": True}


def filled(here: World, **more: Any) -> sevenfold.Session:
    """A session in which a summary is being made beside the conversation."""
    session = here.session(**{**more, "settings": {**AHEAD, **more.get("settings", {})}})
    session.user(ASKED)
    here.line.free.clear()
    while "compact" not in here.line.sources:
        here.work(session, 1, 2_500)
    return session


def ready(here: World, session: sevenfold.Session) -> None:
    here.line.free.set()
    session.settle(30)


@pytest.mark.spec("S9.5")
@pytest.mark.parametrize("model", MODELS)
def test_what_is_said_meanwhile_stays_word_for_word_behind_the_summary(model: str) -> None:
    with world() as here, filled(here, model=model) as session:
        assert session.gauge.seen < session.gauge.threshold
        session.user("Meanwhile: use tabs.")
        here.work(session, 1, 300)
        newest = messages(here.bodies[-1])[-1]
        ready(here, session)
        here.work(session, 1, 300)
        done = here.told(Compacted)
        assert len(done) == 1
        assert done[0].trigger == "auto"
        said = texts(here.bodies[-1])
        assert "Meanwhile: use tabs." in said
        assert "Never touch config/prod.yaml" in said
        assert "Meanwhile: use tabs." in json.dumps(newest)
        here.work(session, 2, 300)
        assert [session.at(n) for n in range(session.gauge.requests)]


@pytest.mark.spec("S9.5")
def test_at_the_threshold_nobody_waits_for_a_model() -> None:
    with world() as here, here.session(settings=AHEAD) as session:
        session.user(ASKED)
        waited = 0
        while len(here.told(Compacted)) < 3:
            known = list(here.told(Compacted))
            asked = len(here.line.sources)
            turn = session.prepare()
            waited += any(source != "main" for source in here.line.sources[asked:])
            done = session.observe(here.sdk.messages.create(**turn))
            here.answer(session, done, 1_500)
            session.settle(30)
            assert len(here.told(Compacted)) - len(known) <= 1
        assert waited == 0


@pytest.mark.spec("S9.5")
@pytest.mark.parametrize("event", ["compact", "undo", "rewind"])
def test_a_summary_of_something_that_has_changed_is_thrown_away(event: str) -> None:
    with world() as here, filled(here) as session:
        if event == "rewind":
            items = session.conversation.transcript.view.items
            session.rewind(items[4].record.uuid)
        else:
            session.compact(engine="extractive")
        if event == "undo":
            session.undo()
        if event != "rewind":
            here.work(session, 1, 100)
        known = len(here.told(Compacted))
        ready(here, session)
        if event == "rewind":
            session.user("again from here")
        here.work(session, 1, 100)
        assert len(here.told(Compacted)) == known
        reasons = [one.reason for one in here.told(SteppedAside, layer="compact")]
        assert any("of no use" in reason for reason in reasons)


@pytest.mark.spec("S9.5", "S8.5")
def test_there_is_one_at_a_time_and_its_failure_is_only_told() -> None:
    def fails(call: Any) -> None:
        if call.source == "compact":
            raise ProviderFailed("broken")

    with world() as here, here.session(settings=AHEAD) as session:
        here.line.before = fails
        session.user(ASKED)
        while not here.told(SteppedAside, layer="compact"):
            here.work(session, 1, 2_500)
            session.settle(30)
        asked = here.line.sources.count("compact")
        here.work(session, 1, 50)
        session.settle(30)
        assert here.line.sources.count("compact") == asked
        assert not here.told(Compacted)
    with world() as here, filled(here) as session:
        here.work(session, 2, 300)
        assert here.line.sources.count("compact") == 1
        here.line.free.set()


@pytest.mark.spec("S9.5", "S8.1")
def test_hooks_and_listeners_may_refuse_it() -> None:
    registered = hooks()
    registered.add("PreCompact", lambda given: {"decision": "block", "reason": "no"})
    for more in ({"hooks": registered}, {}):
        with world() as here, here.session(settings=AHEAD, **more) as session:
            if not more:
                here.veto = lambda event: type(event).__name__ == "Proposed"
            session.user(ASKED)
            while session.gauge.seen < session.gauge.threshold * 0.95:
                here.work(session, 1, 1_000)
                session.settle(30)
            assert "compact" not in here.line.sources
            assert not here.told(Compacted)


@pytest.mark.spec("S9.5", "S3.5")
def test_where_notes_would_serve_nothing_is_prepared() -> None:
    with world() as here, here.session(settings={**AHEAD, "notes": True}) as session:
        session.user(ASKED)
        while not here.told(Compacted):
            here.work(session, 1, 1_500)
            session.settle(30)
        assert here.told(Compacted)[0].engine == "notes"
        assert here.told(Acted, layer="notes")
        assert "compact" not in here.line.sources


@pytest.mark.spec("S9.5")
def test_closing_a_session_ends_what_is_under_way() -> None:
    with world() as here:
        session = filled(here)
        session.settle(0)
        session.conversation.close()
        here.line.free.set()
        session.settle(30)
        assert not here.told(Compacted)
        session.close()


@pytest.mark.spec("S9.5", "S3.2")
def test_an_awaited_session_does_the_same_in_tasks() -> None:
    with world() as here:

        async def main() -> None:
            async with anthropic.AsyncAnthropic(api_key="simulated-key", base_url=here.url) as sdk:
                given = here.options(client=sdk, settings=AHEAD)
                async with await sevenfold.AsyncSession.in_memory(**given) as session:
                    await session.user(ASKED)
                    for _ in range(60):
                        done = await session.complete()
                        await session.tool_results({call.id: output(1_500) for call in done.calls})
                        await asyncio.gather(*session._tasks._running)
                        if here.told(Compacted):
                            break
                    assert session.health.compactions == 1
                    assert "Never touch config/prod.yaml" in (await session.prepare()).body.decode()

        asyncio.run(main())
        assert [event.trigger for event in here.told(Compacted)] == ["auto"]


@pytest.mark.spec("S9.5", "S3.9")
@pytest.mark.parametrize("model", MODELS)
def test_one_compaction_does_not_call_for_the_next(model: str) -> None:
    """Notes that cover little leave much to be kept: they serve only if the next compaction is not due at once."""
    taken: list[str] = []

    def once(prompt: ModelPrompt) -> str:
        taken.append("" if taken else noted(prompt))
        return taken[-1]

    both = {**AHEAD, "notes": True}
    with world(Mind(notes=once)) as here, here.session(model=model, settings=both) as session:
        session.user(ASKED)
        for _ in range(50):
            here.work(session, 1, 2_500)
            session.settle(30)
        made = here.told(Compacted)
        begins = 0.8 * session.gauge.threshold
        assert len(made) >= 2
        assert all(one.tokens_after < begins for one in made)
        assert all(one.turns_since > 2 for one in made[1:])


@pytest.mark.spec("S9.5")
def test_hardly_any_session_waits_for_a_model_at_the_threshold() -> None:
    sessions = [(model, seed) for model in background.MODELS for seed in range(4 if PROVING else 2)]
    waits = [background.run(model, 32_000, seed, ahead=True)[1] for model, seed in sessions]
    assert sum(wait > 0 for wait in waits) <= (1 - background.SHARE) * len(waits)
    assert background.run(*sessions[0][:1], 32_000, 0, ahead=False)[1] > 0
