"""`sevenfold profile` as users and scripts meet it."""

from __future__ import annotations

import io
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from sevenfold import __version__
from sevenfold.archive.profile import figures, files
from sevenfold.archive.profile.figures import ProfileReport
from sevenfold.cli import profile as page
from sevenfold.cli import profile_terminal as terminal
from sevenfold.cli.main import main
from tests.profile.making import Tape, call, result, text, usage

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLE = ROOT / "src/sevenfold/lab/examples/coding-session.jsonl"

SESSION_KEYS = {
    "file",
    "session_id",
    "api_calls",
    "usage",
    "compactions",
    "clearings",
    "cost_usd",
    "uncached_cost_usd",
    "ideal_cost_usd",
    "tokens_by_category",
    "peak_context_tokens",
    "cache_breaks",
    "damaged_lines",
}


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    made = Tape().user("go").answer("m1", usage(10, 0, 30_000), call("Read", "t1", file_path="/a b.py"))
    made.user(result("t1", "</script><b>text</b>")).answer("m2", usage(10, 0, 31_000), text("<img src=x>"))
    return made.save(tmp_path / "tape.jsonl")


def example() -> ProfileReport:
    return files.profile(files.find([EXAMPLE]))


def run(*arguments: str | Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


# -- JSON ------------------------------------------------------------------------------------------


def test_the_json_keeps_its_contract(tape: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run("profile", tape, "--json", capsys=capsys)
    assert (code, err) == (0, "")
    profile = json.loads(out)
    (session,) = profile["sessions"]
    assert session.keys() >= SESSION_KEYS
    assert session["usage"] == {
        "input_tokens": 20,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 61_000,
        "output_tokens": 0,
    }
    assert (session["file"], session["session_id"]) == (str(tape), "s-1")
    assert (session["api_calls"], session["peak_context_tokens"]) == (2, 31_010)
    assert (session["compactions"], session["clearings"], session["damaged_lines"]) == (0, 0, 0)
    assert (
        session["cache_breaks"][0] | {"cause": "unexplained", "tokens": 30_000}
        == session["cache_breaks"][0]
    )
    assert profile["total"].keys() >= SESSION_KEYS - {"file", "session_id"}
    assert profile["total"]["sessions"] == 1
    assert profile["errors"] == []


def test_unknown_costs_are_null_in_the_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tape = (
        Tape()
        .user("go")
        .answer("m1", usage(9), text("hi"), model="nobody-knows")
        .save(tmp_path / "t.jsonl")
    )
    profile = json.loads(run("profile", tape, "--json", capsys=capsys)[1])
    assert profile["sessions"][0]["cost_usd"] is None
    assert profile["total"]["cost_usd"] is None
    assert profile["total"]["unpriced_calls"] == 1


def test_top_limits_the_largest_items(capsys: pytest.CaptureFixture[str]) -> None:
    profile = json.loads(run("profile", "--example", "--json", "--top", "3", capsys=capsys)[1])
    assert len(profile["sessions"][0]["largest_items"]) == 3
    assert len(profile["total"]["largest_items"]) == 3


# -- exit codes and errors -------------------------------------------------------------------------


def test_one_good_file_makes_it_a_success(tape: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run("profile", tape, "missing.jsonl", capsys=capsys)
    assert code == 0
    assert "missing.jsonl" in out
    assert err == ""


def test_nothing_profiled_is_exit_code_2_and_a_line_for_each_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = run("profile", "one.jsonl", "two.jsonl", capsys=capsys)
    assert (code, out) == (2, "")
    assert [line.split(":")[:2] for line in err.splitlines()] == [
        ["sevenfold", " one.jsonl"],
        ["sevenfold", " two.jsonl"],
    ]


def test_no_path_at_all_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for variable in ("HOME", "SEVENFOLD_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    code, _, err = run("profile", capsys=capsys)
    assert code == 2
    assert "sevenfold profile --example" in err
    assert err.count("\n") == 1


def test_a_page_that_cannot_be_written_is_one_clear_line(
    tape: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run("profile", tape, "--html", tmp_path / "no" / "page.html", capsys=capsys)
    assert code == 2
    assert "cannot write the page" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("wrong", [["--top", "0"], ["--limit", "x"], ["--jobs", "-1"]])
def test_a_number_that_makes_no_sense_is_refused(
    wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["profile", "--example", *wrong])
    assert ended.value.code == 2
    assert "is not a whole number above 0" in capsys.readouterr().err


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, shown in (
        (["--version"], __version__),
        (["--help"], "profile"),
        (["profile", "-h"], "--html"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 0
        assert shown in capsys.readouterr().out


def test_the_module_runs_as_a_program_and_a_closed_pipe_is_no_failure() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "sevenfold", "profile", "--example", "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(10).startswith(b"{")
        process.stdout.close()
        assert process.stderr.read() == b""


def test_scripts_that_want_json_do_not_wait_for_what_draws() -> None:
    asked = "import sys; from sevenfold.cli.main import main; main(['profile', '--example', '--json'])"
    program = f"{asked}; sys.stderr.write(str('rich' in sys.modules))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, env=environment)
    assert ran.stderr == b"False"


# -- the terminal ----------------------------------------------------------------------------------


def shown(profile: ProfileReport, width: int, *, colour: bool = False, each: bool = False) -> str:
    out = io.StringIO()
    if colour:
        console = Console(
            file=out, width=width, color_system="truecolor", force_terminal=True, no_color=False
        )
    else:
        console = Console(file=out, width=width, color_system=None)
    terminal.show(page.keep_largest(profile, 10), console, limit=20, details=each)
    return out.getvalue()


@pytest.mark.parametrize("width", [60, 80, 100, 160, 200])
def test_the_report_fits_any_width(width: int) -> None:
    profile = example()
    many = ProfileReport(profile.sessions * 3, profile.total, [])
    for report in (shown(profile, width), shown(many, width)):
        assert max(map(len, report.splitlines())) <= width
        assert "Where the context went" in report


def test_the_report_says_the_same_with_and_without_colour() -> None:
    plain, coloured = shown(example(), 100), shown(example(), 100, colour=True)
    assert "\x1b" not in plain
    assert "\x1b" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


def test_many_sessions_show_totals_and_a_table_not_a_page_each() -> None:
    one = example()
    many = ProfileReport(one.sessions * 200, one.total, [])
    report = shown(many, 100)
    assert "the 20 most expensive of 200" in report
    assert len(report.splitlines()) < 100
    assert (
        shown(ProfileReport(one.sessions * 2, one.total, []), 100, each=True).count("Context, call by call")
        == 2
    )


def test_text_from_a_transcript_is_shown_as_it_is(tmp_path: Path) -> None:
    tape = Tape().user("[bold]not markup[/bold] :smile:").answer("m1", usage(900), text("hi"))
    profile = files.profile(files.find([tape.save(tmp_path / "t.jsonl")]))
    assert "[bold]not markup[/bold] :smile:" in shown(profile, 120)


# -- the page --------------------------------------------------------------------------------------


def test_the_page_needs_nothing_from_elsewhere(
    tape: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "page.html"
    assert run("profile", tape, "--html", target, capsys=capsys)[0] == 0
    content = target.read_text(encoding="utf-8")
    addresses = set(re.findall(r"https?://[^\s\"'<]+", content))
    assert addresses <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<(link|img|iframe|script[^>]+src)", content)
    assert "default-src 'none'" in content


def test_nothing_in_a_transcript_can_leave_its_place_in_the_page(tmp_path: Path) -> None:
    tape = Tape().user("</script><script>alert(1)</script><!--").answer("m1", usage(900), text("hi"))
    profile = files.profile(files.find([tape.save(tmp_path / "t.jsonl")]))
    content = page.page(profile)
    assert "alert(1)" in content
    assert content.count("</script>") == 2
    assert "<!--" not in content
    figures = re.search(r'type="application/json">(.*?)</script>', content, re.S)
    assert figures is not None
    assert json.loads(figures[1])["profile"]["sessions"][0]["api_calls"] == 1


def test_a_long_session_is_thinned_out_for_the_page(tmp_path: Path) -> None:
    tape = Tape().user("go")
    for number in range(1_500):
        tape.answer(f"m{number}", usage(1_000 + number), text("hi"))
    profile = files.profile(files.find([tape.save(tmp_path / "t.jsonl")]))
    figures = re.search(r'type="application/json">(.*?)</script>', page.page(profile), re.S)
    assert figures is not None
    points = json.loads(figures[1])["profile"]["sessions"][0]["context_over_time"]
    assert len(points) == page.MOST_POINTS
    assert points[-1][1] == 2_499


# -- the example -----------------------------------------------------------------------------------


def test_the_example_is_what_its_script_writes() -> None:
    assert runpy.run_path(str(ROOT / "bench/make_example.py"))["build"]() == EXAMPLE.read_text(
        encoding="utf-8"
    )
    assert EXAMPLE.stat().st_size < 400_000


def test_the_example_shows_everything_the_profiler_can_find() -> None:
    (session,) = example().sessions
    assert 60 <= session.api_calls <= 100
    assert session.side_calls > 0
    assert (session.compactions, session.clearings) == (1, 1)
    assert {one.cause for one in session.cache_breaks} == {"expired", "tools_changed", "clearing"}
    assert session.repeated_reads.reads > 0
    assert session.repeated_reads.after_loss > 0
    assert session.models == {"claude-sonnet-5-5": session.api_calls}
    assert session.repairs == {}
    assert session.tokens_by_category.get("unlogged", 0) < 100


def test_a_folder_means_all_sessions_below_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a/one.jsonl", "b/two.jsonl"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(EXAMPLE.read_bytes())
    code, shown, _ = run("profile", tmp_path, "--json", capsys=capsys)
    assert code == 0
    assert len(json.loads(shown)["sessions"]) == 2


@pytest.mark.spec("S37.13")
@pytest.mark.parametrize("width", [60, 76, 90, 100, 120])
def test_a_table_cuts_names_and_never_figures(tmp_path: Path, width: int) -> None:
    project = "/home/someone/with/a/deep/tree/of/folders/and/a/name/of/some/length/the-project"
    tape = Tape(cwd=project).user("hi").answer("m1", usage(900, 8_000_000, output=187_895), text("hi"))
    found = files.profile(files.find([tape.save(tmp_path / "t.jsonl")]))
    grouped = ProfileReport(
        found.sessions, found.total, [], by="project", groups=figures.groups(found.sessions, "project")
    )
    row = next(line for line in shown(grouped, width).splitlines() if "…" in line)
    assert row.count("…") == 1
    wanted = [" 1 ", "8.00 M", "%  187,895", "$8.70"] if width >= 90 else [" 1 ", "$8.70"]
    assert [figure for figure in wanted if figure not in row] == []


@pytest.mark.spec("S37.13")
def test_names_on_the_page_are_broken_and_columns_that_do_not_fit_are_left_out(tmp_path: Path) -> None:
    tape = Tape().user("hi").answer("m1", usage(900), text("hi"))
    content = page.page(files.profile(files.find([tape.save(tmp_path / "t.jsonl")])))
    rules = dict(re.findall(r"^\s*(\S[^{\n]*?) \{ ([^}]*) \}", content, re.MULTILINE))
    assert "overflow-wrap: anywhere" in rules["td.name"]
    assert "nowrap" not in rules["td.name"]
    narrow = content[content.index("@media (max-width: 600px)") :]
    assert ".wide { display: none; }" in narrow[:400]
