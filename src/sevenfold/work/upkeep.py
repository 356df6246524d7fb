"""The handlers of jobs that keep sessions and memory in order: notes, lasting facts, dreams.

Runs of agents do all of this by themselves. These jobs are for sessions that were killed before they could, and for
doing it at a fixed hour.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import Struct

from sevenfold.agent.agent import Agent
from sevenfold.clock import SystemClock
from sevenfold.conversation.flow import drive
from sevenfold.errors import InputError, ProviderFailed
from sevenfold.jobs import RunningJob
from sevenfold.layers.compact.summary.draft import Failure
from sevenfold.layers.notes.layer import keeper_of
from sevenfold.memory.consolidation import dream
from sevenfold.ports import Client
from sevenfold.session.factory import memory_in
from sevenfold.stores.registry import open_store
from sevenfold.work.agents import MakeAgent, StoreFor, agent_maker
from sevenfold.work.running import Retry

NOTES = "notes"
MEMORY = "memory"
DREAM = "dream"


class UpkeepPayload(Struct, frozen=True):
    """What a job is given that works with a session's agent."""

    agent: str


class DreamPayload(Struct, frozen=True):
    """What a job is given that tidies memory."""

    user: bool = False
    """Whether the memory of the store's end user is meant, and not the project's."""


class SessionUpkeep:
    """Opens the agent of a session for the work it does between runs."""

    def __init__(self, store: StoreFor, agents: Mapping[str, MakeAgent] | None = None) -> None:
        self._store = store
        self._agents = dict(agents or {})

    def notes(self, running: RunningJob) -> Any:
        """Bring the notes of the session up to date; asks no model if they cover it already."""
        with self._opened(running) as agent:
            conversation = agent.session.conversation
            keeper = keeper_of(conversation)
            if keeper is None:
                raise InputError("notes are switched off for this agent; switch the setting notes on")
            if agent.session.notes() is not None and keeper.covered() == conversation.transcript.view.tip:
                return {"updated": False}
            update = drive(keeper.update(), cast(Client, agent.assembly.client), guard=conversation.lock)
            if isinstance(update, Failure):
                raise ProviderFailed(f"the notes could not be updated and are unchanged: {update.detail}")
            keeper.store(update)
        return {"updated": True}

    def memory(self, running: RunningJob) -> Any:
        """Look for lasting facts in what was said and not looked at yet: closing a session does that."""
        self._opened(running).close()

    def dream(self, running: RunningJob) -> Any:
        """Tidy memory by fixed rules, without a model; returns what was done."""
        user = _payload(running, DreamPayload).user
        store_url = self._store(running)
        if store_url is None:
            raise InputError(
                "these jobs have no store whose memory could be tidied; name one where jobs are opened"
            )
        store = open_store(store_url)
        try:
            memory = memory_in(store.user_memory() if user else store.memory(), SystemClock())
            lock = memory.folder.dream_lock()
            if not lock.take(SystemClock.now()):
                raise Retry("another process is tidying this memory", counts=True)
            try:
                consolidation = dream(memory, goes_on=lambda: running.stopping is None)
            except BaseException:
                lock.fail()
                raise
            lock.finish(SystemClock.now())
        finally:
            if store is not store_url:
                store.close()
        return {"done": list(consolidation.done), "proposed": list(consolidation.proposed)}

    def _opened(self, running: RunningJob) -> Agent:
        spec = running.job.spec
        make = agent_maker(_payload(running, UpkeepPayload).agent, self._agents)
        options = {"name": spec.session, "store": self._store(running)}
        if spec.branch:
            options["branch"] = spec.branch
        agent = make(**options)
        if not isinstance(agent, Agent):
            raise InputError(
                "jobs beside an agent's runs need an Agent, and its function makes an AsyncAgent"
            )
        return agent


def _payload(running: RunningJob, kind: type[Any]) -> Any:
    try:
        return msgspec.convert(running.job.spec.payload, kind)
    except msgspec.ValidationError as error:
        raise InputError(f"this is no job of the kind {running.job.spec.kind}: {error}") from error
