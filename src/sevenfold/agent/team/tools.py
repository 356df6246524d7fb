"""The tools with which a model starts, lists and stops agents, and the progress display of a working agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from sevenfold.agent.agent_events import AgentEvent, ToolBegan
from sevenfold.agent.permissions.rules import PermissionRequest
from sevenfold.agent.team.messages import SendMessageTool
from sevenfold.agent.team.roster import GENERAL
from sevenfold.agent.tools.output import ToolOutput
from sevenfold.agent.tools.tool import Input, NoInput, ServiceTool, Tool
from sevenfold.errors import Refused

if TYPE_CHECKING:
    from sevenfold.agent.team.team import Team
    from sevenfold.agent.tools.context import Context
    from sevenfold.conversation.flow import Flow

TeamSource = Callable[[], "Team"]
"""Returns the team of the agent that has a tool; a function, because tools are created before the team."""


class AgentInput(Struct, forbid_unknown_fields=True):
    """What an agent is to do.

    Args:
        description: The task in 3 to 5 words.
        prompt: The task, with everything the agent must know and report.
        subagent_type: The type of agent; general if left out.
        model: Its model; left out: that of its type, or yours.
        run_in_background: Go on meanwhile; its result comes as a message.
        name: A name to address it by.
    """

    description: Annotated[str, Meta(min_length=1, max_length=200)]
    prompt: Annotated[str, Meta(min_length=1)]
    subagent_type: str = ""
    model: str = ""
    run_in_background: bool = False
    name: str = ""
    isolation: Annotated[
        Literal["worktree"] | None,
        Meta(description="worktree: it works on its own copy of the last commit."),
    ] = None


class AgentTool(ServiceTool[AgentInput, TeamSource]):
    """Starts an agent."""

    concurrent = True

    def __init__(self, team: TeamSource, types: str) -> None:
        """``types`` lists the types of agents, if the system prompt does not."""
        super().__init__(team)
        self.description = "\n\n".join(filter(None, (self.description, types)))

    def requires(self, arguments: AgentInput, context: Context) -> PermissionRequest:
        """Need no approval for the start itself, unless it costs much: the agent's calls are checked separately."""
        team = self.service()
        spends = team.prices.question() if team.would_fork(arguments) else ""
        return PermissionRequest(self.name, subject=arguments.subagent_type or GENERAL, spends=spends)

    def permitted(self) -> None:
        """The user agreed to the price, for all agents that this answer starts."""
        self.service().prices.agree()

    def act(self, arguments: AgentInput, context: Context) -> ToolOutput:
        """Raise `Refused`: an agent can only run as part of another agent's flow."""
        raise Refused("an agent can be started only by an agent at work")

    def flow(self, arguments: Input, context: Context) -> Flow[ToolOutput]:
        """Start the agent; if it runs in the foreground, wait for its result."""
        team = self.service()
        entry = team.start(self._typed(arguments), context.call)
        if not entry.started.background:
            return team.call_output((yield from team.work(entry, context.progress)))
        if entry.ended is None:
            team.launch(entry)
        return ToolOutput(team.started(entry))


class ListAgentsTool(ServiceTool[NoInput, TeamSource]):
    """Lists agents."""

    def act(self, arguments: NoInput, context: Context) -> ToolOutput:
        """Return every agent with its state."""
        return ToolOutput(self.service().listing())


class TaskStopInput(Struct, forbid_unknown_fields=True):
    """What to stop.

    Args:
        task_id: The id or name of an agent.
    """

    task_id: Annotated[str, Meta(min_length=1)]


class TaskStopTool(ServiceTool[TaskStopInput, TeamSource]):
    """Stops an agent."""

    def act(self, arguments: TaskStopInput, context: Context) -> ToolOutput:
        """Stop the agent; its effects so far remain."""
        entry = self.service().stop(arguments.task_id)
        if entry.ended is not None:
            return ToolOutput(f"{entry.label} had ended already: {entry.status}.")
        return ToolOutput(f"{entry.label} is stopped; what it has done stays done.")


def team_tools(team: TeamSource, types: str) -> list[Tool]:
    """Return the tools of an agent that may start others; for ``types``, see `AgentTool`."""
    send = SendMessageTool(lambda: team().post)
    return [AgentTool(team, types), ListAgentsTool(team), TaskStopTool(team), send]


class ProgressSink:
    """Reports a sub-agent's tool calls as progress of the call that started it."""

    def __init__(self, progress: Callable[[str], None]) -> None:
        self._progress = progress

    def put(self, event: AgentEvent) -> None:
        """Report a line for each tool call."""
        if isinstance(event, ToolBegan):
            arguments = event.call.input if isinstance(event.call.input, Mapping) else {}
            subject = next((argument for argument in arguments.values() if isinstance(argument, str)), "")
            self._progress(f"{event.call.name} {' '.join(subject.split())[:80]}\n")
