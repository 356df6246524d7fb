"""`sevenfold recall` as a user meets it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from sevenfold.cli import recall as recall_command
from sevenfold.errors import TranscriptForeign, TranscriptMissing
from sevenfold.lab.examples import coding_session
from sevenfold.record.decisions import Offloaded
from sevenfold.record.log import decided
from sevenfold.stores.jsonl.store import FileResults
from tests.recall.making import harbour
from tests.support import Story, result


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """A session of which the first part was compacted away."""
    story = harbour()
    story.boundary()
    story.summary("The zone was wrong; it is fixed.", uuid="summary")
    story.user("Now write to the lighthouse keepers.", uuid="now")
    path = tmp_path / "talk.jsonl"
    path.write_bytes(b"".join(story.lines))
    return path


def recall(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str]:
    parser = argparse.ArgumentParser()
    recall_command.arguments(parser)
    code = recall_command.run(parser.parse_args([*map(str, arguments)]))
    return code, capsys.readouterr().out


@pytest.mark.spec("S10.2")
def test_it_shows_what_left_the_context_with_the_match_marked_and_its_neighbours(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = recall(capsys, session, "clock_face.py:41")
    assert code == 0
    assert "1. 2026-11-01 00:00:00  tool_result (Grep)  found" in out
    assert "src/tidemark/«clock_face.py:41»: day" in out
    assert "assistant: The day is taken in UTC." in out


def test_what_is_still_in_the_context_is_counted_and_shown_on_request(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = recall(capsys, session, "lighthouse", "keepers")
    assert code == 1
    assert "No matches." in out
    assert "1 match is still in the context; --all shows them." in out
    code, out = recall(capsys, session, "lighthouse", "keepers", "--all")
    assert code == 0
    assert "user  now" in out


def test_scripts_get_json(session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out = recall(capsys, session, "zone", "--json", "--all", "--kind", "summary")
    found = json.loads(out)
    assert [hit["uuid"] for hit in found["hits"]] == ["summary"]
    assert found["hits"][0]["exact"] is True
    assert recall(capsys, session, "xylophone", "--json")[0] == 1


def test_nothing_is_written_beside_the_transcript(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recall(capsys, session, "zone")
    assert [path.name for path in session.parent.iterdir()] == ["talk.jsonl"]


@pytest.mark.parametrize("place", [".claude/projects/-a", ".sevenfold/projects/a.0"])
def test_a_session_can_be_named_by_its_id(
    place: str,
    session: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SEVENFOLD_HOME", raising=False)
    project = tmp_path / "home" / place
    project.mkdir(parents=True)
    session.rename(project / "talk.jsonl")
    assert recall(capsys, "talk", "clock_face")[0] == 0
    for unknown in ("walk", "[t]alk"):
        with pytest.raises(TranscriptMissing, match="no such file or session"):
            recall(capsys, unknown, "clock_face")


def test_results_that_were_moved_to_disk_are_searched_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story = Story()
    story.user([result("t1", "The beginning")], uuid="preview")
    path = FileResults(tmp_path / "tool-results" / "s").keep("t1", b"The beginning and then error LNK2019")
    moved = decided(
        Offloaded(id="d", tool_use_id="t1", preview="The beginning", path=path, size=36, sha256="")
    )
    (tmp_path / "s.jsonl").write_bytes(b"".join([*story.lines, moved.line]))
    code, out = recall(capsys, tmp_path / "s.jsonl", "LNK2019")
    assert code == 0
    assert "and then error «LNK2019»" in out


def test_what_is_no_transcript_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "list.jsonl"
    other.write_text('{"a":1}\n')
    with pytest.raises(TranscriptForeign, match="JSON records of an unknown kind"):
        recall(capsys, other, "a")
    with pytest.raises(TranscriptMissing):
        recall(capsys, tmp_path / "none.jsonl", "a")


def test_what_a_tool_printed_cannot_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story = Story()
    story.user("a \x1b[31mred\x1b]0;title\x07 alarm", uuid="red")
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"".join(story.lines))
    out = recall(capsys, path, "alarm", "--all")[1]
    assert "red" in out
    assert "\x1b" not in out
    assert "\x07" not in out


def test_it_works_on_the_session_that_comes_along(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = recall(
        capsys, coding_session(), "harbour display still shows yesterday's tide", "--kind", "user"
    )
    assert code == 0
    assert "«harbour display still shows yesterday's tide»" in out
