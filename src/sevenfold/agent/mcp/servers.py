"""The MCP servers of a session: their tools, their instructions, and keeping an agent up to date with both.

The model sees a snapshot of the servers, taken when an agent is created and again before each of its turns. A server
that connects late, or changes its tools, is announced in the conversation; earlier messages do not change. A server
that goes away keeps its tools: calls fail with the reason, which costs less than a changed prompt.

Connections run on one event loop in a separate thread, for sync and async callers. The SDK is loaded in that thread,
because that takes a second.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.agent.mcp.approval import ServerApproval, server_digest
from sevenfold.agent.mcp.config import McpConfig, load_config
from sevenfold.agent.mcp.connection import Connection, Progress, ServerState
from sevenfold.agent.mcp.deferred import Deferral, toolbox
from sevenfold.agent.mcp.tools import McpTool, ToolListing, usable_tools
from sevenfold.agent.prompt import SectionSource
from sevenfold.agent.slots import AnnouncedSlot
from sevenfold.agent.texts import McpInstructions, McpServer
from sevenfold.agent.tools.tool import Tool, Toolbox
from sevenfold.conversation.provider_edits import protect_results
from sevenfold.errors import InputError, Refused
from sevenfold.record.blocks import is_deferred
from sevenfold.request.frame import Frame, tool_name
from sevenfold.request.sections import SystemPrompt
from sevenfold.stores.trust import Trust, user_folder

if TYPE_CHECKING:
    from sevenfold.agent.executor import Executor
    from sevenfold.conversation.conversation import Conversation

PAUSES = (0.5, 2.0, 8.0, 30.0)
"""Seconds to wait before each restart of a server that went away; after the last one it is not restarted."""
CLOSING = 10.0
"""Seconds to wait for all servers to end."""
WAIT_SECONDS = 5.0
"""How long an agent waits for its servers before it starts without the slow ones."""


class Snapshot(Struct, frozen=True):
    """The tools and instructions of all servers at one moment."""

    tools: tuple[McpTool, ...] = ()
    instructions: Mapping[str, str] = {}
    revisions: tuple[int, ...] = ()


class McpServers:
    """The MCP servers of a session. Close them when done."""

    def __init__(
        self,
        config: McpConfig,
        *,
        environ: Mapping[str, str] | None = None,
        pauses: Sequence[float] = PAUSES,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        if config.servers and find_spec("mcp") is None:
            raise InputError(
                "MCP servers need the official SDK; install it with: pip install 'sevenfold[mcp]'"
            )
        self._config = config
        self.wait_seconds = wait_seconds
        """How long an agent waits for slow servers before it starts."""
        self.taken = Snapshot()
        """The last snapshot, which is what the model sees."""
        self._left_out: list[str] = []
        self._changed = threading.Condition()
        environ = dict(os.environ if environ is None else environ)
        self._environ = environ
        self._agreed: set[tuple[str, str]] = set()
        """The projects' servers that the user agreed to, each with its digest."""
        self._connections: dict[str, Connection] = {}
        for server in config.servers:
            if server.name in self._connections:
                raise InputError(
                    f"two MCP servers are called {server.name!r}; give one of them another name"
                )
            self._connections[server.name] = Connection(server, environ, tuple(pauses), self._notify)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._closed = not self._connections
        if self._connections:
            self._loop, self._stop = asyncio.new_event_loop(), asyncio.Event()
            self._thread = threading.Thread(target=self._work, daemon=True, name="sevenfold-mcp")
            self._thread.start()
            # Otherwise a server that does not exit by itself would outlive a program that forgets to call close.
            atexit.register(self.close)

    @classmethod
    def of(
        cls,
        servers: Mapping[str, Any] | None = None,
        folder: Path | str = ".",
        *,
        environ: Mapping[str, str] | None = None,
        files: bool = True,
    ) -> Self:
        """Start the servers in ``servers`` and, with ``files``, those of the user and of the folder if it is trusted.

        Raises `InputError` for any problem in ``servers``; problems in files are listed in `problems`.
        """
        environ = os.environ if environ is None else environ
        return cls(load_config(servers, Path(folder).resolve(), environ, files=files), environ=environ)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- queries --------------------------------------------------------------------------------

    def states(self) -> list[ServerState]:
        """Return the current state of every server."""
        return [connection.now() for connection in self._connections.values()]

    @property
    def problems(self) -> tuple[str, ...]:
        """Why configured servers, or tools that servers list, cannot be used."""
        return (*self._config.problems, *self._left_out)

    def tools(self, wait_seconds: float | None = None) -> list[Tool]:
        """Return the tools of a new snapshot, after waiting up to ``wait_seconds`` for servers to connect."""
        self.wait(self.wait_seconds if wait_seconds is None else wait_seconds)
        return list(self.take().tools)

    def wait(self, seconds: float, settled: Callable[[Sequence[ServerState]], bool] | None = None) -> bool:
        """Wait until no server is connecting, or until ``settled(states)``; return whether that happened in time."""
        done = settled or (lambda states: all(state.status != "connecting" for state in states))
        with self._changed:
            return not self._connections or self._changed.wait_for(lambda: done(self.states()), seconds)

    def take(self) -> Snapshot:
        """Take a snapshot of the servers' current tools and instructions."""
        states = self.states()
        revisions = tuple(state.revision for state in states)
        if revisions != self.taken.revisions:
            listed = {state.name: self._listing(state) for state in states}
            left_out = []
            for name, listing in listed.items():
                left_out += [f"{name}: {problem}" for problem in listing.problems]
            self._left_out = left_out
            self.taken = Snapshot(
                tuple(chain.from_iterable(listing.tools for listing in listed.values())),
                {state.name: state.instructions for state in states if state.instructions.strip()},
                revisions,
            )
        return self.taken

    def _listing(self, state: ServerState) -> ToolListing:
        """The usable tools of a server; with the user's agreement to it, if a project brings it."""
        listing = usable_tools(state.name, state.tools, partial(self._call, state.name))
        server = next(server for server in self._config.servers if server.name == state.name)
        if not server.project:
            return listing
        digest = server_digest(server, listing.tools, state.instructions)
        approval = ServerApproval(server, digest, Trust(user_folder(self._environ)), self._agreed)
        for tool in listing.tools:
            tool.approval = approval
        return listing

    def section(self) -> SectionSource:
        """Return the section of the system prompt with the servers' instructions."""
        return SectionSource.of(McpInstructions, lambda: McpInstructions.of(self.taken.instructions))

    # -- actions --------------------------------------------------------------------------------

    def restart(self, name: str) -> None:
        """Restart a server, whatever its state; raises `InputError` for an unknown one."""
        if not self._connections:
            return
        if name not in self._connections:
            raise InputError(f"there is no MCP server {name!r}; there are: {', '.join(self._connections)}")
        self._submit(self._restart(name)).result()

    def close(self) -> None:
        """End all servers, and everything they started."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(CLOSING)

    def _call(
        self, server: str, tool: str, arguments: Mapping[str, Any], progress: Progress
    ) -> Future[Mapping[str, Any]]:
        """Start a call; the future has the protocol's result, or raises `Refused`. Cancelling it stops the call."""
        return self._submit(self._connections[server].call(tool, arguments, progress))

    def _submit(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        if self._closed:
            work.close()
            raise Refused("the MCP servers were closed; open the session again to use them")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    # -- in the thread --------------------------------------------------------------------------

    def _work(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        for name, connection in self._connections.items():
            self._tasks[name] = asyncio.create_task(connection.run())
        await self._stop.wait()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _restart(self, name: str) -> None:
        task = self._tasks.pop(name, None)
        if task is None:
            # The server has not been started yet, and is about to be.
            return
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        self._connections[name].reset()
        self._tasks[name] = asyncio.create_task(self._connections[name].run())

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()


class McpUpdater(Struct, eq=False):
    """Keeps an agent up to date with its servers; called before each of its turns."""

    servers: McpServers
    own: Sequence[Tool]
    """The agent's tools that do not belong to a server."""
    conversation: Conversation
    executor: Executor
    deferral: Deferral = Deferral()
    """When and how the servers' tools are found by a search."""
    prompt: Callable[[], SystemPrompt] | None = None
    """Computes the standard prompt; None if the caller supplied its own prompt."""
    seen: Snapshot = Snapshot()
    announced: dict[str, str] = {}
    """The server instructions that the model has seen, in the prompt or in the conversation."""

    def __post_init__(self) -> None:
        self.seen = self.servers.taken
        self.announced = dict(self.seen.instructions) if self.prompt is not None else {}

    def __call__(self) -> None:
        """Announce what has changed since the last call."""
        current = self.servers.take()
        previous = self.seen
        if current == previous:
            return
        self.seen = current
        with self.conversation.lock:
            self._retool(toolbox(self.own, current.tools, self.deferral, self._sent()))
            announced = previous.instructions.items()
            instructions = current.instructions.items()
            self._instruct({name: text for name, text in instructions if (name, text) not in announced})

    def _sent(self) -> set[str] | None:
        """The tools that the provider has to find; None if nothing was sent yet, so that all can be."""
        if not len(self.conversation.transcript.view):
            return None
        tools = self.conversation.epoch.frame.tools
        return {tool_name(raw) for raw in tools if is_deferred(raw)}

    def _retool(self, box: Toolbox) -> None:
        conversation, kinds = self.conversation, self.conversation.kinds
        self.executor.box = box
        kinds.update({name: kind for name, kind in box.kinds().items() if name not in kinds})
        wanted = conversation.epoch.wanted
        tools = Frame.of(wanted.model, wanted.max_tokens, tools=box.schemas()).tools
        conversation.want(replace(wanted, tools=tools))
        protect_results(conversation)

    def _instruct(self, news: Mapping[str, str]) -> None:
        """Add late instructions: to the prompt if the conversation is empty, otherwise as a note in it."""
        conversation = self.conversation
        if self.prompt is not None and not len(conversation.transcript.view):
            conversation.want(conversation.epoch.wanted.with_system(self.prompt()))
        elif announcement := McpInstructions.of(news):
            conversation.note(announcement.render())
        self.announced.update(news)

    def slot(self) -> AnnouncedSlot:
        """The slot that restores server instructions after a compaction, unless prompt or kept messages have them."""
        return AnnouncedSlot(
            "servers",
            "mcp_instructions_delta",
            lambda: self.announced,
            lambda name, words: McpServer(name, words).render(),
            McpInstructions.of,
            lambda names, blocks, text: {"addedNames": names, "addedBlocks": blocks, "removedNames": []},
        )
