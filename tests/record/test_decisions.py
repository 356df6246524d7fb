"""Decisions of our own: each changes what is seen, none changes what was said, and most can be taken back."""

from __future__ import annotations

import json

import pytest

from sevenfold.clock import RandomIds
from sevenfold.conversation.resume import Foreseen, SizeReport, fold, resume
from sevenfold.conversation.transcript import Transcript
from sevenfold.errors import InputError, TranscriptTooNew
from sevenfold.record import blocks, entries
from sevenfold.record.blocks import PLACEHOLDER_CLEARED
from sevenfold.record.decisions import (
    CompactMetadata,
    Epoch,
    Fold,
    MicrocompactMetadata,
    Offloaded,
    Rewound,
    Segment,
    Snip,
    Undone,
)
from sevenfold.record.weight import measure
from sevenfold.stores.memory import MemoryLog
from tests.support import answer, shown, transcript


def _worked(log: MemoryLog | None = None) -> tuple[Transcript, list[str]]:
    """A prompt, a call, its result, an answer, and another prompt; with the ids of all records."""
    script = transcript(log)
    script.user([blocks.text("go")])
    script.model(answer(_think("hm"), _call("a"), id="m1"))
    script.user([blocks.result("a", "a long listing")])
    script.model(answer(_think("so"), "fine", id="m2"))
    script.user([blocks.text("next")])
    return script, [item.record.uuid for item in script.view.items]


def _call(id: str) -> blocks.Block:
    return blocks.read(json.dumps({"type": "tool_use", "id": id, "name": "Read", "input": {}}).encode())


def _think(words: str) -> blocks.Block:
    return blocks.read(json.dumps({"type": "thinking", "thinking": words, "signature": "c2ln"}).encode())


@pytest.mark.spec("S10.1")
def test_every_decision_is_appended_and_no_line_ever_changes():
    log = MemoryLog()
    script, ids = _worked(log)
    before = [line for _, line in log.read()]
    script.clear(MicrocompactMetadata(compacted_tool_ids=["a"]))
    script.decide(Snip(first=ids[0], last=ids[2]))
    script.compact(CompactMetadata(), [blocks.text("in short")])
    assert [line for _, line in log.read()][: len(before)] == before


@pytest.mark.spec("S2.9")
def test_a_snip_takes_whole_rounds_out_of_sight_and_undo_brings_them_back():
    script, ids = _worked()
    whole = script.view.encoded()
    snip = script.decide(Snip(first=ids[1], last=ids[3]))
    assert shown(script.view) == [("user", "go next")]
    assert script.view.fate(ids[2]).by == (snip.id,)
    script.decide(Undone(decision=snip.id))
    assert script.view.encoded() == whole
    script.decide(Undone(decision=snip.id, redo=True))
    assert shown(script.view) == [("user", "go next")]


@pytest.mark.spec("S2.9")
def test_the_late_result_of_a_call_that_is_out_of_sight_is_out_of_sight_too():
    script = transcript()
    script.user([blocks.text("go")])
    script.model(answer(_call("a")))
    script.attach("todo", {}, [blocks.text("remember")])
    ids = [item.record.uuid for item in script.view.items]
    script.decide(Snip(first=ids[1], last=ids[2]))
    late = script.user([blocks.result("a", "at last")])
    assert shown(script.view) == [("user", "go")]
    assert script.view.fate(late).state == "hidden"


@pytest.mark.spec("S2.9")
def test_a_fold_puts_its_summary_in_the_place_of_what_it_hides():
    script, ids = _worked()
    script.decide(Fold(first=ids[1], last=ids[3], summary="listed the files"))
    assert shown(script.view) == [("user", "go listed the files next")]


@pytest.mark.spec("S1.3")
def test_an_offloaded_result_shows_its_preview_for_good():
    script, _ = _worked()
    script.decide(Offloaded(tool_use_id="a", preview="first lines…", path="x", size=14, sha256=""))
    assert shown(script.view)[2] == ("user", "a=first lines…")
    script.clear(MicrocompactMetadata(compacted_tool_ids=["a"]))
    assert shown(script.view)[2] == ("user", "a=first lines…")


def test_undoing_a_clearing_shows_the_result_again():
    script, _ = _worked()
    clearing = script.clear(MicrocompactMetadata(compacted_tool_ids=["a"]))
    assert shown(script.view)[2] == ("user", f"a={PLACEHOLDER_CLEARED}")
    script.decide(Undone(decision=clearing))
    assert shown(script.view)[2] == ("user", "a=a long listing")


def test_undoing_a_compaction_puts_the_old_records_before_what_was_said_since():
    script, _ = _worked()
    before = shown(script.view)
    boundary = script.compact(CompactMetadata(), [blocks.text("in short")])
    script.model(answer("going on", id="m3"))
    assert shown(script.view) == [("user", "in short"), ("assistant", "going on")]
    script.decide(Undone(decision=boundary))
    assert shown(script.view) == [*before, ("assistant", "going on")]


def test_a_size_measured_on_a_compacted_view_is_not_used_once_that_is_undone():
    script, _ = _worked()
    boundary = script.compact(CompactMetadata(), [blocks.text("in short")])
    script.model(answer("going on", id="m3", prompt=300))
    script.decide(Undone(decision=boundary))
    assert script.view.layout.anchor is not None
    assert script.view.layout.anchor.prompt == 1000


@pytest.mark.spec("S8.6")
def test_a_rewind_goes_back_to_any_record_and_what_is_said_then_follows_it():
    script, ids = _worked()
    script.decide(Rewound(to=ids[3]))
    script.user([blocks.text("another way")])
    assert shown(script.view)[-1] == ("user", "another way")
    assert script.view.fate(ids[4]).state == "off_branch"


@pytest.mark.spec("S8.6")
def test_a_rewind_to_nothing_starts_the_conversation_anew():
    script, _ = _worked()
    script.decide(Rewound(to=None))
    script.user([blocks.text("fresh")])
    assert shown(script.view) == [("user", "fresh")]


def test_decisions_made_on_a_branch_that_was_given_up_do_not_count():
    script, ids = _worked()
    script.decide(Snip(first=ids[1], last=ids[3]))
    script.decide(Rewound(to=ids[3]))
    assert shown(script.view) == [
        ("user", "go"),
        ("assistant", "thinking a?"),
        ("user", "a=a long listing"),
        ("assistant", "thinking fine"),
    ]


@pytest.mark.spec("S4.8")
def test_a_clearing_still_holds_for_results_that_a_compaction_keeps():
    script, ids = _worked()
    script.clear(MicrocompactMetadata(compacted_tool_ids=["a"]))
    anchor, boundary = script.new_id(), script.new_id()
    kept = CompactMetadata(preserved_segment=Segment(ids[1], anchor, ids[4]))
    script.compact(kept, [blocks.text("in short")], boundary=boundary, anchor=anchor)
    assert shown(script.view)[2] == ("user", f"a={PLACEHOLDER_CLEARED}")


@pytest.mark.spec("S9.2")
def test_an_epoch_may_leave_out_all_reasoning_from_before_it():
    script, _ = _worked()
    script.decide(Epoch(reason="cleared", model="m", drops_thinking=True))
    script.model(answer(_think("new"), "ok", id="m3"))
    assert [message for _, message in shown(script.view)] == [
        "go",
        "a?",
        "a=a long listing",
        "fine",
        "next",
        "thinking ok",
    ]


@pytest.mark.spec("S9.2")
def test_an_epoch_may_keep_reasoning_up_to_a_record():
    script, ids = _worked()
    script.decide(Epoch(reason="undone", model="m", drops_thinking=True, drops_thinking_after=ids[1]))
    assert [message for _, message in shown(script.view)] == [
        "go",
        "thinking a?",
        "a=a long listing",
        "fine",
        "next",
    ]


def test_a_compaction_without_its_commit_never_happened():
    log = MemoryLog()
    script, _ = _worked(log)
    before = script.view.encoded()
    script.compact(CompactMetadata(), [blocks.text("in short")])
    lines = [line for _, line in log.read()]
    assert fold(MemoryLog(lines[:-1])).encoded() == before
    assert fold(MemoryLog(lines)).encoded() != before


def test_decisions_after_a_torn_compaction_are_not_lost_with_it():
    log = MemoryLog()
    script, ids = _worked(log)
    script.compact(CompactMetadata(), [blocks.text("in short")])
    torn = MemoryLog([line for _, line in log.read()][:-2])
    again = transcript(torn, RandomIds())
    again.decide(Snip(first=ids[1], last=ids[3]))
    again.user([blocks.text("more")])
    assert shown(again.view) == [("user", "go next more")]
    assert fold(torn).encoded() == again.view.encoded()


def test_a_record_of_a_newer_version_makes_the_transcript_read_only():
    log = MemoryLog([b'{"type":"sevenfold","v":1,"kind":"teleport","id":"x"}\n'])
    assert transcript(log).read_only
    with pytest.raises(TranscriptTooNew, match="teleport"):
        transcript(log).user([blocks.text("go")])
    newer = MemoryLog([b'{"type":"sevenfold","v":2,"kind":"snip","id":"x","first":"a","last":"b"}\n'])
    assert transcript(newer).read_only


def test_a_message_without_content_is_refused():
    with pytest.raises(InputError, match="at least one content block"):
        transcript().user([])


def test_what_is_written_reads_back_as_the_same_entries():
    log = MemoryLog()
    script, ids = _worked(log)
    written = [script.view.entry(uuid) for uuid in ids]
    script.attach("todo", {"items": 1}, [blocks.text("remember")])
    script.clear(MicrocompactMetadata(compacted_tool_ids=["a"]))
    script.decide(Snip(first=ids[1], last=ids[3]))
    read = [entries.read(line) for _, line in log.read()]
    assert read[: len(written)] == written
    assert not any(isinstance(entry, entries.Damaged | entries.UnknownDecision) for entry in read)


@pytest.mark.spec("S3.7")
def test_a_compaction_cannot_keep_a_result_without_its_call():
    script, ids = _worked()
    torn = CompactMetadata(preserved_segment=Segment(ids[2], "anchor", ids[4]))
    with pytest.raises(InputError, match="torn from the answer"):
        script.compact(torn, [blocks.text("in short")])


def test_a_compaction_that_keeps_the_start_of_the_file_is_not_passed_over_on_resume():
    log = MemoryLog()
    script, ids = _worked(log)
    anchor = script.new_id()
    kept = CompactMetadata(preserved_segment=Segment(ids[4], anchor, ids[4]))
    first = script.compact(kept, [blocks.text("in short")], anchor=anchor)
    script.decide(Undone(decision=first))
    anchor = script.new_id()
    whole = CompactMetadata(preserved_segment=Segment(ids[0], anchor, script.view.tip or ""))
    script.compact(whole, [blocks.text("again")], anchor=anchor)
    script.model(answer("going on", id="m3"))
    script.decide(Undone(decision=first, redo=True))
    assert resume(log).encoded() == fold(log).encoded() == script.view.encoded()


@pytest.mark.spec("S21.21")
def test_a_size_measured_while_a_compaction_was_undone_is_not_used_once_that_is_redone():
    script, _ = _worked()
    boundary = script.compact(CompactMetadata(), [blocks.text("in short")])
    script.decide(Undone(decision=boundary))
    script.model(answer("going on", id="m3", prompt=5_000))
    script.decide(Undone(decision=boundary, redo=True))
    assert _reported(script) is None
    script.user([blocks.text("and then")])
    script.model(answer("well", id="m4", prompt=700))
    assert _reported(script) == 700


def _reported(script: Transcript) -> int | None:
    """The size that a server reported and that counts for the view."""
    anchor = script.view.layout.anchor
    return None if anchor is None else anchor.prompt


@pytest.mark.spec("S21.21")
@pytest.mark.parametrize("post_tokens", [5_000, 0])
def test_reading_a_log_again_tells_the_size_that_a_compaction_was_expected_to_leave(post_tokens):
    log = MemoryLog()
    script, _ = _worked(log)
    script.decide(Epoch(reason="begin", model="claude-sonnet-5-5"))
    script.compact(CompactMetadata(post_tokens=post_tokens), [blocks.text("in short")])
    reports: list[SizeReport] = []
    fold(log, reports=reports)
    left = [report for report in reports if isinstance(report, Foreseen)]
    expected = [Foreseen(5_000, measure(blocks.text("in short")), "claude-sonnet-5-5")]
    assert left == (expected if post_tokens else [])


@pytest.mark.spec("S21.21")
def test_a_compaction_without_its_commit_tells_no_size():
    log, torn = MemoryLog(), MemoryLog()
    script, _ = _worked(log)
    script.decide(Epoch(reason="begin", model="claude-sonnet-5-5"))
    script.compact(CompactMetadata(post_tokens=5_000), [blocks.text("in short")])
    torn.append([line for _, line in log.read()][:-1])
    reports: list[SizeReport] = []
    fold(torn, reports=reports)
    assert not [report for report in reports if isinstance(report, Foreseen)]
