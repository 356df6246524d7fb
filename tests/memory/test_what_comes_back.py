"""Which entries come back with a request: the user's own first, and one telling word is enough (S5.8, S20.5–S20.7)."""

from __future__ import annotations

import pytest

from bench.memory import requests
from sevenfold.clock import ManualClock
from sevenfold.memory.entry import new_entry
from sevenfold.memory.generation import Provenance
from sevenfold.memory.memory import Memory
from sevenfold.memory.search import fitting
from sevenfold.stores.folder import MemoryFolder

TODAY = "2026-11-16"
PAGE = Provenance("", "web")


def memory(*statements: str) -> Memory:
    held = Memory(MemoryFolder(), ManualClock(1_760_000_000.0), lambda: TODAY)
    for number, statement in enumerate(statements):
        held.write(new_entry(f"fact-{number}", "project", "", f"> {statement}"), "user", "")
    return held


def names(request: str, held: Memory) -> list[str]:
    return [fit.known_entry.entry.name for fit in fitting(request, held.entries(), TODAY)]


@pytest.mark.spec("S20.5")
def test_unconfirmed_entries_take_only_places_that_the_users_own_leave() -> None:
    held = memory("Tide tables come from the survey office.", "Tide tables are printed on Mondays.")
    for number in range(4):
        body = f"Tide tables, tide tables: harbour survey office note {number}."
        held.write(new_entry(f"page-{number}", "project", "", body), "agent", "", stamp=PAGE)
    request = "Print the tide tables of the harbour survey office, and note the number."
    assert set(names(request, held)[:2]) == {"fact-0", "fact-1"}
    assert len(names(request, held)) == 3
    held.write(new_entry("fact-2", "project", "", "> Tide tables are free of charge."), "user", "")
    assert set(names(request, held)) == {"fact-0", "fact-1", "fact-2"}


@pytest.mark.spec("S20.6")
def test_one_word_is_enough_if_few_entries_have_it_and_requests_about_anything_do_not() -> None:
    held = memory("We never deploy on Fridays after noon.", "Write functions that are short.")
    assert names("Deploy it now, please.", held) == ["fact-0"]
    assert names("Write me something new.", held) == []
    assert names("I don't know, do something short.", memory("Don't push.")) == []


@pytest.mark.spec("S20.6")
def test_a_word_that_many_entries_have_does_not_bring_them_all_back() -> None:
    held = memory(
        *(f"The harbour {word} is closed." for word in ["gate", "office", "crane", "pier", "lock", "hut"])
    )
    assert names("Paint the harbour.", held) == []
    assert names("Paint the harbour crane.", held) == ["fact-2"]


@pytest.mark.spec("S20.6")
def test_a_word_that_only_begins_like_another_is_not_enough() -> None:
    held = memory("Station fourteen was moved.")
    assert names("Recommend a book on statistics.", held) == []
    assert names("Are the stations moved?", held) == ["fact-0"]


@pytest.mark.spec("S20.6")
def test_a_request_meets_an_entry_that_names_the_same_matter_in_another_word() -> None:
    held = memory("German texts use the informal du.", "Marta has to approve anything in billing.")
    (fit,) = fitting("Translate these messages.", held.entries(), TODAY)
    assert fit.known_entry.entry.name == "fact-0"
    assert fit.words == ("german",)


@pytest.mark.spec("S20.7")
def test_requests_as_people_make_them_bring_back_what_fits_and_little_else() -> None:
    seen, held_out = requests()
    assert seen.came >= 0.8 * seen.fitting
    assert held_out.came >= 0.4 * held_out.fitting
    assert held_out.answered <= 0.15 * held_out.nothing
