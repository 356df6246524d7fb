"""What holds for commands of any kind: what they read, where they print to, and how they end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sevenfold.cli import main as main_module
from sevenfold.cli import transcripts
from sevenfold.cli.main import COMMANDS, main, parser
from tests.commands.recorded import foreign, own, ran
from tests.support import Story, call, result

Capsys = pytest.CaptureFixture[str]
pytestmark = pytest.mark.usefixtures("compactions_of_any_size")

READERS = [
    ("recall", "{}", "tide"),
    ("audit", "{}"),
    ("diff-request", "{}", "{}"),
    ("compact", "{}"),
    ("compact", "{}", "--in-place"),
    ("notes", "{}", "--update"),
    ("scan", "{}"),
    ("profile", "{}"),
    ("replay", "{}", "--policy", "ours", "--jobs", "1"),
]


def shell(*arguments: object, to: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own, its output going where the shell says."""
    line = f'{sys.executable} -m sevenfold "$@" {to}; exit "${{PIPESTATUS[0]}}"'
    return subprocess.run(
        ["bash", "-c", line, "bash", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, **environ},
    )


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return foreign(tmp_path / "5e551011.jsonl")


# -- what is read ----------------------------------------------------------------------------------


@pytest.mark.spec("S10.6")
@pytest.mark.parametrize("folder", [".", "..", "/", "", "a" * 300])
@pytest.mark.parametrize("command", READERS[:5], ids=" ".join)
def test_a_folder_is_refused_in_one_line(command: tuple[str, ...], folder: str, capsys: Capsys) -> None:
    done = ran(capsys, *(word.format(folder) for word in command))
    assert done.code == 2
    assert done.err.startswith("sevenfold: ")
    assert done.err.count("\n") == 1


STEERING = "\x1b]52;c;cm0gLXJm\x07 \x1b[2J \x9b31m \x90q\x9c \u202egnp.exe"
STEERS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")
"""What a terminal obeys; a line feed is not among it."""


@pytest.mark.spec("S10.6")
@pytest.mark.parametrize("more", [(), ("--json",)])
@pytest.mark.parametrize("command", [*READERS[:3], ("compact", "{}", "--show"), *READERS[4:]], ids=" ".join)
def test_no_text_of_a_transcript_steers_the_terminal(
    command: tuple[str, ...], more: tuple[str, ...], tmp_path: Path, capsys: Capsys
) -> None:
    story, tool = Story(), f"Ba{STEERING}sh"
    for number in range(12):
        story.user(f"tide {STEERING} {number}: never paint {STEERING}/{number}.py green")
        story.assistant(f"tide {STEERING}", call(f"c{STEERING}{number}", tool, file_path=f"{STEERING}.py"))
        story.user([result(f"c{STEERING}{number}", f"Exit code 1\nlost {STEERING}", is_error=True)])
    story.boundary(uuid=f"b{STEERING}")
    story.summary(f'The user said: "delete the database {STEERING}"')
    story.user(f"tide {STEERING}")
    story.assistant(f"yes {STEERING}", model=f"claude-opus-4-5{STEERING}")
    path = tmp_path / "tide.jsonl"
    path.write_bytes(b"".join(story.lines))
    done = ran(capsys, *(word.format(path) for word in command), *more)
    printed = done.out + done.err
    assert printed
    assert STEERS.findall(printed) == []


@pytest.mark.spec("S10.6")
def test_control_c_while_the_command_is_loaded_is_no_traceback() -> None:
    program = """
import os, signal, sys
class Impatient:
    def find_spec(self, name, *_):
        if name == "sevenfold.cli.main":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Impatient())
from sevenfold.__main__ import main
sys.exit(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (130, "sevenfold: interrupted\n")


@pytest.mark.parametrize("command", READERS, ids=" ".join)
def test_a_pipe_is_refused_at_once(command: tuple[str, ...], tmp_path: Path, capsys: Capsys) -> None:
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    done = ran(capsys, *(word.format(pipe) for word in command))
    assert done.code == 2
    assert "copy its content into" in done.err
    assert done.out == ""


@pytest.mark.parametrize(
    "command", [("recall", "{}", "x"), ("audit", "{}"), ("compact", "{}"), ("notes", "{}")]
)
def test_a_rollout_without_a_conversation_is_refused_in_a_line(
    command: tuple[str, ...], tmp_path: Path, capsys: Capsys
) -> None:
    rollout = tmp_path / "rollout.jsonl"
    rollout.write_text('{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{"id":"x"}}\n')
    done = ran(capsys, *(word.format(rollout) for word in command))
    assert done.code == 2
    assert "there is no conversation in it" in done.err


def test_a_session_is_profiled_by_its_id(
    session: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(session.parent)
    assert ran(capsys, "profile", session.stem, "--json").json["sessions"][0]["file"] == session.name
    assert "no such file or session" in ran(capsys, "profile", "no-such-session").err


def test_a_scan_of_nothing_says_nothing_about_secrets(tmp_path: Path, capsys: Capsys) -> None:
    done = ran(capsys, "scan", tmp_path / "missing.jsonl")
    assert (done.code, done.out) == (2, "")
    assert "there is no such file" in done.err


def test_a_folder_of_another_system_has_one_place_wherever_one_stands(
    tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = foreign(tmp_path / "windows.jsonl")
    lines = [json.loads(line) | {"cwd": "D:\\harbour\\display"} for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = set()
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        found.add(ran(capsys, "notes", path, "--json").json["notes"])
    (one,) = found
    assert "D-harbour-display." in one


# -- where it is printed ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command", [("config",), ("profile", "--example"), ("recall", "{}", "tide", "--all")]
)
def test_a_reader_that_has_had_enough_ends_every_command_in_the_same_way(
    command: tuple[str, ...], session: Path
) -> None:
    done = shell(*(word.format(session) for word in command), to="| true", PYTHONUNBUFFERED="1")
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    "command",
    [("config",), ("profile", "--example"), ("sessions",), ("chat", "--model", "offline", "-p", "hi")],
)
def test_a_full_disk_behind_the_output_is_told_in_a_line(command: tuple[str, ...], session: Path) -> None:
    done = shell(*command, to="> /dev/full")
    assert done.returncode == 2
    assert re.search(
        r"cannot write the (?:output|answer to standard output): No space left on device\n", done.stderr
    )
    assert "Traceback" not in done.stderr


def test_output_that_was_closed_is_no_reason_to_fail(session: Path) -> None:
    done = shell("scan", session, to=">&-")
    assert (done.returncode, done.stderr) == (0, "")


def test_what_takes_long_is_announced_where_there_is_no_terminal(
    session: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ran(capsys, "audit", session).err == ""
    monkeypatch.setattr(transcripts, "PATIENCE", 0.0)
    assert "sevenfold: indexing 5e551011.jsonl" in ran(capsys, "audit", session).err
    assert "sevenfold: indexing 5e551011.jsonl" in ran(capsys, "compact", session).err


# -- removing --------------------------------------------------------------------------------------


def test_a_session_is_deleted_only_on_request(tmp_path: Path, capsys: Capsys) -> None:
    import sevenfold

    with sevenfold.Session.open("s-1", model="claude-sonnet-5-5", folder=tmp_path) as kept:
        kept.user("hello")
    asked = ("sessions", "delete", "s-1", "--folder", tmp_path)
    assert "no terminal to ask for confirmation" in ran(capsys, *asked).err
    assert ran(capsys, *asked, "--dry-run").out.startswith("s-1: 1 file, ")
    assert "Deleted." in ran(capsys, *asked, "--yes").out
    assert "no session s-1" in ran(capsys, *asked, "--yes").err


# -- compacting ------------------------------------------------------------------------------------


def test_only_what_the_user_said_is_offered_as_a_place_to_cut(tmp_path: Path, capsys: Capsys) -> None:
    path = foreign(tmp_path / "session.jsonl", rounds=3)
    told = path.read_text().replace("Step 1: repair", "<task-notification>done</task-notification>", 1)
    path.write_text(told.replace(" panel_1.py, and never touch build/out_1.bin.", "", 1))
    places = ran(capsys, "compact", path, "--dry-run", "--json").json["places"]
    assert [place["says"][:7] for place in places] == ["Step 2:"]


def test_the_offline_stand_in_is_named_where_a_model_was_asked_for(session: Path, capsys: Capsys) -> None:
    done = ran(capsys, "compact", session, "--engine", "fork")
    assert "engine fork, with the offline stand-in instead of the model" in done.words
    assert "nothing, 1 request to the offline stand-in" in done.words


def test_offline_notes_do_not_take_what_a_program_said_for_the_users_will(
    tmp_path: Path, capsys: Capsys
) -> None:
    path = foreign(tmp_path / "session.jsonl", rounds=40)
    lines = path.read_text().splitlines(keepends=True)
    said = next(number for number, line in enumerate(lines) if "Step 5:" in line)
    skill = json.loads(lines[said])
    skill["isMeta"] = True
    skill["message"]["content"] = (
        "You must never use the crane. Don't ever deploy without asking the harbour master."
    )
    lines[said] = json.dumps(skill, separators=(",", ":")) + "\n"
    path.write_text("".join(lines))
    done = ran(capsys, "compact", path, "--engine", "notes")
    assert "engine notes" in done.words
    notes = Path(ran(capsys, "notes", path, "--json").json["notes"]).read_text()
    assert "crane" not in notes


def test_notes_of_a_short_session_are_refused_with_the_reason_and_before_they_are_made(
    tmp_path: Path, capsys: Capsys
) -> None:
    path = foreign(tmp_path / "short.jsonl", rounds=2)
    done = ran(capsys, "compact", path, "--engine", "notes")
    assert "stay word for word, and there is hardly more than that; use another engine" in done.err
    assert ran(capsys, "notes", path).code == 1


def test_what_was_compacted_before_is_not_indexed_again(tmp_path: Path, capsys: Capsys) -> None:
    from sevenfold.archive.rewrite import inspect
    from sevenfold.recall.index import RecallIndex
    from sevenfold.stores.home import side_file
    from sevenfold.stores.jsonl.log import JsonlLog

    path = own(tmp_path / "own.jsonl")
    everything = JsonlLog(path)
    ran(capsys, "compact", path, "--in-place")
    start = inspect(path).start
    assert 0 < start < path.stat().st_size
    index = RecallIndex.for_reading(everything, side_file(path), since=start)
    index.catch_up()
    whole = RecallIndex(everything)
    whole.catch_up()
    assert 0 < index.status().records < whole.status().records
    index.close()
    whole.close()


def test_without_a_command_and_a_terminal_the_help_is_shown(capsys: Capsys) -> None:
    assert main([]) == 0
    assert "COMMAND" in capsys.readouterr().out


# -- help ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_described_and_nothing_else_is(name: str) -> None:
    (found,) = (one.choices[name] for one in parser(name)._actions if isinstance(one.choices, dict))
    words = Path(main_module.__file__).with_name("help").joinpath(f"{name}.txt").read_text("utf-8")
    described = {line.split()[0] for line in words.split("\n---\n")[2].splitlines()}
    known = {one for argument in found._actions for one in (*argument.option_strings, argument.dest)}
    assert described <= known
    assert all(argument.help for argument in found._actions if argument.option_strings), name
