"""`sevenfold audit`, and how a transcript is read for it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from sevenfold.archive.audit import Audit, CompactionMoment, audit, by_question, by_recall, compactions
from sevenfold.archive.fidelity import Probe, texts
from sevenfold.archive.fidelity.questions import question
from sevenfold.cli import audit as audit_command
from sevenfold.errors import TranscriptForeign, TranscriptMissing
from sevenfold.ports import Log
from sevenfold.recall.index import RecallIndex
from sevenfold.record import blocks
from sevenfold.record.decisions import CompactMetadata, Segment
from sevenfold.record.layout import Item
from sevenfold.stores.memory import MemoryLog
from tests.fidelity.making import harbour
from tests.support import Story, answer, transcript

GOOD = """The harbour display shows yesterday's tide. Never touch the files under build/generated.
The user agreed: should I read the zone from stations.toml? Changed clock.py; test_clock.py failed."""


def compacted(summary: str = GOOD) -> Story:
    story = harbour()
    story.boundary(uuid="b1")
    story.summary(summary, uuid="s1")
    story.user("And now tell the lighthouse keepers.", uuid="next")
    story.assistant("I do.")
    return story


def audited(story: Story) -> Audit:
    return audit_of(MemoryLog(story.lines))


def audit_of(log: Log) -> Audit:
    index = RecallIndex(log)
    index.catch_up()
    return audit(log, index)


def forgotten() -> Story:
    """A wish that recall cannot find among all the times it was repeated later."""
    story = Story()
    story.user(
        "I begin. Never paint the north door of the lamp house green. Thank you, all of you.", uuid="wish"
    )
    story.boundary()
    story.summary("Painting was discussed.")
    for number in range(20):
        story.user(f"{number}: Never paint the north door of the lamp house green.")
    return story


def command(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str]:
    parser = argparse.ArgumentParser()
    audit_command.arguments(parser)
    code = audit_command.run(parser.parse_args([*map(str, arguments)]))
    return code, capsys.readouterr().out


def written(tmp_path: Path, story: Story) -> Path:
    path = tmp_path / "talk.jsonl"
    path.write_bytes(b"".join(story.lines))
    return path


@pytest.mark.spec("S10.3")
def test_what_a_foreign_compaction_hid_is_in_the_context_or_found_by_recall() -> None:
    total = audited(compacted()).total
    assert total.boundaries == 1
    assert total.lost == 0
    assert total.by_kind["edited_file"].in_context == total.by_kind["preference"].in_context == 1
    assert total.reachable > 0


def test_a_summary_that_says_more_scores_higher() -> None:
    assert audited(compacted("We talked.")).total.in_context < audited(compacted()).total.in_context


def test_what_the_user_says_after_a_compaction_is_not_its_merit() -> None:
    story = compacted("We talked.")
    (one,) = compactions(MemoryLog(story.lines))
    assert texts(one.after) == ["We talked."]
    assert [item.record.uuid for item in one.summary] == ["s1"]


def test_what_was_put_beside_the_summary_is() -> None:
    story = harbour()
    story.boundary()
    story.summary("We talked.")
    story.user("<command-name>/compact</command-name><command-args>keep the zone</command-args>")
    story._add(
        "attachment", {"attachment": {"type": "file", "filename": "notes.md", "content": "the zone is UTC"}}
    )
    story.user("And now?")
    (one,) = compactions(MemoryLog(story.lines))
    assert any("the zone is UTC" in text for text in texts(one.after))
    assert not any("And now?" in text for text in texts(one.after))


def kept(moment: CompactionMoment) -> list[Item]:
    known = {item.record.uuid for item in moment.before}
    return [item for item in moment.after if item.record.uuid in known]


def test_a_kept_tail_is_not_hidden_and_the_present_step_is_in_it() -> None:
    story = harbour()
    story.boundary(kept=("now", "s1", "now"))
    story.summary("We talked.", uuid="s1", parent=story.last)
    (one,) = compactions(MemoryLog(story.lines))
    assert [item.record.uuid for item in kept(one)] == ["now"]
    assert "now" not in {item.record.uuid for item in one.hidden}
    assert one.later_rounds_visible


def own(*, commits: bool = True) -> tuple[list[CompactionMoment], Audit]:
    log = MemoryLog()
    ours = transcript(log)
    ours.user([blocks.text("Always write the keeper's name in full.")])
    ours.model(answer("I will."))
    kept = ours.user([blocks.text("And mend the lamp.")])
    anchor = ours.new_id()
    about = CompactMetadata(preserved_segment=Segment(kept, anchor, kept))
    ours.compact(about, [blocks.text("Names were discussed.")], anchor=anchor)
    lines = [line for _, line in log.read()]
    shorter = MemoryLog(lines if commits else lines[:-1])
    return list(compactions(shorter)), audit_of(shorter)


def test_a_compaction_of_ours_counts_from_its_commit_on() -> None:
    (one,), report = own()
    assert [texts([item]) for item in kept(one)] == [["And mend the lamp."]]
    assert report.total.by_kind["user_message"].reachable == 1
    assert own(commits=False)[0] == []


def test_an_invented_statement_is_listed() -> None:
    (one,) = audited(compacted('The user said: "sell the lighthouse to the highest bidder"')).boundaries
    assert one.invented == 1
    assert one.invented_statements == ('The user said: "sell the lighthouse to the highest bidder"',)


INVENTION = 'The user said: "sell the lighthouse to the highest bidder"'


@pytest.mark.spec("S16.31")
@pytest.mark.parametrize("beginning", ["a compaction", "a record whose parent is elsewhere"])
def test_a_file_without_the_whole_history_accuses_no_summary(
    beginning: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story = Story()
    if beginning != "a compaction":
        story.user("And the lamp?", uuid="first", parent="in-another-file")
        story.assistant("It burns.")
    story.boundary(uuid="b1")
    story.summary(INVENTION)
    story.user("Go on.")
    (audited_,) = audited(story).boundaries
    assert not audited_.whole_history
    assert (audited_.invented, audited_.doubtful) == (0, 0)
    assert audited_.unchecked_statements == (INVENTION,)
    _, out = command(capsys, written(tmp_path, story))
    assert (
        "begins in the middle of the conversation, so 1 statement about the user cannot be checked" in out
    )
    assert "cannot be checked  The user said" in out
    assert "invented" not in out


@pytest.mark.spec("S16.31")
def test_a_claim_whose_subject_the_user_spoke_of_in_other_words_is_not_called_invented() -> None:
    story = Story()
    story.user("Pull down the remote lamps branch before that.")
    story.assistant("I do.")
    story.user("And maybe delete the one you made just now, or it will conflict.")
    story.assistant("I do.")
    story.boundary()
    story.summary("User told me to delete the local branch and to fetch the remote lamps.")
    story.user("Go on.")
    (audited_,) = audited(story).boundaries
    assert audited_.invented == 0
    assert audited_.doubtful == 1


@pytest.mark.spec("S16.31")
def test_a_claim_of_an_act_that_the_user_never_spoke_of_is_invented() -> None:
    story = Story()
    story.user("Pull the remote branch lamps first.")
    story.assistant("I do.")
    story.boundary()
    story.summary("The user asked to delete the customer database of the branch office in Lisbon.")
    story.user("Go on.")
    (audited_,) = audited(story).boundaries
    assert (audited_.invented, audited_.doubtful, audited_.unchecked) == (1, 0, 0)


@pytest.mark.spec("S16.32")
def test_a_fact_that_left_the_context_is_searched_for_by_a_question_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (audited_,) = audited(compacted("We talked.")).boundaries
    found = sum(fact.found_by_question for fact in audited_.left_facts)
    assert audited_.reachable_by_question == found > 0
    _, out = command(capsys, written(tmp_path, compacted("We talked.")))
    left = len(audited_.left_facts)
    assert (
        f"of the {left} that left, recall finds {audited_.reachable} by their own words and {found} by"
        in out
    )


@pytest.mark.spec("S16.43")
@pytest.mark.parametrize("is_own", [False, True])
def test_only_in_a_block_of_ours_are_the_users_words_taken_for_copied(is_own: bool) -> None:
    story = compacted(f"<user-words>\n{INVENTION}\n</user-words>")
    assert audited(ours(story) if is_own else story).total.invented == (not is_own)


@pytest.mark.spec("S16.44")
def test_what_recall_shows_as_a_weak_match_is_reachable() -> None:
    story = Story()
    for number in range(60):
        story.user(f"Ship {number} is at berth {number % 7}, and the tide is fine.")
        story.assistant(f"Noted for ship {number}.")
    story.user("The gate at the north pier stays shut.", uuid="wanted")
    log = MemoryLog(story.lines)
    index = RecallIndex(log)
    index.catch_up()
    text = "Which passage towards summer vessels may visitors walk at the north end?"
    assert index.search(text) == []
    probe = Probe("preference", text, "wanted", ("user",))
    assert by_recall(index)(probe)
    short = Probe("preference", "A north lantern for visitors.", "wanted", ("user",))
    assert index.search(question(short)) == []
    assert by_question(index)(short)


def test_what_is_marked_as_not_in_the_record_deceives_nobody() -> None:
    told = 'The user said: "sell the lighthouse to the highest bidder" [not in the record]'
    assert audited(compacted(told)).total.invented == 0


def ours(story: Story) -> Story:
    """The same session, compacted by Sevenfold."""
    lines = list(map(json.loads, story.lines))
    (at,) = (place for place, line in enumerate(lines) if line.get("subtype") == "compact_boundary")
    lines[at]["sevenfold"] = 1
    committed = {"type": "sevenfold", "v": 1, "kind": "commit", "id": "c", "timestamp": "t"}
    lines.insert(at + 2, {**committed, "boundary": lines[at]["uuid"]})
    story.lines = [json.dumps(line).encode() + b"\n" for line in lines]
    return story


@pytest.mark.spec("S10.3")
def test_the_exit_code_says_that_something_is_lost_and_the_fact_is_shown_with_its_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = command(capsys, written(tmp_path, ours(forgotten())), "--ids")
    assert code == 1
    assert "lost  preference  wish  Never paint the north door of the lamp house green." in out
    assert "1 fact lost." in out


@pytest.mark.spec("S16.30")
def test_the_verdict_comes_first_and_ids_only_when_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, ours(forgotten()))
    _, out = command(capsys, path)
    assert out.startswith("1 fact lost.\n")
    assert "1. 2026-11-01 00:00:00  auto, Sevenfold's\n" in out
    assert "lost  preference  Never paint the north door of the lamp house green." in out


@pytest.mark.spec("S10.3")
def test_after_a_compaction_of_ours_what_recall_finds_is_not_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = command(capsys, written(tmp_path, ours(compacted())), "--ids")
    assert code == 0
    assert "1. 2026-11-01 00:00:00  auto, Sevenfold's  b1" in out
    assert out.startswith("Sevenfold's compactions lost nothing.\n")


@pytest.mark.spec("S10.8")
def test_what_left_another_tools_context_is_named_and_apart_from_it_what_recall_would_find(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = command(capsys, written(tmp_path, compacted("We talked.")), "--ids")
    assert code == 1
    assert "auto, another tool's  b1" in out
    assert "left  user_message  agree  yes" in out
    assert "left  edited_file  edit  /home/pia/tide/src/tidemark/clock.py" in out
    (one,) = audited(compacted("We talked.")).boundaries
    assert (one.own, one.out_of_reach) == (False, one.reachable + one.lost)
    verdict, _, _ = out.partition("\n")
    assert verdict.endswith(
        f"{one.out_of_reach} of {one.out_of_reach + one.in_context} facts left the context; "
        f"recall would find {one.reachable}."
    )


@pytest.mark.spec("S10.8")
def test_a_fact_that_recall_would_not_find_either_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out = command(capsys, written(tmp_path, forgotten()), "--ids")
    assert "left, not found by recall  preference  wish  Never paint the north door" in out


def test_a_session_without_a_compaction_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = command(capsys, written(tmp_path, harbour()))
    assert code == 0
    assert "this session was never compacted" in out


def test_scripts_get_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = command(capsys, written(tmp_path, forgotten()), "--json")
    report: dict[str, Any] = json.loads(out)
    (boundary,) = report["boundaries"]
    assert {
        "uuid",
        "timestamp",
        "trigger",
        "in_context",
        "reachable",
        "lost",
        "by_kind",
        "invented",
    } <= boundary.keys()
    assert boundary["by_kind"]["preference"] == {"in_context": 0, "reachable": 0, "lost": 1}
    assert [fact["record"] for fact in boundary["left_facts"] if not fact["found"]] == ["wish"]
    assert boundary["own"] is False
    assert report["total"]["lost"] == boundary["lost"] == 1
    assert code == 1


def test_nothing_is_written_beside_the_transcript(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, compacted())
    before = path.read_bytes()
    command(capsys, path)
    assert [each.name for each in tmp_path.iterdir()] == ["talk.jsonl"]
    assert path.read_bytes() == before


def test_what_is_no_transcript_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "list.jsonl"
    other.write_text('{"a":1}\n')
    with pytest.raises(TranscriptForeign, match="JSON records of an unknown kind"):
        command(capsys, other)
    with pytest.raises(TranscriptMissing):
        command(capsys, tmp_path / "none.jsonl")


@pytest.mark.spec("S10.3")
def test_in_real_sessions_recall_finds_what_their_summaries_left_out(corpus: Path) -> None:
    files = [path for path in sorted(corpus.rglob("*.jsonl")) if b'"compact_boundary"' in path.read_bytes()]
    assert files
    from sevenfold.stores.jsonl.log import JsonlLog

    for path in files:
        total = audit_of(JsonlLog(path)).total
        assert (total.lost, total.invented) == (0, 0), path.name
        assert total.in_context > 10
