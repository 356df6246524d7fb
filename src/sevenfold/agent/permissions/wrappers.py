"""What a line of shell may be running beside what it says first: behind ``sudo``, in ``bash -c``, piped into ``sh``.

This is for rules that refuse or ask, so it errs on their side: behind a program that runs others, every word may begin
a command, and every word that could be a line of shell is read as one. Each word is looked at once, however many such
programs stand before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from sevenfold.agent.permissions.shell import RESERVED, Line, Simple, read
from sevenfold.agent.tools.words import names

SHELLS = names("sh bash zsh dash ash ksh mksh rbash fish csh tcsh")
_SOURCES = names("source .")
LAUNCHERS = (
    SHELLS
    | _SOURCES
    | names(
        "sudo doas su runuser pkexec env command builtin exec eval trap nohup nice ionice chrt taskset prlimit time "
        "timeout setsid setpriv stdbuf unbuffer watch xargs parallel find fd entr flock script chroot unshare nsenter "
        "systemd-run strace ltrace gdb valgrind perf busybox toybox ssh at batch uv uvx poetry pipenv pdm hatch conda "
        "npx npm pnpm yarn bun bunx"
    )
)
"""Programs that run what their words say."""
_DEEPEST = 4
"""How far lines within lines are followed."""
_ASSIGNMENT = re.compile(r"\w+=")
_MORE_THAN_A_WORD = re.compile(r"[\s;&|<>()`$]")


class Disguise(Struct, frozen=True):
    """The words of a command, and where in them what is really run may begin."""

    text: str
    starts: tuple[int, ...]


def disguises(line: Line, depth: int = 0) -> Iterator[Disguise]:
    """All that a line may run."""
    to_a_shell = False
    for command in reversed(line.commands):
        fed = command.feeds and to_a_shell
        to_a_shell = fed or _runs_a_shell(command.words)
        anywhere = fed or _launches(command.words)
        if command.words:
            yield Disguise(" ".join(command.words), tuple(_starts(command.words, anywhere)))
        if anywhere and depth < _DEEPEST:
            for word in filter(_MORE_THAN_A_WORD.search, dict.fromkeys(command.words)):
                yield from disguises(read(word), depth + 1)


def hidden(line: Line) -> str:
    """Why a line does not show all it runs; empty if it does."""
    return line.why or next(filter(None, map(_hidden, line.commands)), "")


def _hidden(command: Simple) -> str:
    words = command.words
    if not words:
        return ""
    launches = _launches(words)
    if not command.literal and (
        set("$*?[{~") & set(words[0]) or (launches and any(word.startswith("$") for word in words))
    ):
        return "a variable or pattern in the place of a command"
    shell = max((place for place, word in enumerate(words) if _name(word) in SHELLS), default=-1)
    shell = 0 if words[0] in _SOURCES else shell
    if launches and shell >= 0 and _reads_its_input(words[shell + 1 :]):
        return f"what {_name(words[shell])} is told from elsewhere"
    return ""


def _reads_its_input(given: tuple[str, ...]) -> bool:
    return "-s" in given or all(word.startswith(("-", "/dev/")) for word in given)


def _starts(words: tuple[str, ...], anywhere: bool) -> Iterator[int]:
    """Of each word that may begin a command, where it begins, with and without its folder."""
    last = len(words) if anywhere else _head(words)
    place = 0
    for number, word in enumerate(words):
        if number > last:
            return
        yield place
        if "/" in word:
            yield place + word.rindex("/") + 1
        place += len(word) + 1


def _head(words: tuple[str, ...]) -> int:
    """The first word that is neither the shell's own nor sets a variable."""
    ahead = (
        place for place, word in enumerate(words) if word not in RESERVED and not _ASSIGNMENT.match(word)
    )
    return next(ahead, len(words))


def _launches(words: tuple[str, ...]) -> bool:
    return any(_name(word) in LAUNCHERS for word in words[_head(words) :][:1])


def _runs_a_shell(words: tuple[str, ...]) -> bool:
    return _launches(words) and any(_name(word) in SHELLS for word in words)


def _name(word: str) -> str:
    return word.rpartition("/")[2]
