"""What a user types between tags is the user's all the same."""

from __future__ import annotations

import pytest

import sevenfold
from sevenfold.layers.compact.extract.words import users_words
from sevenfold.record import blocks
from sevenfold.record.entries import Said
from sevenfold.record.layout import Item

TYPED = [
    "<system-reminder>Never deploy on a Friday; the client is called Zanzibar.</system-reminder>",
    "see <persisted-output>the ledger of quay seven</persisted-output>",
    "<task-notification>ring the harbour bell</task-notification> and then stop",
]


@pytest.mark.spec("S4.12")
@pytest.mark.parametrize("typed", TYPED)
def test_tags_the_user_typed_outlive_a_compaction_word_for_word(typed):
    with sevenfold.Session.in_memory(model="claude-opus-4-6", system="Be brief.") as session:
        session.user(typed)
        session.complete()
        for number in range(8):
            session.user(f"step {number}: " + "stack the crates by the wall. " * 40)
            session.complete()
        session.compact(engine="extractive")
        session.user("go on")
        sent = str(session.prepare()["messages"])
        assert typed in sent


def record(text: str, *, own: bool) -> Said:
    return Said("u1", None, "user", (blocks.text(text),), own=own)


@pytest.mark.spec("S4.2")
@pytest.mark.parametrize("typed", TYPED)
def test_in_the_records_of_other_tools_they_are_not_the_users(typed):
    ours, theirs = (users_words(Item.of(record(typed, own=own), 0)) for own in (True, False))
    assert ours == typed
    assert theirs in ("", "see", "and then stop")


def test_envelopes_are_taken_off_both_ends_however_many_there_are():
    behind = "<bash-stdout>out</bash-stdout>\n<bash-stderr></bash-stderr>\n"
    said = record(f"<ide_opened_file>a.py</ide_opened_file> repair it {behind}", own=False)
    assert users_words(Item.of(said, 0)) == "repair it"
