"""The handler of jobs that run agents."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Mapping
from contextlib import aclosing, closing
from typing import Any

import msgspec
from msgspec import Struct

from sevenfold.agent.agent import Agent, AsyncAgent
from sevenfold.agent.agent_events import AgentEvent, Ended, Finished
from sevenfold.errors import InputError
from sevenfold.jobs import JobStopped, RunningJob
from sevenfold.plugins import AGENTS, plugins
from sevenfold.ports import Store
from sevenfold.record.authorship import UserPrompt

MakeAgent = Callable[..., Agent | AsyncAgent]
"""Makes the agent of a session; called with the options ``name`` and ``store``, with ``branch`` for a run in a fork,
and with the options that were submitted. It passes them on: ``Agent("claude-sonnet-5-5", tools=[…], **options)``."""
StoreFor = Callable[[RunningJob], Store | str | None]
"""Where the sessions of a job's tenant are."""
Watch = Callable[[RunningJob, AgentEvent], None]
"""Called with every event of every run, in the thread of the run."""


class RunPayload(Struct, frozen=True):
    """What a job that runs an agent is given."""

    agent: str
    prompt: UserPrompt
    options: dict[str, Any] = msgspec.field(default_factory=dict)


class AgentRuns:
    """Runs agents; a `sevenfold.jobs.Handler`.

    The job's key is the key of the run. So a run of another worker continues where the log of the session ends,
    and one whose end is in the log already is not carried out again.
    """

    def __init__(
        self,
        store: StoreFor,
        agents: Mapping[str, MakeAgent] | None = None,
        watch: Watch | None = None,
    ) -> None:
        """``agents`` are known by name, besides those of installed packages."""
        self._store = store
        self._agents = dict(agents or {})
        self._watch = watch

    def __call__(self, running: RunningJob) -> Any:
        """Run the agent; returns how the run ended."""
        try:
            payload = msgspec.convert(running.job.spec.payload, RunPayload)
        except msgspec.ValidationError as error:
            raise InputError(f"this is no run of an agent: {error}") from error
        spec = running.job.spec
        make = agent_maker(payload.agent, self._agents)
        options = {**payload.options, "name": spec.session, "store": self._store(running)}
        if spec.branch:
            options["branch"] = spec.branch
        agent = make(**options)
        if isinstance(agent, AsyncAgent):
            finished = asyncio.run(self._run_async(agent, running, payload.prompt))
        else:
            finished = self._run(agent, running, payload.prompt)
        if finished.end == "interrupted" and running.stopping is not None:
            raise JobStopped(finished.detail)
        return msgspec.to_builtins(finished)

    def _run(self, agent: Agent, running: RunningJob, prompt: UserPrompt) -> Finished:
        with agent:
            running.when_stopped(lambda: _obey(agent, running))
            with closing(agent.stream(prompt, key=running.job.key)) as events:
                for event in events:
                    self._report(agent, running, event)
        assert isinstance(event, Ended)
        return event.finished

    async def _run_async(self, agent: AsyncAgent, running: RunningJob, prompt: UserPrompt) -> Finished:
        async with agent:
            running.when_stopped(lambda: _obey(agent, running))
            async with aclosing(agent.stream(prompt, key=running.job.key)) as events:
                async for event in events:
                    self._report(agent, running, event)
        assert isinstance(event, Ended)
        return event.finished

    def _report(self, agent: Agent | AsyncAgent, running: RunningJob, event: AgentEvent) -> None:
        if self._watch is not None:
            self._watch(running, event)
        if running.stopping is not None:
            # Again: the first time may have been before the run began.
            _obey(agent, running)


def _obey(agent: Agent | AsyncAgent, running: RunningJob) -> None:
    """Stop the agent's run in the way that fits the reason."""
    if running.stopping in ("shutdown", "lost"):
        # An interrupt would be recorded as the user's, and the model would take that for a wish when the run continues.
        agent.pause()
    if running.stopping != "shutdown":
        agent.interrupt()


def agent_maker(name: str, makers: Mapping[str, MakeAgent]) -> MakeAgent:
    """The function that makes the agents of this name; raises `InputError` if there is none.

    A job cannot name any other function: who may submit jobs may not choose what code runs.
    """
    if name in makers:
        return makers[name]
    for plugin in plugins(AGENTS, name):
        make: MakeAgent | None = plugin.load()
        if make is not None:
            return make
    names = sorted({*makers, *(plugin.name for plugin in plugins(AGENTS))})
    raise InputError(
        f"no agent is called {name!r} here; known are {', '.join(names) or 'none'}. Give the worker a function that "
        f"makes it, or install a package with an entry point of this name in the group {AGENTS}"
    )


def imported_maker(name: str) -> MakeAgent:
    """The function that ``module:function`` names; raises `InputError` if there is none."""
    module, _, function = name.partition(":")
    try:
        make: Any = importlib.import_module(module)
        for attribute in function.split("."):
            make = getattr(make, attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"the agent {name!r} cannot be imported: {error}; write module:function"
        ) from error
    if not callable(make):
        raise InputError(f"{name!r} is no function that makes an agent, but a {type(make).__name__}")
    checked_make: MakeAgent = make
    return checked_make
