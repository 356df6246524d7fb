"""The benchmarks and the proof, on the smallest scale: that they run, count right and judge right."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from coverage import CoverageData

from bench import fuzz_reader, importing, loop_stall, open_cost, prove, resume, turn_cost
from bench.peers import sessions
from bench.peers.adapters import floor, sevenfold_
from bench.peers.run import ENGINES, adapter_of
from bench.peers.timing import Bench, Case
from bench.points import (
    Outcome,
    Point,
    all_of,
    at_most,
    corpus,
    counting,
    faults,
    line_map,
    mutation,
    recount,
)
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
    row = {"messages": 100, "turn": 1.0, "floor": 0.1, "x_first": 1.0, "x_floor": 6.0, "x_join": 1.0}
    slow = {**row, "messages": 1000, "x_first": 1.6}
    assert [met for *_, met in turn_cost.bars([row, slow])] == [False, True, True]
    assert [met for *_, met in turn_cost.bars([row, {**row, "x_floor": 6.1}])] == [True, False, True]


def test_importing_is_compared_with_a_bare_interpreter() -> None:
    found = importing.measure(1, install=False)
    assert found["starts"][importing.BARE]["more_wall"] == 0
    assert [met for *_, met in found["bars"]][1] is None


# A slow store and an event loop


def test_a_store_used_in_the_loop_itself_stalls_it_and_that_is_seen() -> None:
    stalls = loop_stall.of_session_in_the_loop(turns=1, store_seconds=0.02)
    assert stalls.store_calls > 5
    assert stalls.worst >= 0.02


def test_both_kinds_of_sessions_ask_as_much_of_the_slow_store() -> None:
    aside = loop_stall.of_async_session(turns=1, store_seconds=0.001)
    assert aside.store_calls == loop_stall.of_session_in_the_loop(turns=1, store_seconds=0.001).store_calls


def test_a_loop_that_is_late_without_a_store_allows_no_verdict() -> None:
    def stalls(milliseconds: float) -> loop_stall.Stalls:
        return loop_stall.Stalls(store_calls=9, late=[0.0, milliseconds / 1e3])

    table = {
        "idle loop": stalls(1),
        "slow store": stalls(4),
        "quick store": stalls(1),
        "slow store, in the loop": stalls(90),
    }
    assert [bar.met for bar in loop_stall.bars(table)] == [True, True]
    assert [bar.met for bar in loop_stall.bars({**table, "slow store": stalls(6)})] == [False, True]
    assert [bar.met for bar in loop_stall.bars({**table, "idle loop": stalls(6)})] == [None, True]
    assert [bar.met for bar in loop_stall.bars({**table, "slow store, in the loop": stalls(6)})] == [
        True,
        False,
    ]


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
    assert [(one.name, one.figure) for one in outcomes if one.met is False] == []
    assert [one.name for one in outcomes if one.met is None] == [corpus.INVENTED]
    figures = {one.name: one.figure for one in outcomes}
    assert figures[corpus.VALID] == "10 of 10, 0 of them mended"
    assert figures[corpus.FOUND] == figures[corpus.TRUE] == "1 of 1"


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


def sleeps(_: Path | None) -> list[Outcome]:
    time.sleep(600)
    return []


def test_a_measurement_that_takes_too_long_is_ended_and_fails() -> None:
    (outcome,) = prove.measured(("slow", sleeps), None, 0.5)
    assert outcome.met is False
    assert "no end after" in outcome.figure


def test_what_passed_is_not_measured_again_with_the_same_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs: list[str] = []

    def measured(point: Point, *_: object) -> list[Outcome]:
        runs.append(point[0])
        return [Outcome(point[0], point[0] != "bad", "1", "at most 1")]

    monkeypatch.setattr(prove, "measured", measured)
    chosen: list[Point] = [("good", sleeps), ("bad", sleeps)]
    for again, expected in [(False, ["good", "bad"]), (False, ["bad"]), (True, ["good", "bad"])]:
        runs.clear()
        proved = prove.Proved(tmp_path / "kept" / "commit.json")
        assert prove.prove(chosen, None, proved, quick=False, again=again) == 1
        assert runs == expected
    shown = capsys.readouterr().out
    assert shown.count("[passed before]") == 1
    assert "pass  good: 1  (at most 1)" in shown


def test_any_change_of_the_tree_is_another_state(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    assert prove.state_of_tree(tmp_path) == ""
    git("init")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-m", "one")
    states = [prove.state_of_tree(tmp_path)]
    (tmp_path / "a").write_text("2")
    states.append(prove.state_of_tree(tmp_path))
    (tmp_path / "b").write_text("new")
    states.append(prove.state_of_tree(tmp_path))
    assert len(set(states)) == 3
    assert [state.partition("-")[0] for state in states] == [states[0]] * 3


def test_a_quick_proof_takes_some_of_the_transcripts_and_stops_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(7):
        (tmp_path / f"{number}.jsonl").write_text("{}")
    with prove.sample(tmp_path) as some:
        assert sorted(path.name for path in some.iterdir()) == ["0.jsonl", "3.jsonl", "6.jsonl"]
    monkeypatch.setattr(prove, "QUICK_SECONDS", 0.0)
    assert prove.prove([("late", sleeps)], None, prove.Proved(None), quick=True, again=False) == 0
    assert "skip  late: no time was left for it" in capsys.readouterr().out


# Faults

FAULTY = b'''"""Says 1 < 2."""
def f(a: int = 3, *, b: bool = True) -> "1 + 1":
    """And 2."""
    assert a > 0
    logger.debug(a + 1)
    if not a <= 4 and b:
        note(a)
        return a - 1
    raise ValueError(a + 1)
'''


def test_faults_are_put_only_where_a_run_can_notice_them() -> None:
    found = {(fault.line, fault.new) for fault in faults.faults(FAULTY)}
    assert {(6, "(not a <= 4 or b)"), (6, "(a <= 4)"), (6, "(a < 4)"), (6, "(5)"), (7, "pass")} <= found
    assert {(8, "return None"), (8, "(a + 1)"), (8, "(2)")} <= found
    assert {line for line, _ in found} <= {5, 6, 7, 8}


def test_no_fault_is_one_that_could_change_nothing() -> None:
    source = (
        b"def f(a) -> bool:\n    return a\n\ndef g(a) -> int:\n    return a\n\nLIMIT, PLACE = 4096, 3\n"
    )
    assert {fault.new for fault in faults.faults(source)} == {
        "return not a",
        "return None",
        "(40960)",
        "(4)",
    }


def test_an_assertion_is_no_place_for_a_fault() -> None:
    assert faults.faults(b"assert a > 1\nb = list(zip(c, d, strict=True))\n") == []


def test_a_comparison_with_a_limit_is_turned_round_and_one_with_a_count_is_off_by_one() -> None:
    source = (
        b"MOST, SHARE, FEW = 4096, 0.5, 3\nTWICE = 2 * MOST\ndef f(a):\n    return (a > MOST, a < SHARE, "
    )
    source += b"a <= TWICE, a >= 100 * a, a > FEW, a < b)\n"
    turned = {fault.new for fault in faults.faults(source) if fault.line == 4}
    assert {"(a <= MOST)", "(a >= SHARE)", "(a > TWICE)", "(a < 100 * a)"} <= turned
    assert {"(a >= FEW)", "(a <= b)"} <= turned


def test_a_fault_changes_one_place_and_the_same_seed_gives_the_same_faults(tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "one.py").write_bytes("# ein Gruß\n".encode() + FAULTY)
    chosen = faults.choose(tmp_path, ["pack"], 5, seed=1)
    assert (
        chosen
        == faults.choose(tmp_path, ["pack"], 5, seed=1)
        != faults.choose(tmp_path, ["pack"], 5, seed=2)
    )
    source = (tmp_path / "pack" / "one.py").read_bytes()
    for fault in chosen:
        spoilt = fault.applied(source)
        compile(spoilt, "one.py", "exec")
        assert fault.old in source.decode()
        assert len(spoilt) - len(source) == len(fault.new) - len(fault.old)


def measured_test(seconds: float, total: int, **lines: int) -> line_map.MeasuredTest:
    """A test that runs one line of each of these modules, and as many in all."""
    bits = {f"{module}.py": (1 << line).to_bytes(9, "little") for module, line in lines.items()}
    return line_map.MeasuredTest(seconds, bits, total)


def test_the_tests_for_a_fault_are_those_that_run_its_line_the_most_specific_first() -> None:
    fault = faults.Fault("a.py", 3, 0, 1, "x", "y")
    far = measured_test(0.1, 9, a=3)
    near = measured_test(0.1, 2, a=3, b=1)
    other = measured_test(0.1, 1, a=4)
    tests = {"test_1.py::far": far, "test_1.py::near": near, "test_1.py::other": other}
    assert mutation.tests_for(fault, line_map.LineMap(tests)) == ["test_1.py::near", "test_1.py::far"]
    assert mutation.tests_for(fault, line_map.LineMap()) == []


def test_a_line_that_runs_at_import_is_tested_by_what_runs_most_of_its_module() -> None:
    fault = faults.Fault("a.py", 3, 0, 1, "x", "y")
    tests = {
        "test_1.py::hardly": measured_test(0.1, 50, a=4),
        "test_1.py::mainly": measured_test(0.1, 2, a=4),
        "test_1.py::elsewhere": measured_test(0.1, 1, b=3),
    }
    assert mutation.tests_for(fault, line_map.LineMap(tests)) == ["test_1.py::mainly", "test_1.py::hardly"]


def test_as_many_tests_run_as_there_is_time_for_and_behind_the_nearest_every_module_has_its_turn() -> None:
    fault = faults.Fault("a.py", 3, 0, 1, "x", "y")
    tests = {f"test_1.py::{number}": measured_test(0.1, number, a=3) for number in range(1, 1_000)}
    tests["test_2.py::far"] = measured_test(0.1, 1_000, a=3)
    recorded = "tests/recorded/test_recorded.py::test_everything_is_as_it_was_recorded[one]"
    tests[recorded] = measured_test(0.1, 1_001, a=3)
    chosen = mutation.tests_for(fault, line_map.LineMap(tests))
    nearest = mutation.NEAREST
    assert chosen[:nearest] == [f"test_1.py::{number}" for number in range(1, nearest + 1)]
    assert chosen[nearest : nearest + 3] == [recorded, f"test_1.py::{nearest + 1}", "test_2.py::far"]
    assert len(set(chosen)) == len(chosen)
    assert (
        0.9 * mutation.MOST_SECONDS < sum(tests[name].seconds for name in chosen) <= mutation.MOST_SECONDS
    )


def test_a_test_that_takes_longer_than_there_is_time_runs_if_there_is_no_other() -> None:
    fault = faults.Fault("a.py", 3, 0, 1, "x", "y")
    long = {"test_1.py::long": measured_test(2 * mutation.MOST_SECONDS, 5, a=3)}
    assert mutation.tests_for(fault, line_map.LineMap(long)) == ["test_1.py::long"]


def test_only_the_test_modules_that_changed_or_use_what_changed_are_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_map, "KEPT", tmp_path / "kept")
    tree = tmp_path / "tree"
    (tree / "core").mkdir(parents=True)
    (tree / "core" / "some.py").write_text("def twice(n):\n    return 2 * n\n")
    (tree / "tests").mkdir()
    helper = tree / "tests" / "helper.py"
    helper.write_text("FOUR = 4\n")
    using = "from core.some import twice\nfrom tests.helper import FOUR\n"
    using += "\ndef test_it():\n    assert twice(2) == FOUR\n"
    (tree / "tests" / "test_1.py").write_text(using)
    (tree / "tests" / "test_2.py").write_text(
        "from core.some import twice\n\ndef test_it():\n    assert twice(2) == 4\n"
    )
    ran: list[list[str]] = []

    def run(arguments: Sequence[str], report: Path, data_file: Path) -> int:
        modules = [name for name in arguments if name.endswith(".py")]
        ran.append(modules)
        report.write_text("".join(f"0.25s call     {name}::test_it\n" for name in modules))
        data = CoverageData(str(data_file))
        data.erase()
        for name in modules:
            data.set_context(f"{name}::test_it|run")
            data.add_lines({str(tree / "core" / "some.py"): [2]})
        data.write()
        return 0

    def measured() -> list[str]:
        return line_map.line_map(tree, ["core"], ["tests"], run).running("core/some.py", 2)

    both = ["tests/test_1.py::test_it", "tests/test_2.py::test_it"]
    assert (measured(), measured(), ran) == (both, both, [["tests/test_1.py", "tests/test_2.py"]])
    helper.write_text("FOUR = 2 + 2\n")
    assert (measured(), ran[1:]) == (both, [["tests/test_1.py"]])
    (tree / "tests" / "test_2.py").unlink()
    assert (measured(), ran[2:]) == (both[:1], [])
    (tree / "core" / "some.py").write_text("def twice(n):\n    return n + n\n")
    assert (measured(), ran[2:]) == (both[:1], [["tests/test_1.py"]])


def test_a_fault_is_noticed_by_a_test_that_fails_and_leaves_the_copy_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    module = tmp_path / "src" / "some.py"
    module.parent.mkdir()
    module.write_text("def is_small(n):\n    return n < 3\n\n\ndef unused():\n    return 1 + 1\n")
    (tmp_path / "test_some.py").write_text(
        "import some\n\ndef test_it():\n    assert not some.is_small(3)\n"
    )
    source, when = module.read_bytes(), module.stat().st_mtime_ns
    tests = ["test_some.py::test_it"]
    found = {fault.new: fault for fault in faults.faults(source, "src/some.py")}
    assert mutation.is_noticed(tmp_path, found["(n <= 3)"], tests)
    assert not mutation.is_noticed(tmp_path, found["(1 - 1)"], tests)
    assert not mutation.is_noticed(tmp_path, found["(n <= 3)"], ["test_some.py::renamed_since"])
    assert not mutation.is_noticed(tmp_path, found["(n <= 3)"], [])
    assert (module.read_bytes(), module.stat().st_mtime_ns) == (source, when)


def test_the_proof_names_its_measurements(capsys: pytest.CaptureFixture[str]) -> None:
    assert prove.main(["--list"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert listed == [name for name, _ in prove.points()]
    assert len(set(listed)) == len(listed) > 5
