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
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from msgspec import Struct

from sevenfold.errors import InputError
from sevenfold.tools.commands import RESERVED, Line, Simple, read
from sevenfold.tools.globs import Glob
from sevenfold.tools.wish import Wish
from sevenfold.tools.words import names

_RULE = re.compile(r"([A-Za-z*][\w*.-]*)(?:\((.+)\))?", re.DOTALL)
_OTHER_NAMES = {"Bash": "Shell"}
_FAMILIES = {"read": "Read", "write": "Edit"}
_LAUNCHERS = names(
    "sudo doas env command builtin exec nohup nice ionice time timeout xargs find setsid stdbuf watch eval ssh "
    "sh bash zsh dash ksh fish busybox"
)
_SHELLS = names("sh bash zsh dash ksh fish eval")


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

    def touches(self, wish: Wish, scope: Scope, line: Line | None = None) -> bool:
        """Does it fit any part or name of the wish, read broadly?"""
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
            known = line or read(wish.subject)
            return wish.subject.strip() == self.pattern or any(
                self._words(words) for command in known.commands for words in _disguises(command)
            )
        return _star(self.pattern).fullmatch(wish.subject) is not None

    def allows_command(self, command: Simple) -> bool:
        """Does it fit this command, which sets no variables and writes no files?"""
        if command.assigns or command.writes or not command.words or " " in command.words[0]:
            return False
        return not self.pattern or self._words(command.words)

    def _words(self, words: tuple[str, ...]) -> bool:
        if self.pattern.endswith(":*"):
            first = tuple(self.pattern.removesuffix(":*").split())
            return words[: len(first)] == first
        if "*" in self.pattern:
            return _star(self.pattern).fullmatch(" ".join(words)) is not None
        return words == tuple(self.pattern.split()) or " ".join(words) == self.pattern

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


def _disguises(command: Simple, depth: int = 3) -> Iterator[tuple[str, ...]]:
    """The words of a command as they are, without a path, and behind whatever leads up to it."""
    words = tuple(command.words)
    if not words:
        return
    yield words
    bare = (PurePosixPath(words[0]).name, *words[1:])
    yield bare
    while bare and (bare[0] in RESERVED or _is_assignment(bare[0])):
        bare = bare[1:]
        yield bare
    if bare and bare[0] in _LAUNCHERS and depth:
        for number in range(1, len(bare)):
            yield from _disguises(Simple(bare[number:], ""), depth - 1)
        if bare[0] in _SHELLS:
            for word in bare[1:]:
                for inner in read(word).commands:
                    yield from _disguises(inner, depth - 1)


def _is_assignment(word: str) -> bool:
    return re.match(r"\w+=", word) is not None


def parsed(lines: Iterable[str]) -> tuple[Rule, ...]:
    """Rules from their lines."""
    return tuple(map(Rule.parse, lines))
