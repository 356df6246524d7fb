"""Permission rules, one line each: ``Shell(git status:*)``, ``Edit(src/**)``, ``WebFetch(domain:example.com)``.

A rule names a tool and, in brackets, what it is used on; without brackets it is about every use. ``Read`` covers
all that reads files, ``Edit`` all that changes them. What a pattern means depends on the deed:

- *paths* as in ``.gitignore``, relative to the workspace; from ``/`` or ``~/`` anywhere;
- *command lines*: ``git status:*`` fits what begins with these words, ``npm test`` only itself, ``*`` within stands
  for anything. Every command of a line must fit for the line to be allowed; one that fits is enough to refuse it;
- *addresses*: ``domain:`` a host, else the address with ``*``.

Where a rule refuses or asks it is read broadly (any case, subdomains, behind ``sudo`` and the like); where it
allows, narrowly.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.agent.permissions.request import Wish
from sevenfold.agent.permissions.shell import Simple, read
from sevenfold.agent.permissions.wrappers import Disguise
from sevenfold.agent.tools.globs import Glob
from sevenfold.agent.tools.words import names
from sevenfold.errors import InputError

_RULE = re.compile(r"([A-Za-z*][\w*.-]*)(?:\((.+)\))?", re.DOTALL)
_OTHER_NAMES = {"Bash": "Shell"}
_FAMILIES = {"read": "Read", "write": "Edit"}
_MIGHTY = {
    "cargo": names("--config"),
    "git": names(
        "--contents --exec --ext-diff --no-index --open-files-in-pager --output --receive-pack --upload-pack"
    ),
}
"""Options with which a harmless subcommand runs anything, or writes and reads files anywhere."""


class Scope(Struct, frozen=True):
    """What patterns are relative to."""

    workspace: str
    home: str = ""


class Rule(Struct, frozen=True):
    """A tool, and what it is used on."""

    tool: str
    pattern: str = ""
    """Empty: anything."""

    @classmethod
    def parse(cls, text: str) -> Rule:
        """A rule from its line; raises `InputError` if it is none."""
        found = _RULE.fullmatch(text.strip())
        if not found:
            raise InputError(
                f"{text!r} is no permission rule; write Tool or Tool(pattern), for example Shell(git status:*)"
            )
        tool, pattern = _OTHER_NAMES.get(found[1], found[1]), (found[2] or "").strip()
        if tool in _FAMILIES.values():
            Glob(pattern)
        return cls(tool, "" if pattern in ("*", ":*") else pattern)

    def __str__(self) -> str:
        return f"{self.tool}({self.pattern})" if self.pattern else self.tool

    def about(self, wish: Wish) -> bool:
        """Is the rule about this tool, or about all that does this?"""
        if _FAMILIES.get(wish.deed) == self.tool or self.tool == wish.tool:
            return True
        return "*" in self.tool and _star(self.tool).fullmatch(wish.tool) is not None

    def allows(self, wish: Wish, scope: Scope) -> bool:
        """Does it fit the whole of the wish? For command lines, see `allows_command`."""
        if not self.about(wish):
            return False
        if not self.pattern:
            return True
        if wish.deed in _FAMILIES:
            return self._path(wish.subject, scope, broad=False)
        if wish.deed == "fetch":
            return self._address(wish.subject, broad=False)
        return _star(self.pattern).fullmatch(wish.subject) is not None

    def touches(self, wish: Wish, scope: Scope, runs: Iterable[Disguise] = ()) -> bool:
        """Does it fit any part or name of the wish, read broadly? ``runs`` is what a command line may run."""
        if not self.about(wish):
            return False
        if not self.pattern:
            return True
        if wish.deed in _FAMILIES:
            names = {wish.subject, wish.named or wish.subject}
            return any(self._path(name, scope, broad=True) for name in names)
        if wish.deed == "fetch":
            return self._address(wish.subject, broad=True)
        if wish.deed == "run":
            return wish.subject.strip() == self.pattern or any(map(self._within, runs))
        return _star(self.pattern).fullmatch(wish.subject) is not None

    def allows_command(self, command: Simple) -> bool:
        """Does it fit this command, which sets no variables and writes no files?"""
        if command.assigns or command.writes or not command.words:
            return False
        if not self.pattern:
            return True
        if "*" not in self.pattern:
            return command.text == self.pattern or _same(command, self.pattern)
        begun = tuple(self.pattern.removesuffix(":*").partition("*")[0].split())
        if " " in command.words[0] or _mighty(command.words, len(begun)):
            return False
        if self.pattern.endswith(":*"):
            return command.words[: len(begun)] == begun
        return _star(self.pattern).fullmatch(" ".join(command.words)) is not None

    def _within(self, run: Disguise) -> bool:
        """Does it fit what may begin at one of these places? However many they are, each is looked at once."""
        text, starts = run.text, run.starts
        if self.pattern.endswith(":*"):
            begun = " ".join(self.pattern.removesuffix(":*").split())
            ends = (at + len(begun) for at in starts if text.startswith(begun, at))
            return any(text[end : end + 1] in ("", " ") for end in ends)
        if "*" in self.pattern:
            begun = self.pattern.partition("*")[0]
            # What fits from a later place on fits from the first one too: "*" stands for what is between.
            first = next((at for at in starts if text.startswith(begun, at)), None)
            return first is not None and _star(self.pattern).fullmatch(text, first) is not None
        whole = " ".join(word for command in read(self.pattern).commands for word in command.words)
        return text.endswith(whole) and len(text) - len(whole) in starts

    def _path(self, path: str, scope: Scope, *, broad: bool) -> bool:
        base, pattern = scope.workspace, self.pattern
        if pattern == "~" or pattern.startswith("~/"):
            base, pattern = scope.home or "/", pattern[1:] or "/**"
        elif pattern.startswith("/"):
            base, pattern = "/", "/" + pattern.lstrip("/")
        if not PurePosixPath(path).is_relative_to(base):
            return False
        beneath = PurePosixPath(path).relative_to(base).as_posix()
        return Glob(pattern, ignore_case=broad).covers(beneath)

    def _address(self, address: str, *, broad: bool) -> bool:
        if not self.pattern.startswith("domain:"):
            return _star(self.pattern).fullmatch(address) is not None
        wanted = self.pattern.removeprefix("domain:").strip().lower().rstrip(".")
        host = (urlsplit(address).hostname or "").rstrip(".")
        if wanted.startswith("*."):
            return host.endswith(wanted[1:])
        return host == wanted or (broad and host.endswith(f".{wanted}"))


def _star(pattern: str) -> re.Pattern[str]:
    """``*`` for anything; the rest as it stands."""
    first, *others = re.split(r"\*+", pattern)
    # Each stretch is taken at its first place and never again, so that no pattern takes long.
    middle = "".join(f"(?>.*?{re.escape(one)})" for one in others[:-1])
    last = f".*{re.escape(others[-1])}" if others else ""
    return re.compile(re.escape(first) + middle + last, re.DOTALL)


def _same(command: Simple, pattern: str) -> bool:
    """Is the pattern this command, but for the way it is written?"""
    meant = read(pattern)
    bare = [replace(one, text="", feeds=False) for one in (command, *meant.commands)]
    return meant.plain and bare[1:] == bare[:1]


def _mighty(words: tuple[str, ...], named: int) -> bool:
    """Are there options, behind the words a rule names, that it cannot have meant? Or what may be short for one?"""
    options = _MIGHTY.get(words[0], frozenset())
    given = (word.partition("=")[0] for word in words[named:] if word.startswith("--") and word != "--")
    return any(option.startswith(one) for one in given for option in options)


def parsed(lines: Iterable[str]) -> tuple[Rule, ...]:
    """Rules from their lines."""
    return tuple(map(Rule.parse, lines))
