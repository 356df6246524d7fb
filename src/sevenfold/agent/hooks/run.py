"""Firing hooks: all that are meant run at the same time, and their answers become one outcome.

Commands run in threads of their own. Python functions run on the caller's thread, one after another; in an
async session coroutine functions run beside each other. Whatever a hook does, firing returns an outcome; only
a stop comes out as an error, because a hook that was cut short has not agreed to anything.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Any, Protocol

from sevenfold.agent.hooks.answers import Answer, Ended, Printed, combined, unasked, understood
from sevenfold.agent.hooks.functions import Function, awaited, called, is_async
from sevenfold.agent.hooks.matcher import matcher
from sevenfold.agent.hooks.settings import Command, Hook, Loaded
from sevenfold.conversation.hooks import EVENTS, HookFailure, HookInput, HookOutcome, encoded
from sevenfold.errors import Aborted, SettingError

PROJECT_VARIABLES = ("SEVENFOLD_PROJECT_DIR", "CLAUDE_PROJECT_DIR")
"""Tell a command where the project is; as ``${NAME}`` they also stand in the words of one without a shell."""


class RunsCommands(Protocol):
    """Whoever can start a process; `sevenfold.agent.hooks.process.run` can."""

    def __call__(
        self,
        command: str,
        args: tuple[str, ...] | None,
        *,
        stdin: bytes,
        cwd: str,
        environ: Mapping[str, str],
        seconds: float,
        stopped: Callable[[], bool],
    ) -> Ended:
        """Run a command until it ends, its time is up or ``stopped()``; never raises."""
        ...


def _never() -> bool:
    return False


class _Registry:
    """What both kinds of session share: which hooks there are, and everything about firing but the waiting."""

    def __init__(
        self,
        loaded: Loaded | None = None,
        *,
        run: RunsCommands,
        environ: Mapping[str, str],
        project_dir: str,
    ) -> None:
        loaded = loaded or Loaded()
        self.skipped = loaded.skipped
        """What was found in settings and will not run, to be shown."""
        self._hooks = list(loaded.hooks)
        self._run = run
        self._environ = {**environ, **dict.fromkeys(PROJECT_VARIABLES, project_dir)}
        self._project_dir = project_dir
        self._spent: set[tuple[str, Command]] = set()
        self._lock = threading.Lock()
        self._background: list[tuple[Hook, Future[Ended]]] = []
        self._closing = threading.Event()

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """All that may run, in order."""
        return tuple(self._hooks)

    def close(self) -> None:
        """End the hooks nobody waits for, and wait for that."""
        self._closing.set()
        wait([future for _, future in self._background])

    def _add(self, event: str, function: Callable[..., Any], which: str) -> None:
        if event not in EVENTS:
            raise SettingError(f"There is no hook event {event!r}; the events are {', '.join(EVENTS)}.")
        if not callable(function):
            raise SettingError(f"A hook for {event} must be a function, not {function!r:.60}.")
        self._hooks.append(Hook(event, matcher(which, f"the hook added for {event}"), function, "code"))

    def _meant(self, event: HookInput) -> list[Hook]:
        """The hooks this event is for; the same command is not run twice, nor one again that runs once."""
        name, value = type(event).__name__, event.matched
        meant: dict[object, Hook] = {}
        with self._lock:
            for hook in self._hooks:
                if hook.event != name or not hook.matcher.fits(value):
                    continue
                if not isinstance(hook.does, Command):
                    meant[len(meant)] = hook
                elif (name, hook.does) not in self._spent:
                    meant.setdefault((hook.does.command, hook.does.args), hook)
                    if hook.does.once:
                        self._spent.add((name, hook.does))
        return list(meant.values())

    def _started(self, hooks: Sequence[Hook], event: HookInput, stopped: Callable[[], bool]) -> _Firing:
        """Start the commands; the functions are left to the caller."""
        firing = _Firing(type(event))
        given = b""
        try:
            if any(isinstance(hook.does, Command) for hook in hooks):
                given = encoded(event)
        except (RecursionError, ValueError, TypeError) as error:
            firing.untold = f"what happened cannot be written as JSON ({error})"
        for hook in hooks:
            if not isinstance(hook.does, Command):
                firing.functions.append((Function(hook.label, hook.does), firing.place()))
            elif firing.untold:
                firing.answers[firing.place()] = unasked(type(event), hook.label, firing.untold)
            elif hook.does.background:
                self._background.append((hook, self._thread(hook.does, event, given, self._closing.is_set)))
            else:
                future = self._thread(hook.does, event, given, lambda: firing.stop.is_set() or stopped())
                firing.commands.append((hook, firing.place(), future))
        return firing

    def _thread(
        self, command: Command, event: HookInput, given: bytes, stopped: Callable[[], bool]
    ) -> Future[Ended]:
        program, args = command.command, command.args
        if args is not None:
            program, *rest = (self._placed(word) for word in (program, *args))
            args = tuple(rest)
        seconds = event.rule.seconds if command.seconds is None else command.seconds
        return _in_thread(
            lambda: self._run(
                program,
                args,
                stdin=given,
                cwd=event.cwd,
                environ=self._environ,
                seconds=seconds,
                stopped=stopped,
            )
        )

    def _placed(self, word: str) -> str:
        for name in PROJECT_VARIABLES:
            word = word.replace(f"${{{name}}}", self._project_dir)
        return word

    def _earlier(self) -> list[HookFailure]:
        """Failures of background hooks that have ended since the last time."""
        with self._lock:
            ended = [one for one in self._background if one[1].done()]
            self._background = [one for one in self._background if one not in ended]
        answers = [understood(EVENTS[hook.event], hook.label, future.result()) for hook, future in ended]
        return [HookFailure(one.hook, problem) for one in answers for problem in one.problems]

    def _outcome(self, firing: _Firing) -> HookOutcome:
        for hook, place, future in firing.commands:
            firing.answers[place] = understood(firing.event, hook.label, future.result())
        answers = [firing.answers[place] for place in sorted(firing.answers)]
        return combined(firing.event.__name__, answers, self._earlier())


class Hooks(_Registry):
    """The hooks of a session that waits."""

    def add(self, event: str, function: Callable[..., Any], *, matcher: str = "") -> None:
        """Call a function at an event, where the matcher fits.

        It gets the event's input and returns what a command would print: a mapping for JSON, text, or None.
        """
        if is_async(function):
            raise SettingError(
                f"The hook for {event} is a coroutine function, and this session does not await; "
                "give it a plain function, or use an async session."
            )
        self._add(event, function, matcher)

    def fire(self, event: HookInput, stopped: Callable[[], bool] = _never) -> HookOutcome:
        """Run the hooks this event is for; raises `Aborted` once ``stopped()``, with all commands ended."""
        firing = self._started(self._meant(event), event, stopped)
        try:
            for function, place in firing.functions:
                if not stopped():
                    firing.answers[place] = called(function, event)
            wait(firing.futures)
        except BaseException:
            firing.stop.set()
            wait(firing.futures)
            raise
        if stopped():
            raise Aborted(f"The hooks for {type(event).__name__} were stopped.")
        return self._outcome(firing)


class AsyncHooks(_Registry):
    """The hooks of a session that awaits; cancelling it ends them."""

    def add(self, event: str, function: Callable[..., Any], *, matcher: str = "") -> None:
        """Call a function, plain or coroutine, at an event, where the matcher fits."""
        self._add(event, function, matcher)

    async def fire(self, event: HookInput) -> HookOutcome:
        """Run the hooks this event is for."""
        firing = self._started(self._meant(event), event, _never)
        try:
            answers = await asyncio.gather(*(awaited(function, event) for function, _ in firing.functions))
            await firing.done()
        except BaseException:
            firing.stop.set()
            await firing.done()
            raise
        firing.answers.update(zip((place for _, place in firing.functions), answers, strict=True))
        return self._outcome(firing)


class _Firing:
    """Hooks on their way, and the answers so far by place."""

    def __init__(self, event: type[HookInput]) -> None:
        self.event = event
        self.stop = threading.Event()
        self.untold = ""
        self.functions: list[tuple[Function, int]] = []
        self.commands: list[tuple[Hook, int, Future[Ended]]] = []
        self.answers: dict[int, Answer] = {}
        self._places = 0

    @property
    def futures(self) -> Sequence[Future[Ended]]:
        return [future for _, _, future in self.commands]

    def place(self) -> int:
        self._places += 1
        return self._places

    async def done(self) -> None:
        """All commands have ended."""
        if self.commands:
            await asyncio.wait([asyncio.wrap_future(future) for future in self.futures])


def _in_thread(work: Callable[[], Ended]) -> Future[Ended]:
    """Work in a thread that keeps nobody from leaving."""
    future: Future[Ended] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(work())
        except Exception as error:  # noqa: BLE001 - whoever waits would wait for ever
            future.set_result(Printed(None, problem=f"it could not be run ({error})"))

    try:
        threading.Thread(target=run, name="hook", daemon=True).start()
    except RuntimeError as error:
        future.set_result(Printed(None, problem=f"it could not be run ({error})"))
    return future
