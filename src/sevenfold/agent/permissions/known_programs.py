"""What is known about programs: which of them only look, which run others, and which options are harmless."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


class _Options(Struct, frozen=True):
    """The options with which a program is known to be harmless."""

    flags: str = ""
    """The letters of options without a value; several can share a dash."""
    valued: str = ""
    """The letters of options with a value, which ends their word."""
    long: str = ""
    """The names of options with two dashes."""
    anything: bool = False
    """Whether it is harmless with any options."""

    def include(self, word: str) -> bool:
        """Whether this word is known to be harmless, with all options in it."""
        if self.anything or not word.startswith("-"):
            return True
        if word.startswith("--"):
            return word == "--" or word[2:].partition("=")[0] in word_set(self.long)
        for letter in word[1:]:
            if letter in self.valued:
                return True
            if letter not in self.flags:
                return False
        return True


class CommandTables:
    """The tables of ``commands.toml``; each is explained there."""

    def __init__(self) -> None:
        data = tomllib.loads(Path(__file__).with_name("commands.toml").read_text("utf-8"))
        self.shells = word_set(data["shells"])
        self.launchers = self.shells | word_set(data["launchers"])
        self.carriers = self.launchers | word_set(data["carriers"])
        self.interpreters = self.shells | word_set(data["interpreters"])
        self.obey_input = self.interpreters | word_set(data["obey_input"])
        self.show_files = word_set(data["show_files"])
        self.write_files = word_set(data["write_files"])
        self.harmless = {program: word_set(words) for program, words in data["harmless"].items()}
        self.guarded = word_set(" ".join(data["guarded"].values()))
        self.plain_hidden = word_set(data["hidden"]["harmless"])
        self.read_only = msgspec.convert(data["read_only"], dict[str, _Options])


@cache
def tables() -> CommandTables:
    """Return the tables of known commands and files, loaded once."""
    return CommandTables()


def is_read_only(words: tuple[str, ...]) -> bool:
    """Whether a command changes nothing and opens only files that its words name."""
    options = tables().read_only.get(words[0])
    # Words after "--" are checked too: "--" may be the value of the option before it.
    return options is not None and all(map(options.include, words[1:]))
