"""Finds the options and arguments with which a command does more than a rule about its beginning is meant for.

``dangerous.toml`` has them, program by program. Without it, a rule such as ``Shell(find:*)`` would cover
``find . -exec …``: many programs that only look run others, or write files, if an option says so.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from sevenfold.agent.permissions.known_programs import tables, word_set
from sevenfold.agent.permissions.shell import SimpleCommand

_VERSION = re.compile(r"[0-9.-]+t?\Z")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\s*(?:\?|\+|::?:?|!)?=")
_FED_BY_INPUT = ("parallel", "xargs")
_OTHER_NAMES = {
    "egrep": "grep",
    "fgrep": "grep",
    "gawk": "awk",
    "mawk": "awk",
    "nawk": "awk",
    "gmake": "make",
    "gsed": "sed",
    "gtar": "tar",
    "bsdtar": "tar",
    "gfind": "find",
    "fdfind": "fd",
    "nodejs": "node",
    "pypy": "python",
    "pythonw": "python",
    "podman": "docker",
}


class Dangers(Struct, frozen=True, forbid_unknown_fields=True):
    """What makes a command do more; each field is explained in ``dangerous.toml``."""

    short: str = ""
    long: str = ""
    single: str = ""
    first: str = ""
    argument: str = ""
    bundled: str = ""
    script: str = ""
    assigns: bool = False
    alone: bool = False
    never: bool = False

    def appear_in(self, words: Sequence[str], *, before_subcommand: bool) -> bool:
        """Whether any of them is among the words; ``before_subcommand`` if the subcommand is among them too."""
        if self.never:
            return True
        if before_subcommand and self._begins(words):
            return True
        if self.alone and before_subcommand and all(word.startswith("-") for word in words):
            return True
        if (
            before_subcommand
            and words
            and set(self.bundled) & set(words[0])
            and not words[0].startswith("-")
        ):
            return True
        if self.script and not all(re.fullmatch(self.script, script) for script in _scripts(words)):
            return True
        return any(map(self._is_dangerous, words))

    def _begins(self, words: Sequence[str]) -> bool:
        """Whether an option before the subcommand, or the subcommand itself, is one of ``first``."""
        first = word_set(self.first)
        for word in words:
            name = word.partition("=")[0]
            letters = name[:2] if name.startswith("-") and not name.startswith("--") else name
            if name in first or letters in first:
                return True
            if not word.startswith("-"):
                return False
        return False

    def _is_dangerous(self, word: str) -> bool:
        name = word.partition("=")[0]
        if name in word_set(self.single):
            return True
        if word.startswith("--"):
            # Programs accept the beginning of an option for the whole.
            if name != "--" and any(option.startswith(name) for option in word_set(self.long)):
                return True
        elif word.startswith("-") and set(self.short) & set(name):
            return True
        if self.assigns and _ASSIGNMENT.match(word):
            return True
        return bool(self.argument) and re.search(self.argument, word) is not None


def _scripts(arguments: Sequence[str]) -> list[str]:
    """The words with the script of a program such as sed: those of ``-e``, or else the first plain word."""
    scripts = []
    words = iter(arguments)
    for word in words:
        if word in ("-e", "--expression"):
            scripts.append(next(words, ""))
        elif word.startswith("--expression="):
            scripts.append(word.partition("=")[2])
        elif word.startswith("-") and not word.startswith("--") and "e" in word:
            # Behind other letters, or with its script in the same word: not worth telling apart.
            scripts.append(word)
    plain = next((word for word in arguments if not word.startswith("-")), "")
    return scripts or [plain]


@cache
def _table() -> Mapping[tuple[str, ...], Dangers]:
    text = Path(__file__).with_name("dangerous.toml").read_text("utf-8")
    entries = msgspec.convert(tomllib.loads(text), dict[str, Dangers])
    return {tuple(words.split()): dangers for words, dangers in entries.items()}


def does_more(command: SimpleCommand, ruled: int) -> bool:
    """Whether a command does more than its first ``ruled`` words, which a rule names, are meant for.

    A program that runs what it is given does, unless the rule names what that is.
    """
    program = _program(command.words[0])
    words = (program, *command.words[1:])
    launches = program in tables().launchers
    if launches and command.piped_in and program in _FED_BY_INPUT:
        # What it is given comes from its input, which no rule has seen.
        return True
    if launches and not _names_program(words[1:ruled]) and program not in _judged():
        return True
    return _dangers_in(words, ruled)


def _judged() -> frozenset[str]:
    """Programs that run others only if an option or a subcommand says so."""
    return frozenset(words[0] for words in _table())


def _dangers_in(words: tuple[str, ...], ruled: int) -> bool:
    for beginning, dangers in _table().items():
        if words[: len(beginning)] != beginning:
            continue
        if dangers.never and ruled > len(beginning):
            continue
        arguments = words[max(ruled, len(beginning)) :]
        if dangers.appear_in(arguments, before_subcommand=ruled <= len(beginning)):
            return True
    return False


def _names_program(words: Sequence[str]) -> bool:
    """Whether the words that follow a launcher name what it runs: more than options, numbers and variables."""
    return any(
        not word.startswith("-") and "=" not in word and not re.fullmatch(r"[\d.]+[a-z]?", word)
        for word in words
    )


def _program(word: str) -> str:
    """The name a program is known by, without its folder and version."""
    name = word.rpartition("/")[2].casefold()
    name = _OTHER_NAMES.get(name, name)
    bare = _VERSION.sub("", name)
    return _OTHER_NAMES.get(bare, bare) if bare and name not in _judged() else name
