"""Decides what a call that starts an agent starts: of which type, with which model, as a fork or fresh, and where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sevenfold.agent.team import worktree
from sevenfold.agent.team.descent import cheaper_as_fork, model_for
from sevenfold.agent.team.roster import GENERAL, check_agent_name
from sevenfold.agent.team.tools import AgentInput
from sevenfold.conversation.fork import in_agents_fork
from sevenfold.errors import InputError, Refused
from sevenfold.record.decisions import AgentStart
from sevenfold.session.options import unknown

if TYPE_CHECKING:
    from sevenfold.agent.assembly import Assembly
    from sevenfold.agent.team.definitions import AgentDefinition


class Starting:
    """The rules by which one agent starts others."""

    def __init__(self, parent: Assembly, definitions: Mapping[str, AgentDefinition]) -> None:
        self._parent = parent
        self._definitions = definitions

    def work_of(self, task: AgentInput, agent: str, call: str, working: int) -> AgentStart:
        """The work that a task gives to the agent with this id, while ``working`` agents are at work already.

        Raises `InputError` or `Refused`; the message says what to do instead.
        """
        definition = self._definition(task.subagent_type or GENERAL)
        if task.name:
            check_agent_name(task.name)
        fork, reason = self._is_fork(definition, task)
        self.check_room(working)
        model = model_for(self._parent, task.model or definition.model)
        return AgentStart(
            agent=agent,
            name=task.name,
            agent_type=definition.name,
            call=call,
            description=task.description,
            prompt=task.prompt,
            model=self._parent.model if fork else model,
            fork=fork,
            background=task.run_in_background or definition.background,
            because=reason,
            worktree=self._worktree(agent, task.isolation or definition.isolation),
        )

    def would_fork(self, arguments: AgentInput) -> bool:
        """Whether the agent would begin with this conversation; False if it could not be started at all."""
        try:
            return self._is_fork(self._definition(arguments.subagent_type or GENERAL), arguments)[0]
        except (InputError, Refused):
            return False  # the call itself says what is wrong

    def check_room(self, working: int) -> None:
        """Raise `Refused` if no further agent may be started here."""
        settings = self._parent.store.settings.current()
        depth = self._parent.descent.depth if self._parent.descent else 0
        if depth >= settings.agent_depth:
            raise Refused(
                f"Agents may start agents only {settings.agent_depth} deep. Do the work yourself, or report what is "
                "left."
            )
        if working >= settings.agents_at_once:
            raise Refused(
                f"{settings.agents_at_once} agents are working already, which is the limit. Wait for one to end."
            )

    def _definition(self, kind: str) -> AgentDefinition:
        """The type with this name; raises `InputError` if a definition of this agent or its parents excludes it."""
        definitions = self._parent.descent.definitions if self._parent.descent else ()
        limits = [definition.agents for definition in definitions if definition.agents is not None]
        allowed = [name for name in self._definitions if all(name in limit for limit in limits)]
        if kind not in allowed:
            raise InputError(unknown("type of agent", kind, allowed))
        return self._definitions[kind]

    def _is_fork(self, definition: AgentDefinition, task: AgentInput) -> tuple[bool, str]:
        """Return whether the agent is a fork of this conversation, and why."""
        if definition.fork is None:
            return cheaper_as_fork(self._parent, model_for(self._parent, task.model or definition.model))
        if not definition.fork:
            return False, "its definition says so"
        if in_agents_fork(self._parent.store.log):
            raise Refused(
                "This is a fork, and a fork cannot be forked. Use the type general, and put what it must know into the "
                "prompt."
            )
        if task.model and model_for(self._parent, task.model) != self._parent.model:
            raise InputError("a fork uses the model of its parent; leave out model")
        return True, "its definition says so"

    def _worktree(self, agent: str, isolation: str | None) -> str:
        if isolation is None:
            return ""
        if not self._parent.trusted:
            raise Refused("a working copy is made only in a folder the user trusts")
        return worktree.add(self._parent.workspace, self._parent.home.scratch / "worktrees" / agent)
