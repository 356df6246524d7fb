"""The hooks of the plugin for Claude Code, called as the program calls them."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sevenfold.doors.plugins import bring_back, claude_code, window
from tests.profile.making import Tape, text, usage

LIMIT = 10_000
"""Characters of a hook's text from which on Claude Code shows only a preview."""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    return tmp_path / "home"


def command(event: str) -> str:
    """The command line of the plugin that handles an event."""
    files = {file.path.name: file.content for file in claude_code.changes(with_status_line=False).files}
    groups = json.loads(files["hooks.json"])["hooks"].values()
    lines = [hook["command"] for group in groups for entry in group for hook in entry["hooks"]]
    return str(next(line for line in lines if f" {event} " in line))


def call(event: str, given: dict[str, Any] | bytes, folder: Path | None = None) -> str:
    """Call a hook as a program does: through a shell; returns what it printed, nothing of it on the error stream."""
    raw = given if isinstance(given, bytes) else json.dumps(given).encode()
    done = subprocess.run(
        ["sh", "-c", command(event)], input=raw, capture_output=True, cwd=folder, check=True
    )
    assert done.stderr == b""
    return done.stdout.decode()


def event_of(path: Path, **fields: Any) -> dict[str, Any]:
    return {
        "session_id": "s-1",
        "transcript_path": str(path),
        "cwd": "/projects",
        "source": "compact",
        **fields,
    }


def context_of(answer: str) -> str:
    output = json.loads(answer)["hookSpecificOutput"]
    assert output["hookEventName"] == "SessionStart"
    return str(output["additionalContext"])


def long_session(tmp_path: Path) -> Tape:
    tape = Tape(cwd="/projects")
    for number in range(90):
        tape.user(f"Request {number}, codeword granite-{number}: {'build the pier higher ' * 20}")
        tape.answer(
            f"a{number}",
            usage(100, output=1),
            text(f"I build `pier_{number}.py` in /projects/pier_{number}.py."),
        )
    return tape


@pytest.mark.spec("S23.2")
def test_the_three_hooks_after_a_compaction_bring_back_what_the_user_said(tmp_path: Path) -> None:
    path = long_session(tmp_path).save(tmp_path / "talk.jsonl")
    kept = call("before-compaction", event_of(path))
    assert 0 < len(kept) <= 1_500
    assert not kept.startswith("{")
    blocks = [context_of(call(part, event_of(path))) for part in ("words", "things", "state")]
    assert all(0 < len(block) < LIMIT - 100 for block in blocks)
    together = "\n".join(blocks)
    assert all(f"granite-{number}:" in together for number in range(90))
    assert "/projects/pier_0.py" in together


@pytest.mark.spec("S23.2")
def test_without_what_was_prepared_they_bring_back_the_same(tmp_path: Path) -> None:
    path = long_session(tmp_path).save(tmp_path / "talk.jsonl")
    alone = call("words", event_of(path))
    call("before-compaction", event_of(path))
    assert call("words", event_of(path)) == alone


@pytest.mark.spec("S23.2")
def test_what_was_prepared_before_the_conversation_went_on_is_not_used(tmp_path: Path) -> None:
    tape = long_session(tmp_path)
    path = tape.save(tmp_path / "talk.jsonl")
    call("before-compaction", event_of(path))
    tape.user("The last word is obsidian-1.").answer("z", usage(1), text("Yes."))
    tape.save(path)
    assert "obsidian-1" in context_of(call("words", event_of(path)))


@pytest.mark.spec("S23.2")
def test_what_was_prepared_is_readable_by_its_owner_alone_and_gone_with_the_next_message(
    tmp_path: Path, home: Path
) -> None:
    path = long_session(tmp_path).save(tmp_path / "talk.jsonl")
    call("before-compaction", event_of(path))
    (prepared,) = (home / "plugins" / bring_back.KIND).iterdir()
    assert prepared.stat().st_mode & 0o077 == 0
    call("before-message", event_of(path, prompt="Go on."))
    assert not prepared.exists()


@pytest.mark.spec("S23.2")
@pytest.mark.parametrize("sign", ["a", "🚧"])
def test_a_text_is_cut_by_the_characters_that_the_program_counts(sign: str) -> None:
    units = len(sign.encode("utf-16-le")) // 2
    line = sign * (100 // units)
    whole = "\n".join([line] * 50)
    size = 50 * 100 + 49
    assert bring_back.fitted(whole, size) == whole
    assert bring_back.fitted(whole, size - 1) == "\n".join([line] * 49)


@pytest.mark.spec("S23.3")
@pytest.mark.parametrize(
    "event", ["session-starts", "before-compaction", "words", "state", "before-message"]
)
@pytest.mark.parametrize(
    "given",
    [
        b"",
        b"no json",
        b"[]",
        b'{"session_id": "s"}',
        b'{"session_id": 5, "transcript_path": "/nowhere", "source": "compact"}',
        b'{"session_id": "s", "transcript_path": "talk.jsonl", "source": "compact"}',
        b'{"session_id": "s", "transcript_path": "/nowhere/talk.jsonl", "source": "compact"}',
        b'{"session_id": "s", "transcript_path": "/", "source": "compact"}',
        b"[" * 100_000,
    ],
    ids=["empty", "text", "list", "no path", "number", "relative", "missing", "folder", "deep"],
)
def test_a_hook_that_cannot_work_says_nothing_and_succeeds(event: str, given: bytes) -> None:
    assert call(event, given) == ""


@pytest.mark.spec("S23.3")
def test_a_damaged_transcript_does_not_disturb_the_program(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    path.write_bytes(os.urandom(100_000))
    assert call("before-compaction", event_of(path)) == ""
    whole = long_session(tmp_path).save(path).read_bytes()
    path.write_bytes(b'{"torn": \xff\n' + whole)
    assert "granite-89" in context_of(call("words", event_of(path)))


@pytest.mark.spec("S23.3")
def test_where_nothing_can_be_written_the_texts_come_back_all_the_same(tmp_path: Path, home: Path) -> None:
    home.write_text("a file where the folder belongs")
    path = long_session(tmp_path).save(tmp_path / "talk.jsonl")
    assert len(call("before-compaction", event_of(path))) > 100
    assert "granite-89" in context_of(call("words", event_of(path)))
    assert call("session-starts", event_of(path)) == ""


@pytest.mark.spec("S23.3")
def test_without_its_python_a_hook_says_nothing_and_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/gone/bin/python")
    assert call("words", b"{}") == ""


@pytest.mark.spec("S23.3")
def test_a_python_whose_path_has_spaces_and_quotes_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / "it's a folder; touch pwned"
    odd.mkdir()
    wrapper = odd / "python"
    wrapper.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    wrapper.chmod(0o755)
    path = long_session(tmp_path).save(tmp_path / "talk.jsonl")
    monkeypatch.setattr(sys, "executable", str(wrapper))
    assert "granite-89" in context_of(call("words", event_of(path), tmp_path))
    assert not (tmp_path / "pwned").exists()


@pytest.mark.spec("S23.3")
def test_modules_in_the_folder_the_user_works_in_are_not_run(tmp_path: Path) -> None:
    hostile = "open('pwned', 'w').close()\n"
    (tmp_path / "json.py").write_text(hostile)
    (tmp_path / "sevenfold").mkdir()
    (tmp_path / "sevenfold" / "__init__.py").write_text(hostile)
    path = long_session(tmp_path).save(tmp_path / "talk.jsonl")
    assert "granite-89" in context_of(call("words", event_of(path), tmp_path))
    assert not (tmp_path / "pwned").exists()


@pytest.mark.spec("S23.3")
def test_what_a_hook_is_given_is_never_a_name_or_code(tmp_path: Path, home: Path) -> None:
    path = long_session(tmp_path).save(tmp_path / "talk.jsonl")
    for session in ("../../escaped", "$(touch pwned)", "; touch pwned", "a" * 5_000, "\0", "\ud800"):
        given = event_of(path, session_id=session, prompt="$(touch pwned)")
        for event in ("session-starts", "before-compaction", "words", "before-message"):
            call(event, given, tmp_path)
    assert not (tmp_path / "pwned").exists()
    assert {entry.name for entry in tmp_path.iterdir()} <= {"talk.jsonl", "home", "claude"}
    written = [entry for entry in home.rglob("*") if entry.is_file()]
    assert all(len(entry.name) == len("0" * 32 + ".json") for entry in written)


# -- what a message will cost -----------------------------------------------------------------------


def talk_at(moment: datetime, tokens: int, tmp_path: Path, *, compacted: bool = False) -> Path:
    tape = Tape()
    tape.now = moment
    tape.user("Hello.").answer("a1", usage(10, read=tokens, output=5), text("Hello."))
    if compacted:
        tape.compacted()
    return tape.save(tmp_path / "talk.jsonl")


def told(path: Path, prompt: str = "Go on.") -> str:
    answer = call("before-message", event_of(path, prompt=prompt))
    return str(json.loads(answer)["systemMessage"]) if answer else ""


@pytest.mark.spec("S23.4")
def test_before_a_message_to_an_expired_cache_the_user_reads_what_it_costs(tmp_path: Path) -> None:
    an_hour_ago = datetime.now(UTC) - timedelta(hours=1)
    notice = told(talk_at(an_hour_ago, 400_000, tmp_path))
    assert "about 400,015 tokens" in notice
    assert "$" in notice
    assert "/clear" in notice
    assert "/compact" in notice


@pytest.mark.spec("S23.4")
def test_nothing_is_said_while_the_cache_is_warm_or_the_message_is_cheap(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    an_hour_ago = now - timedelta(hours=1)
    assert told(talk_at(now, 400_000, tmp_path)) == ""
    assert told(talk_at(an_hour_ago, 3_000, tmp_path)) == ""
    assert told(talk_at(an_hour_ago, 400_000, tmp_path, compacted=True)) == ""
    assert told(talk_at(an_hour_ago, 400_000, tmp_path), "/compact") == ""


# -- windows -------------------------------------------------------------------------------------------

PROGRAM = """
import json, subprocess, sys
event, hook, ask = sys.argv[1:]
subprocess.run(["sh", "-c", hook], input=event.encode(), check=True)
sys.stdin.readline()
subprocess.run([sys.executable, "-c", ask], check=True)
"""
ASK = "from sevenfold.doors.plugins import window; print(window.current().session)"


@pytest.mark.spec("S23.5")
def test_two_windows_in_one_folder_never_have_each_others_session(tmp_path: Path) -> None:
    path = long_session(tmp_path).save(tmp_path / "talk.jsonl")
    programs = []
    for session in ("first", "second"):
        given = json.dumps(event_of(path, session_id=session))
        arguments = [sys.executable, "-c", PROGRAM, given, command("session-starts"), ASK]
        programs.append(
            subprocess.Popen(
                arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path
            )
        )
    answers = [program.communicate("\n")[0].strip() for program in programs]
    assert answers == ["first", "second"]
    assert window.current() is None


@pytest.mark.spec("S23.5")
@pytest.mark.skipif(shutil.which("ps") is None, reason="ps is not installed")
def test_a_window_is_the_same_in_another_time_zone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "_PROC", tmp_path / "as on a Mac")
    monkeypatch.setattr(os, "getppid", os.getpid)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    window.remember_session("first", tmp_path / "talk.jsonl", tmp_path)
    monkeypatch.setenv("TZ", "America/Lima")
    known = window.current()
    assert known is not None
    assert known.session == "first"


def process_folder(proc: Path, pid: int, *, name: str = "claude", started: int = 100) -> Path:
    """Describe a process below ``proc`` as Linux does."""
    described = proc / str(pid)
    described.mkdir(parents=True, exist_ok=True)
    fields = ["S", "1", *["0"] * 17, str(started)]
    (described / "stat").write_text(f"{pid} ({name}) {' '.join(fields)} 0", encoding="utf-8")
    return described


@pytest.fixture
def linux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which processes are described, as Linux does; the program has the process id 4711."""
    proc = tmp_path / "proc"
    process_folder(proc, 4711)
    (proc / "self").symlink_to("4711")
    monkeypatch.setattr(window, "_PROC", proc)
    monkeypatch.setattr(os, "getppid", lambda: 4711)
    return proc


@pytest.mark.spec("S23.5")
def test_a_program_that_got_the_process_id_of_an_earlier_one_does_not_get_its_session(
    tmp_path: Path, linux: Path
) -> None:
    window.remember_session("first", tmp_path / "talk.jsonl", tmp_path)
    assert window.current() == ("first", tmp_path / "talk.jsonl", tmp_path)
    process_folder(linux, 4711, started=101)
    assert window.current() is None


@pytest.mark.spec("S23.5")
def test_a_program_may_have_parentheses_and_spaces_in_its_name(tmp_path: Path, linux: Path) -> None:
    process_folder(linux, 4711, name="my (own) 1 2 claude) 3")
    window.remember_session("first", tmp_path / "talk.jsonl", tmp_path)
    process_folder(linux, 4711, name="my (own) 1 2 claude) 3", started=101)
    assert window.current() is None
    process_folder(linux, 4711, name="my (own) 1 2 claude) 3")
    assert window.current() == ("first", tmp_path / "talk.jsonl", tmp_path)


@pytest.mark.spec("S23.5")
def test_on_linux_a_program_that_vanished_has_no_session_and_is_not_looked_for_with_ps(
    tmp_path: Path, linux: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = tmp_path / "called"
    ps = tmp_path / "ps"
    ps.write_text(f"#!/bin/sh\ntouch {called}\n", encoding="utf-8")
    ps.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    window.remember_session("first", tmp_path / "talk.jsonl", tmp_path)
    assert window.current() is not None
    shell = process_folder(linux, 4712)
    (linux / "self").unlink()
    (linux / "self").symlink_to(shell.name)
    shutil.rmtree(linux / "4711")
    assert window.current() is None
    assert not called.exists()
    # Where no process is described that way, the same question is put to ps: the trap above does work.
    (linux / "self").unlink()
    assert window.current() is None
    assert called.exists()
