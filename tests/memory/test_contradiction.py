"""Which statements end others: only those that say so, however alike they look (S5.10)."""

from __future__ import annotations

import tomllib
from itertools import permutations
from pathlib import Path

import pytest

from sevenfold.memory.contradiction import ends

PAIRS = tomllib.loads((Path(__file__).parents[2] / "bench/dreams.toml").read_text(encoding="utf-8"))


@pytest.mark.spec("S5.10")
@pytest.mark.parametrize("pair", PAIRS["unrelated"], ids=lambda pair: pair[0][:40])
def test_what_does_not_exclude_the_other_ends_nothing(pair):
    assert not ends(*pair)
    assert not ends(*reversed(pair))


@pytest.mark.spec("S5.10")
@pytest.mark.parametrize("pair", PAIRS["contradicting"], ids=lambda pair: pair[1][:40])
def test_what_denies_replaces_or_resets_the_same_thing_ends_it(pair):
    assert ends(*pair)


@pytest.mark.spec("S5.10")
def test_of_all_statements_only_the_pairs_that_were_meant_end_each_other():
    said = dict.fromkeys(words for pairs in PAIRS.values() for pair in pairs for words in pair)
    meant = {frozenset(pair) for pair in PAIRS["contradicting"]}
    assert [pair for pair in permutations(said, 2) if ends(*pair) and frozenset(pair) not in meant] == []


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Yes.", "No."),
        ("", "Not."),
        ("The port is 8080.", ""),
        ("The server that listens on port 80 is v2.", "The server that listens on port 443 is v2."),
        ("Is the port 8080?", "Is the port not 8080?"),
        ("Der Server hat den Port 8080.", "Der Server hat den Port 9090."),
        ("The port is 8080.", "The port is 8080."),
        ("The port is 8080.", "The port is fine."),
    ],
)
def test_fragments_questions_and_other_languages_end_nothing(older, newer):
    assert not ends(older, newer)


def test_a_very_long_statement_is_compared_in_time():
    words = "the port is " * 30_000
    assert not ends(words + "8080", words + "no longer " * 1000)
