"""The same fact in other words, and entries that come back by what they mean (S5.3, S5.8, S5.13)."""

from __future__ import annotations

import json
import tomllib
from datetime import date
from pathlib import Path

import pytest

import sevenfold
from sevenfold.clock import ManualClock
from sevenfold.events import Acted
from sevenfold.memory.admission import MOST_WORDINGS, admit
from sevenfold.memory.memory import Memory
from sevenfold.memory.search import StatementVectors
from sevenfold.memory.statements import LastingFact
from sevenfold.memory.witness import Witness
from sevenfold.memory.words import same_fact
from sevenfold.recall.vectors import StaticVectors
from sevenfold.stores.folder import MemoryFolder
from tests.recall import weights

PAIRS = tomllib.loads(Path(__file__).parents[2].joinpath("bench/statements.toml").read_text())
FERRY = "We repair the ferry at the harbour."
STEAMER = "At the harbour the steamer gets repaired by us."


def memory() -> Memory:
    return Memory(MemoryFolder(), ManualClock(1_760_000_000.0), lambda: "2026-11-16")


def say(
    held: Memory,
    words: str,
    record: str = "r1",
    day: int = 16,
    likeness: StatementVectors | None = None,
    **fact,
):
    seen = Witness({record: words}, days={record: date(2026, 11, day)}, session="s")
    alike = likeness.alike if likeness else None
    return admit(held, [LastingFact((words,), **fact)], seen, 1.0, alike)[0]


@pytest.fixture(scope="module")
def likeness(tmp_path_factory):
    folder = weights.write(tmp_path_factory.mktemp("package"), weights.by_topic(*weights.TOPICS))
    return StatementVectors(StaticVectors(folder))


@pytest.mark.spec("S5.13")
def test_the_same_fact_in_other_words_joins_the_entry_that_is_there_with_both_wordings():
    held = memory()
    first, second = PAIRS["same"][0]
    say(held, first)
    done = say(held, second, "r2")
    (known,) = held.entries()
    assert not done.new
    assert known.entry.quotations == (first, second)
    assert (known.stamp.origin, known.stamp.evidence) == ("user", ("s/r1", "s/r2"))
    held.undo()
    assert held.entries()[0].entry.quotations == (first,)


@pytest.mark.spec("S5.13")
def test_a_fact_said_in_many_ways_gets_an_entry_of_its_own_rather_than_being_lost():
    held = memory()
    ways = [
        "Makefiles are indented with tabs.",
        "Indent Makefiles with tabs.",
        "With tabs, please, indent Makefiles.",
        "Please indent the Makefiles with tabs.",
        "Tabs must indent Makefiles.",
        "A Makefile needs tabs to be indented.",
    ]
    for number, words in enumerate(ways):
        say(held, words, f"r{number}")
    said = [entry.entry.quotations for entry in held.entries()]
    assert sorted(words for each in said for words in each) == sorted(ways)
    assert max(map(len, said)) <= MOST_WORDINGS
    assert len(said) == 2


@pytest.mark.spec("S5.13")
@pytest.mark.parametrize("pair", [*PAIRS["different"], *PAIRS["different_later"]])
def test_whatever_is_said_both_statements_are_kept(pair, likeness):
    held = memory()
    for record, words in zip(("r1", "r2"), pair, strict=True):
        say(held, words, record, likeness=likeness)
    assert {words for one in held.entries() for words in one.entry.quotations} == set(pair)


@pytest.mark.spec("S5.13")
def test_by_words_statements_that_differ_stay_apart_and_many_that_do_not_become_one():
    merged = {
        name: sum(same_fact(*pair) for pair in pairs)
        for name, pairs in PAIRS.items()
        if name[:4] in ("same", "diff")
    }
    # One of the different ones turns a sentence round in the passive: words alone cannot tell.
    assert (merged["different"], merged["different_later"]) == (0, 1)
    assert merged["same"] + merged["same_later"] >= 20


@pytest.mark.spec("S5.13")
def test_by_meaning_a_word_may_differ_unless_the_sentences_are_built_alike(likeness):
    assert not same_fact(FERRY, STEAMER)
    assert same_fact(FERRY, STEAMER, likeness.alike)
    assert not same_fact(FERRY, "We repair the steamer at the harbour.", likeness.alike)
    assert not same_fact(FERRY, "At the harbour the clock gets repaired by us.", likeness.alike)
    assert not same_fact(FERRY, "At the harbour the steamer 7 gets repaired by us.", likeness.alike)
    assert not same_fact(FERRY, "At the harbour the steamer may get repaired by us.", likeness.alike)


@pytest.mark.spec("S5.13", "S7.8")
def test_tomorrow_said_on_another_day_is_another_fact():
    held = memory()
    for record, day in (("r1", 16), ("r2", 17)):
        say(held, "The freeze of the billing branch begins tomorrow.", record, day)
    assert sorted(one.entry.note for one in held.entries()) == [
        "Dates: tomorrow is 2026-11-17.",
        "Dates: tomorrow is 2026-11-18.",
    ]


@pytest.mark.spec("S5.13")
def test_a_fact_that_ends_on_a_day_does_not_vanish_in_one_that_does_not():
    held = memory()
    say(held, "Merges into the billing branch are frozen on Fridays.")
    done = say(held, "Merges into the billing branch are frozen until Friday.", "r2", until="2026-12-04")
    assert done.new


@pytest.mark.spec("S5.13")
def test_words_of_a_model_never_join_the_user_s():
    held = memory()
    say(held, PAIRS["same"][0][0])
    admit(held, [LastingFact((PAIRS["same"][0][1],))], Witness({}, session="s", least_trusted="web"), 2.0)
    (known,) = held.entries()
    assert (known.stamp.origin, known.entry.quotations) == ("user", (PAIRS["same"][0][0],))


@pytest.mark.spec("S5.8")
def test_an_entry_comes_back_by_its_meaning_where_vectors_are_installed(tmp_path, monkeypatch):
    package = tmp_path / "site" / "wordllama"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    weights.write(package, weights.by_topic(*weights.TOPICS))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    sevenfold.open_memory(tmp_path / "work")
    with sevenfold.Session.open(
        "a", model="claude-sonnet-5-5", folder=tmp_path / "work", memory=True
    ) as one:
        one.user("I prefer that no vessel ever shows an incorrect hour.")
        one.complete()
    for on in (True, False):
        for words, fits in (("the ferry is late, a mistake", on), ("the soufflé collapsed again", False)):
            told: list[object] = []
            with sevenfold.Session.open(
                f"{on}-{words[4:9]}",
                model="claude-sonnet-5-5",
                folder=tmp_path / "work",
                memory=True,
                settings={"recall_meaning": on},
                listen=[told.append],
            ) as one:
                one.user(words)
                one.complete()
                sent = json.dumps(json.loads(one.at(-1)))
            lines = [
                event.what for event in told if isinstance(event, Acted) and event.mechanism == "recall"
            ]
            assert ["alike in meaning" in line for line in lines] == [True] * fits
            assert ("incorrect hour" in sent) == fits
