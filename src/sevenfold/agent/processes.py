"""Commands as processes of this machine: one that is waited for, others in the background.

Every command runs in bash, with no input, its two outputs as one, and nothing of an earlier command but the folder it
ended in. Its output is taken as it comes and kept within bounds: both ends of a command that is waited for, in memory;
the beginning of one in the background, in a file. When its time is up, or it is stopped, it ends with everything it
started.

A process leads a session of its own, so one signal reaches its whole group. What left the group is found, on Linux, by
a mark that every descendant carries in its environment, and by a pipe that all of them hold open; that pipe ends when
they are gone. Only what sheds its environment and closes everything it inherited gets away.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import selectors
import shutil
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count, zip_longest
from pathlib import Path
from typing import Literal, Protocol, Self

from msgspec import Struct, field
from msgspec.structs import replace

from sevenfold.conversation.gate import Gate
from sevenfold.errors import InputError, Refused

GENTLY = 0.5
"""Seconds a command gets to end by itself when it is asked to."""
_TICK = 0.05
_CHUNK = 64 * 1024
_MOST_DRAINED = 256 * 1024
_SCRIPT = 'trap \'pwd -P >&"$SEVENFOLD_CWD_FD"\' EXIT; eval "$1"'
KEPT_AT_EACH_END = 128 * 1024
"""Bytes of output kept at the beginning and at the end."""
MOST_IN_A_FILE = 64 * 1024 * 1024
"""Bytes of output kept of a command in the background."""
GRACE = 2.0
"""Seconds in which survivors are looked for after the last new one was found."""
_LONGEST_END = 30.0
_END_TICK = 0.01
_MARK = re.compile("SEVENFOLD_RUN_[0-9a-f]{24}")

TaskState = Literal["running", "completed", "failed", "killed", "gone"]
"""gone: how it ended is unknown, because the process that ran it ended first."""
GONE = "ended with the process that started it"


class FinishedCommand(Struct, frozen=True):
    """The result of a command."""

    output: str
    code: int | None = None
    """None if it was stopped."""
    problem: str = ""
    """Why it was stopped."""
    cwd: str = ""
    """The folder it ended in; empty if it did not say."""
    left_out: int = 0
    """Bytes of output dropped from the middle."""
    seconds: float = 0.0


class BackgroundTask(Struct, frozen=True, omit_defaults=True):
    """A command in the background, as it is now, or as it is saved."""

    id: str = field(name="task")
    command: str
    state: TaskState
    path: str
    code: int | None = None
    read: int = 0
    """Bytes of its output that were read."""
    unread: int = 0
    """Bytes of its output that were not read yet."""
    mark: str = ""
    """The name of the mark its processes carry."""


TIMED_OUT = "it took too long"
STOPPED = "it was stopped"


class _Sink(Protocol):
    def add(self, chunk: bytes) -> None: ...


class ChildProcess:
    """A process that leads a session of its own, and the pipes to it, none of which makes another wait.

    Raises OSError or ValueError if it cannot be started. Leaving it with an error ends everything it started.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        environ: Mapping[str, str],
        given: bytes | None = None,
        errors_apart: bool = False,
        pass_fds: Sequence[int] = (),
    ) -> None:
        """``given`` is its input, if it has any; with ``errors_apart``, standard error has a pipe of its own."""
        self.mark, self._alive = ProcessMark(), LivenessPipe()
        self._given = memoryview(given or b"")
        try:
            self.child = subprocess.Popen(
                argv,
                cwd=cwd,
                env={**environ, **self.mark.environ},
                stdin=subprocess.DEVNULL if given is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if errors_apart else subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(self._alive.held, *pass_fds),
            )
        except BaseException:
            self._alive.__exit__()
            raise
        self._alive.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            end(self.child, self.mark, self._alive)
        for pipe in (self.child.stdin, self.child.stdout, self.child.stderr):
            if pipe:
                pipe.close()
        self._alive.__exit__()

    def pump(
        self, *sinks: _Sink, deadline: float | None, stopped: Callable[[], bool], gently: float = 0.0
    ) -> str:
        """Move bytes until the process ends; if it has to be ended, returns why: `TIMED_OUT` or `STOPPED`."""
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
            # What is in the pipes is taken, within reason; what a process left running on purpose prints later is not.
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
            left = _TICK if deadline is None else min(_TICK, deadline - time.monotonic())
            if left <= 0:
                return TIMED_OUT
            if not selector.get_map():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.child.wait(left)
            for key, _ in selector.select(left) if selector.get_map() else ():
                if key.data is None:
                    self._write(selector, key)
                else:
                    _read(selector, key)
        return ""

    def _write(self, selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        try:
            self._given = self._given[os.write(key.fd, self._given[:_CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._given = self._given[:0]
        if not self._given and self.child.stdin:
            selector.unregister(key.fileobj)
            self.child.stdin.close()


def _read(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> bool:
    """Move a piece of output; False if there is none now."""
    try:
        chunk = os.read(key.fd, _CHUNK)
    except BlockingIOError:
        return False
    if chunk:
        key.data.add(chunk)
    else:
        selector.unregister(key.fileobj)
    return bool(chunk)


class LocalProcesses:
    """Runs commands on this machine; ``folder`` takes the output of those in the background.

    ``earlier`` are tasks an earlier process started: what is left of them is ended, and their output can still be read.
    """

    def __init__(
        self, folder: Path, earlier: Iterable[BackgroundTask] = (), gate: Gate | None = None
    ) -> None:
        """``gate`` masks secrets in the files."""
        self._folder = folder
        self._gate = gate
        self._tasks: dict[str, _Background | _Earlier] = {}
        self._read: dict[str, int] = {}
        for task in earlier:
            if task.state == "running":
                end_strays(ProcessMark(task.mark))
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
    ) -> FinishedCommand:
        """Run a command until it ends, its time is up or ``stopped()``."""
        started = time.monotonic()
        ends = _Ends(progress)
        with _ShellCommand(command, cwd, environ) as running:
            problem = running.pump(ends, deadline=started + seconds, stopped=stopped, gently=GENTLY)
            if problem == TIMED_OUT:
                problem = f"it took longer than {seconds:g} s and was ended"
            code = None if problem else running.child.returncode
            took = time.monotonic() - started
            return FinishedCommand(ends.text(), code, problem, running.ended_in(), ends.left_out, took)

    def start(self, command: str, *, cwd: str, environ: Mapping[str, str]) -> BackgroundTask:
        """Run a command in the background."""
        self._folder.mkdir(parents=True, exist_ok=True)
        # Names of earlier tasks are not used again, since their output may still be read.
        name = next(name for name in map("task-{}".format, count(1)) if self._is_free(name))
        sink = _OutputFile(self._folder / f"{name}.log", self._gate)
        try:
            running = _ShellCommand(command, cwd, environ)
        except BaseException:
            sink.close()
            raise
        self._tasks[name] = _Background(name, command, sink, running)
        return self._task(name)

    def tasks(self) -> list[BackgroundTask]:
        """All tasks, in the order in which they were started."""
        return [self._task(name) for name in list(self._tasks)]  # another thread may start one meanwhile

    def wait(self, name: str, seconds: float, stopped: Callable[[], bool]) -> BackgroundTask:
        """A task as it is when it has ended, or after this time."""
        found, deadline = self._known(name), time.monotonic() + seconds
        while not stopped() and (left := deadline - time.monotonic()) > 0:
            if found.ended.wait(min(left, _TICK)):
                break
        return self._task(name)

    def read(self, name: str, most: int) -> bytes:
        """What a task has printed since this was last called, at most so many bytes."""
        path, place = self._known(name).task().path, self._read.get(name, 0)
        found = _piece(path, place, most)
        self._read[name] = place + len(found)
        return found

    def stop(self, name: str) -> BackgroundTask:
        """End a task with everything it started."""
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

    def _task(self, name: str) -> BackgroundTask:
        task, read = self._tasks[name].task(), self._read.get(name, 0)
        return replace(task, read=read, unread=max(0, _size(task.path) - read))

    def _is_free(self, name: str) -> bool:
        return name not in self._tasks and not (self._folder / f"{name}.log").exists()


class _ShellCommand(ChildProcess):
    """A shell command, which tells the folder it ends in."""

    def __init__(self, command: str, cwd: str, environ: Mapping[str, str]) -> None:
        shell = shutil.which("bash", path=environ.get("PATH")) or shutil.which("bash")
        if shell is None:
            raise Refused("Commands need bash, which is not installed on this machine.")
        self._cwd, write_cwd = os.pipe()
        argv = [shell, "-c", _SCRIPT, "bash", command]
        environ = {**environ, "SEVENFOLD_CWD_FD": str(write_cwd)}
        try:
            super().__init__(argv, cwd=cwd, environ=environ, pass_fds=(write_cwd,))
        except (OSError, ValueError) as error:
            os.close(self._cwd)
            raise Refused(f"The command could not be started in {cwd} ({error}).") from error
        finally:
            os.close(write_cwd)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        super().__exit__(kind)
        os.close(self._cwd)

    def ended_in(self) -> str:
        """The folder the command ended in."""
        os.set_blocking(self._cwd, False)
        try:
            found = os.read(self._cwd, 65536)
        except BlockingIOError:
            return ""
        return os.fsdecode(found.removesuffix(b"\n"))


class _Background:
    """A command in the background, pumped by a thread."""

    def __init__(self, name: str, command: str, sink: _OutputFile, running: _ShellCommand) -> None:
        self._name, self._command, self._sink, self._running = name, command, sink, running
        self._stop = threading.Event()
        self.ended = threading.Event()
        self._problem = ""
        self._thread = threading.Thread(target=self._pump, daemon=True, name=f"sevenfold {name}")
        self._thread.start()

    def _pump(self) -> None:
        try:
            with self._running:
                self._problem = self._running.pump(
                    self._sink, deadline=None, stopped=self._stop.is_set, gently=GENTLY
                )
        except Exception as error:  # noqa: BLE001 (it becomes the problem of the task)
            self._problem = str(error)
        finally:
            self._sink.close()
            self.ended.set()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def task(self) -> BackgroundTask:
        code = self._running.child.returncode if self.ended.is_set() and not self._problem else None
        state: TaskState = "running"
        if self.ended.is_set():
            state = "killed" if self._problem else "completed" if code == 0 else "failed"
        mark = self._running.mark.name
        return BackgroundTask(self._name, self._command, state, str(self._sink.path), code, mark=mark)


class _Earlier:
    """A task of an earlier process, which has ended."""

    def __init__(self, task: BackgroundTask) -> None:
        self._task = task
        self.ended = threading.Event()
        self.ended.set()

    def stop(self) -> None:
        """Nothing is left to end."""

    def task(self) -> BackgroundTask:
        return self._task


# -- output ----------------------------------------------------------------------------------------


class _Ends:
    """Keeps the beginning and the end of an output, in memory."""

    def __init__(self, progress: Callable[[str], None]) -> None:
        self._progress = progress
        self._first = bytearray()
        self._last = bytearray()
        self.left_out = 0

    def add(self, chunk: bytes) -> None:
        """Take more output."""
        self._progress(chunk.decode(errors="replace"))
        room = KEPT_AT_EACH_END - len(self._first)
        self._first += chunk[:room]
        self._last += chunk[room:] if room < len(chunk) else b""
        if len(self._last) > 2 * KEPT_AT_EACH_END:
            self._shorten()

    def _shorten(self) -> None:
        over = max(0, len(self._last) - KEPT_AT_EACH_END)
        self.left_out += over
        del self._last[:over]

    def text(self) -> str:
        """The output, or both ends of it with a note in between."""
        self._shorten()
        if not self.left_out:
            return bytes(self._first + self._last).decode(errors="replace")
        first, last = (
            bytes(self._first).decode(errors="replace"),
            bytes(self._last).decode(errors="replace"),
        )
        return f"{first}\n… {self.left_out:,} bytes of output left out here …\n{last}"


class _OutputFile:
    """Keeps the beginning of an output, in a file."""

    def __init__(self, path: Path, gate: Gate | None = None) -> None:
        self.path = path
        self._file = path.open("xb", buffering=0)
        self._room = MOST_IN_A_FILE
        self._stream = gate.stream() if gate else None

    def add(self, chunk: bytes) -> None:
        """Take more output; with a gate, lines are written when they are whole."""
        self._write(self._stream.add(chunk) if self._stream else chunk)

    def _write(self, chunk: bytes) -> None:
        if self._room > 0:
            self._file.write(chunk[: self._room])
            self._room -= len(chunk)
            if self._room <= 0:
                self._file.write(b"\n(more output than is kept)\n")

    def close(self) -> None:
        """Take no more."""
        if self._stream is not None:
            self._write(self._stream.end())
        self._file.close()


def _size(path: str) -> int:
    """How many bytes of output there are in a file; 0 if it is gone."""
    try:
        found = os.lstat(path)
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _piece(path: str, place: int, most: int) -> bytes:
    """A piece of the output in a file; nothing if it is gone.

    A command can put something else in the place of its file, so only a regular file is read.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        return os.pread(file, most, place) if stat.S_ISREG(os.fstat(file).st_mode) else b""
    finally:
        os.close(file)


# -- process trees ---------------------------------------------------------------------------------


class ProcessMark:
    """An environment variable with a name of its own; a process in two trees carries two of them."""

    def __init__(self, name: str = "") -> None:
        # Processes that are none of ours may carry any other name.
        self.name = name if _MARK.fullmatch(name) else f"SEVENFOLD_RUN_{secrets.token_hex(12)}"

    @property
    def environ(self) -> dict[str, str]:
        """The variable for the environment of the process."""
        return {self.name: "1"}

    def carriers(self) -> Iterator[int]:
        """The processes that carry it."""
        needle = f"{self.name}=".encode()
        for environ in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if needle in environ.read_bytes():
                    yield int(environ.parent.name)


class LivenessPipe:
    """A pipe that is never written to; it ends when every process that holds it has ended."""

    def __init__(self) -> None:
        self._seen, self.held = os.pipe()
        self._open = {self._seen, self.held}

    def __enter__(self) -> LivenessPipe:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self._open:
            os.close(descriptor)

    def release(self) -> None:
        """Close the own end that children inherited, so that only they hold it."""
        os.close(self.held)
        self._open.discard(self.held)

    def holders(self) -> Iterator[int]:
        """The other processes that hold it."""
        pipe = f"pipe:[{os.fstat(self._seen).st_ino}]"
        for folder in Path("/proc").glob("[0-9]*/fd"):
            with contextlib.suppress(OSError):
                held = any(str(one.readlink()) == pipe for one in folder.iterdir())
                # A child of this process has our descriptors, and our command line, until it executes its program.
                if held and _command_line(folder.parent.name) != _command_line("self"):
                    yield int(folder.parent.name)

    def all_gone(self, seconds: float) -> bool:
        """Wait until no process holds it, or so many seconds; whether none does."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._seen, selectors.EVENT_READ)
            return bool(selector.select(seconds))


def end(
    child: subprocess.Popen[bytes], mark: ProcessMark, pipe: LivenessPipe, *, gently: float = 0.0
) -> None:
    """Kill the child's group and everything that carries the mark, until none of it is left.

    With ``gently`` they are asked to end first, and get so many seconds for it.
    """
    if gently and child.returncode is None:
        _signal_group(child.pid, signal.SIGTERM)
        pipe.all_gone(gently)
    began, seen = time.monotonic(), set[int]()
    deadline = began + GRACE
    while time.monotonic() < min(deadline, began + _LONGEST_END):
        # Until the child was waited for, its number cannot become that of another group.
        if child.returncode is None:
            _signal_group(child.pid, signal.SIGKILL)
        strays = {*mark.carriers(), *pipe.holders()}
        for pid in strays:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        # A scan can miss a process that is just being started; the pipe cannot.
        if pipe.all_gone(_END_TICK) and not strays:
            break
        if strays - seen:
            # It is still running away, and on a busy machine a single look may take as long as it is given.
            seen |= strays
            deadline = time.monotonic() + GRACE
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(GRACE)


def end_strays(mark: ProcessMark) -> None:
    """Kill everything that carries the mark of an earlier process."""
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
