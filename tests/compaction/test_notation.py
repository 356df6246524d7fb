"""What one summary lists, the next one reads back as it was (S4.6)."""

from __future__ import annotations

import pytest

from sevenfold.layers.compact.extract import notation
from sevenfold.layers.compact.extract.identifiers import IdentifierSource, identifiers
from sevenfold.layers.compact.extract.notation import (
    Command,
    Facts,
    File,
    FoundError,
    Identifier,
    Permission,
    Quote,
    QuotedMessage,
    Task,
)

FACTS = Facts(
    messages=(
        QuotedMessage("r1", "One line."),
        QuotedMessage("r2", "Two\n<said>lines</said>\n- “quoted” [x1]"),
        QuotedMessage("r3", "beginning\nof a long one", "its\nending", 1_234),
    ),
    replies=(Quote("the small one", "r4"),),
    permissions=(
        Permission(True, "go on", "r5", "delete the branch", "r6"),
        Permission(False, "not that one", "r7"),
    ),
    corrections=(Quote("no, the other", "r8"),),
    files=(
        File("src/fern.py", "r1", "r9", read=2, edited=1),
        File("a: b.md", "r3", "r3", written=1, mentioned=4),
    ),
    commands=(
        Command("make test", "ok", "r1"),
        Command("rm x", "exit -9", "r2", 3),
        Command("ls", "no result", "r3"),
    ),
    problems=(
        FoundError("Shell", "first ⏎ second", "r4"),
        FoundError("Edit", "no such text", "r5", settled=True),
    ),
    tasks=(Task("count ferries", "r6"), Task("paint", "r7", doing=True, number="12")),
    identifiers=(
        Identifier("abc-123", "id", "r8", 2),
        Identifier("v1.2.3", "version", "r9", 1, by_user=True),
    ),
    outcomes=(Quote("All tests pass.", "r9"),),
)
LISTS = {
    "replies": "replies",
    "permissions": "permissions",
    "corrections": "corrections",
    "files": "files",
    "commands": "commands",
    "problems": "errors",
    "tasks": "tasks",
    "identifiers": "identifiers",
    "outcomes": "outcomes",
}


def summary(left_out: int = 0) -> str:
    parts = [notation.said(one, FACTS) for one in FACTS.messages]
    for field, kind in LISTS.items():
        lines = [notation.entry(one, FACTS) for one in getattr(FACTS, field)]
        parts.append(notation.framed(kind, lines, left_out))
    return "\n".join(["1. Prose stays.", *parts, "2. Also this."])


@pytest.mark.spec("S4.6")
@pytest.mark.parametrize("wrapped", [False, True])
def test_every_list_is_read_back_as_it_was(wrapped: bool) -> None:
    text = f"Notes around it\n<summary>\n{summary()}\n</summary>\nand behind" if wrapped else summary()
    read, prose = notation.read_back(text)
    for field in ("messages", *LISTS):
        assert getattr(read, field) == getattr(FACTS, field), field
    assert [line for line in prose.split("\n") if line] == ["1. Prose stays.", "2. Also this."]


@pytest.mark.spec("S4.6")
def test_what_found_no_room_is_counted_and_said_again() -> None:
    read, _ = notation.read_back(summary(left_out=7))
    assert read.left_out == dict.fromkeys(LISTS.values(), 7)
    assert read.tasks == FACTS.tasks
    assert notation.framed("files", []) == ""


@pytest.mark.spec("S4.6")
def test_the_last_words_of_the_model_are_an_outcome_and_lists_made_anew_count_nothing() -> None:
    lines = ["- the model said: “First.” [r1]", "- it called Shell", "- the model said: “Last.” [r2]"]
    read, _ = notation.read_back(notation.framed("current", lines, 3))
    assert read.outcomes == (Quote("Last.", "r2"),)
    assert read.current == tuple(lines)
    assert read.left_out == {"current": 0}
    assert notation.said_last(["- it called Shell"]) == []


def test_ids_are_cited_as_short_as_they_can_be_told_apart() -> None:
    one, other = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee", "aaaaaaaa-bbbb-cccc-dddd-ffffffffffff"
    third = "12345678-bbbb-cccc-dddd-eeeeeeeeeeee"
    names = notation.short_names([one, other, third])
    assert names[third] == "12345678"
    assert names[one] != names[other]


# -- identifiers -------------------------------------------------------------------------------


def texts(*sources: IdentifierSource) -> list[str]:
    return [one.text for one in identifiers(sources)]


LOG = " ".join(f"req-{number} 10.0.0.{number} failed" for number in range(60))


@pytest.mark.spec("S4.6")
def test_a_pasted_log_does_not_fill_the_list_but_what_comes_up_elsewhere_too_counts() -> None:
    pasted = IdentifierSource(LOG, "r1", by_user=True)
    assert len(texts(pasted)) == 5
    again = IdentifierSource(LOG, "r2", by_user=True)
    assert len(texts(pasted, again)) == 60
    typed = IdentifierSource("look at 10.0.0.42", "r2", by_user=True)
    assert texts(pasted, typed)[0] == "10.0.0.42"


@pytest.mark.spec("S4.6")
def test_the_users_own_come_first_then_what_is_used_most_and_lately() -> None:
    found = identifiers(
        [
            IdentifierSource("see ABC-1 and ABC-2", "r1"),
            IdentifierSource("see ABC-2", "r2"),
            IdentifierSource("mine is XYZ-9", "r3", by_user=True),
        ]
    )
    assert [(one.text, one.count, one.by_user, one.record) for one in found] == [
        ("XYZ-9", 1, True, "r3"),
        ("ABC-2", 2, False, "r2"),
        ("ABC-1", 1, False, "r1"),
    ]
    more = identifiers([IdentifierSource("ABC-1", "r4")], carried_over=found)
    assert {one.text: one.count for one in more} == {"XYZ-9": 1, "ABC-2": 2, "ABC-1": 2}


@pytest.mark.spec("S4.6")
def test_what_a_tool_is_called_with_counts_without_flags_and_figures() -> None:
    call = IdentifierSource("run --fast=1 for 20 ms on ABC-1", "r1", from_tool=True)
    assert texts(call) == ["ABC-1"]
    assert set(texts(IdentifierSource("run --fast=1 for 20 ms", "r1"))) == {"--fast=1", "20 ms"}
    assert texts(IdentifierSource("ABC-1 " + "x" * 300 + "@example.com", "r1")) == ["ABC-1"]


@pytest.mark.spec("S4.6")
@pytest.mark.parametrize(("times", "kept"), [(2, False), (3, True)])
def test_a_folder_that_the_user_did_not_name_counts_when_it_comes_up_often(times, kept) -> None:
    said = [IdentifierSource("it is in /srv/app/fern", f"r{place}") for place in range(times)]
    assert ("/srv/app/fern" in texts(*said)) is kept


@pytest.mark.spec("S4.6")
def test_paths_of_either_kind_of_system_and_names_in_code_are_identifiers() -> None:
    said = IdentifierSource(
        r"C:\work\fern.py and /srv/app/main.py, then `parse_all` and `harbour`", "r1", by_user=True
    )
    found = set(texts(said))
    assert {r"C:\work\fern.py", "/srv/app/main.py", "parse_all"} <= found
    assert "harbour" not in found
