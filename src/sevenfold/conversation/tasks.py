"""The background tasks of a conversation, in one list: the engine's own work, and tasks that others add.

A task that fails never raises into the conversation: its outcome is in the list, and in an event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from math import ceil
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.conversation.flow import TICK, Effect, Flow, Signal, translated
from sevenfold.errors import Aborted, InputError
from sevenfold.ports import Clock, Reply
from sevenfold.profiles import find
from sevenfold.record.usage import Usage

if TYPE_CHECKING:
    from sevenfold.conversation.background import Runner

R = TypeVar("R")
TaskState = Literal["working", "input_required", "completed", "failed", "cancelled"]
"""The task states of MCP."""
STATES: Mapping[str, TaskState] = MappingProxyType(
    {
        "running": "working",
        "completed": "completed",
        "failed": "failed",
        "killed": "cancelled",
        "gone": "failed",
    }
)
"""Maps the states of commands and dreams to task states."""
LONGEST = 900.0
"""Seconds after which the engine's own tasks are stopped."""
KEPT = 20
"""How many ended tasks of the engine stay listed."""
KILLED = "it was stopped"
TOOK_TOO_LONG = "it took too long"


class Task(Struct, frozen=True, omit_defaults=True):
    """A running or ended background task."""

    id: str
    kind: str
    """``notes``, ``summary``, ``memory``, ``dream``, ``command`` or ``agent``."""
    name: str
    """The display name: what it does, or the command."""
    state: TaskState
    started: float | None = None
    """Seconds since 1970; None if unknown."""
    progress: str = ""
    """What it does now, or how it ended, in a few words."""
    usd: float | None = None
    """What it has cost; None if that is unknown, or if it costs nothing."""
    output: str = ""
    """The file with a command's output or an agent's transcript."""

    @property
    def over(self) -> bool:
        """Whether the task has ended."""
        return self.state not in ("working", "input_required")


class TaskSource(Protocol):
    """Adds tasks to the list."""

    def tasks(self) -> Iterable[Task]:
        """The tasks of this source, in the order in which they were started."""

    def kill(self, task: str) -> object:
        """Stop one of the tasks; the return value is ignored."""


class TaskRegistry:
    """The tasks of a conversation."""

    def __init__(self, clock: Clock) -> None:
        self.sources: list[TaskSource] = []
        """Sources of tasks other than the engine's own."""
        self._clock = clock
        self._numbers = count(1)
        self._own: dict[str, _Work] = {}

    def __iter__(self) -> Iterator[Task]:
        for work in list(self._own.values()):
            yield work.task
        for source in self.sources:
            yield from source.tasks()

    @property
    def running(self) -> list[Task]:
        """The tasks that have not ended."""
        return [task for task in self if not task.over]

    def get(self, task: str) -> Task:
        """A task by its id; raises `InputError` if there is no such task."""
        for listed in self:
            if listed.id == task:
                return listed
        ids = ", ".join(listed.id for listed in self)
        raise InputError(
            f"there is no task {task!r}" + (f"; there are: {ids}" if ids else "; none has been started")
        )

    def find(self, wanted: str) -> Task:
        """A task by its id, its name, or how its name begins; raises `InputError` if none or several fit."""
        tasks = list(self)
        exact = [task for task in tasks if task.id == wanted]
        if exact:
            return exact[0]
        beginning = wanted.casefold()
        fitting = [task for task in tasks if task.name.casefold().startswith(beginning)]
        if len(fitting) > 1:
            # What has ended is rarely meant while something of the same name runs.
            fitting = [task for task in fitting if not task.over] or fitting
        if len(fitting) == 1:
            return fitting[0]
        if not fitting:
            return self.get(wanted)
        raise InputError(f"several tasks are called {wanted!r}: {', '.join(task.id for task in fitting)}")

    def kill(self, task: str) -> Task:
        """Stop a task and return it; an ended one stays unchanged. A model call in flight is still paid for."""
        if self.get(task).over:
            return self.get(task)
        if task in self._own:
            self._own[task].stop(KILLED)
        else:
            next(
                source for source in self.sources if task in {running.id for running in source.tasks()}
            ).kill(task)
        return self.get(task)

    def wait(self, task: str, seconds: float) -> Task:
        """Wait until a task has ended, at most this long, and return it."""
        for _ in range(ceil(seconds / TICK)):
            if self.get(task).over:
                break
            Signal().wait(TICK)
        return self.get(task)

    def run(
        self,
        flow: Flow[R],
        done: Callable[[R | Exception], None],
        kind: str,
        runner: Runner,
        shortfall: Callable[[R], str] | None = None,
    ) -> None:
        """Run a flow of the engine in the background as a task of this kind; without a kind it is not listed.

        ``shortfall`` says why nothing came of a result, so that the task counts as failed; it is empty otherwise.
        """
        if not kind:
            runner(flow, done)
            return
        work = _Work(
            Task(f"{kind}-{next(self._numbers)}", kind, kind, "working", self._clock.now()), self._clock
        )
        for task_id in [name for name, owned in self._own.items() if owned.task.over][:-KEPT]:
            del self._own[task_id]
        self._own[work.task.id] = work

        def ended(outcome: R | Exception) -> None:
            if isinstance(outcome, Exception):
                work.end(str(outcome) or type(outcome).__name__)
            else:
                work.end(shortfall(outcome) if shortfall is not None else "")
            done(outcome)

        runner(work.watched(flow), ended)


class _Work:
    """A task of the engine, with its time limit."""

    def __init__(self, task: Task, clock: Clock) -> None:
        self.task = task
        self._clock = clock
        self._until = clock.now() + LONGEST
        self._stopped = ""

    def stop(self, why: str) -> None:
        self._stopped = self._stopped or why
        self.task = replace(
            self.task, state="failed" if why == TOOK_TOO_LONG else "cancelled", progress=why
        )

    def end(self, failure: str) -> None:
        """End the task, unless it has been stopped; ``failure`` says why nothing came of it, empty if something did."""
        if failure and not self.task.over:
            self.task = replace(self.task, state="failed", progress=" ".join(failure.split())[:200])
        elif not self.task.over:
            self.task = replace(self.task, state="completed")

    def watched(self, flow: Flow[R]) -> Flow[R]:
        """Wrap a flow so that it adds up its cost, and ends at its next step once the task was stopped or timed out."""

        def step(effect: Effect) -> Flow[Any]:
            outcome = yield effect
            answer = outcome.answer if isinstance(outcome, Reply) else None
            if answer is not None:
                cost = Usage.read(answer.usage).cost(find(answer.model))
                self.task = replace(self.task, usd=None if cost is None else (self.task.usd or 0.0) + cost)
            if self._clock.now() > self._until:
                self.stop(TOOK_TOO_LONG)
            if self._stopped:
                raise Aborted(self._stopped, partial=answer)
            return outcome

        return translated(flow, step)
