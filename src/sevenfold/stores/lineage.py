"""Whether this process was started by an agent: then nothing it does counts as done by the user.

A variable in the environment says so to well-behaved programs, but a command can take it out. So there are two more
signs, neither of which a command can take away from itself:

- Two limits that all descendants inherit and that only the administrator can raise. They stay in a session of its
  own, in a daemon, behind a pseudo-terminal and in an empty environment. One is the longest time that a real-time
  process may run, far above what any needs; but a command can lower it to a value that tells nothing. The other is the
  number of file locks. No kernel since 2.4.25 looks at it, so nothing sets it, and zero cannot be lowered.
- The chain of parents. A process in which an agent works holds a file of its own in memory, and a descendant finds it
  among the open files of its ancestors.

A line that the user typed into a chat is run by the same process, and is the user's: while it runs, that process holds
a file that names it. Both files and limits are those of Linux; elsewhere there is the variable alone. A process that
may trace others, or run as the administrator, can get around all of this: only a sandbox closes that.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from sevenfold.errors import Refused

AGENT_VARIABLE = "SEVENFOLD_AGENT"
"""Set for the commands that an agent runs, so that what they do does not count as done by the user."""
AT_WORK = "sevenfold-agent"
FOR_USER = "sevenfold-user-"
LIMIT_MICROSECONDS = (1 << 53) - 1
"""285 years."""
_LEAST_LIMIT = 1 << 52
"""A limit that was lowered a little still tells."""
_FILE_LOCKS = 10
"""``RLIMIT_LOCKS``, which Python's ``resource`` does not name. It has this number on all architectures of Linux."""
MOST_ANCESTORS = 1_000
_PROCESSES = Path("/proc")


class AgentMark:
    """Counts the agents that work in this process, and shows descendants that there are some."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._agents = 0
        self._file: int | None = None

    def add(self) -> Callable[[], None]:
        """Count one more agent; returns a function that, called any number of times, counts it out again."""
        with self._lock:
            self._agents += 1
            if self._file is None:
                self._file = _memory_file(AT_WORK)
        counted = threading.Lock()

        def remove() -> None:
            if counted.acquire(blocking=False):
                self._remove()

        return remove

    def clear(self) -> None:
        """Count no agent any more, as where agents ended without being closed."""
        with self._lock:
            self._agents = 0
            self._let_go()

    def _remove(self) -> None:
        with self._lock:
            self._agents = max(0, self._agents - 1)
            if self._agents == 0:
                self._let_go()

    def _let_go(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


AGENTS = AgentMark()
"""The agents of this process."""


@contextmanager
def for_user(pid: int) -> Iterator[None]:
    """Show, for as long as it runs, that the user started this child process and its descendants."""
    file = _memory_file(f"{FOR_USER}{pid}")
    try:
        yield
    finally:
        if file is not None:
            os.close(file)


def brand(pid: int) -> None:
    """Mark a child process and its future descendants as an agent's, for good."""
    if sys.platform == "linux":
        import resource

        with suppress(OSError, ValueError):  # it has ended already, or a limit of its own is lower
            resource.prlimit(pid, resource.RLIMIT_RTTIME, (LIMIT_MICROSECONDS, LIMIT_MICROSECONDS))
        with suppress(OSError, ValueError):
            resource.prlimit(pid, _FILE_LOCKS, (0, 0))


def started_by_agent(environ: Mapping[str, str] | None = None) -> bool:
    """Whether an agent started this process, at any distance."""
    environ = os.environ if environ is None else environ
    return AGENT_VARIABLE in environ or _branded() or _below_an_agent()


def must_be_user(action: str) -> None:
    """Raise `Refused` if an agent started this process."""
    if started_by_agent():
        raise Refused(
            f"{action} is the user's to do, and an agent runs this; ask the user to run it, in a terminal that no "
            "agent started"
        )


def _branded() -> bool:
    if sys.platform != "linux":
        return False
    import resource

    _, longest = resource.getrlimit(resource.RLIMIT_RTTIME)
    if _LEAST_LIMIT <= longest <= LIMIT_MICROSECONDS:
        return True
    with suppress(OSError, ValueError):
        _, most_locks = resource.getrlimit(_FILE_LOCKS)
        return most_locks == 0
    return False


def _below_an_agent() -> bool:
    """Whether an agent works in one of the ancestors, unless the user started the branch that leads here."""
    child = os.getpid()
    parent = os.getppid()
    for _ in range(MOST_ANCESTORS):
        if parent <= 1:
            return False
        files = _memory_files(parent)
        if AT_WORK in files:
            return f"{FOR_USER}{child}" not in files
        child = parent
        parent = _parent_of(parent)
    return False


def _parent_of(pid: int) -> int:
    try:
        status = (_PROCESSES / str(pid) / "stat").read_bytes()
        # The name of the program, in parentheses, may contain anything.
        return int(status.rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def _memory_files(pid: int) -> frozenset[str]:
    """The names of the files in memory that a process has open; none if they cannot be seen."""
    names: set[str] = set()
    try:
        entries = list((_PROCESSES / str(pid) / "fd").iterdir())
    except OSError:
        return frozenset()
    for entry in entries:
        with suppress(OSError):
            kind, _, name = str(entry.readlink()).partition(":")
            if kind == "/memfd":
                names.add(name.removesuffix(" (deleted)"))
    return frozenset(names)


def _memory_file(name: str) -> int | None:
    """A file in memory with this name, which children do not inherit; None where there is no such thing."""
    if not hasattr(os, "memfd_create"):
        return None
    with suppress(OSError):
        return os.memfd_create(name)
    return None
