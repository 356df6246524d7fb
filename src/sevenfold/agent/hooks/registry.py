"""Registers and fires the hooks of a session: all that match an event run, and their answers form one outcome.

Commands run concurrently, each in its own thread. Python functions run on the caller's thread, one after another; in an
async session, coroutine functions run concurrently. A function's return value is read like the output of a command.
Whatever a hook does, firing returns an outcome; only a stop raises, because a hook that was cut short has not agreed.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import shutil
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from itertools import chain
from typing import Any

import msgspec
from msgspec.structs import replace

from sevenfold.agent.hooks.answers import combine, read_answer, unread_answer
from sevenfold.agent.hooks.settings import Hook, HookCommand, HookSettings, Matcher
from sevenfold.agent.interrupt import in_own_thread
from sevenfold.agent.programs import TIMED_OUT, CommandResult, run_program
from sevenfold.conversation.hooks import EVENTS, HookFailure, HookInput, HookOutcome, encoded
from sevenfold.errors import Aborted, SettingError

PROJECT_VARIABLES = ("SEVENFOLD_PROJECT_DIR", "CLAUDE_PROJECT_DIR")
"""Environment variables with the project's folder; in commands that run without a shell, ``${NAME}`` is expanded."""


def run_command(
    command: str,
    args: tuple[str, ...] | None,
    *,
    stdin: bytes,
    cwd: str,
    environ: Mapping[str, str],
    seconds: float,
    stopped: Callable[[], bool],
) -> CommandResult:
    """Run a shell command line, or a program with ``args``; see `run_program`."""
    if os.name != "posix":
        return CommandResult(
            None, problem="commands need a POSIX system; use a Python function as hook here"
        )
    shell = shutil.which("bash", path=environ.get("PATH")) or "/bin/sh"
    argv = [shell, "-c", command] if args is None else [command, *args]
    ran = run_program(argv, cwd=cwd, environ=environ, seconds=seconds, stdin=stdin, stopped=stopped)
    if ran.problem == TIMED_OUT:
        ran = replace(ran, problem=f"it took longer than {seconds:g} s and was ended")
    return ran


class _Registry:
    """The common base of `Hooks` and `AsyncHooks`, which only add the waiting."""

    def __init__(
        self,
        loaded: HookSettings | None = None,
        *,
        run: Callable[..., CommandResult] = run_command,
        environ: Mapping[str, str] | None = None,
        project_dir: str = ".",
    ) -> None:
        """``run`` runs commands; ``environ`` is their environment (default: the environment of this process)."""
        loaded = loaded or HookSettings()
        self.skipped = loaded.skipped
        """Hooks found in settings that will not run."""
        self._hooks = list(loaded.hooks)
        self._run = run
        self._environ = {
            **(os.environ if environ is None else environ),
            **dict.fromkeys(PROJECT_VARIABLES, project_dir),
        }
        self._project_dir = project_dir
        self._spent: set[tuple[str, HookCommand]] = set()
        self._lock = threading.Lock()
        self._background: list[Future[HookOutcome]] = []
        self._closing = threading.Event()

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """All hooks that may run, in order."""
        return tuple(self._hooks)

    def close(self) -> None:
        """End the hooks that run in the background."""
        self._closing.set()
        wait(self._background)

    def add(self, event: str, function: Callable[..., Any], *, matcher: str = "") -> None:
        """Add a function, plain or coroutine, as a hook for an event; it is called if the matcher matches.

        It receives the event's input and returns what a command would print: a mapping for JSON, text, or None.
        """
        if event not in EVENTS:
            raise SettingError(f"There is no hook event {event!r}; the events are {', '.join(EVENTS)}.")
        if not callable(function):
            raise SettingError(f"A hook for {event} must be a function, not {function!r:.60}.")
        self._hooks.append(
            Hook(event, Matcher.parse(matcher, f"the hook added for {event}"), function, "code")
        )

    def _matching(self, event: HookInput) -> list[Hook]:
        """The hooks that match this event; equal commands run once, and ``once`` commands that have run not again."""
        name = type(event).__name__
        value = event.matched
        matching: dict[object, Hook] = {}
        with self._lock:
            for hook in self._hooks:
                if hook.event != name or not hook.matcher.matches(value):
                    continue
                if not isinstance(hook.handler, HookCommand):
                    matching[len(matching)] = hook
                elif (name, hook.handler) not in self._spent:
                    matching.setdefault((hook.handler.command, hook.handler.args), hook)
                    if hook.handler.once:
                        self._spent.add((name, hook.handler))
        return list(matching.values())

    def _start(self, event: HookInput, stopped: Callable[[], bool]) -> _Firing:
        """Start the commands for an event; the caller runs the functions."""
        firing = _Firing()
        hooks = self._matching(event)
        event_json = b""
        problem = ""
        try:
            if any(isinstance(hook.handler, HookCommand) for hook in hooks):
                event_json = encoded(event)
        except (RecursionError, ValueError, TypeError) as error:
            problem = f"what happened cannot be written as JSON ({error})"
        for index, hook in enumerate(hooks):
            if not isinstance(hook.handler, HookCommand):
                firing.functions[index] = hook
            elif problem:
                firing.answers[index] = unread_answer(type(event), hook.label, problem)
            elif hook.handler.background:
                self._background.append(self._run_command(hook, event, event_json, self._closing.is_set))
            else:
                firing.commands[index] = self._run_command(
                    hook, event, event_json, lambda: firing.stop.is_set() or stopped()
                )
        return firing

    def _run_command(
        self, hook: Hook, event: HookInput, event_json: bytes, stopped: Callable[[], bool]
    ) -> Future[HookOutcome]:
        command = hook.handler
        assert isinstance(command, HookCommand)
        program = command.command
        args = command.args
        if args is not None:
            program, *arguments = map(self._with_project, (program, *args))
            args = tuple(arguments)
        seconds = event.rule.seconds if command.seconds is None else command.seconds
        surroundings = {"stdin": event_json, "cwd": event.cwd, "environ": self._environ}

        def run() -> HookOutcome:
            try:
                result = self._run(program, args, **surroundings, seconds=seconds, stopped=stopped)
            except Exception as error:  # noqa: BLE001 (a failing hook never breaks the turn)
                result = CommandResult(None, problem=f"it could not be run ({error})")
            return read_answer(type(event), hook.label, result)

        try:
            return in_own_thread(run, "hook")
        except RuntimeError as error:
            future = Future[HookOutcome]()
            result = CommandResult(None, problem=f"it could not be run ({error})")
            future.set_result(read_answer(type(event), hook.label, result))
            return future

    def _with_project(self, argument: str) -> str:
        for name in PROJECT_VARIABLES:
            argument = argument.replace(f"${{{name}}}", self._project_dir)
        return argument

    def _earlier_failures(self) -> list[HookFailure]:
        """Failures of background hooks that have ended since the last event."""
        with self._lock:
            ended = [future for future in self._background if future.done()]
            self._background = [future for future in self._background if future not in ended]
        return [*chain.from_iterable(future.result().failures for future in ended)]

    def _outcome(self, event: HookInput, firing: _Firing) -> HookOutcome:
        answers_by_index = firing.answers | {
            index: future.result() for index, future in firing.commands.items()
        }
        answers = [answers_by_index[index] for index in sorted(answers_by_index)]
        return combine(type(event).__name__, answers, self._earlier_failures())


class Hooks(_Registry):
    """The hooks of a `Session` or an `Agent`."""

    def add(self, event: str, function: Callable[..., Any], *, matcher: str = "") -> None:
        """Add a plain function as a hook for an event; it is called if the matcher matches.

        It receives the event's input and returns what a command would print: a mapping for JSON, text, or None.
        """
        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
            raise SettingError(
                f"The hook for {event} is a coroutine function, and this session does not await; "
                "give it a plain function, or use an async session."
            )
        super().add(event, function, matcher=matcher)

    def fire(self, event: HookInput, stopped: Callable[[], bool] = lambda: False) -> HookOutcome:
        """Run the hooks of this event and combine their answers; ends them and raises `Aborted` once ``stopped()``."""
        firing = self._start(event, stopped)
        try:
            for index, hook in firing.functions.items():
                if not stopped():
                    firing.answers[index] = _call(hook, event)
            wait(firing.commands.values())
        except BaseException:
            firing.stop.set()
            wait(firing.commands.values())
            raise
        if stopped():
            raise Aborted(f"The hooks for {type(event).__name__} were stopped.")
        return self._outcome(event, firing)


class AsyncHooks(_Registry):
    """The hooks of an `AsyncSession` or an `AsyncAgent`."""

    async def fire(self, event: HookInput) -> HookOutcome:
        """Run the hooks of this event and combine their answers; cancelling ends the hooks."""
        firing = self._start(event, lambda: False)
        try:
            answers = await asyncio.gather(
                *(_call_async(hook, event) for hook in firing.functions.values())
            )
            await firing.ended()
        except BaseException:
            firing.stop.set()
            await firing.ended()
            raise
        firing.answers.update(zip(firing.functions, answers, strict=True))
        return self._outcome(event, firing)


class _Firing:
    """The running hooks of one event and their answers so far, by their place in the order of hooks."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.functions: dict[int, Hook] = {}
        self.commands: dict[int, Future[HookOutcome]] = {}
        self.answers: dict[int, HookOutcome] = {}

    async def ended(self) -> None:
        """Wait until all commands have ended."""
        if self.commands:
            await asyncio.wait([asyncio.wrap_future(future) for future in self.commands.values()])


def _call(hook: Hook, event: HookInput) -> HookOutcome:
    """Call a plain function and interpret its answer."""
    try:
        returned = _returned(hook, event)
        if inspect.iscoroutine(returned):
            returned.close()
            raise TypeError("it returned a coroutine, and this session does not await")
        result = _as_result(returned)
    except Exception as error:  # noqa: BLE001 (a failing hook never breaks the turn)
        result = _as_failure(error)
    return read_answer(type(event), hook.label, result)


async def _call_async(hook: Hook, event: HookInput) -> HookOutcome:
    """Call a function, plain or coroutine, and interpret its answer; coroutines have the event's time limit."""
    limit = asyncio.timeout(event.rule.seconds)
    try:
        async with limit:
            returned = _returned(hook, event)
            result = _as_result(await returned if inspect.isawaitable(returned) else returned)
    except Exception as error:  # noqa: BLE001 (a failing hook never breaks the turn)
        result = _as_failure(error)
        if limit.expired():
            result = CommandResult(
                None, problem=f"it took longer than {event.rule.seconds:g} s and was ended"
            )
    return read_answer(type(event), hook.label, result)


def _returned(hook: Hook, event: HookInput) -> Any:
    assert not isinstance(hook.handler, HookCommand)
    return hook.handler(event)


def _as_result(returned: object) -> CommandResult:
    """Convert a function's return value into the result of a command that printed it."""
    match returned:
        case None:
            return CommandResult()
        case str():
            return CommandResult(stdout=returned.encode(errors="replace"))
        case Mapping():
            return CommandResult(stdout=msgspec.json.encode(dict(returned)))
        case _:
            raise TypeError(f"a hook returns None, text or a mapping, not {returned!r:.60}")


def _as_failure(error: Exception) -> CommandResult:
    return CommandResult(None, problem=f"it raised {type(error).__name__}: {error}")
