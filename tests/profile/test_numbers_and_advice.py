"""Numbers of requests, windows, families of agents; work in proportion; and what a profile advises."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from sevenfold.archive.profile.advice import advice, advice_in_total
from sevenfold.archive.profile.figures import total
from sevenfold.archive.profile.files import profile_file
from sevenfold.archive.readers import codex
from sevenfold.cli.profile import chart_marks
from sevenfold.cli.profile_tables import families
from sevenfold.cli.text import money
from sevenfold.session.session import Session
from sevenfold.stores.jsonl.store import JsonlStore
from tests.profile.making import Rollout, Tape, text, usage


def calls_of(tape: Tape, path: Path) -> int:
    """How many Python functions and generator steps a profile takes."""
    tape.save(path)
    steps = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal steps
        steps += event == "call"

    sys.setprofile(count)
    try:
        profile_file(path)
    finally:
        sys.setprofile(None)
    return steps


def long_tape(turns: int) -> Tape:
    tape = Tape()
    for number in range(turns):
        tape.user(f"Question {number}?")
        tape.answer(f"m{number}", usage(10, 100 * number, 100, output=20), text(f"Answer {number}."))
    return tape


@pytest.mark.spec("S31.2")
def test_a_session_twice_as_long_takes_twice_the_work(tmp_path: Path) -> None:
    calls_of(long_tape(10), tmp_path / "warm.jsonl")
    short = calls_of(long_tape(300), tmp_path / "short.jsonl")
    long = calls_of(long_tape(600), tmp_path / "long.jsonl")
    assert long / short < 2.1


@pytest.mark.spec("S31.2")
def test_a_rollout_is_converted_while_it_is_being_read() -> None:
    rollout = Rollout().record("session_meta", id="s-1", cwd="/quay", cli_version="0.60")
    for number in range(50):
        rollout.item(
            "message", role="user", content=[{"type": "input_text", "text": f"Question {number}?"}]
        )
        rollout.item("message", role="assistant", content=[{"type": "output_text", "text": "Answer."}])
        rollout.count(prompt=100, output=5)
    read = 0

    def lines() -> Iterator[bytes]:
        nonlocal read
        for line in rollout.lines:
            read += 1
            yield line.encode() + b"\n"

    converted = codex.convert(lines())
    next(converted)
    assert read <= 3
    list(converted)
    assert read == len(rollout.lines)


@pytest.mark.spec("S31.2")
def test_context_that_codex_sent_along_is_told_from_what_the_user_typed() -> None:
    typed = "<b>is this bold?</b>"
    rollout = Rollout().record("session_meta", id="s-1", cwd="/quay", cli_version="0.60")
    for words in ("<environment_context>quay</environment_context>", typed):
        rollout.item("message", role="user", content=[{"type": "input_text", "text": words}])
    rollout.record("event_msg", type="user_message", message=typed)
    rollout.item("message", role="assistant", content=[{"type": "output_text", "text": "Yes."}])
    records = [json.loads(line) for line in codex.convert(line.encode() for line in rollout.lines)]
    assert [record.get("isMeta", False) for record in records] == [True, False, False]


@pytest.mark.spec("S31.3")
def test_a_break_is_numbered_within_its_conversation_whatever_the_engine_called(tmp_path: Path) -> None:
    tape = Tape().user("go").answer("m1", usage(0, 0, 40_000), text("x"))
    billed = {"type": "sevenfold", "kind": "billed", "id": "b1", "request": "r", "model": "claude-opus-4-5"}
    for number in range(5):
        about = {**billed, "id": f"b{number}", "request": f"r{number}", "usage": usage(100, output=5)}
        tape.line(json.dumps(about))
    tape.user("on").answer("m2", usage(0, 0, 41_000), text("y"))
    profile = tape.profile(tmp_path)
    [lost] = profile.cache_breaks
    assert (profile.engine_calls, lost.request) == (5, 2)
    assert [mark.place for mark in chart_marks(profile)] == [1]


@pytest.mark.spec("S31.3")
def test_the_window_of_a_session_of_ours_is_the_one_it_records(tmp_path: Path) -> None:
    store = JsonlStore(tmp_path)
    settings = {"context_window": 40_000}
    with Session.open("s-1", model="offline", store=store, settings=settings, memory=False) as session:
        session.user("Hello.")
        session.complete()
    [path] = list(tmp_path.rglob("s-1.jsonl"))
    profile, _ = profile_file(path)
    assert (profile.window_tokens, profile.window_source) == (40_000, "recorded")


@pytest.mark.spec("S31.3")
def test_the_log_of_an_agent_of_ours_belongs_to_the_session_that_started_it(tmp_path: Path) -> None:
    tape = Tape(sessionId="agent-7").user("look").answer("m1", usage(10, output=5), text("x"))
    folder = tmp_path / "branches" / "s-1"
    folder.mkdir(parents=True)
    agent, _ = profile_file(tape.save(folder / "agent-7.jsonl"))
    assert (agent.session_id, agent.agent_id, agent.parent) == ("s-1", "agent-7", "s-1")
    tape = Tape(sessionId="s-1").user("go").answer("m2", usage(10, output=5), text("y"))
    main, _ = profile_file(tape.save(tmp_path / "s-1.jsonl"))
    assert families([agent, main]) == [[main, agent]]


def idle_tape(pause: float) -> Tape:
    tape = Tape()
    for number in range(4):
        tape.wait(pause).user("go").answer(f"m{number}", usage(0, 0, 100_000), text("x"))
    return tape


@pytest.mark.spec("S31.4")
def test_idle_breaks_are_priced_and_a_longer_lifetime_is_weighed(tmp_path: Path) -> None:
    [sentence, *_] = advice(idle_tape(900).profile(tmp_path), money)
    # Three breaks of 100,000 tokens, each written at $6.25 instead of read at $0.50 a million.
    assert sentence.startswith("3 idle breaks cost $1.72: ")
    # All writes of the session for an hour: 400,000 tokens at $3.75 a million more.
    assert "avoids 3 of them: $0.22 less in all" in sentence


@pytest.mark.spec("S31.4")
def test_a_longer_lifetime_is_not_advised_for_pauses_that_outlast_it(tmp_path: Path) -> None:
    [sentence, *_] = advice(idle_tape(7_200).profile(tmp_path), money)
    assert "lifetime of one hour" not in sentence
    assert "compacting before a long pause" in sentence


@pytest.mark.spec("S31.4")
def test_each_cause_has_its_sentence_the_dearest_first(tmp_path: Path) -> None:
    tape = Tape().user("go").answer("m1", usage(0, 0, 100_000), text("x"))
    diagnostics = {"cache_miss_reason": {"type": "tools_changed"}}
    tape.user("on").answer("m2", usage(0, 0, 101_000), text("x"), diagnostics=diagnostics)
    tape.user("on").answer("m3", usage(0, 0, 10_000), text("x"), model="claude-sonnet-4-5")
    profile = tape.profile(tmp_path)
    sentences = list(advice(profile, money))
    assert sentences[0].startswith("1 change of the tools cost $")
    assert sentences[1].startswith("1 change of model cost $")
    [in_total] = advice_in_total(total([profile]).cache_breaks, money)
    assert in_total == sentences[0]


@pytest.mark.spec("S31.4")
def test_a_session_without_losses_is_given_no_advice(tmp_path: Path) -> None:
    tape = Tape().user("go").answer("m1", usage(0, 0, 10_000), text("x"))
    tape.user("on").answer("m2", usage(0, 10_000, 50), text("x"))
    assert list(advice(tape.profile(tmp_path), money)) == []
