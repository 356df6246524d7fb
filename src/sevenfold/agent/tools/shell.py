"""Shell, ShellOutput and ShellStop: running a command, looking at one in the background, and ending it.

From one command to the next nothing is kept but the working directory, and that stays inside the workspace. The
processes themselves are somebody else's part: whoever makes these tools hands them `Processes`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Literal, Protocol

from msgspec import Meta, Struct

from sevenfold.agent.permissions.paths import places
from sevenfold.agent.permissions.request import Wish
from sevenfold.agent.tools.context import Context
from sevenfold.agent.tools.output import CommandRan, TaskChanged, ToolOutput
from sevenfold.agent.tools.tool import StandardTool
from sevenfold.errors import Refused

SECONDS = 120.0
MOST_SECONDS = 600.0
_QUIET = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
"""Nobody sits there to page, or to be asked."""


class Ran(Protocol):
    """What is left of a command."""

    @property
    def output(self) -> str:
        """Both of its outputs, within bounds."""
        ...

    @property
    def code(self) -> int | None:
        """Its exit code; None if it did not come to its own end."""
        ...

    @property
    def problem(self) -> str:
        """Why it did not."""
        ...

    @property
    def cwd(self) -> str:
        """The folder it ended in; empty if it did not say."""
        ...

    @property
    def seconds(self) -> float:
        """How long it took."""
        ...


class Task(Protocol):
    """A command in the background, as it is now."""

    @property
    def id(self) -> str:
        """Its name."""
        ...

    @property
    def command(self) -> str:
        """What it runs."""
        ...

    @property
    def state(self) -> Literal["running", "completed", "failed", "killed", "gone"]:
        """What became of it; gone: the process that looked after it ended first."""
        ...

    @property
    def path(self) -> str:
        """The file its output goes to."""
        ...

    @property
    def code(self) -> int | None:
        """Its exit code, once it has one."""
        ...

    @property
    def unread(self) -> int:
        """Bytes of its output that nobody has looked at."""
        ...


class Processes(Protocol):
    """Runs commands; raises `sevenfold.errors.UserError` for what cannot be started or is not known."""

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
        """Run a command until it ends, its time is up or ``stopped()``; then nothing of it is left."""
        ...

    def start(self, command: str, *, cwd: str, environ: Mapping[str, str]) -> Task:
        """Run a command in the background."""
        ...

    def wait(self, name: str, seconds: float, stopped: Callable[[], bool]) -> Task:
        """A task as it is when it has ended, or after this time."""
        ...

    def read(self, name: str, most: int) -> bytes:
        """What a task has printed since this was last called, or as much of it."""
        ...

    def stop(self, name: str) -> Task:
        """End a task with all it started."""
        ...


class ShellInput(Struct, forbid_unknown_fields=True):
    """What to run."""

    command: Annotated[str, Meta(min_length=1, description="The command line, for bash.")]
    timeout: Annotated[
        float,
        Meta(gt=0, le=MOST_SECONDS, description="Seconds after which it is ended, 120 unless you say."),
    ] = SECONDS
    background: Annotated[
        bool,
        Meta(description="Start it and go on; its output is had with ShellOutput. It has no time limit."),
    ] = False
    description: Annotated[str, Meta(description="What it does, in five to ten words, for the user.")] = ""


class Shell(StandardTool[ShellInput]):
    """Runs a command line."""

    name = "Shell"
    kind = "shell"
    input = ShellInput

    def __init__(self, processes: Processes) -> None:
        super().__init__()
        self._processes = processes

    def wants(self, given: ShellInput, context: Context) -> Wish:
        """Running that line."""
        if "\0" in given.command:
            raise Refused("The command holds a NUL character, which no shell takes.")
        found = places(given.command, context)
        return Wish(
            self.name, "run", given.command, outside=found.outside, paths=found.named, writes=found.written
        )

    def act(self, given: ShellInput, context: Context) -> ToolOutput:
        """Run it, or start it."""
        note = _there(context)
        environ = {**context.environ, **_QUIET}
        cwd = str(context.desk.cwd)
        if given.background:
            task = self._processes.start(given.command, cwd=cwd, environ=environ)
            words = f"{note}Started as {task.id}; its output goes to {task.path}. ShellOutput shows how it gets on."
            return ToolOutput(words, facts=(_fact(task),))
        ran = self._processes.run(
            given.command,
            cwd=cwd,
            environ=environ,
            seconds=given.timeout,
            stopped=context.abort.is_set,
            progress=context.progress,
        )
        moved = _move(ran.cwd, context)
        fact = CommandRan(given.command, ran.code, ran.problem, str(context.desk.cwd), ran.seconds)
        return ToolOutput(f"{note}{_told(ran)}{moved}", is_error=ran.code != 0, facts=(fact,))


class OutputInput(Struct, forbid_unknown_fields=True):
    """Which task to look at."""

    task: Annotated[str, Meta(description="The task's name, as Shell gave it.")]
    wait: Annotated[
        float,
        Meta(ge=0, le=MOST_SECONDS, description="Seconds to wait for its end before looking; 0: none."),
    ] = 0.0


class ShellOutput(StandardTool[OutputInput]):
    """Shows what a task has printed since the last look."""

    name = "ShellOutput"
    concurrent = True
    input = OutputInput

    def __init__(self, processes: Processes) -> None:
        super().__init__()
        self._processes = processes

    def act(self, given: OutputInput, context: Context) -> ToolOutput:
        """Look."""
        task = self._processes.wait(given.task, given.wait, context.abort.is_set)
        raw = self._processes.read(given.task, context.room)
        more = task.unread - len(raw)
        rest = f"\n({more:,} more bytes: look again, or read {task.path})" if more > 0 else ""
        words = raw.decode(errors="replace") or "(nothing new)"
        return ToolOutput(f"{task.id}: {_became(task)}\n{words}{rest}", facts=(_fact(task),))


class StopInput(Struct, forbid_unknown_fields=True):
    """Which task to end."""

    task: Annotated[str, Meta(description="The task's name, as Shell gave it.")]


class ShellStop(StandardTool[StopInput]):
    """Ends a task."""

    name = "ShellStop"
    input = StopInput

    def __init__(self, processes: Processes) -> None:
        super().__init__()
        self._processes = processes

    def act(self, given: StopInput, context: Context) -> ToolOutput:
        """End it, with all it started."""
        task = self._processes.stop(given.task)
        return ToolOutput(f"{task.id}: {task.state}. Its output is in {task.path}.", facts=(_fact(task),))


def _there(context: Context) -> str:
    """Makes sure that there is a working directory; says so if it had to become another."""
    if context.desk.cwd.is_dir():
        return ""
    gone, context.desk.cwd = context.desk.cwd, context.workspace
    return f"({gone} is gone; the working directory is {context.workspace} again.)\n"


def _move(cwd: str, context: Context) -> str:
    if not cwd or cwd == str(context.desk.cwd):
        return ""
    if not context.inside(os.path.realpath(cwd)):
        return f"\n({cwd} lies outside the workspace; the working directory stays {context.desk.cwd}.)"
    context.desk.cwd = Path(cwd)
    return f"\n(The working directory is now {cwd}.)"


def _told(ran: Ran) -> str:
    output = ran.output.rstrip("\n")
    if ran.problem:
        return f"{output}\n(The command did not end by itself: {ran.problem}.)".lstrip("\n")
    if ran.code:
        return f"Exit code {ran.code}\n{output}".rstrip("\n")
    return output or "(no output)"


def _became(task: Task) -> str:
    if task.state == "gone":
        return "gone (it ended with the process that started it)"
    return task.state if task.code is None else f"{task.state}, exit code {task.code}"


def _fact(task: Task) -> TaskChanged:
    return TaskChanged(task.id, task.command, task.state, task.path)
