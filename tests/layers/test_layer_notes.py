"""What a layer keeps for itself outlives the session, and nothing else takes notice of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import Struct

import sevenfold
from sevenfold.conversation import layer_notes
from sevenfold.errors import InputError, Refused
from sevenfold.session.session import Session

MODEL = "claude-sonnet-5-5"


class Seen(Struct):
    """What a layer might keep."""

    names: list[str]


def opened(folder: Path, branch: str | None = None, **settings: object) -> Session:
    script = sevenfold.Script(["One.", "Two.", "Three."])
    return sevenfold.Session.open(
        "s",
        model=MODEL,
        store=folder,
        branch=branch,
        client=sevenfold.OfflineClient(script),
        settings={"notes": False, "background_compaction": False, **settings},
    )


@pytest.mark.spec("S26.23")
def test_a_note_is_there_again_after_a_compaction_and_when_the_session_is_opened_again(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as session:
        c = session.conversation
        assert layer_notes.read(c, "watcher", Seen) is None
        layer_notes.keep(c, "watcher", Seen(["a"]))
        layer_notes.keep(c, "other", [1, 2])
        layer_notes.keep(c, "watcher", Seen(["a", "b"]))
        session.user("Hello.")
        session.complete()
        session.compact(engine="extractive")
        assert layer_notes.read(c, "watcher", Seen) == Seen(["a", "b"])
    with opened(tmp_path) as session:
        assert layer_notes.read(session.conversation, "watcher", Seen) == Seen(["a", "b"])
        assert layer_notes.read(session.conversation, "other", list[int]) == [1, 2]
        assert layer_notes.read(session.conversation, "watcher", int) is None


@pytest.mark.spec("S26.23")
def test_a_note_changes_nothing_that_is_sent_and_cannot_be_undone(tmp_path: Path) -> None:
    requests = []
    for noted in (False, True):
        with opened(tmp_path / str(noted)) as session:
            for question in ("Hello.", "And now?"):
                session.user(question)
                if noted:
                    layer_notes.keep(session.conversation, "watcher", Seen([question]))
                session.complete()
            requests.append(session.at())
            if noted:
                with pytest.raises(Refused, match="nothing to undo"):
                    session.undo()
    assert requests[0] == requests[1]


@pytest.mark.spec("S26.23")
def test_a_fork_begins_with_the_notes_of_its_parent_and_keeps_its_own(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        session.user("Hello.")
        layer_notes.keep(session.conversation, "watcher", 1)
    with opened(tmp_path, "fork") as fork:
        assert layer_notes.read(fork.conversation, "watcher", int) == 1
        layer_notes.keep(fork.conversation, "watcher", 2)
    with opened(tmp_path) as session:
        assert layer_notes.read(session.conversation, "watcher", int) == 1


@pytest.mark.spec("S26.23")
def test_secrets_in_a_note_are_masked_where_all_are(tmp_path: Path) -> None:
    key = "sk-ant-" + "a1B2" * 12
    with opened(tmp_path, redaction="gate") as session:
        layer_notes.keep(session.conversation, "watcher", Seen([f"the key {key}"]))
    assert key not in (tmp_path / "s.jsonl").read_text()


def test_a_note_has_the_name_of_a_layer(tmp_path: Path) -> None:
    with opened(tmp_path) as session, pytest.raises(InputError, match="name of the layer"):
        layer_notes.keep(session.conversation, "", 1)
