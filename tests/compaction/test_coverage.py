"""After a compaction every fact is seen, within reach of recall, or appended to the summary (S4.12, S10.3)."""

from __future__ import annotations

import pytest

from sevenfold.layers.compact.check import HEADING, cover, missing
from sevenfold.layers.compact.compaction import Fact
from sevenfold.layers.compact.extract.notation import (
    Facts,
    File,
    FoundError,
    Identifier,
    Permission,
    Quote,
    QuotedMessage,
    Task,
)
from sevenfold.record.coverage import Count

FACTS = Facts(
    messages=(
        QuotedMessage("r1", "Please keep the old parser."),
        QuotedMessage("r2", "And name the new one Fern."),
    ),
    replies=(Quote("Use the small kettle", "r3"),),
    permissions=(Permission(True, "yes", "r5", "Delete the lantern branch", "r4"),),
    corrections=(Quote("No, the other harbour", "r6"),),
    files=(
        File("/home/ada/src/fern.py", "r7", "r8", edited=1),
        File("/home/ada/read.py", "r7", "r7", read=1),
    ),
    problems=(FoundError("Shell", "first line ⏎ second line", "r9"),),
    tasks=(Task("count the ferries", "r10"),),
    identifiers=(Identifier("abc-123", "id", "r11"),),
)
TEXTS = {
    "user_message": ("And name the new one Fern.", "r2"),
    "decision": ("Use the small kettle", "r3"),
    "correction": ("No, the other harbour", "r6"),
    "pending_task": ("count the ferries", "r10"),
    "edited_file": ("/home/ada/src/fern.py", "r8"),
    "error": ("first line ⏎ second line", "r9"),
    "identifier": ("abc-123", "r11"),
}


def everywhere(fact: Fact) -> bool:
    return True


def nowhere(fact: Fact) -> bool:
    return False


@pytest.mark.spec("S4.12")
def test_of_an_empty_context_every_fact_is_lost_with_its_kind_and_record() -> None:
    lost = cover(FACTS, [], nowhere).lost
    first = {fact.kind: (fact.text, fact.record) for fact in reversed(lost)}
    assert first == TEXTS
    assert ("Delete the lantern branch", "r4") in [(fact.text, fact.record) for fact in lost]
    assert "/home/ada/read.py" not in [fact.text for fact in lost]


@pytest.mark.spec("S10.3")
def test_each_fact_counts_once_where_it_is() -> None:
    found = cover(
        FACTS,
        ["AND  name the new\none fern.", "src/fern.py and second line"],
        lambda fact: fact.kind == "error",
    )
    assert found.by_kind["user_message"] == Count(in_context=1, lost=1)
    assert found.by_kind["edited_file"] == Count(in_context=1)
    assert found.by_kind["error"] == Count(in_context=1)
    assert found.by_kind["identifier"] == Count(lost=1)
    assert found.total == Count(in_context=3, lost=6)
    assert cover(FACTS, [], everywhere).total == Count(reachable=9)


@pytest.mark.spec("S4.12")
def test_a_message_of_which_both_ends_are_seen_counts_as_seen_if_recall_has_the_rest() -> None:
    long = "a beginning " * 10 + "x" * 500 + " an ending" * 10
    facts = Facts(messages=(QuotedMessage("r1", long),))
    both = [long[:200], long[-200:]]
    assert cover(facts, both, everywhere).total == Count(in_context=1)
    assert cover(facts, both, nowhere).total == Count(lost=1)
    assert cover(facts, both[:1], everywhere).total == Count(reachable=1)
    assert cover(facts, both[1:], everywhere).total == Count(reachable=1)


@pytest.mark.spec("S4.12")
def test_what_is_lost_is_appended_while_there_is_room_then_shortened_then_counted() -> None:
    lost = [
        Fact("decision", "use the kettle", "r1"),
        Fact("error", "e" * 1_000, "r2"),
        Fact("identifier", "i" * 100, "r3"),
    ]
    assert missing(lost[:1], 10_000, len) == f"{HEADING}\n- settled [r1]: use the kettle"
    whole = missing(lost, 10_000, len)
    assert "e" * 1_000 in whole
    assert "more" not in whole
    short = missing(lost, len(HEADING) + 250, len)
    assert f"- failure [r2]: {'e' * 80} […] {'e' * 80}" in short
    assert "and 1 more, for which there is no room" in short
    none = missing(lost, len(HEADING), len)
    assert none == f"{HEADING}\n- and 3 more, for which there is no room"


@pytest.mark.spec("S4.12")
def test_only_so_many_of_each_kind_are_looked_for_and_empty_ones_never() -> None:
    facts = Facts(
        tasks=tuple(Task(f"task {number}", "r") for number in range(99)), corrections=(Quote(" ", "r"),)
    )
    assert cover(facts, [], nowhere).total == Count(lost=30)
