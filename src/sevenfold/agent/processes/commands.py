"""Commands of the agent as real processes: one that is waited for, others in the background.

Every command runs in bash, with no input, its two outputs as one, and nothing of an earlier command but the folder it
ended in. Its output is taken as it comes and kept within bounds: the beginning and the end of one that is waited for,
the beginning of one in the background, in a file. When time is up, or it is stopped, it ends with all it started.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import IO, Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.agent.processes import output as command_output
from sevenfold.agent.processes.output import KEPT_AT_EACH_END, Ends, OutputFile
from sevenfold.agent.processes.tree import Mark, Witness, end, end_strays
from sevenfold.errors import InputError, Refused

GENTLY = 0.5
"""Seconds a command gets to end by itself when it is told to."""
_TICK = 0.05
_CHUNK = 64 * 1024
_SCRIPT = 'trap \'pwd -P >&"$SEVENFOLD_CWD_FD"\' EXIT; eval "$1"'

State = Literal["running", "completed", "failed", "killed", "gone"]
"""gone: nobody knows how it ended, because the process that looked after it ended first."""


class Ran(Struct, frozen=True):
    """What is left of a command."""

    output: str
    code: int | None = None
    """None if it did not come to its own end."""
    problem: str = ""
    cwd: str = ""
    """The folder it ended in; empty if it did not say."""
    left_out: int = 0
    """Bytes of output dropped from the middle."""
    seconds: float = 0.0


class Task(Struct, frozen=True):
    """A command in the background, as it is now."""

    id: str
    command: str
    state: State
    path: str
    code: int | None = None
    read: int = 0
    """Bytes of its output that somebody has looked at…"""
    unread: int = 0
    """…and those nobody has yet."""
    mark: str = ""
    """What all its processes carry."""


class _Sink(Protocol):
    def add(self, chunk: bytes) -> None: ...


class LocalProcesses:
    """Runs commands on this machine; ``folder`` takes the output of those in the background.

    ``earlier`` are those another process started. What is left of them is ended, and they are known as they were.
    """

    def __init__(self, folder: Path, earlier: Iterable[Task] = ()) -> None:
        self._folder = folder
        self._tasks: dict[str, _Background | _Earlier] = {}
        self._read: dict[str, int] = {}
        for task in earlier:
            if task.state == "running":
                end_strays(Mark(task.mark))
                task = replace(task, state="gone")
            self._tasks[task.id], self._read[task.id] = _Earlier(task), task.read

    def run(
        self,
        command: str,
        *,
        cwd: str,
        environ: Mapping[str, str],
        seconds: float,
        stopped: Callable[[], bool],
        progress: Callable[[str], None],
    ) -> Ran:
        """Run a command until it ends, its time is up or ``stopped()``."""
        started = time.monotonic()
        ends = Ends(progress)
        with _Running(command, cwd, environ) as running:
            problem = running.pump(ends, started + seconds, stopped)
            if problem == _TIMED_OUT:
                problem = f"it took longer than {seconds:g} s and was ended"
            code = None if problem else running.child.returncode
            took = time.monotonic() - started
            return Ran(ends.text(), code, problem, running.ended_in(), ends.left_out, took)

    def start(self, command: str, *, cwd: str, environ: Mapping[str, str]) -> Task:
        """Run a command in the background."""
        self._folder.mkdir(parents=True, exist_ok=True)
        # The output of an earlier run's tasks may still be read.
        name = next(name for name in map("task-{}".format, count(1)) if self._is_free(name))
        sink = OutputFile(self._folder / f"{name}.log")
        try:
            running = _Running(command, cwd, environ)
        except BaseException:
            sink.close()
            raise
        self._tasks[name] = _Background(name, command, sink, running)
        return self._task(name)

    def tasks(self) -> list[Task]:
        """All that were started, in order."""
        return [self._task(name) for name in self._tasks]

    def wait(self, name: str, seconds: float, stopped: Callable[[], bool]) -> Task:
        """A task as it is when it has ended, or after this time."""
        found, deadline = self._known(name), time.monotonic() + seconds
        while not stopped() and (left := deadline - time.monotonic()) > 0:
            if found.ended.wait(min(left, _TICK)):
                break
        return self._task(name)

    def read(self, name: str, most: int) -> bytes:
        """What a task has printed since this was last called, or as much of it."""
        path, place = self._known(name).task().path, self._read.get(name, 0)
        found = command_output.piece(path, place, most)
        self._read[name] = place + len(found)
        return found

    def stop(self, name: str) -> Task:
        """End a task with all it started."""
        self._known(name).stop()
        return self._task(name)

    def close(self) -> None:
        """End all tasks."""
        for found in self._tasks.values():
            found.stop()

    def _known(self, name: str) -> _Background | _Earlier:
        if name not in self._tasks:
            raise InputError(f"There is no task {name!r}; there are: {', '.join(self._tasks) or 'none'}.")
        return self._tasks[name]

    def _task(self, name: str) -> Task:
        task, read = self._tasks[name].task(), self._read.get(name, 0)
        return replace(task, read=read, unread=max(0, command_output.size(task.path) - read))

    def _is_free(self, name: str) -> bool:
        return name not in self._tasks and not (self._folder / f"{name}.log").exists()


_TIMED_OUT = "it took too long"
_STOPPED = "it was stopped"


class _Running:
    """A command under way, and the pipes to it."""

    def __init__(self, command: str, cwd: str, environ: Mapping[str, str]) -> None:
        shell = shutil.which("bash", path=environ.get("PATH")) or shutil.which("bash")
        if shell is None:
            raise Refused("There is no bash on this machine, and commands need it.")
        self.mark, self._witness = Mark(), Witness()
        told, says = os.pipe()
        self._told = told
        try:
            self.child = subprocess.Popen(
                [shell, "-c", _SCRIPT, "bash", command],
                cwd=cwd,
                env={**environ, **self.mark.environ, "SEVENFOLD_CWD_FD": str(says)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(self._witness.held, says),
            )
        except (OSError, ValueError) as error:
            self._close()
            raise Refused(f"The command could not be started in {cwd} ({error}).") from error
        finally:
            os.close(says)
        self._witness.let_go()

    def __enter__(self) -> _Running:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            end(self.child, self.mark, self._witness)
        self._close()

    def pump(self, sink: _Sink, deadline: float | None, stopped: Callable[[], bool]) -> str:
        """Take output until the command ends; returns why it was ended, or nothing."""
        pipe = self.child.stdout
        assert pipe is not None
        os.set_blocking(pipe.fileno(), False)
        with selectors.DefaultSelector() as selector, pipe:
            selector.register(pipe, selectors.EVENT_READ)
            problem = self._until_it_ends(selector, pipe, sink, deadline, stopped)
            if problem:
                end(self.child, self.mark, self._witness, gently=GENTLY)
            # What a process left behind on purpose adds later is nobody's; what is there is taken, within reason.
            for _ in range(2 * KEPT_AT_EACH_END // _CHUNK):
                if not _take(pipe, sink):
                    break
        return problem

    def _until_it_ends(
        self,
        selector: selectors.BaseSelector,
        pipe: IO[bytes],
        sink: _Sink,
        deadline: float | None,
        stopped: Callable[[], bool],
    ) -> str:
        while self.child.poll() is None:
            left = _TICK if deadline is None else min(_TICK, deadline - time.monotonic())
            if stopped():
                return _STOPPED
            if left <= 0:
                return _TIMED_OUT
            if not selector.get_map():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.child.wait(left)
            elif selector.select(left) and _take(pipe, sink) is None:
                selector.unregister(pipe)
        return ""

    def ended_in(self) -> str:
        """The folder the command ended in."""
        os.set_blocking(self._told, False)
        try:
            said = os.read(self._told, 65536)
        except BlockingIOError:
            return ""
        return os.fsdecode(said.removesuffix(b"\n"))

    def _close(self) -> None:
        self._witness.__exit__()
        os.close(self._told)


def _take(pipe: IO[bytes], sink: _Sink) -> bool | None:
    """Move a piece; False: there is none now; None: there will be none."""
    try:
        chunk = os.read(pipe.fileno(), _CHUNK)
    except BlockingIOError:
        return False
    if not chunk:
        return None
    sink.add(chunk)
    return True


class _Background:
    """A command that somebody looks after in a thread."""

    def __init__(self, name: str, command: str, sink: OutputFile, running: _Running) -> None:
        self._name, self._command, self._sink, self._running = name, command, sink, running
        self._stop = threading.Event()
        self.ended = threading.Event()
        self._problem = ""
        self._thread = threading.Thread(target=self._look_after, daemon=True, name=f"sevenfold {name}")
        self._thread.start()

    def _look_after(self) -> None:
        try:
            with self._running:
                self._problem = self._running.pump(self._sink, None, self._stop.is_set)
        except Exception as error:  # noqa: BLE001 (whoever asks for the task is told)
            self._problem = str(error)
        finally:
            self._sink.close()
            self.ended.set()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def task(self) -> Task:
        code = self._running.child.returncode if self.ended.is_set() and not self._problem else None
        state: State = "running"
        if self.ended.is_set():
            state = "killed" if self._problem else "completed" if code == 0 else "failed"
        mark = self._running.mark.name
        return Task(self._name, self._command, state, str(self._sink.path), code, mark=mark)


class _Earlier:
    """A command that has ended."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self.ended = threading.Event()
        self.ended.set()

    def stop(self) -> None:
        """There is nothing left to end."""

    def task(self) -> Task:
        return self._task
