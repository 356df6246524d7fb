"""Recorded sessions held once more: nothing refused, nothing lost, and never dearer than doing nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import policies, prepare_cost
from bench.peers.sessions import Session
from bench.points import session as points
from bench.replay import checks
from bench.replay.checks import ReplayChecker
from bench.replay.run import replay
from sevenfold.clock import CountedIds, ManualClock
from sevenfold.conversation.transcript import Transcript
from sevenfold.events import Acted
from sevenfold.lab.replay import recording
from sevenfold.lab.replay.recording import RecordedStep, Recording
from sevenfold.record import blocks
from sevenfold.record.decisions import CompactMetadata
from sevenfold.record.log import Answer, Place
from sevenfold.stores.jsonl.log import JsonlLog, Sync

MODELS = policies.MODELS
START = 1_790_000_000.0
PAUSE = 3_000.0
SAMPLED = ("agent-9fa17969", "0cd9edf7")
"""Some of the real sessions; all of them are held by `./dev prove`."""


def made_up(steps: int = 40, *, pause_every: int = 15) -> Recording:
    """A session in which the model reads file after file, and the user goes for coffee now and then."""
    made, now, before = list[RecordedStep](), START, ""
    for number in range(steps):
        now += PAUSE if number and number % pause_every == 0 else 20.0
        results = (blocks.result(before, f"line {number} of the file\n" * 250),) if before else ()
        spoken = (blocks.text("Please go on."),) if number % pause_every == 0 else ()
        before = f"toolu_{number}"
        answer = (
            {"type": "thinking", "thinking": f"step {number}: " + "what is in there? " * 30},
            {"type": "text", "text": f"I look at part {number}."},
            {"type": "tool_use", "id": before, "name": "Read", "input": {"path": f"src/{number}.py"}},
        )
        made.append(RecordedStep(results, spoken, now, answer, now + 5.0))
    return Recording("made-up", tuple(made))


def short_of(found: points.Held) -> list[str]:
    """The points that do not hold."""
    return [f"{one.name}: {one.figure}" for one in points.judged([found], "here") if not one.met]


def held(session: Recording, model: str, window: int | None) -> points.Held:
    checker = ReplayChecker(session)
    settings = {} if window is None else {"context_window": window}
    return points.Held(replay(session, model, settings=settings, before=checker), checker.found)


@pytest.mark.spec("S2.2", "S2.4", "S9.1", "S9.2", "S9.3")
@pytest.mark.parametrize("window", [None, 60_000])
@pytest.mark.parametrize("model", MODELS)
def test_a_session_with_pauses_is_held_with_nothing_refused_and_nothing_lost(model, window):
    found = held(made_up(), model, window)
    assert short_of(found) == []
    assert found.run.cleared
    assert found.found.undone + found.found.refused == len(found.run.cleared)
    assert found.found.fetched > 0


@pytest.mark.spec("S1.1", "S2.4", "S9.1", "S9.2")
@pytest.mark.parametrize("window", [None, 100_000])
@pytest.mark.parametrize("model", MODELS)
def test_real_sessions_are_held_with_nothing_refused_and_nothing_lost(corpus, model, window):
    paths = [path for path in policies.sessions(corpus) if path.stem.startswith(SAMPLED)]
    assert len(paths) == len(SAMPLED)
    for path in paths:
        assert short_of(points.hold(path, model, window)) == [], path.stem


@pytest.mark.spec("S0.4")
def test_a_session_that_does_not_fit_ends_with_the_next_step_named():
    found = held(made_up(60, pause_every=100), MODELS[0], 30_000)
    assert found.run.full
    assert points.names_next_step(found.run.ended)
    assert short_of(found) == []


def test_a_replay_over_a_socket_costs_the_same_as_one_without():
    session = made_up(12, pause_every=6)
    runs = [replay(session, MODELS[1], socket=socket) for socket in (False, True)]
    assert runs[0].prompts == runs[1].prompts
    assert runs[0].usd == runs[1].usd
    assert all(run.whole for run in runs)


@pytest.mark.spec("S2.2", "S2.5")
@pytest.mark.parametrize("model", MODELS)
def test_what_a_pause_saves_is_what_was_foretold(model):
    found = checks.savings(made_up(25, pause_every=10), model)
    assert found
    assert max(one.error for one in found) <= points.MOST_ERROR


@pytest.mark.spec("S2.5")
@pytest.mark.parametrize("model", MODELS)
def test_the_planner_is_never_dearer_than_nothing_and_cheaper_than_the_rest(model):
    row = policies.compared(made_up(25, pause_every=10), model)
    assert all(met for _, _, met in policies.bars({"made-up": row})), row
    assert row["planner"].usd < row["nothing"].usd < row["keep last 3"].usd


def test_a_listener_in_a_replay_hears_of_each_step_and_can_refuse():
    refused = checks._Refusing(15)
    run = replay(made_up(17), MODELS[0], listen=refused)
    assert [step for step, _ in run.events_of(Acted)] == []
    assert run.whole


def test_a_recording_holds_what_was_said_on_both_sides_of_a_compaction(tmp_path: Path):
    log, clock = JsonlLog.open(tmp_path / "session.jsonl", sync=Sync.NEVER), ManualClock(START)
    script = Transcript(log, Place("s-1"), clock=clock, ids=CountedIds())
    for number in range(4):
        script.user([blocks.text(f"question {number}")])
        clock.advance(60)
        script.model(Answer(f"msg_{number}", MODELS[0], (blocks.text(f"answer {number}"),)))
        if number == 1:
            script.compact(CompactMetadata(), [blocks.text("What happened so far.")])
    script.close()
    read = recording.read(tmp_path / "session.jsonl")
    assert [blocks.words_of(step.user_content[0]) for step in read.steps] == [
        f"question {n}" for n in range(4)
    ]
    assert [step.answer[0]["text"] for step in read.steps] == [f"answer {n}" for n in range(4)]
    assert [step.answered_at - step.asked_at for step in read.steps] == [60.0] * 4


def test_a_call_without_a_recorded_result_gets_one_that_says_so(tmp_path: Path):
    log = JsonlLog.open(tmp_path / "session.jsonl", sync=Sync.NEVER)
    script = Transcript(log, Place("s-1"), clock=ManualClock(START), ids=CountedIds())
    call = blocks.read(b'{"type":"tool_use","id":"toolu_1","name":"Bash","input":{}}')
    script.user([blocks.text("begin")])
    script.model(Answer("msg_1", MODELS[0], (call,)))
    script.user([blocks.text("never mind")])
    script.model(Answer("msg_2", MODELS[0], (blocks.text("all right"),)))
    script.close()
    read = recording.read(tmp_path / "session.jsonl")
    assert [blocks.words_of(block) for block in read.steps[1].results] == [recording.NO_RESULT]
    assert read.tools == ["Bash"]
    assert replay(read, MODELS[1]).whole


def test_the_turns_that_are_measured_bring_large_results(tmp_path: Path):
    prepare_cost.write(tmp_path / "session", 60)
    measured = Session(tmp_path / "session", 60).turns
    results = [
        block["content"] for turn in measured for block in turn[1]["content"] if "tool_use_id" in block
    ]
    assert results
    assert {len(result) for result in results} == {prepare_cost.RESULT}


def test_a_peer_that_could_not_be_measured_is_no_pass():
    ours = {prepare_cost.OURS: {100: 1.0, 10_000: 1.4}, prepare_cost.PEERS[0]: {10_000: 69.0}}
    verdicts = [met for *_, met in prepare_cost.bars(ours)]
    assert verdicts == [True, False, None, None]


@pytest.mark.spec("S2.5", "S2.6", "S9.6")
@pytest.mark.parametrize("model", MODELS)
def test_clearing_below_the_threshold_costs_no_more_than_compaction_at_the_threshold_alone(model):
    row = policies.held(policies.made(60, 8_000, 20), model, 200_000)
    assert sum(row.decisions.values()) > 1
    assert row.at_threshold == 0
    assert row.usd <= policies.MOST_EACH * row.baseline
    assert row.early <= policies.MOST_EARLY


@pytest.mark.spec("S17.1")
@pytest.mark.parametrize("model", MODELS)
def test_what_clearing_at_the_threshold_costs_is_told_apart(model):
    row = policies.held(policies.made(60, 8_000, 20), model, 100_000)
    assert row.at_threshold > 0
    assert f"{row.at_threshold} times: {row.share:.4f} in total" in policies.long_order([row])
    (_, each, _), (_, early, _) = policies.long_bars([row])[1:3]
    assert each == early == 0


@pytest.mark.spec("S2.12")
def test_a_compaction_that_clearing_put_off_is_made_below_the_threshold_once_that_is_cheaper():
    # A pause lets results go just before a compaction is due; from then on hardly anything is added.
    recording = policies.recorded("put off", [12_000] * 15 + [300] * 60, [20] * 12 + [600] + [20] * 62)
    row = policies.held(recording, MODELS[0], 100_000)
    assert dict(row.decisions) == {"clear local": 1, "compact provider": 1}
    assert max(row.usd / row.baseline, row.early) <= 1.01


def test_a_planner_that_never_acts_or_costs_more_misses_its_bars():
    idle = policies.LongSession("s", MODELS[0], 100_000, 1.0, 1.0, {}, 0.0, 0)
    assert [met for *_, met in policies.long_bars([idle])] == [False, True, True, False]
    dear = policies.LongSession("s", MODELS[0], 100_000, 1.2, 1.0, {"clear local": 2}, 1.3, 0)
    assert [met for *_, met in policies.long_bars([dear])] == [False, False, False, True]
