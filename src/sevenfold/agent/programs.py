"""Runs programs as child processes, and can kill each with everything it started.

Each process leads its own session, so one signal reaches its whole group. Descendants that left the group are found, on
Linux, by a mark in the environment that all of them inherit, and by a pipe that all of them hold open; the pipe reaches
end of file when they are gone. Only a process that clears its environment and closes all inherited files can escape.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Self

from msgspec import Struct

from sevenfold.stores.lineage import brand

MOST_BYTES = 1024 * 1024
"""How many bytes of each output `run_program` keeps."""
GRACE = 2.0
"""Seconds to keep searching for survivors after the last new one was found."""
_TICK = 0.05
TIMED_OUT = "it took too long"
STOPPED = "it was stopped"
_CHUNK = 64 * 1024
_MOST_DRAINED = 256 * 1024
_LONGEST_END = 30.0
_END_TICK = 0.01
Sink = Callable[[bytes], object]
"""Receives a chunk of output."""
_MARK = re.compile("SEVENFOLD_RUN_[0-9a-f]{24}")


class CommandResult(Struct, frozen=True):
    """How a command ended and what it printed; the result of a function hook is converted to this form too."""

    code: int | None = 0
    """The exit code, negative for a signal; None if it did not end by itself."""
    stdout: bytes = b""
    stderr: bytes = b""
    cut: bool = False
    """Whether standard output was too long and only its beginning was kept."""
    problem: str = ""
    """Why it did not end by itself; empty if it did."""


def run_program(
    argv: Sequence[str],
    *,
    cwd: str,
    environ: Mapping[str, str],
    seconds: float,
    stdin: bytes | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> CommandResult:
    """Run a program until it ends, times out or is ``stopped()``; ``stdin`` is its standard input, if any.

    If it times out or is stopped, everything it started is killed. If it ends by itself, processes that it put into the
    background on purpose keep running.
    """
    try:
        child = ChildProcess(argv, cwd=cwd, environ=environ, stdin=stdin, separate_stderr=True)
    except (OSError, ValueError) as error:
        return CommandResult(None, problem=f"it could not be started in {cwd} ({error})")
    out = _Beginning()
    err = _Beginning()
    with child:
        problem = child.pump(out.add, err.add, deadline=time.monotonic() + seconds, stopped=stopped)
    code = None if problem else child.child.returncode
    return CommandResult(code, bytes(out.kept), bytes(err.kept), out.cut, problem)


class _Beginning:
    """Keeps the beginning of an output and drops the rest."""

    def __init__(self) -> None:
        self.kept = bytearray()
        self.cut = False

    def add(self, chunk: bytes) -> None:
        room = MOST_BYTES - len(self.kept)
        self.kept += chunk[:room]
        self.cut = self.cut or len(chunk) > room


class ChildProcess:
    """A process that leads its own session, and its pipes, none of which blocks another.

    Raises OSError or ValueError if it cannot be started. Leaving the context with an error kills everything it started.
    """

    by_user = False
    """Whether what it does counts as done by the user."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        environ: Mapping[str, str],
        stdin: bytes | None = None,
        separate_stderr: bool = False,
        pass_fds: Sequence[int] = (),
    ) -> None:
        """``stdin`` is its standard input, if any; with ``separate_stderr``, standard error gets a separate pipe."""
        self.mark, self._alive = ProcessMark(), LivenessPipe()
        self._unsent = memoryview(stdin or b"")
        try:
            self.child = subprocess.Popen(
                argv,
                cwd=cwd,
                env={**environ, self.mark.name: "1"},
                stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if separate_stderr else subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(self._alive.held, *pass_fds),
            )
        except BaseException:
            self._alive.close()
            raise
        if not self.by_user:
            brand(self.child.pid)
        self._alive.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            end(self.child, self.mark, self._alive)
        for pipe in (self.child.stdin, self.child.stdout, self.child.stderr):
            if pipe:
                pipe.close()
        self._alive.close()

    def pump(
        self, *sinks: Sink, deadline: float | None, stopped: Callable[[], bool], gently: float = 0.0
    ) -> str:
        """Transfer input and output until the process ends; returns `TIMED_OUT` or `STOPPED` if it had to be killed."""
        with selectors.DefaultSelector() as selector:
            pipes = [pipe for pipe in (self.child.stdout, self.child.stderr, self.child.stdin) if pipe]
            for pipe, sink in zip_longest(pipes, sinks):
                os.set_blocking(pipe.fileno(), False)
                selector.register(
                    pipe, selectors.EVENT_WRITE if sink is None else selectors.EVENT_READ, sink
                )
            problem = self._until_it_ends(selector, deadline, stopped)
            if problem:
                end(self.child, self.mark, self._alive, gently=gently)
            # Read what is left in the pipes, within limits, but not what processes left running print later.
            for key in list(selector.get_map().values()):
                for _ in range(_MOST_DRAINED // _CHUNK):
                    if key.data is None or not _read(selector, key):
                        break
        return problem

    def _until_it_ends(
        self, selector: selectors.BaseSelector, deadline: float | None, stopped: Callable[[], bool]
    ) -> str:
        while self.child.poll() is None:
            if stopped():
                return STOPPED
            pause = _TICK if deadline is None else min(_TICK, deadline - time.monotonic())
            if pause <= 0:
                return TIMED_OUT
            if not selector.get_map():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.child.wait(pause)
            for key, _ in selector.select(pause) if selector.get_map() else ():
                if key.data is None:
                    self._write(selector, key)
                else:
                    _read(selector, key)
        return ""

    def _write(self, selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        try:
            self._unsent = self._unsent[os.write(key.fd, self._unsent[:_CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._unsent = self._unsent[:0]
        if not self._unsent and self.child.stdin:
            selector.unregister(key.fileobj)
            self.child.stdin.close()


def _read(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> bool:
    """Pass a chunk of output to its sink; returns False if there is none now."""
    try:
        chunk = os.read(key.fd, _CHUNK)
    except BlockingIOError:
        return False
    if chunk:
        key.data(chunk)
    else:
        selector.unregister(key.fileobj)
    return bool(chunk)


class ProcessMark:
    """A uniquely named environment variable that marks a process and its descendants, which may carry several."""

    def __init__(self, name: str = "") -> None:
        # With any other name, processes that are not ours might match, and would be killed.
        self.name = name if _MARK.fullmatch(name) else f"SEVENFOLD_RUN_{secrets.token_hex(12)}"

    def carriers(self) -> Iterator[int]:
        """The ids of the processes that carry the mark."""
        needle = f"{self.name}=".encode()
        for environ in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if needle in environ.read_bytes():
                    yield int(environ.parent.name)


class LivenessPipe:
    """A pipe that is never written to; it reaches end of file when every process that holds it has ended."""

    def __init__(self) -> None:
        self._our_end, self.held = os.pipe()
        self._open = {self._our_end, self.held}

    def close(self) -> None:
        """Close our ends of the pipe."""
        for descriptor in self._open:
            os.close(descriptor)

    def release(self) -> None:
        """Close our copy of the end that the child inherited, so that only descendants hold it."""
        os.close(self.held)
        self._open.discard(self.held)

    def holders(self) -> Iterator[int]:
        """The ids of the other processes that hold the pipe."""
        pipe = f"pipe:[{os.fstat(self._our_end).st_ino}]"
        for folder in Path("/proc").glob("[0-9]*/fd"):
            with contextlib.suppress(OSError):
                held = any(str(descriptor.readlink()) == pipe for descriptor in folder.iterdir())
                # A new child of this process has our descriptors and command line until it executes its program.
                if held and _command_line(folder.parent.name) != _command_line("self"):
                    yield int(folder.parent.name)

    def all_gone(self, seconds: float) -> bool:
        """Wait at most this many seconds until no process holds the pipe; returns whether none does."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._our_end, selectors.EVENT_READ)
            return bool(selector.select(seconds))


def end(
    child: subprocess.Popen[bytes], mark: ProcessMark, pipe: LivenessPipe, *, gently: float = 0.0
) -> None:
    """Kill the child's group and everything that carries the mark or holds the pipe, until nothing is left.

    With ``gently``, send SIGTERM to the group first, and wait up to that many seconds.
    """
    if gently and child.returncode is None:
        _signal_group(child.pid, signal.SIGTERM)
        pipe.all_gone(gently)
    began = time.monotonic()
    killed = set[int]()
    deadline = began + GRACE
    while time.monotonic() < min(deadline, began + _LONGEST_END):
        # Until the child has been waited for, the system cannot give its id to another group.
        if child.returncode is None:
            _signal_group(child.pid, signal.SIGKILL)
        strays = {*mark.carriers(), *pipe.holders()}
        for pid in strays:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        # A scan can miss a process that is just starting; the pipe cannot.
        if pipe.all_gone(_END_TICK) and not strays:
            break
        if strays - killed:
            # New processes still appear, and on a busy machine one scan may take as long as the whole grace period.
            killed |= strays
            deadline = time.monotonic() + GRACE
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(GRACE)


def end_strays(mark: ProcessMark) -> None:
    """Kill everything that carries this mark; for tasks started by an earlier Sevenfold process."""
    deadline = time.monotonic() + GRACE
    while time.monotonic() < deadline and (strays := list(mark.carriers())):
        for pid in strays:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_END_TICK)


def _command_line(process: str) -> bytes:
    return Path("/proc", process, "cmdline").read_bytes()


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
