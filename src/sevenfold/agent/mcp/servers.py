"""MCP servers in a session: their tools, their instructions, and keeping up with both while an agent works.

What the model is told of servers is a snapshot, taken when an agent is made and again before each of its turns. A
server that connects late, or changes its tools, is announced in the conversation; what was sent before stays as it is.
A server that goes away keeps its tools: calls say that it is not there, which costs less than another prompt.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.agent.executor import Executor
from sevenfold.agent.mcp.config import McpConfig, load_config
from sevenfold.agent.mcp.connection import PAUSES, Connections, ServerState
from sevenfold.agent.mcp.tools import McpTool, ToolListing, usable_tools
from sevenfold.agent.tools.tool import Tool, Toolbox
from sevenfold.conversation import provider_edits as edits
from sevenfold.conversation.conversation import Conversation
from sevenfold.conversation.restore import AnnouncedSlot
from sevenfold.prompts.system import McpInstructions, McpServer
from sevenfold.request.frame import Frame
from sevenfold.request.sections import SectionSource, SystemPrompt

WAIT_SECONDS = 5.0
"""How long an agent waits for its servers before it begins without those that are slow."""


class Snapshot(Struct, frozen=True):
    """What servers offered at one moment."""

    tools: tuple[McpTool, ...] = ()
    instructions: Mapping[str, str] = {}
    revisions: tuple[int, ...] = ()


class McpServers:
    """The MCP servers of a session; whoever makes them closes them."""

    def __init__(
        self,
        config: McpConfig,
        *,
        environ: Mapping[str, str] | None = None,
        pauses: Sequence[float] = PAUSES,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self._config = config
        self.wait_seconds = wait_seconds
        """How long an agent waits for slow servers before it begins."""
        self._connections = (
            Connections(config.servers, environ=environ, pauses=pauses) if config.servers else None
        )
        self._listings: dict[str, tuple[int, ToolListing]] = {}
        self.taken = Snapshot()
        """The last snapshot, which is what the model was told."""

    @classmethod
    def of(
        cls,
        given: Mapping[str, Any] | None = None,
        folder: Path | str = ".",
        *,
        environ: Mapping[str, str] | None = None,
        files: bool = True,
    ) -> Self:
        """The servers code names, and with ``files`` those of the folder, if it is trusted, and of the user."""
        environ = os.environ if environ is None else environ
        return cls(load_config(given, Path(folder).resolve(), environ, files=files), environ=environ)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- looking --------------------------------------------------------------------------------

    def states(self) -> list[ServerState]:
        """Every server as it is now."""
        return self._connections.states() if self._connections else []

    @property
    def problems(self) -> tuple[str, ...]:
        """What was configured, or listed, and cannot be used."""
        left_out = [f"{name}: {one}" for name, (_, made) in self._listings.items() for one in made.problems]
        return (*self._config.problems, *left_out)

    def tools(self, wait_seconds: float | None = None) -> list[Tool]:
        """Take a snapshot, once servers have had this time to connect; its tools."""
        self.wait(self.wait_seconds if wait_seconds is None else wait_seconds)
        return list(self.take().tools)

    def wait(self, seconds: float, settled: Callable[[Sequence[ServerState]], bool] | None = None) -> bool:
        """Wait until no server is still connecting, or ``settled`` of their states; says whether it came to that."""
        return self._connections is None or self._connections.wait(seconds, settled)

    def take(self) -> Snapshot:
        """What servers offer now."""
        states = self.states()
        revisions = tuple(state.revision for state in states)
        if revisions != self.taken.revisions:
            self.taken = Snapshot(
                tuple(tool for state in states for tool in self._tools(state)),
                {state.name: state.instructions for state in states if state.instructions.strip()},
                revisions,
            )
        return self.taken

    def section(self) -> SectionSource:
        """The section of the system prompt with what servers say about their tools."""
        return SectionSource.of(McpInstructions, lambda: McpInstructions.of(self.taken.instructions))

    def _tools(self, state: ServerState) -> Sequence[McpTool]:
        known = self._listings.get(state.name)
        if (known is None or known[0] != state.revision) and self._connections:
            call = partial(self._connections.call, state.name)
            self._listings[state.name] = known = (
                state.revision,
                usable_tools(state.name, state.tools, call),
            )
        return known[1].tools if known else ()

    # -- acting ---------------------------------------------------------------------------------

    def restart(self, name: str) -> None:
        """Start a server anew, whatever became of it."""
        if self._connections:
            self._connections.restart(name)

    def close(self) -> None:
        """End all servers, and all they started."""
        if self._connections:
            self._connections.close()


def together(own: Sequence[Tool], others: Iterable[Tool]) -> Toolbox:
    """An agent's own tools and those of its servers; where two have one name, its own counts."""
    names = {tool.name for tool in own}
    return Toolbox([*own, *(tool for tool in others if tool.name not in names)])


class Following:
    """Keeps an agent in step with its servers; to be called before each of its turns."""

    def __init__(
        self,
        servers: McpServers,
        own: Sequence[Tool],
        core: Conversation,
        executor: Executor,
        prompt: Callable[[], SystemPrompt] | None = None,
    ) -> None:
        self._servers = servers
        self._own = tuple(own)
        self._core = core
        self._executor = executor
        self._prompt = prompt
        self._told = servers.taken
        self.announced: dict[str, str] = dict(servers.taken.instructions) if prompt is not None else {}
        """What the model was told of servers, in the prompt or in the conversation, as they say it now."""

    def __call__(self) -> None:
        """Announce what is new since the last time."""
        now, before = self._servers.take(), self._told
        if now == before:
            return
        self._told = now
        with self._core.lock:
            self._retool(together(self._own, now.tools))
            news = {
                name: words
                for name, words in now.instructions.items()
                if before.instructions.get(name) != words
            }
            self._instruct(news)

    def _retool(self, box: Toolbox) -> None:
        core = exchange = self._core
        self._executor.box = box
        core.kinds.update({name: kind for name, kind in box.kinds().items() if name not in core.kinds})
        wanted = exchange.wanted
        tools = Frame.of(wanted.model, wanted.max_tokens, tools=box.schemas()).tools
        exchange.wanted = replace(wanted, tools=tools)
        self._spare()

    def _spare(self) -> None:
        """Where the provider clears old results by itself, it must not touch those of tools it has not heard of."""
        core = exchange = self._core
        managed = edits.requested_edits(core.profile, core.window, core.settings, core.kinds)
        held = dict(exchange.frame.settings)
        if managed is None or "context_management" not in held:
            return
        made = Frame.of(
            exchange.frame.model, exchange.frame.max_tokens, context_management=managed
        ).settings
        if dict(made)["context_management"] == held["context_management"]:
            return
        settings = tuple(sorted({**held, **dict(made)}.items()))
        exchange.frame = replace(exchange.frame, settings=settings)
        exchange.wanted = replace(exchange.wanted, settings=settings)
        exchange.open_epoch("settings")
        # How a provider shortens what reaches the model is no part of what reasoning is bound to.
        exchange.vouch()

    def _instruct(self, news: Mapping[str, str]) -> None:
        """What servers say that came late: in the prompt if nothing was said yet, else in the conversation."""
        exchange = self._core
        if self._prompt is not None and not len(self._core.transcript.view):
            exchange.wanted = exchange.wanted.saying(self._prompt())
        elif words := McpInstructions.of(news):
            self._core.note(words.render())
        self.announced.update(news)

    def slot(self) -> AnnouncedSlot:
        """Brings back what servers say, where no prompt and no message that stays does."""
        return AnnouncedSlot(
            "servers",
            lambda: self.announced,
            lambda name, words: McpServer(name, words).render(),
            _announcement,
            lambda news: {
                "addedNames": list(news),
                "addedBlocks": [McpServer(name, words).render() for name, words in news.items()],
                "removedNames": [],
            },
            kind="mcp_instructions_delta",
        )


def _announcement(news: Mapping[str, str]) -> str:
    made = McpInstructions.of(news)
    return made.render() if made else ""
