"""`sevenfold compact` as a user meets it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.archive.rewrite import DraftLog, append_draft, write_new
from sevenfold.cli.main import main
from sevenfold.conversation.resume import resume
from sevenfold.errors import InputError, Refused
from sevenfold.lab.simulator.brains import ModelPrompt
from sevenfold.stores.jsonl.log import JsonlLog
from tests.commands.recorded import answering, files, foreign, helpful, opened, own, ran
from tests.support import Story

Capsys = pytest.CaptureFixture[str]


pytestmark = pytest.mark.usefixtures("compactions_of_any_size")


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return foreign(tmp_path / "talk.jsonl")


def new_lines(before: bytes, path: Path) -> list[dict[str, object]]:
    """What a file holds behind the bytes it had."""
    now = path.read_bytes()
    assert now.startswith(before)
    return [json.loads(line) for line in now[len(before) :].splitlines()]


# -- what is written ---------------------------------------------------------------------------------


@pytest.mark.spec("S10.1")
def test_the_new_file_is_the_old_ones_bytes_and_the_boundary_behind_them(
    session: Path, capsys: Capsys
) -> None:
    before = session.read_bytes()
    done = ran(capsys, "compact", session)
    assert done.code == 0
    assert set(files(session.parent)) == {"talk.jsonl", "talk-compacted.jsonl"}
    assert session.read_bytes() == before
    assert new_lines(before, session.with_name("talk-compacted.jsonl"))


@pytest.mark.spec("S4.8", "S4.9")
def test_the_boundary_has_the_shape_other_tools_read(session: Path, capsys: Capsys) -> None:
    before = session.read_bytes()
    ran(capsys, "compact", session, "--up-to", "aa40")
    lines = new_lines(before, session.with_name("talk-compacted.jsonl"))
    boundary = next(line for line in lines if line["type"] == "system")
    summary = next(line for line in lines if line["type"] == "user")
    assert boundary["subtype"] == "compact_boundary"
    assert boundary["parentUuid"] is None
    assert boundary["logicalParentUuid"] == "ad50-done"
    assert boundary["sessionId"] == "5e551011"
    about = boundary["compactMetadata"]
    assert isinstance(about, dict)
    assert about["trigger"] == "manual"
    assert about["preservedSegment"] == {
        "headUuid": "aa40-ask",
        "anchorUuid": summary["uuid"],
        "tailUuid": "ad50-done",
    }
    assert summary["parentUuid"] == boundary["uuid"]
    assert summary["isCompactSummary"] is True
    assert str(session.with_name("talk-compacted.jsonl")) in json.dumps(summary)


def test_nothing_is_ever_overwritten(session: Path, capsys: Capsys) -> None:
    taken = session.with_name("talk-compacted.jsonl")
    taken.write_text("mine")
    refused = ran(capsys, "compact", session)
    assert refused.code == 2
    assert "talk-compacted.jsonl: this file exists and is not overwritten" in refused.err
    assert taken.read_text() == "mine"
    nowhere = ran(capsys, "compact", session, "--output", session.parent / "none" / "x.jsonl")
    assert "the folder does not exist" in nowhere.err
    assert ran(capsys, "compact", session, "--output", session.with_name("other.jsonl")).code == 0


def test_a_file_that_appears_meanwhile_is_not_overwritten_either(session: Path) -> None:
    draft = DraftLog(session)
    target = session.with_name("late.jsonl")
    target.write_text("mine")
    with pytest.raises(InputError, match="exists"):
        write_new(target, draft)
    assert set(files(session.parent)) == {"talk.jsonl", "late.jsonl"}
    assert target.read_text() == "mine"


def test_a_last_line_that_was_cut_off_stays_and_is_ended_first(session: Path, capsys: Capsys) -> None:
    torn = session.read_bytes() + b'{"type":"user","uu'
    session.write_bytes(torn)
    assert ran(capsys, "compact", session).code == 0
    made = session.with_name("talk-compacted.jsonl")
    assert made.read_bytes().startswith(torn + b"\n{")
    assert len(resume(JsonlLog(made)).items) < 5


# -- what is shown -----------------------------------------------------------------------------------


@pytest.mark.spec("S4.12", "S10.3")
def test_without_a_key_it_says_that_the_summary_is_extracted_and_nothing_was_paid(
    session: Path, capsys: Capsys
) -> None:
    done = ran(capsys, "compact", session)
    assert "Offline: there is no key and no address for claude-sonnet-4-6 in the environment." in done.words
    assert "engine extractive not provider, fork, plain: no model answers offline" in done.words
    assert "nothing, no request was made" in done.words
    assert "0 lost" in done.words


def test_it_shows_the_conversation_before_and_after(session: Path, capsys: Capsys) -> None:
    done = ran(capsys, "compact", session)
    for words in ("Read results", "user messages", "summaries", "summarised 24 records", "kept"):
        assert words in done.words
    figures = ran(capsys, "compact", session, "--json", "--output", session.with_name("b.jsonl")).json
    before, after = figures["by_category"]["before"], figures["by_category"]["after"]
    assert before["tool_result:Read"] > 1_000
    assert "tool_result:Read" not in after
    assert after["summaries"] < before["tool_result:Read"]
    assert sum(before.values()) == figures["tokens_before"]
    assert sum(after.values()) == figures["tokens_after"]


def test_the_summary_is_shown_on_request_and_steers_no_terminal(tmp_path: Path, capsys: Capsys) -> None:
    story = Story()
    story.user("Colour it \x1b[31mred\x1b[0m and keep port 8443.")
    story.assistant("Done.")
    path = tmp_path / "talk.jsonl"
    path.write_bytes(b"".join(story.lines))
    assert "8443" not in ran(capsys, "compact", path, "--output", tmp_path / "a.jsonl").out
    shown = ran(capsys, "compact", path, "--output", tmp_path / "b.jsonl", "--show").out
    assert "8443" in shown
    assert "\x1b" not in shown


def test_a_conversation_that_grew_is_said_to_have_grown(tmp_path: Path, capsys: Capsys) -> None:
    path = foreign(tmp_path / "talk.jsonl", rounds=1)
    short = Story()
    short.user("hello")
    short.assistant("hello")
    path.write_bytes(b"".join(short.lines))
    assert "It has grown" in ran(capsys, "compact", path).words


@pytest.mark.spec("S10.2", "S10.3")
def test_the_result_is_audited_and_recalled_like_any_session(session: Path, capsys: Capsys) -> None:
    ran(capsys, "compact", session)
    made = session.with_name("talk-compacted.jsonl")
    audit = ran(capsys, "audit", made, "--json")
    assert audit.code == 0
    assert audit.json["total"]["lost"] == 0
    assert audit.json["total"]["in_context"] > 10
    assert "«tide = table[7]»" in ran(capsys, "recall", made, "tide = table[7]").out


# -- a part of it ------------------------------------------------------------------------------------


@pytest.mark.spec("S4.5")
def test_what_is_before_or_after_a_record_is_kept(session: Path, capsys: Capsys) -> None:
    up_to = ran(
        capsys,
        "compact",
        session,
        "--up-to",
        "aa40-ask",
        "--json",
        "--output",
        session.with_name("u.jsonl"),
    )
    assert (up_to.json["summarised"], up_to.json["kept"]) == (16, 8)
    start = ran(
        capsys, "compact", session, "--from", "aa40", "--json", "--output", session.with_name("f.jsonl")
    )
    assert (start.json["summarised"], start.json["kept"]) == (8, 16)
    kept = [item.record.uuid for item in resume(JsonlLog(session.with_name("f.jsonl"))).items]
    assert kept[:2] == ["aa00-ask", "ab00-look"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("zz", "zz: no record in view has an id that begins like this"),
        ("aa", "aa: 6 records have an id that begins like this, among them aa00-ask and aa10-ask"),
        ("ac20", "belongs to the answer before it"),
    ],
)
def test_an_id_that_names_no_place_is_refused_before_anything_is_done(
    given: str, says: str, session: Path, capsys: Capsys
) -> None:
    refused = ran(capsys, "compact", session, "--from", given)
    assert refused.code == 2
    assert says in refused.err
    assert set(files(session.parent)) == {"talk.jsonl"}


# -- looking first -----------------------------------------------------------------------------------


@pytest.mark.spec("S4.5")
def test_a_dry_run_shows_scope_cost_cache_and_places_and_writes_nothing(
    session: Path, capsys: Capsys
) -> None:
    before = files(session.parent)
    looked = ran(capsys, "compact", session, "--dry-run", "--up-to", "aa40")
    assert looked.code == 0
    assert "summarised 16 records" in looked.words
    assert "kept 8 records" in looked.words
    assert "cost nothing; the next prompt of claude-sonnet-4-6 would cost $" in looked.words
    assert "cache the next request can read" in looked.words
    assert "aa30-ask Step 3: repair panel_3.py" in looked.words
    assert "Nothing was changed." in looked.words
    assert files(session.parent) == before
    assert not (session.parent / "home").exists()


def test_a_dry_run_asks_no_model(session: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    def reply(prompt: ModelPrompt) -> str:
        raise AssertionError("a model was asked")

    with answering(monkeypatch, reply):
        looked = ran(capsys, "compact", session, "--dry-run", "--json")
    assert looked.json["preview"]["engine"] == "plain"
    assert looked.json["preview"]["call_usd"] > 0


# -- with a model ------------------------------------------------------------------------------------


@pytest.mark.spec("S4.3", "S9.4")
def test_another_tools_session_is_summarised_by_a_plain_call(
    session: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering(monkeypatch):
        done = ran(capsys, "compact", session, "--instructions", "keep the zone", "--json").json
    assert done["engine"] == "plain"
    assert done["calls"] == 1
    assert done["usd"] > 0
    assert not done["offline"]
    assert [one["engine"] for one in done["left"]] == ["provider", "fork"]
    assert done["facts"]["lost"] == 0


@pytest.mark.spec("S4.3")
def test_our_own_session_is_summarised_behind_its_own_prefix(
    tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[ModelPrompt] = []

    def reply(prompt: ModelPrompt) -> str:
        asked.append(prompt)
        return helpful(prompt)

    with answering(monkeypatch, reply):
        path = own(tmp_path / "own.jsonl")
        done = ran(capsys, "compact", path, "--engine", "fork", "--json").json
    assert done["engine"] == "fork"
    assert done["cached_share"] > 0.5
    assert asked[-1].system == asked[0].system
    assert asked[-1].tools == asked[0].tools
    assert len(asked[-1].messages) == 9


@pytest.mark.spec("S9.4")
def test_the_session_chooses_the_engine_and_the_providers_own_can_be_asked_for(
    tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering(monkeypatch):
        path = own(tmp_path / "own.jsonl", model="claude-sonnet-5-5")
        planned = ran(capsys, "compact", path, "--dry-run", "--json").json
        beside = ran(capsys, "compact", path, "--json").json
        done = ran(capsys, "compact", path, "--in-place", "--engine", "provider", "--json").json
        with opened(path, "claude-sonnet-5-5") as session:
            session.user("And now?")
            assert session.complete().text == "Noted."
    assert planned["preview"]["engine"] == beside["engine"] == "provider"
    assert beside["left"] == []
    assert done["engine"] == "provider"
    assert done["usd"] > 0


def test_a_model_that_has_no_summary_leaves_it_to_extraction(
    session: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering(monkeypatch, lambda prompt: "<analysis>They talked.</analysis>"):
        done = ran(capsys, "compact", session, "--json").json
    assert done["engine"] == "extractive"
    assert [one["engine"] for one in done["left"]] == ["provider", "fork", "plain"]
    assert done["facts"]["lost"] == 0


@pytest.mark.spec("S4.16")
def test_control_c_while_the_model_writes_leaves_everything_as_it_was(
    session: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reply(prompt: ModelPrompt) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        return helpful(prompt)

    before = files(session.parent)
    with answering(monkeypatch, reply):
        stopped = ran(capsys, "compact", session)
    assert stopped.code == 130
    assert stopped.err == "sevenfold: interrupted\n"
    assert files(session.parent) == before


# -- in place ----------------------------------------------------------------------------------------


@pytest.mark.spec("S10.1")
def test_in_place_appends_to_the_file_and_the_session_goes_on(tmp_path: Path, capsys: Capsys) -> None:
    path = own(tmp_path / "own.jsonl")
    before = path.read_bytes()
    done = ran(capsys, "compact", path, "--in-place")
    assert f"Appended to {path}" in done.words.replace("\n", "")
    kinds = [line.get("kind", line["type"]) for line in new_lines(before, path)]
    assert kinds[0] == "system"
    assert kinds[-1] == "commit"
    with opened(path) as session:
        assert not session.conversation.epoch.opened
        session.user("And now?")
        assert "And now?" in session.complete().text
        assert session.undo()


def test_a_session_somebody_holds_is_not_touched_and_its_holder_is_named(
    tmp_path: Path, capsys: Capsys
) -> None:
    path = own(tmp_path / "own.jsonl")
    before = path.read_bytes()
    with opened(path):
        refused = ran(capsys, "compact", path, "--in-place")
        assert ran(capsys, "compact", path).code == 0
    assert refused.code == 2
    assert f"being written by process {os.getpid()}" in refused.err
    assert path.read_bytes() == before


def test_a_file_that_changed_a_moment_ago_brings_a_warning(session: Path, capsys: Capsys) -> None:
    assert (
        "If another program has this session open, close it first"
        in ran(capsys, "compact", session, "--in-place").err
    )
    fresh = foreign(session.with_name("old.jsonl"))
    os.utime(fresh, (1_700_000_000, 1_700_000_000))
    assert ran(capsys, "compact", fresh, "--in-place").err == ""


def test_a_file_that_grew_while_it_was_compacted_gets_nothing(session: Path) -> None:
    with closing(JsonlLog.open(session)) as log:
        draft = DraftLog(session)
        draft.append([b'{"type":"ours"}\n'])
        with session.open("ab") as other:
            other.write(b'{"type":"theirs"}\n')
        with pytest.raises(Refused, match="another program wrote to it in the meantime"):
            append_draft(log, draft)
    assert session.read_bytes().endswith(b'{"type":"theirs"}\n')


# -- notes as the summary ----------------------------------------------------------------------------


@pytest.mark.spec("S3.5")
def test_notes_can_be_the_summary_and_are_written_first_where_there_are_none(
    session: Path, capsys: Capsys
) -> None:
    done = ran(capsys, "compact", session, "--engine", "notes", "--json")
    assert done.json["engine"] == "notes"
    assert done.json["calls"] == 1
    assert done.json["kept"] > 0
    assert done.json["facts"]["lost"] == 0


def test_notes_stand_for_the_whole_and_take_no_instructions(session: Path, capsys: Capsys) -> None:
    refused = ran(capsys, "compact", session, "--engine", "notes", "--up-to", "aa40")
    assert refused.code == 2
    assert "notes cover the whole conversation" in refused.err


# -- what cannot be done -----------------------------------------------------------------------------


def test_what_is_no_conversation_is_refused_in_a_line(tmp_path: Path, capsys: Capsys) -> None:
    assert "there is no such file" in ran(capsys, "compact", tmp_path / "none.jsonl").err
    assert "this is a directory" in ran(capsys, "compact", tmp_path).err
    strange = tmp_path / "strange.jsonl"
    strange.write_text('{"some": "thing"}\nnot json\n')
    assert "JSON records of an unknown kind (with some)" in ran(capsys, "compact", strange).err
    unnamed = Story()
    unnamed.user("hello")
    strange.write_bytes(b"".join(unnamed.lines))
    assert "name one with --model" in ran(capsys, "compact", strange).err
    assert "nothing to compact yet" in ran(capsys, "compact", strange, "--model", "gpt-5.6").err
    assert set(files(tmp_path)) == {"strange.jsonl"}


def test_what_excludes_each_other_is_refused(session: Path, capsys: Capsys) -> None:
    for options in (
        ["--from", "a", "--up-to", "b"],
        ["--in-place", "--output", "x"],
        ["--engine", "magic"],
    ):
        with pytest.raises(SystemExit):
            main(["compact", str(session), *options])
    capsys.readouterr()


# -- the draft ---------------------------------------------------------------------------------------

LINES = st.lists(st.binary(max_size=12).map(lambda raw: raw.replace(b"\n", b"n") + b"\n"), max_size=6)


def found(lines: Iterable[tuple[int, bytes]]) -> list[int]:
    return [position for position, _ in lines]


@given(LINES, st.booleans(), st.lists(LINES, max_size=3))
def test_a_draft_reads_as_the_file_will_once_it_is_written(
    tmp_path_factory: pytest.TempPathFactory, there: list[bytes], torn: bool, added: list[list[bytes]]
) -> None:
    folder = tmp_path_factory.mktemp("drafts")
    path, whole = folder / "log.jsonl", folder / "whole.jsonl"
    path.write_bytes(b"".join(there) + b"cut off" * torn)
    draft = DraftLog(path)
    starts = [position for lines in added for position in draft.append(lines)]
    whole.write_bytes(b"".join(draft.whole()))
    kept = JsonlLog(whole)
    ends = [(offset, raw.rstrip(b"\n")) for offset, raw in kept.read()]
    assert [(offset, raw.rstrip(b"\n")) for offset, raw in draft.read()] == ends
    for start in [offset for offset, _ in ends]:
        assert list(draft.read(start)) == list(draft.read())[[offset for offset, _ in ends].index(start) :]
        assert found(draft.find(b"a", start)) == found(kept.find(b"a", start))
    assert found(draft.find(b"a")) == found(kept.find(b"a"))
    assert set(starts) <= {offset for offset, _ in ends}


def test_what_others_append_is_no_part_of_a_draft(session: Path) -> None:
    draft = DraftLog(session)
    before = list(draft.read())
    with session.open("ab") as other:
        other.write(b'{"type":"user"}\n')
    assert list(draft.read()) == before
    assert not list(draft.find(b'{"type":"user"}'))
    assert b"".join(draft.whole()) == b"".join(raw for _, raw in before)


# -- real transcripts --------------------------------------------------------------------------------


@pytest.mark.spec("S10.3")
@pytest.mark.parametrize("name", ["claude-code-log/review-helper/cb2e607c*", "entireio-cli/claude/0cd9*"])
def test_real_transcripts_lose_nothing(name: str, corpus: Path, tmp_path: Path, capsys: Capsys) -> None:
    source = next(corpus.glob(f"{name}.jsonl"))
    copy = tmp_path / "real.jsonl"
    copy.write_bytes(source.read_bytes())
    done = ran(capsys, "compact", copy, "--json").json
    assert done["facts"]["lost"] == 0
    assert (tmp_path / "real-compacted.jsonl").read_bytes().startswith(source.read_bytes())
    assert ran(capsys, "audit", tmp_path / "real-compacted.jsonl").code == 0
