"""Running one hook command: input in, output out, and an end to it and everything it started.

When its time is up or it is stopped, the command and everything it started are killed. A command that ends by itself
leaves running what it put into the background on purpose. Neither unread input nor endless output blocks: output over
the limit is read and dropped.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping

from sevenfold.agent.hooks.answers import CommandResult
from sevenfold.agent.processes import LivenessPipe, ProcessMark, end

MOST_BYTES = 1024 * 1024
"""How much of an output is kept."""

_TICK = 0.05
_CHUNK = 64 * 1024
_TIMED_OUT = "it took too long"
_STOPPED = "it was stopped"


def run(
    command: str,
    args: tuple[str, ...] | None,
    *,
    stdin: bytes,
    cwd: str,
    environ: Mapping[str, str],
    seconds: float,
    stopped: Callable[[], bool],
) -> CommandResult:
    """Run a shell command line, or a program with ``args``, until it ends, its time is up or ``stopped()``."""
    if os.name != "posix":
        return CommandResult(
            None, problem="commands need a POSIX system; use a Python function as hook here"
        )
    mark = ProcessMark()
    with LivenessPipe() as pipe:
        try:
            child = subprocess.Popen(
                [command, *args] if args is not None else [_shell(environ), "-c", command],
                cwd=cwd,
                env={**environ, **mark.environ},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                pass_fds=(pipe.held,),
            )
        except (OSError, ValueError) as error:
            return CommandResult(None, problem=f"it could not be started in {cwd} ({error})")
        pipe.release()
        try:
            with _Pipes(child, stdin) as pipes:
                problem = _wait(child, pipes, time.monotonic() + seconds, stopped)
                if problem:
                    end(child, mark, pipe)
                pipes.drain()
        except BaseException:
            end(child, mark, pipe)
            raise
    code = None if problem else child.returncode
    if problem == _TIMED_OUT:
        problem = f"it took longer than {seconds:g} s and was ended"
    return CommandResult(code, bytes(pipes.out.kept), bytes(pipes.err.kept), pipes.out.cut, problem)


def _wait(
    child: subprocess.Popen[bytes], pipes: _Pipes, deadline: float, stopped: Callable[[], bool]
) -> str:
    """Move bytes until the child ends; returns why it has to be killed, or an empty string."""
    while True:
        if stopped():
            return _STOPPED
        left = deadline - time.monotonic()
        if left <= 0:
            return _TIMED_OUT
        if pipes.turn(min(_TICK, left)):
            ended = child.poll() is not None
        else:
            # All pipes are closed: it is nearly always about to end.
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(min(_TICK, left))
            ended = child.returncode is not None
        if ended:
            return ""


class _Kept:
    """The beginning of an output."""

    def __init__(self) -> None:
        self.kept = bytearray()
        self.cut = False

    def add(self, chunk: bytes) -> None:
        room = MOST_BYTES - len(self.kept)
        self.kept += chunk[:room]
        self.cut = self.cut or len(chunk) > room


class _Pipes:
    """The three pipes of a child process, moved without blocking each other."""

    def __init__(self, child: subprocess.Popen[bytes], given: bytes) -> None:
        self.out, self.err = _Kept(), _Kept()
        self._given = memoryview(given)
        self._pipes = [pipe for pipe in (child.stdin, child.stdout, child.stderr) if pipe]
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> _Pipes:
        for pipe, kept in zip(self._pipes, (None, self.out, self.err), strict=True):
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ if kept else selectors.EVENT_WRITE, kept)
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        for pipe in self._pipes:
            pipe.close()

    def turn(self, seconds: float) -> bool:
        """Move what can be moved; False once all pipes are closed."""
        if not self._selector.get_map():
            return False
        for key, _ in self._selector.select(seconds):
            if key.data is None:
                self._write(key)
            else:
                self._read(key)
        return True

    def drain(self) -> None:
        """Read what is left in the outputs; what a background process adds later is ignored."""
        for key in list(self._selector.get_map().values()):
            while key.data is not None and not key.data.cut and self._read(key):
                pass

    def _read(self, key: selectors.SelectorKey) -> bool:
        try:
            chunk = os.read(key.fd, _CHUNK)
        except BlockingIOError:
            return False
        if not chunk:
            self._selector.unregister(key.fileobj)
        key.data.add(chunk)
        return bool(chunk)

    def _write(self, key: selectors.SelectorKey) -> None:
        try:
            self._given = self._given[os.write(key.fd, self._given[:_CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._given = self._given[:0]
        if not self._given:
            self._selector.unregister(key.fileobj)
            self._pipes[0].close()


def _shell(environ: Mapping[str, str]) -> str:
    return shutil.which("bash", path=environ.get("PATH")) or "/bin/sh"
