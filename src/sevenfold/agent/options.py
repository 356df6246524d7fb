"""What an agent can be made with, and where it keeps things."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypedDict, get_args

from msgspec import Struct

from sevenfold.agent.executor import Consent
from sevenfold.agent.permissions.engine import Mode
from sevenfold.agent.standard_tools import background_folder
from sevenfold.agent.tools.context import AskUser
from sevenfold.events import Listener
from sevenfold.ports import Clock, Ids
from sevenfold.request.sections import SystemPrompt
from sevenfold.session.options import one_of
from sevenfold.settings import Source

FITTING = MappingProxyType({"mode": (one_of(*get_args(Mode)), f"one of {', '.join(get_args(Mode))}")})
"""Options that only an agent has, checked as those of a session are."""


class AgentOptions(TypedDict, total=False):
    """What an agent can be made with besides its model."""

    tools: Iterable[Any] | None
    """Functions and tools; None: the standard tools."""
    name: str | None
    """Under which it is kept, to be continued; None: it is kept nowhere."""
    folder: str | Path
    """The workspace."""
    mode: Mode
    """``ask``, ``accept_edits``, ``plan`` or ``autonomous``; ``ask`` unless an earlier run left another one."""
    rules: Mapping[str, Sequence[str]] | None
    """Permission rules under ``allow``, ``ask`` and ``deny``."""
    consent: Consent | None
    """Decides what the user has to decide; None: it is refused."""
    ask: AskUser | None
    """Puts the model's questions to the user."""
    hooks: Any
    """`Hooks`, or `AsyncHooks` for an agent that is awaited."""
    mentions: bool
    """Are files read that a prompt mentions as ``@path``, and put beside it? Not unless it is said."""
    mcp: Any
    """Servers whose tools it may use: by name, as a configuration has them, or a `McpServers`."""
    max_turns: int | None
    """Requests in one run."""
    max_usd: float | None
    """Dollars in the whole session."""
    max_output_tokens: int | None
    """Tokens written by the model in one run."""
    max_tokens: int
    """Tokens of one answer."""
    client: Any
    """A client of an official SDK, or one of ours; without one the environment decides who answers."""
    system: str | SystemPrompt | None
    """The system prompt, in place of the standard one."""
    guidance: str | None
    """What the model is to know besides, in the standard prompt."""
    settings: Mapping[str, object] | Source | None
    """What overrides the settings in files and environment, or where all of them come from."""
    listen: Iterable[Listener]
    """Called with every event of the engine; they may veto what is proposed."""
    thinking: Mapping[str, Any] | None
    source: Literal["main", "sdk"]
    """On whose behalf requests are made: a user at a terminal, or a program."""
    clock: Clock | None
    ids: Ids | None
    """Names records; random ones unless a run is to be repeatable to the byte."""


class Place(Struct, frozen=True):
    """Where an agent keeps things."""

    folder: Path
    results: Path
    """Results that were too big for the context."""
    passing: bool
    """Whether it is to go when the agent is closed."""

    @property
    def state(self) -> Path:
        """How things stand."""
        return self.folder / "state.json"

    @property
    def plan(self) -> Path:
        """The plan's file."""
        return self.folder / "plan.md"

    @property
    def tasks(self) -> Path:
        """Output of commands in the background."""
        return background_folder(self.folder)

    @property
    def scratch(self) -> Path:
        """For what need not last."""
        return self.folder / "scratch"

    def remove(self) -> None:
        """Take it away, if it was only for this process."""
        if self.passing:
            shutil.rmtree(self.folder, ignore_errors=True)
