"""Whatever a program does to its own list, what is sent in its place is never refused, and nothing we did is undone.

`bench/rewrites.py` makes 20,000 rewrites; here, some dozens.
"""

from __future__ import annotations

from typing import Any

import pytest

from bench import rewrites
from sevenfold.conversation.resume import read
from sevenfold.doors.follower.recording import RecordedConversation
from sevenfold.record.authorship import is_users
from sevenfold.record.entries import Said
from tests.doors.keeping import answered, following, prepared

FILLER = "It was a long day, and the harbour was calm. " * 30
SEEDS = (5, 6, 10)


@pytest.mark.spec("S40.5", "S40.8")
@pytest.mark.parametrize("seed", SEEDS)
def test_no_rewriting_of_a_list_is_refused_or_undoes_a_compaction_and_what_the_program_decided_is_on_record(
    seed: int,
) -> None:
    figures = rewrites.play(seed)
    assert figures.problems == {}
    assert figures.rewrites >= rewrites.REWRITES[0]
    assert figures.changed > 0
    assert figures.compactions > 0


@pytest.mark.spec("S40.5")
def test_a_search_counts_what_it_did_and_names_the_seeds_of_what_went_wrong() -> None:
    fine = rewrites.Figures(1, 40, 170, 90, 8)
    wrong = rewrites.Figures(1, 3, 9, 2, 0, {"refused: it is too long": [7]})
    total = fine.after(wrong).after(wrong)
    assert (total.sessions, total.rewrites, total.requests) == (3, 46, 188)
    assert total.problems == {"refused: it is too long": [7, 7]}
    assert str(total).endswith("2 sessions with a problem")


@pytest.mark.spec("S40.8")
def test_two_conversations_that_begin_alike_and_have_no_names_are_never_taken_for_each_other() -> None:
    failures: list[Exception] = []
    follower = following(failures)
    lists: tuple[list[dict[str, Any]], ...] = ([], [])
    conversations: set[str] = set()
    changed = 0
    for turn in range(30):
        question = "Please look after the harbour." if not turn else f"And what about day {turn}? {FILLER}"
        for messages in lists:
            messages.append({"role": "user", "content": question})
        calls = [prepared(follower, messages, {}) for messages in lists]
        for whose, (followed, sent) in enumerate(calls):
            changed += followed.body is not None
            conversations.add(followed.conversation.name)
            answer = [{"type": "text", "text": f"Day {turn} was calm for number {whose}. {FILLER}"}]
            answered(follower, followed, sent, f"msg_{whose}_{turn}", answer)
            lists[whose].append({"role": "assistant", "content": answer})
    records = [_recorded(call.conversation) for call, _ in calls]
    follower.close()
    assert failures == []
    assert len(conversations) == 2
    assert changed > 0
    for whose, (said, answers) in enumerate(records):
        assert said == 30
        assert answers == [f"msg_{whose}_{turn}" for turn in range(30)]


def _recorded(conversation: RecordedConversation) -> tuple[int, list[str | None]]:
    """How much the user said that is on record, and the ids of all answers; one that was imported has another."""
    records = [entry for _, entry in read(conversation.transcript.log) if isinstance(entry, Said)]
    said = sum(is_users(record) for record in records)
    return said, [record.message_id for record in records if record.role == "assistant"]
