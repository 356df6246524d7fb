"""`sevenfold replay` as users and scripts meet it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from sevenfold.cli import replay as command
from sevenfold.lab import replay
from sevenfold.lab.examples import coding_session
from tests.commands.recorded import ran
from tests.profile.making import Rollout
from tests.replay.telling import session

Capsys = pytest.CaptureFixture[str]
FIELDS = {
    "file",
    "policy",
    "cost_usd",
    "ideal_cost_usd",
    "cache_read_share",
    "unexpected_breaks",
    "peak_context_tokens",
    "compactions",
    "foreground_waits",
    "facts",
    "rules",
}
SMALL = ("--model", "claude-opus-4-6", "--window", "30000", "--jobs", "1")
BOTH = ("--policy", "nothing", "--policy", "ours")


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def long_session(tmp_path: Path) -> Path:
    return session(tmp_path / "long.jsonl")


@pytest.mark.spec("S31.8")
def test_json_is_a_list_with_one_object_per_session_and_policy(tmp_path: Path, capsys: Capsys) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    for name in ("a", "b"):
        session(folder / f"{name}.jsonl", 3)
    done = ran(capsys, "replay", folder, *BOTH, "--json", *SMALL)
    assert done.code == 0
    assert [(Path(each["file"]).stem, each["policy"]) for each in done.json] == [
        ("a", "nothing"),
        ("a", "ours"),
        ("b", "nothing"),
        ("b", "ours"),
    ]
    for each in done.json:
        assert each.keys() == FIELDS
        assert each["facts"].keys() == {"in_context", "reachable", "lost"}
        assert each["rules"].keys() == {"in_context", "lost"}
        assert each["cost_usd"] > 0


@pytest.mark.spec("S31.5", "S31.8")
def test_a_policy_that_does_not_fit_is_said_in_the_table_and_in_a_line(
    long_session: Path, capsys: Capsys
) -> None:
    done = ran(capsys, "replay", long_session, *BOTH, *SMALL)
    assert done.code == 0
    assert re.search(r"nothing\s+does not fit", done.out)
    assert re.search(r"ours\s+\$\d+\.\d\d", done.out)
    assert "nothing fails at request 17 of 25: prompt is too long" in done.err
    assert "what a model might have kept is counted for nobody" in done.words
    alone = ran(capsys, "replay", long_session, "--policy", "nothing", "--json", *SMALL)
    assert alone.code == command.FAILED
    assert alone.json[0]["cost_usd"] is None


@pytest.mark.spec("S31.8")
@pytest.mark.parametrize(
    ("limits", "code", "problem"),
    [
        (("--max-cost", "90", "--min-retention", "1", "--no-unexpected-breaks"), 0, ""),
        (("--max-cost", "0.1"), 1, "ours: it costs $"),
        (("--max-cost", "0"), 1, "at most $0.00 is allowed"),
    ],
)
def test_limits_end_a_job_with_an_exit_code_and_a_line(
    long_session: Path, capsys: Capsys, limits: tuple[str, ...], code: int, problem: str
) -> None:
    done = ran(capsys, "replay", long_session, "--policy", "ours", *limits, "--json", *SMALL)
    assert done.code == code
    assert problem in done.err
    assert len(done.json) == 1


@pytest.mark.spec("S31.8")
def test_what_a_policy_loses_exceeds_the_limit_for_retention(long_session: Path, capsys: Capsys) -> None:
    given = ("--policy", "sliding-window", "--min-retention", "0.9")
    done = ran(capsys, "replay", long_session, *given, *SMALL)
    assert done.code == command.EXCEEDED
    assert "limit exceeded: sliding-window:" in done.err
    assert "of the facts are in the context or within reach, and at least 90.00% must be" in done.err


@pytest.mark.spec("S31.8")
def test_files_that_cannot_be_replayed_do_not_stop_the_others(tmp_path: Path, capsys: Capsys) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    session(folder / "good.jsonl", 3)
    (folder / "empty.jsonl").write_bytes(b"")
    (folder / "other.jsonl").write_text('{"answer": 42}\n')
    (folder / "torn.jsonl").write_bytes((folder / "good.jsonl").read_bytes()[:-40])
    (folder / "one-question.jsonl").write_text(
        '{"type":"user","uuid":"a","parentUuid":null,"sessionId":"s","message":{"role":"user","content":"hi"}}\n'
    )
    done = ran(capsys, "replay", folder, "--policy", "nothing", "--json", *SMALL)
    assert done.code == 0
    assert [Path(each["file"]).stem for each in done.json] == ["good", "torn"]
    complaints = [line for line in done.err.splitlines() if ".jsonl" in line]
    assert len(complaints) == 3
    assert "the file is empty" in done.err
    assert "JSON records of an unknown kind" in done.err
    assert "there is no conversation in it" in done.err
    limited = ran(capsys, "replay", folder, "--policy", "nothing", "--max-cost", "9", *SMALL)
    assert limited.code == command.EXCEEDED
    assert "3 files could not be replayed, so no limit was checked there" in limited.err


@pytest.mark.spec("S31.5")
def test_a_rollout_of_codex_is_replayed_like_any_other_session(tmp_path: Path, capsys: Capsys) -> None:
    tape = Rollout().record("session_meta", id="r1", cwd="/harbour", cli_version="0.60")
    tape.item(
        "message", role="user", content=[{"type": "input_text", "text": "Never delete the tide table."}]
    )
    tape.item("function_call", name="shell", arguments='{"command":"ls"}', call_id="c1")
    tape.count(prompt=5_000, output=20)
    tape.item("function_call_output", call_id="c1", output="tide.csv")
    tape.item("message", role="assistant", content=[{"type": "output_text", "text": "There is one table."}])
    tape.count(prompt=6_000, output=20)
    path = tape.save(tmp_path / "rollout-2026-02-03T12-00-00-r1.jsonl")
    done = ran(capsys, "replay", path, *BOTH, "--json", *SMALL)
    assert done.code == 0
    assert [each["rules"] for each in done.json] == [{"in_context": 1, "lost": 0}] * 2


@pytest.mark.spec("S31.8")
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "name a session or a folder of sessions, or try sevenfold replay --example"),
        (("--example", "--policy", "best"), "there is no policy 'best'"),
        (
            ("--example", "--model", "claude-haiku-4-5", "--window", "900000"),
            "has a window of 200,000 tokens",
        ),
        (("no-such-session",), "no-such-session"),
    ],
)
def test_wrong_input_is_one_line_with_exit_code_2(
    capsys: Capsys, arguments: tuple[str, ...], problem: str
) -> None:
    done = ran(capsys, "replay", *arguments)
    assert done.code == 2
    assert problem in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("arguments", [("--window", "10"), ("--min-retention", "1.5"), ("--max-cost", "x")])
def test_wrong_numbers_are_refused_by_their_option(capsys: Capsys, arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as ended:
        ran(capsys, "replay", "--example", *arguments)
    assert ended.value.code == 2
    assert arguments[0] in capsys.readouterr().err


@pytest.mark.spec("S31.8")
def test_several_processes_give_the_same_figures_in_the_same_order(tmp_path: Path, capsys: Capsys) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    for number in range(3):
        session(folder / f"s{number}.jsonl", 2 + number)
    alone = ran(capsys, "replay", folder, *BOTH, "--json", *SMALL)
    assert len(alone.json) == 6
    command_line = [sys.executable, "-m", "sevenfold", "replay", str(folder), *BOTH, "--json", *SMALL[:4]]
    together = subprocess.run(
        [*command_line, "--jobs", "2"], capture_output=True, text=True, check=False, timeout=120
    )
    assert together.returncode == 0, together.stderr
    assert json.loads(together.stdout) == alone.json


@pytest.mark.spec("S31.8")
@pytest.mark.skipif(os.name == "nt", reason="sends a signal")
def test_an_interrupt_leaves_the_page_as_it_was_and_no_process_behind(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    for number in range(40):
        session(folder / f"s{number}.jsonl", 40)
    page = tmp_path / "page.html"
    page.write_text("as it was")
    command_line = [
        sys.executable,
        "-m",
        "sevenfold",
        "replay",
        str(folder),
        "--html",
        str(page),
        "--jobs",
        "2",
    ]
    environ = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command_line, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environ, start_new_session=True
    ) as running:
        assert running.stderr is not None
        told = running.stderr.readline()  # The line that says it takes a while: the work has begun.
        running.send_signal(signal.SIGINT)
        rest = running.stderr.read()  # Ends only when all processes have closed it.
        code = running.wait()
    assert b"replaying 40 sessions, 6 policies" in told
    assert b"interrupted" in rest
    assert b"Traceback" not in rest
    assert code == 130
    assert page.read_text() == "as it was"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs", "page.html"]


@pytest.mark.spec("S31.8")
def test_the_page_holds_everything_and_asks_for_nothing(tmp_path: Path, capsys: Capsys) -> None:
    hostile = tmp_path / "</script><img src=x onerror=alert(1)>.jsonl".replace("/", "\u2215")
    session(hostile, 25)
    page = tmp_path / "page.html"
    done = ran(capsys, "replay", hostile, *BOTH, "--html", page, *SMALL)
    assert done.code == 0
    html = page.read_text("utf-8")
    assert "default-src 'none'" in html
    assert not re.search(
        r"(?:src|href)\s*=|url\(|@import|fetch\(|https?://(?!www\.w3\.org/2000/svg)",
        html.partition('type="application/json"')[0],
    )
    assert "innerHTML" not in html
    assert "<img" not in html
    figures = json.loads(re.findall(r'type="application/json">(.*?)</script>', html, re.S)[0])
    assert [each["figures"]["policy"] for each in figures["sessions"]] == ["nothing", "ours"]
    assert figures["sessions"][0]["failure"]
    assert len(figures["sessions"][1]["series"]["request"]) == 26
    assert "prefers-color-scheme: dark" in html


def test_a_page_that_cannot_be_written_is_one_line(
    long_session: Path, tmp_path: Path, capsys: Capsys
) -> None:
    done = ran(
        capsys, "replay", long_session, "--policy", "ours", "--html", tmp_path / "no" / "p.html", *SMALL
    )
    assert done.code == 2
    assert "p.html" in done.err


def test_the_curve_of_a_long_session_is_thinned_to_what_a_chart_can_show(long_session: Path) -> None:
    made = replay.replay(replay.read(long_session), replay.policy("ours"), window=100_000)
    long = command.thinned(replace(made, series=longer(made.series, 5_000)))
    assert len(long.series.request) <= command.MOST_POINTS
    assert long.series.request[-1] == 5_000


def longer(series: replay.Series, requests: int) -> replay.Series:
    return replay.Series(
        tuple(range(1, requests + 1)),
        (series.context_tokens[0],) * requests,
        (series.cost_usd[0],) * requests,
    )


def test_the_example_needs_no_session_of_ones_own(capsys: Capsys) -> None:
    done = ran(capsys, "replay", "--example", "--policy", "ours", "--json", "--jobs", "1")
    assert done.code == 0
    assert done.json[0]["file"] == str(coding_session())
