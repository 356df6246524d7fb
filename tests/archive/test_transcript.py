"""One recorded session as an object: `sevenfold.transcript`."""

from __future__ import annotations

from pathlib import Path

import pytest

import sevenfold
from sevenfold.errors import InputError, TranscriptForeign
from sevenfold.session.session import Session
from tests.profile.making import Rollout, Tape, call, result, text, usage

pytestmark = pytest.mark.spec("S14.5")


@pytest.fixture
def compacted(tmp_path: Path) -> Path:
    """A session of another tool: the user's first words were compacted away."""
    tape = Tape(cwd="/projects/harbour")
    tape.user("The pier lamp is called Lantern 7.").answer("m1", usage(100, output=10), text("Noted."))
    tape.user("Look at the tide table.").answer("m2", usage(200), call("Read", "c1", file_path="tide.csv"))
    tape.user(result("c1", "high water at 04:12")).answer("m3", usage(300), text("High water is at 04:12."))
    tape.compacted("The user works on a harbour display.").user("Go on.")
    return tape.answer("m4", usage(80, output=5), text("Going on.")).save(tmp_path / "talk.jsonl")


def own_session(folder: Path) -> Path:
    with Session.open("own", model="claude-sonnet-5-5", system="Be brief.", folder=folder) as session:
        session.user("Hello.")
        session.complete()
        session.user("And again.")
        session.complete()
        return Path(session.conversation.services.path)


def test_its_records_include_what_a_compaction_hid_and_say_what_the_model_still_sees(
    compacted: Path,
) -> None:
    with sevenfold.transcript(compacted) as transcript:
        records = transcript.records()
    first = records[0]
    assert (first.speaker, first.text, first.in_context) == (
        "user",
        "The pier lamp is called Lantern 7.",
        False,
    )
    assert [record.speaker for record in records[:5]] == ["user", "model", "user", "model", "tool"]
    assert [record.text for record in records if record.in_context][-2:] == ["Go on.", "Going on."]


def test_the_context_can_be_had_at_any_record(compacted: Path) -> None:
    with sevenfold.transcript(compacted) as transcript:
        now = transcript.context()
        third = transcript.records()[2]
        then = transcript.context(third.id)
    assert now[0].speaker == "summary"
    assert [record.text for record in then][-1] == "Look at the tide table."
    assert len(then) == 3


def test_what_left_the_context_is_recalled_and_what_is_in_it_only_on_request(compacted: Path) -> None:
    with sevenfold.transcript(compacted) as transcript:
        assert "Lantern 7" in transcript.recall("what is the pier lamp called")[0].excerpt
        assert transcript.recall("Going on.") == []
        assert transcript.recall("Going on.", everything=True)


def test_it_is_audited_and_profiled(compacted: Path) -> None:
    with sevenfold.transcript(compacted) as transcript:
        assert transcript.audit().total.boundaries == 1
        assert transcript.profile().api_calls == 4


def test_requests_of_our_own_sessions_can_be_had_and_compared(tmp_path: Path) -> None:
    with sevenfold.transcript(own_session(tmp_path)) as transcript:
        assert b"Hello." in transcript.request(0)
        assert not transcript.compare_requests(0, 1).breaks


def test_it_needs_no_lease_and_changes_nothing(tmp_path: Path) -> None:
    with Session.open("own", model="claude-sonnet-5-5", folder=tmp_path) as session:
        session.user("Hello.")
        session.complete()
        path = Path(session.conversation.services.path)
        files = {each: each.read_bytes() for each in path.parent.rglob("*") if each.is_file()}
        with sevenfold.transcript(path) as transcript:
            assert transcript.records()[0].text == "Hello."
            transcript.recall("Hello", everything=True)
        assert {each: each.read_bytes() for each in path.parent.rglob("*") if each.is_file()} == files


def test_a_rollout_is_read_like_any_other_session(tmp_path: Path) -> None:
    rollout = Rollout().record("session_meta", id="r-1", cwd="/projects/quay")
    message = {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "Light the quay."}],
    }
    path = rollout.record("response_item", **message).save(tmp_path / "rollout-r-1.jsonl")
    with sevenfold.transcript(path) as transcript:
        assert [record.text for record in transcript.records()] == ["Light the quay."]


def test_a_record_that_is_not_there_and_a_file_without_a_session_are_clear_errors(
    compacted: Path, tmp_path: Path
) -> None:
    with (
        sevenfold.transcript(compacted) as transcript,
        pytest.raises(InputError, match=r"nobody: .* has no record with this id"),
    ):
        transcript.context("nobody")
    notes = tmp_path / "notes.jsonl"
    notes.write_text('{"a": 1}\n')
    with pytest.raises(TranscriptForeign, match="JSON records of an unknown kind"):
        sevenfold.transcript(notes)
