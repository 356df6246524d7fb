"""The profile of every session on a machine, and sums by day, week, month, model and project."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sevenfold.archive.profile import files
from sevenfold.cli import transcripts
from sevenfold.cli.main import main
from sevenfold.record.decisions import Billed
from tests.profile.making import Rollout, Tape, call, result, text, usage

Capsys = pytest.CaptureFixture[str]
pytestmark = pytest.mark.spec("S14.1")


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / ".sevenfold"))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def tape(session: str = "s-1", cwd: str = "/projects/harbour", **more: Any) -> Tape:
    return Tape(sessionId=session, cwd=cwd, **more)


def put(tape: Tape | Rollout, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return tape.save(path)


def claude(home: Path, name: str, made: Tape) -> Path:
    return put(made, home / ".claude/projects/-work-harbour" / name)


def three_tools(home: Path) -> None:
    claude(
        home,
        "c-1.jsonl",
        tape("c-1").user("light the pier").answer("m1", usage(100, output=10), text("ok")),
    )
    rollout = (
        Rollout()
        .record("session_meta", id="r-1", cwd="/projects/quay")
        .record("turn_context", model="gpt-5.4")
    )
    rollout.item("message", role="user", content=[{"type": "input_text", "text": "paint the quay"}])
    put(
        rollout.count(prompt=200, output=20),
        home / ".codex/sessions/2026/02/03/rollout-2026-02-03-r-1.jsonl",
    )
    own = tape("o-1").user("dredge the basin").answer("m3", usage(300, output=30), text("ok"))
    put(own, home / ".sevenfold/projects/harbour.1/o-1.jsonl")


def run(capsys: Capsys, *arguments: str | Path) -> tuple[int, str, str]:
    code = main([str(each) for each in arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def figures(capsys: Capsys, *arguments: str | Path) -> Any:
    code, out, err = run(capsys, "profile", *arguments, "--json")
    assert code == 0, err
    return json.loads(out)


def test_without_an_argument_the_sessions_of_all_three_tools_are_profiled(
    home: Path, capsys: Capsys
) -> None:
    three_tools(home)
    found = figures(capsys)
    assert {one["title"] for one in found["sessions"]} == {
        "light the pier",
        "paint the quay",
        "dredge the basin",
    }
    assert {one["project"] for one in found["sessions"]} == {"/projects/harbour", "/projects/quay"}
    assert (found["total"]["api_calls"], found["errors"]) == (3, [])


def test_the_folders_of_other_tools_are_where_their_variables_say(
    home: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    three_tools(home)
    (home / ".claude").rename(home / "c")
    (home / ".codex").rename(home / "x")
    assert figures(capsys)["total"]["sessions"] == 1
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / "c"))
    monkeypatch.setenv("CODEX_HOME", str(home / "x"))
    assert figures(capsys)["total"]["sessions"] == 3


def test_a_machine_without_sessions_says_where_it_looked_and_what_to_try(
    home: Path, capsys: Capsys
) -> None:
    code, out, err = run(capsys, "profile")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert str(home / ".claude/projects") in err
    assert "--example" in err


def test_a_call_copied_into_a_resumed_session_counts_once_in_its_oldest_file(
    home: Path, capsys: Capsys
) -> None:
    first = tape("c-1").user("a").answer("m1", usage(1_000, output=10), text("x"))
    claude(home, "c-1.jsonl", first)
    again = tape("c-2").user("a").answer("m1", usage(1_000, output=10), text("x"))
    again.user("b").answer("m2", usage(2_000, output=20), text("y"))
    again.now = first.now
    claude(home, "c-2.jsonl", again)
    found = figures(capsys)
    calls = {one["session_id"]: one["api_calls"] for one in found["sessions"]}
    assert (calls, found["total"]["copied_calls"]) == ({"c-1": 1, "c-2": 1}, 1)
    assert found["total"]["usage"]["input_tokens"] == 3_000
    assert sum(found["total"]["carried_by_category"].values()) == 3_000


def test_calls_of_sub_agents_and_repeated_reports_of_an_answer_count_once(
    home: Path, capsys: Capsys
) -> None:
    main_file = tape("c-1").user("go").answer("m1", usage(1_000, output=10), text("x"))
    main_file.answer("m1", usage(1_000, output=10), call("Task", "t1"))
    claude(home, "c-1.jsonl", main_file)
    agent = (
        tape("c-1", isSidechain=True, agentId="a1")
        .user("look")
        .answer("m7", usage(500, output=5), text("z"))
    )
    claude(home, "c-1/subagents/agent-a1.jsonl", agent)
    claude(home, "agent-a1.jsonl", agent)
    found = figures(capsys, "--by", "project")
    assert found["total"]["usage"]["input_tokens"] == 1_500
    assert [(one["group"], one["sessions"], one["api_calls"]) for one in found["groups"]] == [
        ("/projects/harbour", 1, 2)
    ]
    _, report, _ = run(capsys, "profile")
    assert "1 session, with 2 files of sub-agents" in report


def test_calls_the_engine_made_for_itself_are_part_of_the_cost(home: Path, capsys: Capsys) -> None:
    own = tape("o-1").user("go").answer("m1", usage(1_000, output=10), text("x"))
    billed = Billed(
        id="b1",
        request="r1",
        model="claude-sonnet-4-6",
        timestamp="2026-02-03T12:05:00Z",
        usage=raw(usage(7_000)),
    )
    own.line(json.dumps({"type": "sevenfold", **decoded(billed)}))
    put(own, home / ".sevenfold/projects/harbour.1/o-1.jsonl")
    total = figures(capsys)["total"]
    assert (total["api_calls"], total["engine_calls"], total["usage"]["input_tokens"]) == (2, 1, 8_000)


def raw(report: dict[str, Any]) -> Any:
    import msgspec

    return msgspec.Raw(json.dumps(report).encode())


def decoded(made: Any) -> Any:
    import msgspec

    return json.loads(msgspec.json.encode(made))


def spread(home: Path) -> None:
    """A session over two days of two weeks and months, with two models."""
    made = tape("c-1").user("go").answer("m1", usage(100), text("x"))
    made.now = datetime(2026, 3, 1, 23, 0, tzinfo=UTC)
    made.user("more").answer("m2", usage(200), text("y"))
    made.now = datetime(2026, 3, 2, 1, 0, tzinfo=UTC)
    made.user("more").answer("m3", usage(400), text("z"), model="claude-haiku-4-5")
    claude(home, "c-1.jsonl", made)


@pytest.mark.parametrize(
    ("by", "groups"),
    [
        ("day", {"2026-02-03": 100, "2026-03-01": 200, "2026-03-02": 400}),
        ("week", {"2026-02-02": 100, "2026-02-23": 200, "2026-03-02": 400}),
        ("month", {"2026-02": 100, "2026-03": 600}),
        ("model", {"claude-opus-4-5-20251101": 300, "claude-haiku-4-5": 400}),
        ("project", {"/projects/harbour": 700}),
    ],
)
def test_sums_are_by_what_each_call_was(
    home: Path, capsys: Capsys, by: str, groups: dict[str, int]
) -> None:
    spread(home)
    found = figures(capsys, "--by", by)
    assert {one["group"]: one["usage"]["input_tokens"] for one in found["groups"]} == groups
    assert sum(one["cost_usd"] for one in found["groups"]) == pytest.approx(found["total"]["cost_usd"])
    code, report, _ = run(capsys, "profile", "--by", by)
    assert code == 0
    assert f"By {by}" in report


def test_since_a_time_only_later_calls_count_and_what_they_carried(home: Path, capsys: Capsys) -> None:
    spread(home)
    found = figures(capsys, "--since", "2026-03-01", "--by", "day")
    assert [one["group"] for one in found["groups"]] == ["2026-03-01", "2026-03-02"]
    assert (
        found["total"]["usage"]["input_tokens"]
        == sum(found["total"]["carried_by_category"].values())
        == 600
    )
    assert found["sessions"][0]["started"].startswith("2026-03-01")
    code, _, err = run(capsys, "profile", "--since", "2030-01-01")
    assert (code, err.count("\n")) == (2, 1)


@pytest.mark.parametrize("when", ["yesterday-ish", "99999999d", "2026-13-01", ""])
def test_a_time_that_is_none_is_refused_with_an_example(when: str, capsys: Capsys) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["profile", "--since", when])
    assert "2026-11-01" in capsys.readouterr().err


def compacted(trigger: str, *sizes: int, model: str = "claude-opus-5") -> Tape:
    made = tape().user("go")
    for number, size in enumerate(sizes):
        made.answer(f"m{number}", usage(size), text("x"), model=model)
        made.compacted(before=size)
        made.lines[-2] = made.lines[-2].replace('"trigger": "auto"', f'"trigger": "{trigger}"')
    return made.answer("last", usage(30_000), text("x"), model=model)


@pytest.mark.parametrize(
    ("made", "window"),
    [
        (compacted("auto", 167_000, 166_000), (200_000, "inferred")),
        (compacted("manual", 167_000), (1_000_000, "model")),
        (compacted("auto", 967_000), (1_000_000, "model")),
        (compacted("auto", 167_000, 330_000), (1_000_000, "model")),
        (compacted("auto", 150_000, model="claude-opus-4-5-20251101"), (200_000, "model")),
    ],
)
def test_the_window_is_what_automatic_compactions_show_it_to_be(
    made: Tape, window: tuple[int, str], tmp_path: Path
) -> None:
    session = made.profile(tmp_path)
    assert (session.window_tokens, session.window_source) == window


def test_what_the_lost_cache_cost_is_the_same_wherever_it_is_shown(home: Path, capsys: Capsys) -> None:
    made = tape().user("go").answer("m1", usage(0, 0, 400_000), text("x"))
    made.wait(4_000).user("on").answer("m2", usage(0, 0, 400_000), text("y"))
    path = claude(home, "c-1.jsonl", made)
    [lost] = figures(capsys, path)["sessions"][0]["cache_breaks"]
    _, report, _ = run(capsys, "profile", path)
    assert report.count(f"${lost['cost_usd']:.2f}") == 3
    assert "perfect" not in report


def test_a_long_name_of_a_tool_cuts_no_heading(
    tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "mcp__" + "an_awfully_long_server" * 4 + "__" + "and_a_tool" * 5
    made = tape().user("go").answer("m1", usage(5_000), call(name, "t1"))
    made.user(result("t1", "words " * 500)).answer("m2", usage(6_000), text("x"))
    path = made.save(tmp_path / "t.jsonl")
    for width in (60, 80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        _, report, _ = run(capsys, "profile", path)
        assert "tokens, once  of all prompts" in report


def test_a_session_is_shown_by_title_project_and_date_at_any_width(
    home: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    three_tools(home)
    for width in (60, 80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        _, report, _ = run(capsys, "profile")
        row = [line for line in report.splitlines() if "light the pier" in line][-1]
        assert ("harbour" in row, "2026-02-03" in row) == (True, True)


def test_a_title_given_later_replaces_the_first_words(tmp_path: Path) -> None:
    made = tape().user("first words").answer("m1", usage(10), text("x"))
    made.line(json.dumps({"type": "ai-title", "aiTitle": "Harbour lights", "sessionId": "s-1"}))
    assert made.profile(tmp_path).title == "Harbour lights"


def test_one_large_file_and_many_files_report_progress_within_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "REPORT_BYTES", 1_000)
    made = tape().user("go")
    for number in range(50):
        made.answer(f"m{number}", usage(10), text("x" * 200))
    made.save(tmp_path / "a.jsonl")
    seen: list[int] = []
    files.profile(files.find([tmp_path]), progress=lambda done, work: seen.append(done))
    assert seen == sorted(seen)
    assert len(set(seen)) > 5


def test_what_takes_more_than_a_second_says_so_even_in_a_pipe(
    home: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    three_tools(home)
    monkeypatch.setattr(transcripts, "PATIENCE", 0.0)
    _, _, err = run(capsys, "profile")
    assert err == "sevenfold: profiling 3 files, 0 MB\n"
