"""The benchmarks and the proof, on the smallest scale: that they run, count right and judge right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import fuzz_reader, importing, open_cost, prove, resume, turn_cost
from bench.peers import sessions
from bench.peers.adapters import floor, sevenfold_
from bench.peers.run import ENGINES, adapter_of
from bench.peers.timing import Bench, Case
from bench.points import all_of, at_most, corpus, counting, recount
from tests.support import Story, call, result, usage


@pytest.fixture
def transcripts(tmp_path: Path) -> Path:
    """A folder with a transcript of ten calls, one of them beside the main conversation, and another file."""
    story = Story()
    story.user("begin")
    for number in range(9):
        story.assistant("well", id=f"m{number}", used=usage(100 + number, read=50))
        story.assistant(call(f"t{number}"), id=f"m{number}", used=usage(100 + number, read=50, output=20))
        story.user([result(f"t{number}")])
    story.user("aside", isSidechain=True, parentUuid=None)
    story.assistant("yes", id="side", used=usage(40), isSidechain=True)
    (tmp_path / "session.jsonl").write_bytes(b"".join(story.lines))
    (tmp_path / "other.jsonl").write_text('{"type":"note"}\n')
    return tmp_path


# Opening a large transcript


@pytest.mark.parametrize("shape", ["own", "foreign"])
def test_opening_reads_the_end_of_a_transcript_and_finds_all_that_is_in_view(shape: str) -> None:
    found = resume.measure(12 * resume.MB, shape=shape, tails=(300_000,), whole=("decode",), runs=1)
    opened = found["tails"][0]["open"]
    assert opened["items"] == found["tails"][0]["small"]["items"] > 50
    assert found["boundaries"] >= 5
    if Path("/proc/self/io").exists():
        assert opened["read_mb"] < found["size"] / resume.MB / 2 < found["whole"]["decode"]["read_mb"]


def test_a_transcript_that_was_read_too_far_misses_its_bar() -> None:
    row = {"items": 5, "memory_mb": 10.0, "read_mb": 900.0, "cpu_ms": 30.0}
    judged = resume.bars({"tails": [{"tail": resume.MB, "open": row, "small": {**row, "items": 6}}]})
    assert [name for name, *_, met in judged if not met] == [
        "1 MB tail: records missing in view",
        "1 MB tail: MB read",
    ]


def test_opening_a_session_is_held_against_the_quickest_peer() -> None:
    found = open_cost.measure(40, ways=(open_cost.OURS, "SDK loop"), runs=1)
    assert all(row["cpu_ms"] > 0 for row in found.values())
    assert found[open_cost.OURS]["mb"] == pytest.approx(found["SDK loop"]["mb"], rel=0.05)
    rows = {open_cost.OURS: {"cpu_ms": 50.0}, "one": {"cpu_ms": 24.0}, "other": {"cpu_ms": 90.0}}
    assert [(name, met) for name, *_, met in open_cost.bars(rows)] == [
        ("open and first body, x one", False)
    ]
    assert [met for *_, met in open_cost.bars({open_cost.OURS: {"cpu_ms": 50.0}})] == [None]


# The cost of a turn


def test_turns_are_measured_at_every_length() -> None:
    rows = turn_cost.measure_all((4, 20), runs=1, rounds=2)
    assert [row["messages"] for row in rows] == [4, 20]
    assert all(row["turn"] > 0 and row["floor"] > 0 and row["mb"] > 0 for row in rows)


def test_a_turn_is_judged_by_the_first_length_and_by_its_floor() -> None:
    row = {"messages": 100, "turn": 1.0, "floor": 0.1, "x_first": 1.0, "x_floor": 8.0, "x_join": 1.0}
    slow = {**row, "messages": 1000, "x_first": 1.6}
    assert [met for *_, met in turn_cost.bars([row, slow])] == [False, True, True]
    assert [met for *_, met in turn_cost.bars([row, {**row, "x_floor": 8.6}])] == [True, False, True]


def test_importing_is_compared_with_a_bare_interpreter() -> None:
    found = importing.measure(1, install=False)
    assert found["starts"][importing.BARE]["more_wall"] == 0
    assert [met for *_, met in found["bars"]][1] is None


# The fuzzer


def test_the_transcript_the_fuzzer_starts_from_is_sound() -> None:
    assert fuzz_reader.problem(fuzz_reader.seeds()) == ""


def test_the_same_seed_bends_the_same_transcripts() -> None:
    stock = fuzz_reader.seeds()
    one, other = fuzz_reader.Bender(3, stock), fuzz_reader.Bender(3, stock)
    bent = [one.lines() for _ in range(30)]
    assert bent == [other.lines() for _ in range(30)]
    assert any(lines != stock for lines in bent)


# Peers


@pytest.mark.parametrize(
    "case", [*floor.ADAPTER.cases, *sevenfold_.ADAPTER.cases], ids=lambda case: case.name
)
def test_the_cases_that_need_no_peer_run(case: Case, tmp_path: Path) -> None:
    sessions.write(tmp_path / "session", 60)
    bench = Bench(tmp_path)
    case.run(sessions.Session(tmp_path / "session", 60), bench)
    assert len(bench.spent) > 1


def test_every_adapter_can_be_read_without_what_it_measures() -> None:
    names = [
        (adapter_of(engine).name, case.name) for engine in ENGINES for case in adapter_of(engine).cases
    ]
    assert len(set(names)) == len(names) > 20


# The proof


def test_a_recount_counts_a_response_once_and_by_its_last_record(transcripts: Path) -> None:
    path = transcripts / "session.jsonl"
    counted = recount.count(path, recount.kind_of(path))
    assert counted.calls == 10
    assert counted.usage == (sum(range(50, 59)) + 40, 450, 0, 9 * 20 + 10)
    assert recount.kind_of(transcripts / "other.jsonl") == ""


def test_a_rollout_is_recounted_by_the_totals_that_grew(tmp_path: Path) -> None:
    totals = [(10, 0, 5), (10, 0, 5), (30, 8, 9)]
    lines = [{"timestamp": "t", "type": "compacted", "payload": {}}]
    for sent, cached, said in totals:
        used = {"input_tokens": sent, "cached_input_tokens": cached, "output_tokens": said}
        info = {"total_token_usage": {**used, "total_tokens": sent + said}}
        lines.append(
            {"timestamp": "t", "type": "event_msg", "payload": {"type": "token_count", "info": info}}
        )
    path = tmp_path / "rollout.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert recount.kind_of(path) == "codex"
    assert recount.count(path, "codex") == recount.Count(2, (22, 8, 0, 9), 1, 0)


def test_the_points_about_real_transcripts_hold_for_one_made_by_hand(transcripts: Path) -> None:
    outcomes = [one for _, measurement in corpus.POINTS for one in measurement(transcripts)]
    assert [(one.name, one.figure) for one in outcomes if not one.met] == []
    assert [one.figure for one in outcomes][-1] == "10 of 10, 0 of them mended"


def test_a_request_that_no_server_would_take_fails_its_point(transcripts: Path) -> None:
    path = transcripts / "session.jsonl"
    record = json.loads(path.read_bytes().splitlines()[0])
    record["message"]["content"] = [{"type": "text", "text": "x", "cache_control": {"type": "wrong"}}]
    rest = path.read_bytes().split(b"\n", 1)[1]
    path.write_bytes(json.dumps(record).encode() + b"\n" + rest)
    (outcome,) = corpus.requests(transcripts)
    assert outcome.met is False
    assert "9 cache_control_form" in outcome.figure


def test_without_real_transcripts_their_points_are_skipped_and_not_passed() -> None:
    for _, measurement in [*corpus.POINTS, *counting.POINTS]:
        outcomes = measurement(None)
        assert outcomes
        assert {one.met for one in outcomes} == {None}


def test_nothing_measured_is_no_pass() -> None:
    assert all_of("files", 0, 0).met is False
    assert at_most("ms", 60.0, 60).met
    assert not at_most("ms", 60.1, 60).met


def test_a_measurement_that_dies_is_a_failure_like_any_other() -> None:
    (outcome,) = prove.measured(("broken", len), None)  # type: ignore[arg-type]  # on purpose: it raises
    assert outcome.met is False
    assert "TypeError" in outcome.figure


def test_the_proof_names_its_measurements(capsys: pytest.CaptureFixture[str]) -> None:
    assert prove.main(["--list"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert listed == [name for name, _ in prove.points()]
    assert len(set(listed)) == len(listed) > 5
