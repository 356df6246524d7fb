"""The places at which a recorded conversation can be cut, and the ids by which a user names them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from sevenfold import OfflineClient, Script, Session
from sevenfold.archive.rewrite import LONGEST_SAID, MOST_CUT_POINTS, cut_points, record_named
from sevenfold.errors import InputError
from tests.support import Story

pytestmark = pytest.mark.spec("S4.5")


@contextmanager
def talk(folder: Path, questions: Sequence[tuple[str, str]]) -> Iterator[Session]:
    """An open session in which the user asked these questions; each is an id and its words."""
    story = Story()
    for uuid, words in questions:
        story.user(words, uuid=uuid)
        story.assistant("I see.", uuid=f"reply-to-{uuid}")
    (folder / "talk.jsonl").write_bytes(b"".join(story.lines))
    client = OfflineClient(Script([]))
    with Session.open("talk", model="claude-sonnet-5-5", store=folder, client=client) as session:
        yield session


def test_an_id_is_as_long_as_it_must_be_to_be_the_only_one_and_no_shorter_than_eight_characters(
    tmp_path: Path,
) -> None:
    ids = ["first-question", "quay-light-1", "quay-light-12", "quay-rope", "ab"]
    with talk(tmp_path, [(uuid, f"About {uuid}") for uuid in ids]) as session:
        points = {cut["says"]: cut["id"] for cut in cut_points(session)}
        assert points == {
            "About quay-light-1": "quay-light-1",
            "About quay-light-12": "quay-light-12",
            "About quay-rope": "quay-rop",
            "About ab": "ab",
        }
        assert [record_named(session, shown) for shown in points.values()] == ids[1:]


def test_the_newest_messages_of_the_user_are_shown_in_their_order_on_one_line_each(tmp_path: Path) -> None:
    questions = [(f"{number:02}-question", f"Question\n  {number}") for number in range(12)]
    with talk(tmp_path, questions) as session:
        said = [cut["says"] for cut in cut_points(session)]
    assert said == [f"Question {number}" for number in range(12 - MOST_CUT_POINTS, 12)]


def test_a_long_message_is_cut_and_the_first_one_is_no_place_to_cut_at(tmp_path: Path) -> None:
    questions = [("01-question", "How deep is it?"), ("02-question", "deep " * LONGEST_SAID)]
    with talk(tmp_path, questions) as session:
        (cut,) = cut_points(session)
    assert cut["id"] == "02-quest"
    assert cut["says"] == ("deep " * LONGEST_SAID)[:LONGEST_SAID]


def test_a_beginning_that_several_ids_have_is_refused_with_two_of_them_and_an_id_in_full_is_not(
    tmp_path: Path,
) -> None:
    with talk(tmp_path, [("quay-1", "One?"), ("quay-12", "Twelve?")]) as session:
        assert record_named(session, "quay-1") == "quay-1"
        with pytest.raises(InputError, match=r"quay: 2 records .* quay-1 and quay-12; give more of it"):
            record_named(session, "quay")
        with pytest.raises(InputError, match="pier: no record in view has an id that begins like this"):
            record_named(session, "pier")
