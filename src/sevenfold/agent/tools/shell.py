"""Shell, ShellOutput and ShellStop: running a command, reading the output of a background command, and ending it.

Only the working directory carries over from one command to the next, and only if it is inside the workspace.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from sevenfold.agent.permissions.paths import command_request
from sevenfold.agent.permissions.rules import PermissionRequest
from sevenfold.agent.processes import BackgroundTask, LocalProcesses
from sevenfold.agent.tools.context import Context
from sevenfold.agent.tools.output import CommandRan, TaskChanged, ToolOutput
from sevenfold.agent.tools.tool import ServiceTool
from sevenfold.errors import Refused
from sevenfold.record import redact
from sevenfold.record.known_secrets import is_secret_name
from sevenfold.stores.lineage import AGENT_VARIABLE

SECONDS = 120.0
MOST_SECONDS = 600.0
_QUIET = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
"""Turns off pagers and prompts, since there is no user at the terminal."""
IN_THE_SANDBOX = (
    "It runs in a sandbox: it sees the system and the workspace and little else, and writes only in the workspace and "
    "in $TMPDIR, which other tools do not see. Its background processes end with it."
)
_GIT_SETTING = ("safe.bareRepository", "explicit")
"""Files in any folder can form a repository whose settings run programs; git must not discover one by itself."""
WITHHELD = "SEVENFOLD_WITHHELD"
"""The variable with the names of those withheld from commands, so that a command that misses one can say why."""


def command_environ(environ: Mapping[str, str], passed: str = "") -> dict[str, str]:
    """The environment for commands: without secrets, except those named in ``passed``, or all if it is "all".

    A model reads what commands print, and commands run programs that were never reviewed. A variable is withheld if
    its name says that it is a secret, or if its value looks like one. This guards against accidents, not against
    malice: a command that runs as the same user has other ways to get them.
    """
    if passed.strip() == "all":
        return dict(environ)
    passed_names = {name.strip() for name in passed.split(",")}
    withheld = {
        name for name, value in environ.items() if name not in passed_names and _is_secret(name, value)
    }
    visible = {name: value for name, value in environ.items() if name not in withheld}
    return {**visible, WITHHELD: ",".join(sorted(withheld))} if withheld else visible


def with_careful_git(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment plus a setting that makes git ignore bare repositories, which are not in a ``.git`` folder."""
    count_text = environ.get("GIT_CONFIG_COUNT", "")
    count = int(count_text) if count_text.isascii() and count_text.isdigit() else 0
    key, value = _GIT_SETTING
    setting = {f"GIT_CONFIG_KEY_{count}": key, f"GIT_CONFIG_VALUE_{count}": value}
    return {**environ, **setting, "GIT_CONFIG_COUNT": str(count + 1)}


def _is_secret(name: str, value: str) -> bool:
    return bool(value) and (is_secret_name(name) or bool(redact.find(f"{name}={value}")))


class ShellInput(Struct, forbid_unknown_fields=True):
    """What to run.

    Args:
        command: The command line, for bash.
        timeout: Seconds after which it is killed; defaults to 120.
        background: Start it and continue; read its output with ShellOutput. It has no time limit.
        unconfined: Run it outside the sandbox; the user is always asked. Only after it failed for that reason.
        description: What it does, in five to ten words, for the user.
    """

    command: Annotated[str, Meta(min_length=1)]
    timeout: Annotated[float, Meta(gt=0, le=MOST_SECONDS)] = SECONDS
    background: bool = False
    unconfined: bool = False
    description: str = ""


class ShellTool(ServiceTool[ShellInput, LocalProcesses]):
    """Runs a command line."""

    kind = "shell"

    def __init__(self, service: LocalProcesses) -> None:
        super().__init__(service)
        sandbox = service.sandbox
        if sandbox is not None and sandbox.works:
            self.description = f"{self.description}\n- {IN_THE_SANDBOX}"
        else:
            properties = {
                name: value for name, value in self.schema["properties"].items() if name != "unconfined"
            }
            self.schema = {**self.schema, "properties": properties}

    def requires(self, arguments: ShellInput, context: Context) -> PermissionRequest:
        """Request permission to run the command line."""
        if "\0" in arguments.command:
            raise Refused("The command contains a NUL character, which no shell accepts.")
        cwd = str(context.desk.cwd)
        request = command_request(arguments.command, context.inside, cwd, context.environ(), self.name)
        sandbox = self.service.sandbox
        if sandbox is None or _by_user(context):
            return request
        if sandbox.refusal:
            raise Refused(sandbox.refusal)
        if not sandbox.works:
            return request
        if arguments.unconfined:
            return replace(request, leaves_sandbox=True)
        return replace(request, confined=sandbox.settles)

    def _is_confined(self, context: Context) -> bool:
        """Whether to run in the sandbox; only a permitted request can lead out of it."""
        sandbox = self.service.sandbox
        if sandbox is None or _by_user(context):
            return False
        if sandbox.refusal:
            raise Refused(sandbox.refusal)
        permitted = context.permitted
        return sandbox.works and not (permitted is not None and permitted.leaves_sandbox)

    def act(self, arguments: ShellInput, context: Context) -> ToolOutput:
        """Run the command line, or start it in the background."""
        cwd_note = _ensure_cwd(context)
        environ = with_careful_git({**context.environ(), **_QUIET})
        cwd = str(context.desk.cwd)
        confined = self._is_confined(context)
        permitted = context.permitted
        # What the line visibly writes was part of what has been permitted, guarded files included.
        agreed = tuple(map(Path, permitted.writes)) if permitted is not None else ()
        if arguments.background:
            task = self.service.start(
                arguments.command, cwd=cwd, environ=environ, confined=confined, agreed=agreed
            )
            text = f"{cwd_note}Started as {task.id}; its output goes to {task.path}. Use ShellOutput to check on it."
            return ToolOutput(text, facts=(_fact(task),))
        output, ran = self.service.run(
            arguments.command,
            cwd=cwd,
            environ=environ,
            seconds=arguments.timeout,
            stopped=context.abort.is_set,
            progress=context.progress,
            confined=confined,
            agreed=agreed,
        )
        after_note = _move(ran.cwd, context)
        fact = replace(ran, cwd=str(context.desk.cwd))
        text = _shown(output.rstrip("\n"), ran)
        sandbox = self.service.sandbox
        if confined and sandbox is not None and ran.code:
            after_note = f"{after_note}\n{sandbox.explain_failure()}"
        return ToolOutput(f"{cwd_note}{text}{after_note}", is_error=ran.code != 0, facts=(fact,))


class OutputInput(Struct, forbid_unknown_fields=True):
    """Which task to look at.

    Args:
        task: The task's name, as Shell gave it.
        wait: Seconds to wait for it to end; 0: none.
    """

    task: str
    wait: Annotated[float, Meta(ge=0, le=MOST_SECONDS)] = 0.0


class ShellOutputTool(ServiceTool[OutputInput, LocalProcesses]):
    """Shows the output of a background task since the last call."""

    concurrent = True

    def act(self, arguments: OutputInput, context: Context) -> ToolOutput:
        """Wait if asked to, then show the new output."""
        task = self.service.wait(arguments.task, arguments.wait, context.abort.is_set)
        raw = self.service.read(arguments.task, context.room)
        unread = task.unread - len(raw)
        more_note = f"\n({unread:,} more bytes: look again, or read {task.path})" if unread > 0 else ""
        text = raw.decode(errors="replace") or "(nothing new)"
        return ToolOutput(f"{task.id}: {_state(task)}\n{text}{more_note}", facts=(_fact(task),))


class StopInput(Struct, forbid_unknown_fields=True):
    """Which task to end.

    Args:
        task: The task's name, as Shell gave it.
    """

    task: str


class ShellStopTool(ServiceTool[StopInput, LocalProcesses]):
    """Ends a background task."""

    def act(self, arguments: StopInput, context: Context) -> ToolOutput:
        """End the task and everything it started."""
        task = self.service.stop(arguments.task)
        return ToolOutput(f"{task.id}: {task.state}. Its output is in {task.path}.", facts=(_fact(task),))


def _by_user(context: Context) -> bool:
    """Whether the user typed the command, which then runs with all the user's rights."""
    return AGENT_VARIABLE not in context.environ()


def _ensure_cwd(context: Context) -> str:
    """Return to the workspace if the working directory is gone; returns a note about it, else an empty text."""
    if context.desk.cwd.is_dir():
        return ""
    gone = context.desk.cwd
    context.desk.cwd = context.workspace
    return f"({gone} is gone; the working directory is {context.workspace} again.)\n"


def _move(cwd: str, context: Context) -> str:
    if not cwd or cwd == str(context.desk.cwd):
        return ""
    if not context.inside(os.path.realpath(cwd)):
        return f"\n({cwd} is outside the workspace; the working directory stays {context.desk.cwd}.)"
    context.desk.cwd = Path(cwd)
    return f"\n(The working directory is now {cwd}.)"


def _shown(output: str, ran: CommandRan) -> str:
    if ran.problem:
        return f"{output}\n(The command did not finish: {ran.problem}.)".lstrip("\n")
    if ran.code:
        return f"Exit code {ran.code}\n{output}".rstrip("\n")
    return output or "(no output)"


def _state(task: BackgroundTask) -> str:
    if task.state == "gone":
        return "gone (it ended with the process that started it)"
    return task.state if task.code is None else f"{task.state}, exit code {task.code}"


def _fact(task: BackgroundTask) -> TaskChanged:
    return TaskChanged(task.id, task.command, task.state, task.path)
