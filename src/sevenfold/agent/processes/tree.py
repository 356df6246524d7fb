"""An end to a process and to all it started.

The process leads a session of its own, so one signal reaches its whole group. What left the group is found, on Linux,
by a mark that every descendant carries in its environment, and by a pipe that all of them hold open. The end of that
pipe is the sign that they are gone. Only what sheds its environment and closes all it has inherited gets away.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

GRACE = 2.0
"""How long is looked for survivors, in seconds."""
_TICK = 0.01
_NAME = re.compile("SEVENFOLD_RUN_[0-9a-f]{24}")


class Mark:
    """A variable nobody else has; a process started within another one's tree carries both marks."""

    def __init__(self, name: str = "") -> None:
        # Any other name may be carried by anybody.
        self.name = name if _NAME.fullmatch(name) else f"SEVENFOLD_RUN_{secrets.token_hex(12)}"

    @property
    def environ(self) -> dict[str, str]:
        """What the process gets to carry."""
        return {self.name: "1"}

    def carriers(self) -> Iterator[int]:
        """The processes that carry it."""
        needle = f"{self.name}=".encode()
        for environ in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if needle in environ.read_bytes():
                    yield int(environ.parent.name)


class Witness:
    """A pipe nobody writes to; it ends when all who hold it have."""

    def __init__(self) -> None:
        self._seen, self.held = os.pipe()
        self._open = {self._seen, self.held}

    def __enter__(self) -> Witness:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self._open:
            os.close(descriptor)

    def let_go(self) -> None:
        """Leave the holding to those who have inherited it."""
        os.close(self.held)
        self._open.discard(self.held)

    def holders(self) -> Iterator[int]:
        """The processes that hold it, this one aside."""
        pipe = f"pipe:[{os.fstat(self._seen).st_ino}]"
        for folder in Path("/proc").glob("[0-9]*/fd"):
            with contextlib.suppress(OSError):
                held = any(str(one.readlink()) == pipe for one in folder.iterdir())
                # A child of this very process has our descriptors, and our command line, until it becomes another.
                if held and _command_line(folder.parent.name) != _command_line("self"):
                    yield int(folder.parent.name)

    def all_gone(self, seconds: float) -> bool:
        """Whether nobody holds it any more, at the latest after this time."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._seen, selectors.EVENT_READ)
            return bool(selector.select(seconds))


def end(child: subprocess.Popen[bytes], mark: Mark, witness: Witness, *, gently: float = 0.0) -> None:
    """Kill the child's group and all that carries the mark, until none of it is left.

    With ``gently`` they are asked to end first, and get so many seconds for it.
    """
    if gently and child.returncode is None:
        _signal_group(child.pid, signal.SIGTERM)
        witness.all_gone(gently)
    deadline = time.monotonic() + GRACE
    while time.monotonic() < deadline:
        # As long as nobody has waited for the child its number means its group and nobody else's.
        if child.returncode is None:
            _signal_group(child.pid, signal.SIGKILL)
        strays = {*mark.carriers(), *witness.holders()}
        for pid in strays:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        # A look around can miss who is just being started; the pipe cannot.
        if witness.all_gone(_TICK) and not strays:
            break
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(GRACE)


def end_strays(mark: Mark) -> None:
    """Kill all that carries the mark of a process nobody looks after any more."""
    deadline = time.monotonic() + GRACE
    while time.monotonic() < deadline and (strays := list(mark.carriers())):
        for pid in strays:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_TICK)


def _command_line(process: str) -> bytes:
    return Path("/proc", process, "cmdline").read_bytes()


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
