"""Runs shell commands as processes on this machine, in the foreground or in the background.

Every command runs in bash, without input, with standard output and error combined. Only the working directory carries
over from one command to the next. Output is read as it arrives and bounded: of a foreground command, both ends are kept
in memory; of a background command, the beginning is kept in a file. When a command times out or is stopped, everything
it started ends with it.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from sevenfold.agent.programs import TIMED_OUT, ChildProcess, ProcessMark, end_strays
from sevenfold.agent.sandbox.sandbox import Confinement, Sandbox
from sevenfold.agent.tools.output import CommandRan
from sevenfold.conversation.gate import Gate
from sevenfold.errors import InputError, Refused
from sevenfold.stores.files import private_folder, private_opener
from sevenfold.stores.lineage import AGENT_VARIABLE, for_user

GENTLY = 0.5
"""Seconds a command gets to end by itself after SIGTERM."""
_TICK = 0.05
_SCRIPT = (
    'IFS= read -r SEVENFOLD_GO <&"$SEVENFOLD_GO_FD" || exit 125; eval "exec $SEVENFOLD_GO_FD<&-"; '
    "unset SEVENFOLD_GO SEVENFOLD_GO_FD; "
    'trap \'pwd -P >&"$SEVENFOLD_CWD_FD"\' EXIT; eval "$1"'
)
KEPT_AT_EACH_END = 128 * 1024
"""Bytes kept of the beginning, and of the end, of an output."""
MOST_IN_A_FILE = 64 * 1024 * 1024
"""The most bytes of output kept of a background command."""

TaskState = Literal["running", "completed", "failed", "killed", "gone"]
"""``gone``: it is unknown how the command ended, because the Sevenfold process that ran it ended first."""
GONE = "ended with the process that started it"


class BackgroundTask(Struct, frozen=True, omit_defaults=True):
    """The state of a background command, current or saved."""

    id: str = field(name="task")
    command: str
    state: TaskState
    path: str
    code: int | None = None
    read: int = 0
    """Bytes of its output that have been read."""
    unread: int = 0
    """Bytes of its output that have not been read yet."""
    mark: str = ""
    """The name of the `ProcessMark` that its processes carry."""


class LocalProcesses:
    """Runs commands on this machine; the output of background commands goes to files in ``folder``.

    ``earlier`` are tasks of an earlier process: any that still run are killed, and their output can still be read.
    """

    def __init__(
        self,
        folder: Path,
        earlier: Iterable[BackgroundTask] = (),
        gate: Gate | None = None,
        sandbox: Sandbox | None = None,
    ) -> None:
        """``gate`` masks secrets in the output files; ``sandbox`` confines commands that ask for it."""
        self._folder = folder
        self.sandbox = sandbox
        self._gate = gate
        self._tasks: dict[str, _Background | BackgroundTask] = {}
        """All tasks; those of an earlier process, which have ended, in their saved form."""
        self._read: dict[str, int] = {}
        for task in earlier:
            if task.state == "running":
                end_strays(ProcessMark(task.mark))
                task = replace(task, state="gone")
            self._tasks[task.id], self._read[task.id] = task, task.read

    def run(
        self,
        command: str,
        *,
        cwd: str,
        environ: Mapping[str, str],
        seconds: float,
        stopped: Callable[[], bool],
        progress: Callable[[str], None],
        confined: bool = False,
        agreed: Collection[Path] = (),
    ) -> tuple[str, CommandRan]:
        """Run a command until it ends, times out or is ``stopped()``; returns its output and how it ended.

        With ``confined`` it runs in the sandbox, where it may write the guarded files ``agreed``. `CommandRan.cwd` is
        the directory the command ended in; empty if unknown.
        """
        started = time.monotonic()
        ends = _Ends(progress)
        notices: list[str] = []
        with ExitStack() as confinement_cleanup:
            confinement = None
            if confined:
                confinement = self._confinement(confinement_cleanup, notices.append, agreed)
            with ExitStack() as cleanup:
                running = cleanup.enter_context(_ShellCommand(command, cwd, environ, confinement))
                if AGENT_VARIABLE not in environ:
                    cleanup.enter_context(for_user(running.child.pid))
                should_stop = _watching(stopped, confinement)
                problem = running.pump(
                    ends.add, deadline=started + seconds, stopped=should_stop, gently=GENTLY
                )
                if confinement is not None and confinement.insists:
                    problem = confinement.insists
                elif problem == TIMED_OUT:
                    problem = f"it took longer than {seconds:g} s and was ended"
                code = None if problem else running.child.returncode
                seconds_taken = time.monotonic() - started
                ran = CommandRan(command, code, problem, running.ended_in(), seconds_taken)
        for notice in notices:
            ends.add(f"\n{notice}\n".encode())
        return ends.text(), ran

    def _confinement(
        self, cleanup: ExitStack, report: Callable[[str], None], agreed: Collection[Path]
    ) -> Confinement:
        """What confines a command until ``cleanup`` is closed; raises `Refused` if there is no sandbox."""
        if self.sandbox is None:
            raise Refused("There is no sandbox here.")
        return cleanup.enter_context(self.sandbox.around_command(report, agreed))

    def start(
        self,
        command: str,
        *,
        cwd: str,
        environ: Mapping[str, str],
        confined: bool = False,
        agreed: Collection[Path] = (),
    ) -> BackgroundTask:
        """Start a command in the background; ``confined`` and ``agreed`` are as in `run`."""
        private_folder(self._folder)
        # Names of earlier tasks are not reused, because their output may still be read.
        used_names = {*self._tasks, *(path.stem for path in self._folder.glob("task-*.log"))}
        name = next(name for name in map("task-{}".format, count(1)) if name not in used_names)
        sink = _OutputFile(self._folder / f"{name}.log", self._gate)
        with ExitStack() as until_started:
            until_started.callback(sink.close)

            def report(notice: str) -> None:
                sink.add(f"\n{notice}\n".encode())

            confinement = self._confinement(until_started, report, agreed) if confined else None
            running = _ShellCommand(command, cwd, environ, confinement)
            # From here on the thread that reads the output closes everything.
            cleanup = until_started.pop_all()
        self._tasks[name] = _Background(name, command, sink, running, confinement, cleanup)
        return self._task(name)

    def tasks(self) -> list[BackgroundTask]:
        """All tasks, in the order in which they were started."""
        return [self._task(name) for name in list(self._tasks)]  # another thread may start one meanwhile

    def wait(self, name: str, seconds: float, stopped: Callable[[], bool]) -> BackgroundTask:
        """Wait until a task ends, the time is up or ``stopped()``; returns its current state."""
        task = self._task(name)
        deadline = time.monotonic() + seconds
        if isinstance(command := self._tasks[name], _Background):
            while not stopped() and (remaining := deadline - time.monotonic()) > 0:
                if command.ended.wait(min(remaining, _TICK)):
                    break
            task = self._task(name)
        return task

    def read(self, name: str, limit: int) -> bytes:
        """The output of a task since the last call, at most ``limit`` bytes."""
        task = self._task(name)
        output = _read_output(task.path, task.read, limit)
        self._read[name] = task.read + len(output)
        return output

    def stop(self, name: str) -> BackgroundTask:
        """End a task and everything it started; returns its final state."""
        self._task(name)
        self._stop(name)
        return self._task(name)

    def close(self) -> None:
        """End all tasks."""
        for name in self._tasks:
            self._stop(name)
        if self.sandbox is not None:
            self.sandbox.close()

    def _stop(self, name: str) -> None:
        if isinstance(command := self._tasks[name], _Background):
            command.stop()

    def _task(self, name: str) -> BackgroundTask:
        if name not in self._tasks:
            raise InputError(f"There is no task {name!r}; there are: {', '.join(self._tasks) or 'none'}.")
        entry = self._tasks[name]
        read = self._read.get(name, 0)
        task = entry.task() if isinstance(entry, _Background) else entry
        return replace(task, read=read, unread=max(0, _size(task.path) - read))


class _ShellCommand(ChildProcess):
    """A shell command that reports the directory it ends in."""

    def __init__(
        self, command: str, cwd: str, environ: Mapping[str, str], confinement: Confinement | None = None
    ) -> None:
        if confinement is not None:
            environ = confinement.environ(environ)
        shell = shutil.which("bash", path=environ.get("PATH")) or shutil.which("bash")
        if shell is None:
            raise Refused("Commands need bash, which is not installed on this machine.")
        self._cwd, write_cwd = os.pipe()
        self.by_user = AGENT_VARIABLE not in environ
        argv = [shell, "-c", _SCRIPT, "bash", command]
        passed: list[int] = []
        if confinement is not None:
            call_filter = confinement.open_call_filter()
            if call_filter is not None:
                passed.append(call_filter)
            argv = confinement.command_line(argv, cwd, call_filter)
        # The shell waits for a line before it runs anything: a child that it started before it is marked as an agent's
        # would not be marked.
        wait_go, go = os.pipe()
        environ = {**environ, "SEVENFOLD_CWD_FD": str(write_cwd), "SEVENFOLD_GO_FD": str(wait_go)}
        try:
            super().__init__(argv, cwd=cwd, environ=environ, pass_fds=(write_cwd, wait_go, *passed))
            with suppress(BrokenPipeError):  # it has ended already
                os.write(go, b"\n")
        except (OSError, ValueError) as error:
            os.close(self._cwd)
            raise Refused(f"The command could not be started in {cwd} ({error}).") from error
        finally:
            for descriptor in (write_cwd, wait_go, go, *passed):
                os.close(descriptor)
        if confinement is not None:
            confinement.end_command = self._end_at_once

    def _end_at_once(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if self.child.returncode is None:
                os.killpg(self.child.pid, signal.SIGKILL)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        super().__exit__(kind)
        os.close(self._cwd)

    def ended_in(self) -> str:
        """The directory the command ended in; empty if it did not report one."""
        os.set_blocking(self._cwd, False)
        try:
            printed = os.read(self._cwd, 65536)
        except BlockingIOError:
            return ""
        return os.fsdecode(printed.removesuffix(b"\n"))


class _Background:
    """A background command; a thread reads its output."""

    def __init__(
        self,
        name: str,
        command: str,
        sink: _OutputFile,
        running: _ShellCommand,
        confinement: Confinement | None,
        cleanup: ExitStack,
    ) -> None:
        """``cleanup`` is closed when the command has ended."""
        self._name = name
        self._command = command
        self._sink = sink
        self._running = running
        self._confinement = confinement
        self._cleanup = cleanup
        self._stop = threading.Event()
        self.ended = threading.Event()
        self._problem = ""
        self._thread = threading.Thread(target=self._pump, daemon=True, name=f"sevenfold {name}")
        self._thread.start()

    def _pump(self) -> None:
        try:
            with self._running:
                stopped = _watching(self._stop.is_set, self._confinement)
                self._problem = self._running.pump(
                    self._sink.add, deadline=None, stopped=stopped, gently=GENTLY
                )
                if self._confinement is not None and self._confinement.insists:
                    self._problem = self._confinement.insists
        except Exception as error:  # noqa: BLE001 (it becomes the problem of the task)
            self._problem = str(error)
        finally:
            self._cleanup.close()
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


def _watching(stopped: Callable[[], bool], confinement: Confinement | None) -> Callable[[], bool]:
    """The function that says whether to stop; in the sandbox it also looks at what the command creates."""
    if confinement is None:
        return stopped

    def look() -> bool:
        confinement.look()
        return bool(confinement.insists) or stopped()

    return look


# -- output ----------------------------------------------------------------------------------------


class _Ends:
    """Keeps the beginning and the end of an output in memory."""

    def __init__(self, progress: Callable[[str], None]) -> None:
        self._progress = progress
        self._first = bytearray()
        self._last = bytearray()
        self.left_out = 0

    def add(self, chunk: bytes) -> None:
        """Add a chunk of output."""
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
        """The output, or its two ends with a note in between if it was too long."""
        self._shorten()
        if not self.left_out:
            return (self._first + self._last).decode(errors="replace")
        first = self._first.decode(errors="replace")
        last = self._last.decode(errors="replace")
        return f"{first}\n… {self.left_out:,} bytes of output left out here …\n{last}"


class _OutputFile:
    """Keeps the beginning of an output in a file."""

    def __init__(self, path: Path, gate: Gate | None = None) -> None:
        self.path = path
        self._file = open(path, "xb", buffering=0, opener=private_opener)  # noqa: SIM115 (closed by `close`)
        self._room = MOST_IN_A_FILE
        self._stream = gate.stream() if gate else None

    def add(self, chunk: bytes) -> None:
        """Add a chunk of output; with a gate, a line is written only when it is complete."""
        self._write(self._stream.add(chunk) if self._stream else chunk)

    def _write(self, chunk: bytes) -> None:
        if self._room > 0:
            self._file.write(chunk[: self._room])
            self._room -= len(chunk)
            if self._room <= 0:
                self._file.write(b"\n(more output than is kept)\n")

    def close(self) -> None:
        """Write what is left, and close the file."""
        if self._stream is not None:
            self._write(self._stream.end())
        self._file.close()


def _size(path: str) -> int:
    """The size of an output file in bytes; 0 if it is gone."""
    try:
        file_stat = os.lstat(path)
    except OSError:
        return 0
    return file_stat.st_size if stat.S_ISREG(file_stat.st_mode) else 0


def _read_output(path: str, offset: int, limit: int) -> bytes:
    """At most ``limit`` bytes of an output file, from ``offset`` on; nothing if the file is gone.

    A command can replace its output file by something else, so only a regular file is read.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        return os.pread(file, limit, offset) if stat.S_ISREG(os.fstat(file).st_mode) else b""
    finally:
        os.close(file)
