"""What people recognise a recorded session by, and by which names it is found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sevenfold.archive import sessions
from sevenfold.archive.sessions import (
    HEAD_RECORDS,
    LONGEST_TITLE,
    MOST_LISTED,
    TAIL_BYTES,
    SessionLabel,
    StoredSession,
    describe,
    named,
    project_name,
    read_label,
)
from sevenfold.errors import InputError, TranscriptForeign, TranscriptMissing
from tests.profile.making import Tape, text, usage

pytestmark = pytest.mark.spec("S14.2")


def labelled(kind: str, **fields: str) -> str:
    """A line that names a session."""
    return json.dumps({"type": kind, **fields})


def taped(*lines: str, words: str = "Repair the lantern") -> Tape:
    """A session in which the user says one thing, with these lines behind it."""
    tape = Tape(cwd="/projects/harbour").user(words)
    tape.answer("m1", usage(100, output=5), text("Done."))
    for line in lines:
        tape.line(line)
    return tape


def test_without_a_title_the_users_first_words_are_one_and_those_aside_are_not(tmp_path: Path) -> None:
    tape = Tape(cwd="/projects/harbour").user("Look aside", isSidechain=True)
    tape.user("Repair the lantern").user("And the quay")
    assert read_label(tape.save(tmp_path / "s.jsonl")) == SessionLabel(
        "Repair the lantern", "/projects/harbour"
    )


def test_the_users_own_title_comes_before_the_models_and_the_newest_of_each_counts(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    by_model = labelled("ai-title", aiTitle="Lantern work")
    assert read_label(taped(by_model).save(path)).title == "Lantern work"
    own = [labelled("custom-title", customTitle=title) for title in ("Old name", "Quay wall")]
    assert read_label(taped(*own, by_model).save(path)).title == "Quay wall"


@pytest.mark.parametrize(
    ("place", "title"),
    [("start", "Quay wall"), ("middle", "Repair the lantern"), ("end", "Quay wall")],
)
def test_a_title_is_found_at_either_end_of_a_long_session_and_not_in_its_middle(
    tmp_path: Path, place: str, title: str
) -> None:
    naming = labelled("custom-title", customTitle="Quay wall")
    tape = Tape(cwd="/projects/harbour").user("Repair the lantern")
    if place == "start":
        tape.line(naming)
    for number in range(HEAD_RECORDS):
        tape.line(labelled("progress", uuid=f"p{number}"))
    if place == "middle":
        tape.line(naming)
    tape.line(labelled("progress", uuid="long", data="x" * TAIL_BYTES))
    if place == "end":
        tape.line(naming)
    assert read_label(tape.save(tmp_path / "s.jsonl")).title == title


def test_a_title_is_one_line_of_limited_length(tmp_path: Path) -> None:
    path = taped(words="Repair\n the   lantern " * 20).save(tmp_path / "s.jsonl")
    title = read_label(path).title
    assert title.startswith("Repair the lantern Repair")
    assert len(title) <= LONGEST_TITLE


def test_a_file_that_cannot_be_read_has_no_label(tmp_path: Path) -> None:
    assert read_label(tmp_path / "gone.jsonl") == SessionLabel()


def stored(
    name: str, title: str = "", tool: str = "Claude Code", project: str = "/p/quay"
) -> StoredSession:
    """A session that is known by its label."""
    return StoredSession(
        Path(f"/{name}.jsonl"), tool, name, 1_741_348_800.0, 9, SessionLabel(title, project)
    )


ALL = [
    stored("abc1", "Paint the quay"),
    stored("abc2", "Paint the quay wall"),
    stored("abc", "Dredge the basin"),
    stored("xyz", "", "pi", ""),
]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("abc", "abc"),
        ("abc2", "abc2"),
        ("x", "xyz"),
        ("paint the quay", "abc1"),
        ("PAINT  the quay wall", "abc2"),
        ("basin", "abc"),
    ],
)
def test_a_whole_id_or_title_comes_before_its_beginning_or_a_part_of_it(name: str, found: str) -> None:
    assert named(name, ALL).name == found


def test_reading_titles_is_told_and_only_done_where_no_id_fits() -> None:
    looked_at: list[int] = []
    named("abc2", ALL, looked_at.append)
    assert looked_at == []
    named("basin", ALL, looked_at.append)
    assert looked_at == [0, 1, 2, 3]


def test_several_that_fit_are_listed_up_to_a_number() -> None:
    with pytest.raises(
        InputError, match=r"^paint: 2 sessions match: abc1 \"Paint the quay\" \(Claude Code, quay, "
    ):
        named("paint", ALL)
    many = [stored(f"m{number}") for number in range(MOST_LISTED + 2)]
    with pytest.raises(InputError, match="; and 2 more; give more of the name") as refused:
        named("m", many)
    assert str(refused.value).count("Claude Code") == MOST_LISTED
    with pytest.raises(InputError) as refused:
        named("m", many[:MOST_LISTED])
    assert "more;" not in str(refused.value)


def test_what_fits_none_is_told_with_the_nearest_title_or_else_the_newest_session() -> None:
    with pytest.raises(TranscriptMissing, match='did you mean abc "Dredge the basin"'):
        named("dredge the bassin", ALL)
    with pytest.raises(TranscriptMissing, match='did you mean abc1 "Paint the quay"'):
        named("qqqqqqqq", ALL)
    with pytest.raises(TranscriptMissing, match="there are no sessions in "):
        named("anything", [])


def test_a_folder_or_no_name_is_no_session(tmp_path: Path) -> None:
    with pytest.raises(TranscriptForeign, match="this is a directory"):
        sessions.find(str(tmp_path))
    with pytest.raises(TranscriptForeign, match="the name of the session is empty"):
        sessions.find("  ")


def test_a_path_is_taken_as_it_is_with_or_without_its_ending(tmp_path: Path) -> None:
    path = taped().save(tmp_path / "s.jsonl")
    missing = tmp_path / "new.jsonl"
    found: list[Any] = [sessions.find(str(name)) for name in (path, path.with_suffix(""), missing)]
    assert found == [path, path, missing]


def test_a_session_is_described_by_what_is_known_of_it() -> None:
    assert describe(ALL[3]).startswith("xyz (pi, 2025-03-0")
    assert describe(ALL[2]).startswith('abc "Dredge the basin" (Claude Code, quay, 2025-03-0')


def test_a_project_goes_by_the_last_part_of_its_folder_on_any_system() -> None:
    folders = ["/projects/quay/", "C:\\work\\quay", "quay", "/"]
    assert [project_name(folder) for folder in folders] == ["quay", "quay", "quay", "/"]
