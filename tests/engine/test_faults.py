"""Whatever goes wrong in a compaction: the conversation is as it was, or compacted, and never half."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anthropic
import pytest
from msgspec.structs import replace

import sevenfold
from sevenfold.conversation.flow import Ask, Fire, Flow, Run, Wait
from sevenfold.conversation.hooks import HookOutcome
from sevenfold.errors import Aborted, Overloaded, PromptTooLong, TranscriptFull
from sevenfold.events import Compacted, Compacting, SteppedAside
from sevenfold.lab.simulator.brains import ModelPrompt, NoSummary
from sevenfold.lab.simulator.faults import Fault
from sevenfold.layers.compact.compaction import CompactionRequest
from sevenfold.layers.on_request import compact
from sevenfold.ports import Call
from sevenfold.session import factory as opened
from sevenfold.stores.memory import MemoryLog
from tests.engine.working import ASKED, BOUND, FREE, Mind, begun, body, output, texts, world
from tests.support import PROVING

pytestmark = pytest.mark.usefixtures("compactions_of_any_size")

TOOL_CALL = [{"type": "tool_use", "id": "toolu_x", "name": "Read", "input": {}}]


def stubborn(prompt: ModelPrompt) -> Any:
    """A model that never writes a summary."""
    return TOOL_CALL if prompt.tools else "<analysis>hm</analysis>"


def raising(error: BaseException, when: str = "compact") -> Callable[[Call], None]:
    def before(call: Call) -> None:
        if call.source == when:
            raise error

    return before


@pytest.mark.spec("S4.16", "S4.3")
@pytest.mark.parametrize("error", [Aborted("stopped"), KeyboardInterrupt()])
@pytest.mark.parametrize("engine", ["provider", "fork", "plain"])
def test_an_abort_leaves_the_conversation_as_it_was(error: BaseException, engine: Any) -> None:
    with world() as here, begun(here) as session:
        known, before = body(session), session.conversation.transcript.view.tip
        here.line.before = raising(error)
        with pytest.raises(type(error)):
            session.compact(engine=engine)
        assert body(session) == known
        assert session.conversation.transcript.view.tip == before
        assert not here.told(Compacted)
        assert session.health.status == ""
        assert here.told(Compacting)[-1].stage == "compact_end"
        assert session.health.failures == 0
        here.line.before = lambda call: None
        assert session.compact(engine=engine) is not None


@pytest.mark.spec("S4.16")
def test_a_cancelled_task_leaves_the_conversation_as_it_was() -> None:
    with world() as here:

        async def main() -> None:
            async with anthropic.AsyncAnthropic(api_key="simulated-key", base_url=here.url) as sdk:
                session = await sevenfold.AsyncSession.in_memory(**here.options(client=sdk))
                await session.user(ASKED)
                for _ in range(5):
                    done = await session.complete()
                    await session.tool_results({call.id: output() for call in done.calls})
                known = (await session.prepare()).body
                compacting = asyncio.create_task(session.compact(engine="fork"))
                while session.health.status != "compacting":
                    await asyncio.sleep(0)
                compacting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await compacting
                assert session.health.status == ""
                assert (await session.prepare()).body == known
                await session.close()

        asyncio.run(main())


@pytest.mark.spec("S4.16")
def test_a_sign_of_life_is_given_while_a_compaction_lasts() -> None:
    class Beats:
        """A runner whose time passes when it is told to."""

        def __init__(self) -> None:
            self.calls: list[tuple[float, Callable[[], None]]] = []
            self.stopped = 0

        def __call__(self, work: Any, done: Any) -> None:
            raise AssertionError("nothing is to be done beside the session here")

        def every(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
            self.calls.append((seconds, call))

            def stop() -> None:
                self.stopped += 1

            return stop

    with world() as here, begun(here) as session:
        beats = session.conversation.background = Beats()

        def passing(call: Call) -> None:
            for _, beat in beats.calls * 2:
                beat()

        here.line.before = passing
        session.compact(engine="fork")
        stages = [event.stage for event in here.told(Compacting)]
        assert stages.count("keep_alive") == 2
        assert stages.index("compact_start") < stages.index("keep_alive") < stages.index("compact_end")
        assert [seconds for seconds, _ in beats.calls] == [30.0]
        assert beats.stopped == 1


@pytest.mark.spec("S4.11", "S4.12")
@pytest.mark.parametrize("failures", [1, 2, 3, 4, 6, 9])
def test_when_the_summary_call_fails_so_many_times_the_conversation_is_compacted_all_the_same(
    failures: int,
) -> None:
    with world() as here, begun(here) as session:
        here.simulator.faults.then(Fault("overloaded"), failures)
        done = session.compact()
        assert done is not None
        assert done.score.total.lost == 0
        assert ASKED in texts(body(session))
        here.simulator.faults.then(Fault("cache_eviction"), 0)
        if failures < 9:
            return
        assert done.engine == "extractive"
        assert {left.engine for left in done.left} >= {"fork", "plain"}


@pytest.mark.spec("S4.11", "S4.17", "S8.5")
def test_three_automatic_failures_open_the_breaker_once_and_a_model_summary_closes_it(
    tmp_path: Path,
) -> None:
    mind, file = Mind(summary=stubborn), tmp_path / "s.jsonl"
    with world(mind, summarise=lambda request: NoSummary()) as here:
        with here.open(file) as session:
            session.user(ASKED)
            while len(here.told(Compacted)) < 2:
                here.work(session, 1, 6_000)
            assert session.health.failures == 2
            assert not session.health.breaker_open
            session.compact("by hand")
            assert session.health.failures == 2
        with here.open(file) as session:
            assert session.health.failures == 2
            while len(here.told(Compacted)) < 5:
                here.work(session, 1, 6_000)
            assert session.health.breaker_open
            calls = mind.asked.count("summary")
            while len(here.told(Compacted)) < 7:
                here.work(session, 1, 6_000)
            assert mind.asked.count("summary") == calls
            assert len(here.told(SteppedAside, layer="breaker")) == 1
            assert {event.engine for event in here.told(Compacted)} == {"extractive"}
        mind.summary = Mind().summary
        with here.open(file) as session:
            assert session.health.breaker_open
            here.work(session, 3)
            done = session.compact("by hand", engine="fork")
            assert done is not None
            assert done.engine == "fork"
            assert not session.health.breaker_open


@pytest.mark.spec("S4.6", "S4.18")
def test_too_long_to_summarise_the_oldest_rounds_are_dropped_and_it_is_said() -> None:
    refusals = [PromptTooLong("prompt is too long: 9000 tokens > 8000 maximum")] * 2

    def before(call: Call) -> None:
        if call.source == "compact" and refusals:
            raise refusals.pop()

    with world() as here, begun(here, 8) as session:
        here.line.before = before
        done = session.compact(engine="plain")
        assert done is not None
        assert done.engine == "plain"
        assert done.calls == 3
        assert len(done.retries) == 2
        assert "rounds dropped" in done.retries[0]
        assert "was left out" in json.loads(here.bodies[-1])["messages"][0]["content"][0]["text"]
        assert ASKED in done.words.text
        assert here.told(Compacted)[0].retries == done.retries


@pytest.mark.spec("S17.3", "S4.6")
@pytest.mark.parametrize(("engines", "calls"), [(["fork", "plain"], 5), (["plain"], 5), (["fork"], 4)])
def test_a_provider_that_finds_every_size_too_long_is_asked_five_times_at_most(
    engines: list[str], calls: int
) -> None:
    with world() as here, begun(here, 12, settings={"compact_engines": engines}) as session:
        asked = len(here.line.sources)
        here.line.before = raising(PromptTooLong("prompt is too long"))
        done = session.compact()
        assert done is not None
        assert done.engine == "extractive"
        assert done.calls == len(here.line.sources) - asked == calls
        if "plain" in engines:
            assert done.retries[-1].startswith("part 1 of "), (
                "what is asked last is small, and leaves nothing out"
            )


@pytest.mark.spec("S4.6", "S4.12")
@pytest.mark.parametrize("trigger", ["by hand", "at the threshold"])
def test_too_long_at_every_retry_it_is_extracted(trigger: str) -> None:
    with world() as here, begun(here) as session:
        here.line.before = raising(PromptTooLong("prompt is too long"))
        if trigger == "by hand":
            done: Any = session.compact()
        else:
            while not here.told(Compacted):
                here.work(session, 1, 6_000)
            done = here.told(Compacted)[0]
        assert done.engine == "extractive"
        assert ASKED in texts(body(session))


@pytest.mark.spec("S4.6", "S4.3")
def test_what_fits_no_request_is_summarised_in_parts_that_become_one() -> None:
    def part(prompt: ModelPrompt) -> str:
        n = "1" if "part 1 of" in prompt.last_text else "2" if "part 2 of" in prompt.last_text else "n"
        return f"<summary>\n## 2. Key technical concepts\nConcept of part {n}.\n</summary>"

    small = "claude-3-5-haiku"
    given = {"summary_model": small, "context_window": 900_000, "offload": False, "auto_compact": False}
    with world(Mind(summary=part)) as here, begun(here, 12, 60_000, settings=given, model=FREE) as session:
        assert session.gauge.seen > 200_000
        done = session.compact(engine="plain")
        assert done is not None
        assert done.engine == "plain"
        assert done.calls >= 2
        assert all(json.loads(raw)["model"] == small for raw in here.bodies[-done.calls :])
        assert "Concept of part 1." in done.summary
        assert "Concept of part 2." in done.summary


@pytest.mark.spec("S4.3")
def test_a_second_model_summarises_and_where_it_fails_the_first_does() -> None:
    second = "claude-haiku-5-5"
    mind = Mind()
    with world(mind) as here, begun(here, settings={"summary_model": second}) as session:
        done = session.compact(engine="plain")
        assert done is not None
        assert json.loads(here.bodies[-1])["model"] == second
        here.work(session, 3)
        usual = mind.summary
        mind.summary = lambda prompt: usual(prompt) if prompt.model == BOUND else "<analysis>x</analysis>"
        done = session.compact(engine="plain")
        assert done is not None
        assert done.engine == "plain"
        assert [json.loads(raw)["model"] for raw in here.bodies[-2:]] == [second, BOUND]


@pytest.mark.spec("S4.3")
def test_on_a_cold_cache_the_cheaper_model_goes_first() -> None:
    given = {"summary_model": "claude-haiku-5-5"}
    with world() as here, begun(here, settings=given) as session:
        assert session.compact_preview().engine != "plain"
        here.clock.advance(3_700)
        assert session.compact_preview().engine == "plain"
        done = session.compact()
        assert done is not None
        assert done.engine == "plain"
        assert json.loads(here.bodies[-1])["model"] == "claude-haiku-5-5"


class FullDisk(MemoryLog):
    """A log that takes a whole compaction only when there is room."""

    full = False

    def append(self, lines: Sequence[bytes], *, durable: bool = False) -> Sequence[int]:
        if self.full and len(lines) > 1:
            raise TranscriptFull("the disk is full")
        return super().append(lines, durable=durable)


@pytest.mark.spec("S4.11", "S8.5")
def test_on_a_full_disk_nothing_changes_and_the_session_goes_on() -> None:
    log = FullDisk()
    with world() as here:
        options: Any = here.options()
        store = replace(opened.in_memory("s", options["settings"]), log=log)
        engine = opened.conversation(store, options.pop("model"), options)
        with sevenfold.Session(engine, store, here.line) as session:
            session.user(ASKED)
            here.work(session, 6)
            known = body(session)
            log.full = True
            with pytest.raises(TranscriptFull):
                session.compact(engine="fork")
            assert body(session) == known
            while not here.told(SteppedAside, error="TranscriptFull"):
                here.work(session, 1, 3_000)
            assert not here.told(Compacted)
            log.full = False
            while not here.told(Compacted):
                here.work(session, 1, 1_000)


@pytest.mark.spec("S4.16", "S8.4", "S4.11")
@pytest.mark.parametrize("model", [BOUND, FREE])
def test_cut_off_at_any_byte_it_resumes_to_before_or_after(tmp_path: Path, model: str) -> None:
    file = tmp_path / "s.jsonl"
    with world() as here:
        with here.open(file, model=model) as session:
            session.user(ASKED)
            here.work(session, 4, 300)
            before = body(session)
            start = file.stat().st_size
            session.compact(engine="extractive")
            after = body(session)
        whole = file.read_bytes()
        end = whole.index(b"\n", whole.index(b'"kind":"commit"')) + 1
        assert before != after
        stride = 17 if PROVING else 211
        places = {*range(start, end, stride), *range(end - 40, end + 1), start, start + 1}
        places |= {
            near for n in range(start, end) if whole[n : n + 1] == b"\n" for near in (n, n + 1, n + 2)
        }
        places = {place for place in places if place <= len(whole)}
        seen = set()
        for place in sorted(places):
            copy = tmp_path / f"at{place}.jsonl"
            copy.write_bytes(whole[:place])
            with here.open(copy, model=model) as session:
                found = body(session)
                seen.add(found == after)
                name = str(file).encode()
                expected = (before, after) if name not in found else (after,)
                assert found in expected or found.replace(str(copy).encode(), name) in (before, after)
            copy.unlink()
        assert seen == {True, False}


@pytest.mark.spec("S10.1", "S8.6")
@pytest.mark.parametrize("model", [BOUND, FREE])
@pytest.mark.parametrize("engine", ["provider", "fork", "extractive"])
def test_a_compaction_undone_at_once_gives_the_same_bytes_again(model: str, engine: Any) -> None:
    with world() as here, begun(here, 8, model=model) as session:
        known = body(session)
        done = session.compact(engine=engine)
        assert done is not None
        assert body(session) != known
        compacted = body(session)
        assert session.undo() == done.boundary
        assert body(session) == known
        session.redo()
        assert json.loads(body(session))["messages"] == json.loads(compacted)["messages"]
        session.undo()
        here.work(session, 2)


@pytest.mark.spec("S10.1")
def test_after_an_undo_the_conversation_is_left_alone_as_long_as_it_fits() -> None:
    with world() as here, here.session() as session:
        session.user(ASKED)
        while not here.told(Compacted):
            here.work(session, 1, 3_000)
        session.undo()
        assert session.gauge.seen >= session.gauge.threshold * 0.9
        here.work(session, 1, 100)
        assert len(here.told(Compacted)) == 1
        while len(here.told(Compacted)) < 2:
            here.work(session, 1, 2_000)


@pytest.mark.usefixtures("real_pauses")
@pytest.mark.spec("S4.3", "S4.20")
def test_calls_for_a_summary_that_break_off_are_repeated_after_pauses_that_grow() -> None:
    with world() as here, begun(here) as session:
        flow = compact(session.conversation, CompactionRequest(engine="plain"))
        calls, waited = _driven(flow, Overloaded("busy"))
        assert calls == 3
        assert len(waited) == 2
        assert 1 <= waited[0] <= 1.25
        assert 2 <= waited[1] <= 2.5


@pytest.mark.spec("S4.6", "S4.20")
def test_a_fork_that_is_too_long_is_asked_again_without_its_oldest_rounds() -> None:
    refusals = [PromptTooLong("prompt is too long: 9000 tokens > 8000 maximum")] * 2

    def before(call: Call) -> None:
        if call.source == "compact" and refusals:
            raise refusals.pop()

    with world() as here, begun(here, 8) as session:
        system = json.loads(here.bodies[-1])["system"]
        here.line.before = before
        done = session.compact(engine="fork")
        assert done is not None
        assert (done.engine, done.calls, len(done.retries)) == ("fork", 3, 2)
        asked = json.loads(here.bodies[-1])
        assert [part["text"] for part in asked["system"]] == [part["text"] for part in system]
        assert "was left out" in asked["messages"][0]["content"][0]["text"]
        assert ASKED in done.words.text


def _driven(flow: Flow[Any], error: Exception) -> tuple[int, list[float]]:
    """How many calls a flow makes that all fail, and how long it waits each time."""
    calls, waited = 0, list[float]()
    effect = next(flow)
    while True:
        try:
            match effect:
                case Ask():
                    calls += 1
                    effect = flow.throw(error)
                case Wait(seconds=seconds):
                    waited.append(seconds)
                    effect = flow.send(False)
                case Fire(event=event):
                    effect = flow.send(HookOutcome(event=type(event).__name__))
                case Run(now=now):
                    effect = flow.send(now())
        except StopIteration:
            return calls, waited
