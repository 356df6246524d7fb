"""Entries: their names, and what their files say."""

from __future__ import annotations

import pytest

from sevenfold.errors import InputError
from sevenfold.memory.entry import new_entry, parse_entry, quoted


@pytest.mark.spec("S5.17")
@pytest.mark.parametrize("pinned", [True, False])
@pytest.mark.parametrize("name", ["pinned/x", "a/b", "../x", "", "-x", "Tabs", "x" * 81, "tabs\n"])
def test_a_name_cannot_put_an_entry_into_another_folder(name: str, pinned: bool) -> None:
    with pytest.raises(InputError, match="is not a valid entry name") as refused:
        new_entry(name, "project", "", "", pinned=pinned)
    for rule in (
        "1 to 80",
        "a to z",
        "digits",
        "dots",
        "dashes",
        "underscores",
        "begin with a letter or digit",
    ):
        assert rule in str(refused.value)


@pytest.mark.spec("S5.17")
def test_the_error_for_a_long_name_shows_that_it_is_too_long() -> None:
    with pytest.raises(InputError, match=r"'x{80}…' \(81 characters\)"):
        new_entry("x" * 81, "project", "", "")


@pytest.mark.spec("S5.17")
def test_the_index_is_no_entry() -> None:
    with pytest.raises(InputError, match="'memory' is the index"):
        new_entry("memory", "project", "", "")


@pytest.mark.spec("S5.1")
def test_a_statement_over_two_quoted_lines_is_described_without_their_marks() -> None:
    statement = "Use tabs in Makefiles\nand spaces elsewhere."
    entry = parse_entry("tabs.md", f"{quoted([statement])}\n\nSaid > once.".encode())
    assert entry.quotations == ("Use tabs in Makefiles and spaces elsewhere.",)
    assert entry.description == "Use tabs in Makefiles and spaces elsewhere. Said > once."
