"""Purging: the one permitted rewrite touches what it must, is on record, and survives being cut off."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from msgspec import Raw

from sevenfold.cli import purge as purge_command
from sevenfold.clock import ManualClock, RandomIds
from sevenfold.conversation.queries import Finder
from sevenfold.conversation.resume import fold, resume
from sevenfold.conversation.transcript import Transcript
from sevenfold.errors import InputError, TranscriptLocked, TranscriptTooNew, UserError
from sevenfold.record import blocks
from sevenfold.record.decisions import CompactMetadata, Epoch, Purged, Rewound, Segment
from sevenfold.record.log import Place
from sevenfold.record.redact import digest, mask
from sevenfold.stores.home import Home, side_file
from sevenfold.stores.jsonl import log as lines
from sevenfold.stores.jsonl.lock import FileLock
from sevenfold.stores.jsonl.log import JsonlLog
from tests.redaction.making import ALONE, Maker
from tests.scenarios.conversing import Conversation, conversation
from tests.storage.making import Worker, made, reopened, run
from tests.support import answer

SECRET = ALONE["github-token"](Maker())
LABEL = mask(SECRET).text
KEY = ALONE["private-key"](Maker())


@pytest.fixture
def home(tmp_path, monkeypatch) -> Home:
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    return Home(tmp_path / "home")


@pytest.fixture
def leaked(home) -> Worker:
    """A session that has the secret in a question, an answer, a stored result and its notes."""
    worker = Worker(home, "s-1")
    worker.turn(f"my token is {SECRET}, keep it", f"I keep {SECRET}", id="a")
    worker.result("t1", f"TOKEN={SECRET}\n" * 3)
    worker.turn("thanks", "welcome", id="b")
    worker.files.notes.parent.mkdir()
    worker.files.notes.write_text(f"# Learnings\nthe token is {SECRET}\n")
    side_file(worker.files.transcript).write_bytes(b"an index of all that was said")
    worker.close()
    return worker


def purge(secret: str, *more: str) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.StringIO(secret + "\n"))
        return run(purge_command, "--secret-stdin", "--yes", *more)


def everything(home: Home) -> dict[Path, bytes]:
    return {
        path: path.read_bytes()
        for path in home.root.rglob("*")
        if path.is_file() and path.suffix != ".lock" and path != home.journal
    }


# -- one secret ------------------------------------------------------------------------------------


@pytest.mark.spec("S10.1")
def test_a_secret_goes_everywhere_and_every_other_byte_stays(home, leaked):
    before = leaked.files.transcript.read_bytes()
    assert purge(SECRET) == 0
    assert all(SECRET.encode() not in content for content in everything(home).values())
    after = leaked.files.transcript.read_bytes()
    assert after.startswith(before.replace(SECRET.encode(), LABEL.encode()))
    assert leaked.files.notes.read_text() == f"# Learnings\nthe token is {LABEL}\n"
    (result,) = leaked.files.stored_results()
    assert result.read_text() == f"TOKEN={LABEL}\n" * 3


@pytest.mark.spec("S12.3")
def test_a_masked_result_is_still_a_stored_result(home, leaked):
    purge(SECRET)
    transcript = Transcript(
        JsonlLog(leaked.files.transcript), Place("s-1"), clock=ManualClock(), ids=RandomIds()
    )
    assert Finder(transcript, leaked.results).fetch("t1") == f"TOKEN={LABEL}\n".encode() * 3


def test_what_was_done_is_on_record(home, leaked):
    purge(SECRET)
    view = reopened(leaked.files)
    (record,) = [made for made in view.decisions() if isinstance(made, Purged)]
    assert (record.masks, record.count) == ([LABEL], 5)
    (result,) = leaked.files.stored_results()
    assert list(record.results) == [str(result)]
    (noted,) = [json.loads(line) for line in home.journal.read_text().splitlines()]
    assert (noted["what"], noted["session"], noted["masks"]) == ("secret", "s-1", [LABEL])
    assert (noted["places"], noted["files"]) == (9, 3)
    assert home.journal.stat().st_mode & 0o077 == 0


def test_a_purged_session_goes_on_without_reasoning_bound_to_what_stood_there(leaked):
    before = reopened(leaked.files)
    assert any(part.kind == "thinking" for message in before.messages() for part in message.parts)
    purge(SECRET)
    view = reopened(leaked.files)
    assert all(part.kind != "thinking" for message in view.messages() for part in message.parts)
    assert view.epoch is not None
    assert (view.epoch.reason, view.epoch.drops_thinking) == ("purged", True)
    assert (view.epoch.model, view.epoch.system) == (before.epoch.model, before.epoch.system)
    assert [item.record.uuid for item in view.items] == [item.record.uuid for item in before.items]


@pytest.mark.spec("S9.2")
def test_a_provider_that_binds_reasoning_takes_the_next_request_after_a_purge(home):
    files = made(home.project(Path("/made/up"))).session("s-1")
    with conversation(log=JsonlLog.open(files.transcript), thinking={"type": "adaptive"}) as held:
        held.say(f"use {SECRET}")
        held.ask()
        held.script.close()
        purge(SECRET)
        again = Conversation(held.url, held.simulator, held.model, JsonlLog.open(files.transcript))
        again.ask()
        again.ask()
        first, second = (json.loads(request.raw) for request in list(held.simulator.requests)[-2:])
        again.client.close()
        again.script.close()
    assert LABEL in first["messages"][0]["content"][0]["text"]
    kinds = [block["type"] for message in second["messages"] for block in message["content"]]
    assert kinds.count("thinking") == 1


def test_reasoning_stays_away_after_a_rewind_to_before_the_purge(home, leaked):
    first = reopened(leaked.files).items[1].record.uuid
    purge(SECRET)
    worker = Worker(home, "s-1")
    worker.script.decide(Rewound(to=first))
    assert all(part.kind != "thinking" for one in worker.script.view.messages() for part in one.parts)
    worker.close()


def test_new_reasoning_is_kept_after_a_purge(home, leaked):
    purge(SECRET)
    worker = Worker(home, "s-1")
    worker.turn("and now?", "all good", id="c")
    worker.close()
    kinds = [part.kind for message in reopened(leaked.files).messages() for part in message.parts]
    assert kinds.count("thinking") == 1


def test_a_secret_in_the_system_prompt_is_masked_in_the_new_epoch_too(home):
    worker = Worker(home, "s-1")
    worker.script.decide(Epoch(reason="again", model="m", system=[Raw(blocks.text(SECRET).raw)]))
    worker.turn(id="a")
    worker.close()
    purge(SECRET)
    epoch = reopened(worker.files).epoch
    assert [bytes(part) for part in epoch.system] == [blocks.text(LABEL).raw]


def test_only_a_stored_result_masked_leaves_the_epoch_as_it_is(home):
    worker = Worker(home, "s-1")
    worker.result("t1", "harmless")
    worker.close()
    (result,) = worker.files.stored_results()
    result.write_text(SECRET)
    purge(SECRET)
    view = reopened(worker.files)
    assert view.epoch.reason == "start"
    assert [made.count for made in view.decisions() if isinstance(made, Purged)] == [0]
    assert result.read_text() == LABEL


def test_offsets_in_the_file_still_lead_where_they_led(home):
    worker = Worker(home, "s-1")
    worker.turn(f"first {SECRET} " * 5, id="a")
    kept = worker.turn("second", id="b")
    last = worker.script.view.items[-1].record.uuid
    anchor = worker.script.new_id()
    about = CompactMetadata(preserved_segment=Segment(kept, anchor, last))
    worker.script.compact(about, [blocks.text(f"in short: {SECRET}")], anchor=anchor)
    worker.turn("third", id="c")
    worker.close()
    purge(SECRET)
    log = JsonlLog(worker.files.transcript)
    whole, tail = fold(log), resume(log)
    assert tail.encoded() == whole.encoded()
    assert b"second" in b"".join(tail.encoded())
    carry = tail.carry
    assert carry is not None
    assert carry.segment_offset is not None
    assert carry.epoch_offset is not None
    starts = {line.offset: line.raw for line in lines.scan(worker.files.transcript)}
    assert kept.encode() in starts[carry.segment_offset]
    assert b'"kind":"epoch"' in starts[carry.epoch_offset]


def test_a_summary_the_provider_signed_gives_way_to_the_readable_one(home):
    worker = Worker(home, "s-1")
    worker.turn(id="a")
    signed = b'{"type":"compaction","content":"they said %s","signature":"c2ln"}' % SECRET.encode()
    worker.script.compact(CompactMetadata(), [blocks.text(f"in short: {SECRET}")], signed=signed)
    assert [part.kind for message in worker.script.view.messages() for part in message.parts] == [
        "compaction"
    ]
    worker.close()
    purge(SECRET)
    assert [part.raw for message in reopened(worker.files).messages() for part in message.parts] == [
        blocks.text(f"in short: {LABEL}").raw
    ]


def test_a_key_of_many_lines_is_found_in_every_form(home):
    worker = Worker(home, "s-1")
    worker.turn(f"here:\n{KEY}\nand quoted {json.dumps({'key': KEY})}", id="a")
    worker.result("t1", json.dumps({"deeper": json.dumps(KEY)}) + "\n" + KEY)
    worker.close()
    purge(KEY)
    middle = KEY.splitlines()[3].encode()
    assert all(middle not in content for content in everything(home).values())


def test_a_secret_in_a_torn_or_damaged_line_is_masked_there(home, leaked):
    with leaked.files.transcript.open("ab") as file:
        file.write(b'not json "' + SECRET.encode() + b'\n{"torn":"' + SECRET.encode())
    before = reopened(leaked.files).encoded()
    purge(SECRET)
    content = leaked.files.transcript.read_bytes()
    assert SECRET.encode() not in content
    assert content.count(LABEL.encode() + b"\n") >= 2
    assert reopened(leaked.files).damaged == 2
    assert len(reopened(leaked.files).encoded()) == len(before)


def test_memories_are_masked_too(home, leaked):
    note = leaked.project.folder / "memory" / "topic" / "note.md"
    note.parent.mkdir(parents=True)
    note.write_text(f"never forget {SECRET}")
    purge(SECRET)
    assert note.read_text() == f"never forget {LABEL}"


def test_the_index_goes_because_it_holds_what_was_said(home, leaked):
    purge(SECRET)
    assert not side_file(leaked.files.transcript).exists()


def test_other_sessions_are_left_alone(home, leaked):
    other = Worker(home, "s-2")
    other.turn("nothing to hide", id="x")
    other.close()
    before = other.files.transcript.read_bytes()
    purge(SECRET)
    assert other.files.transcript.read_bytes() == before


def test_a_secret_can_be_named_by_the_digest_scan_shows(home, leaked, capsys):
    assert run(purge_command, "--secret-digest", digest(SECRET), "--yes") == 0
    assert all(SECRET.encode() not in content for content in everything(home).values())
    assert "Masked in 9 places" in capsys.readouterr().out


def test_a_secret_that_is_nowhere_changes_nothing(home, leaked, capsys):
    before = everything(home)
    assert purge(ALONE["npm-token"](Maker())) == 0
    assert run(purge_command, "--secret-digest", "00000000", "--yes") == 0
    assert everything(home) == before
    assert capsys.readouterr().out.count("The secret is nowhere") == 2


def test_purging_twice_finds_nothing_the_second_time(home, leaked):
    purge(SECRET)
    before = everything(home)
    purge(SECRET)
    assert everything(home) == before


def test_nothing_changes_while_a_session_is_in_use_and_its_user_is_named(home, leaked):
    before = everything(home)
    lock = FileLock(leaked.files.transcript)
    with pytest.raises(TranscriptLocked, match=f"process {os.getpid()} on"):
        purge(SECRET)
    lock.release()
    assert everything(home) == before


def test_a_dry_run_says_where_and_changes_nothing(home, leaked, capsys):
    before = everything(home)
    purge(SECRET, "--dry-run")
    assert everything(home) == before
    out = capsys.readouterr().out
    assert str(leaked.files.transcript) in out
    assert SECRET not in out


def test_nobody_to_ask_means_no(home, leaked, monkeypatch):
    before = everything(home)
    monkeypatch.setattr(sys, "stdin", io.StringIO(SECRET))
    with pytest.raises(UserError, match="--yes"):
        run(purge_command, "--secret-stdin")
    assert everything(home) == before


@pytest.mark.parametrize("word", ["assistant", '"parentUuid"', "tool_result"])
def test_words_that_records_are_made_of_cannot_be_purged(home, leaked, word):
    before = everything(home)
    if word == '"parentUuid"':
        assert purge(word) == 0
    else:
        with pytest.raises(InputError, match="structure"):
            purge(word)
    assert everything(home) == before


def test_a_transcript_of_a_newer_version_is_not_touched(home, leaked):
    with leaked.files.transcript.open("ab") as file:
        file.write(b'{"type":"sevenfold","v":1,"kind":"unheard_of"}\n')
    before = everything(home)
    with pytest.raises(TranscriptTooNew, match="newer"):
        purge(SECRET)
    assert everything(home) == before


@pytest.mark.parametrize("digits", ["12", "xyzt", ""])
def test_a_wrong_digest_is_refused(home, digits):
    with pytest.raises(InputError, match="digest"):
        run(purge_command, "--secret-digest", digits, "--yes")


def _killed(home: Home, call: str, number: int) -> int:
    """Purge in a process that is killed when it does something for the so-manieth time."""
    program = f"""
        import io, os, signal, sys
        from pathlib import Path
        from tests.storage.making import run
        from sevenfold.cli import purge as purge_command
        real, left = {call}, [{number}]
        def deadly(*arguments):
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return real(*arguments)
        {call} = deadly
        sys.stdin = io.StringIO({SECRET!r})
        run(purge_command, "--secret-stdin", "--yes")
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    code = [sys.executable, "-c", textwrap.dedent(program)]
    return subprocess.run(code, env=environment, check=False, capture_output=True).returncode


@pytest.mark.parametrize("call", ["os.fsync", "Path.replace"])
def test_killed_at_any_moment_it_leaves_each_file_old_or_new_and_can_be_finished(home, leaked, call):
    old = everything(home)
    number, code = 0, -signal.SIGKILL
    while code == -signal.SIGKILL:
        for path, content in old.items():
            path.write_bytes(content)
        code = _killed(home, call, number)
        for path, content in old.items():
            masked = content.replace(SECRET.encode(), LABEL.encode())
            if path.exists():
                assert path.read_bytes() == content or path.read_bytes().startswith(masked)
        number += 1
        purge(SECRET)
        assert all(SECRET.encode() not in content for content in everything(home).values())
    assert code == 0
    assert number > 3
    assert number > len(old) - 1 or call != "os.fsync"


# -- a whole session -------------------------------------------------------------------------------


def test_a_session_goes_with_all_that_belongs_to_it(home, leaked, capsys):
    other = Worker(home, "s-2")
    other.result("t1", "stays")
    other.close()
    assert run(purge_command, "--session", "s-1", "--yes") == 0
    assert [one.name for one in leaked.project.all_sessions()] == ["s-2"]
    assert not [path for path in home.root.rglob("*") if "s-1" in path.name]
    assert other.files.stored_results()
    (noted,) = [json.loads(line) for line in home.journal.read_text().splitlines()]
    assert (noted["what"], noted["session"], noted["files"]) == ("session", "s-1", 4)
    assert noted["bytes"] > 0
    assert "token" not in home.journal.read_text()


def test_a_session_in_use_is_not_removed(home, leaked):
    before = everything(home)
    lock = FileLock(leaked.files.transcript)
    with pytest.raises(TranscriptLocked, match=str(os.getpid())):
        run(purge_command, "--session", "s-1", "--yes")
    lock.release()
    assert everything(home) == before


def test_a_dry_run_of_removing_a_session_removes_nothing(home, leaked, capsys):
    before = everything(home)
    assert run(purge_command, "--session", "s-1", "--dry-run") == 0
    assert everything(home) == before
    assert "4 files, 1 of them stored results" in capsys.readouterr().out


def test_saying_no_removes_nothing(home, leaked, monkeypatch):
    before = everything(home)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda question: "n")
    assert run(purge_command, "--session", "s-1") == 1
    assert everything(home) == before


def test_a_session_nobody_knows_is_an_error(home, leaked):
    with pytest.raises(UserError, match="no such session"):
        run(purge_command, "--session", "../s-1", "--yes")


def test_sessions_of_one_name_are_told_apart_by_their_project(home, leaked, tmp_path):
    other = Worker(home, "s-1", tmp_path)
    other.close()
    with pytest.raises(UserError, match="--project"):
        run(purge_command, "--session", "s-1", "--yes")
    assert run(purge_command, "--session", "s-1", "--project", tmp_path, "--yes") == 0
    assert not other.files.transcript.exists()
    assert leaked.files.transcript.exists()


def test_a_session_with_an_odd_name_is_found_by_it(home):
    worker = Worker(home, "Maria's session/1")
    worker.script.model(answer("hello"))
    worker.close()
    assert run(purge_command, "--session", "Maria's session/1", "--yes") == 0
    assert worker.project.all_sessions() == []
