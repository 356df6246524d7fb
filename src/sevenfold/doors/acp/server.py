"""Answers an editor's requests: to open, load and list sessions, and to work on a message or cancel it.

Agents block, so each request that reaches one runs in a thread; the event loop stays free.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import acp
from acp import schema
from msgspec import Struct

from sevenfold import __version__
from sevenfold.agent.agent import Agent
from sevenfold.agent.executor import ConsentFunction
from sevenfold.doors.acp import session, updates
from sevenfold.doors.acp.session import EditorSession
from sevenfold.errors import ModelError, SevenfoldError

MOST_SESSIONS = 64
"""How many conversations may be open at the same time."""
INVALID_PARAMS = -32602
"""The code of JSON-RPC; the helper of the protocol's library for it takes no message of our own."""
R = TypeVar("R")


class EditorSessionRequest(Struct, frozen=True):
    """Which session an editor wants to open, and how."""

    folder: Path
    name: str = ""
    """The session to continue; empty for a new one."""
    servers: dict[str, dict[str, Any]] = {}
    """MCP servers by name, configured as in files."""
    roots: tuple[Path, ...] = ()
    """Further folders that count as the workspace."""


class OpenedAgent(Struct, frozen=True):
    """An agent, and the name of its session."""

    agent: Agent
    name: str
    close: Callable[[], None]


class ListedSession(Struct, frozen=True):
    """A session that can be loaded."""

    name: str
    title: str
    updated: str
    """When it was last written to, in ISO 8601."""


class AgentSource(Struct, frozen=True):
    """Where agents and stored sessions come from."""

    open: Callable[[EditorSessionRequest, ConsentFunction], OpenedAgent]
    """Open an agent; raises a `SevenfoldError` if that is not possible."""
    stored: Callable[[Path], Sequence[ListedSession]]
    """The sessions of a folder, the newest first."""


class EditorAgent:
    """Answers the requests of one editor; see `acp.Agent`."""

    def __init__(self, source: AgentSource, *, max_sessions: int = MOST_SESSIONS) -> None:
        self._source = source
        self._max_sessions = max_sessions
        self._sessions: dict[str, EditorSession] = {}
        self._opening = 0
        """How many sessions are being opened; they count as open."""
        self._threads = ThreadPoolExecutor(max_sessions, "sevenfold-acp")
        self._editor: acp.Client | None = None

    def on_connect(self, conn: acp.Client) -> None:
        """Remember the editor, to which events are sent."""
        self._editor = conn

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: schema.ClientCapabilities | None = None,
        client_info: schema.Implementation | None = None,
        **kwargs: Any,
    ) -> schema.InitializeResponse:
        """Declare our capabilities."""
        return schema.InitializeResponse(
            protocol_version=min(protocol_version, acp.PROTOCOL_VERSION),
            agent_info=schema.Implementation(name="sevenfold", title="Sevenfold", version=__version__),
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=schema.PromptCapabilities(embedded_context=True),
                mcp_capabilities=schema.McpCapabilities(http=True, sse=True),
                session_capabilities=schema.SessionCapabilities(
                    list=schema.SessionListCapabilities(),
                    additional_directories=schema.SessionAdditionalDirectoriesCapabilities(),
                ),
            ),
        )

    async def authenticate(self, method_id: str, **kwargs: Any) -> None:
        """Refuse: keys come from the environment."""
        raise acp.RequestError.invalid_params({"method_id": method_id})

    async def new_session(
        self,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[Any] | None = None,
        **kwargs: Any,
    ) -> schema.NewSessionResponse:
        """Open a new conversation."""
        opened = await self._open(_request(cwd, "", additional_directories, mcp_servers))
        modes = updates.modes_of(opened.agent.grants.mode)
        return schema.NewSessionResponse(session_id=opened.name, modes=modes)

    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: list[Any] | None = None,
        additional_directories: list[str] | None = None,
        **kwargs: Any,
    ) -> schema.LoadSessionResponse:
        """Continue a recorded conversation, and show it."""
        if session_id in self._sessions:
            await self._close(session_id)
        opened = await self._open(_request(cwd, session_id, additional_directories, mcp_servers))
        await self._in_thread(opened.replay)
        return schema.LoadSessionResponse(modes=updates.modes_of(opened.agent.grants.mode))

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **kwargs: Any
    ) -> schema.ListSessionsResponse:
        """List the conversations of a folder, by default of ours."""
        folder = _folder(cwd) if cwd else Path.cwd()
        stored = await self._in_thread(partial(self._source.stored, folder))
        listed = [
            schema.SessionInfo(
                session_id=stored_session.name,
                cwd=str(folder),
                title=stored_session.title,
                updated_at=stored_session.updated,
            )
            for stored_session in stored
        ]
        return schema.ListSessionsResponse(sessions=listed)

    async def set_session_mode(
        self, session_id: str, mode_id: str, **kwargs: Any
    ) -> schema.SetSessionModeResponse:
        """Change the permission mode."""
        with _errors_of_protocol():
            self._session(session_id).set_mode(mode_id)
        return schema.SetSessionModeResponse()

    async def prompt(self, session_id: str, prompt: list[Any], **kwargs: Any) -> schema.PromptResponse:
        """Work on a message; answers when the work has ended."""
        chosen = self._session(session_id)
        with _errors_of_protocol():
            message = updates.prompt_of(prompt, chosen.folder)
            if chosen.agent.running:
                raise acp.RequestError.invalid_request({"reason": "the agent still works on a message"})
            chosen.begin()
            finished = await self._in_thread(partial(chosen.run, message))
        return schema.PromptResponse(stop_reason=updates.stop_reason(finished))

    async def cancel(self, session_id: str, **kwargs: Any) -> None:
        """Stop the work on the current message."""
        if (chosen := self._sessions.get(session_id)) is not None:
            chosen.cancel()

    async def close(self) -> None:
        """Close all conversations: the editor is gone."""
        for name in list(self._sessions):
            await self._close(name)
        self._threads.shutdown()

    # -- sessions ----------------------------------------------------------------------------

    def _session(self, name: str) -> EditorSession:
        try:
            return self._sessions[name]
        except KeyError:
            raise acp.RequestError.resource_not_found(f"session {name}") from None

    async def _open(self, request: EditorSessionRequest) -> EditorSession:
        if self._editor is None:
            raise acp.RequestError.invalid_request({"reason": "there is no connection"})
        if len(self._sessions) + self._opening >= self._max_sessions:
            reason = f"{self._max_sessions} sessions are open, which is the limit; restart the agent to close them"
            raise acp.RequestError.invalid_request({"reason": reason})
        # Created before its agent, because the agent asks for permission through it.
        fresh = EditorSession(request.name, request.folder, self._editor, asyncio.get_running_loop())
        # Counted before anything is awaited: an editor may ask for several sessions at once.
        self._opening += 1
        try:
            with _errors_of_protocol():
                opened = await self._in_thread(partial(self._source.open, request, fresh.consent))
        finally:
            self._opening -= 1
        fresh.agent = opened.agent
        fresh.name = opened.name
        fresh.close = opened.close
        self._sessions[opened.name] = fresh
        return fresh

    async def _close(self, name: str) -> None:
        closing = self._sessions.pop(name)
        closing.cancel()
        await self._in_thread(closing.close)

    async def _in_thread(self, work: Callable[[], R]) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


@contextmanager
def _errors_of_protocol() -> Iterator[None]:
    """Raise our errors as errors of the protocol, with the same messages."""
    try:
        yield
    except ModelError as error:
        raise session.error_of(error) from error
    except SevenfoldError as error:
        raise acp.RequestError(INVALID_PARAMS, str(error)) from error


def _request(
    cwd: str, name: str, roots: Sequence[str] | None, servers: Sequence[Any] | None
) -> EditorSessionRequest:
    return EditorSessionRequest(
        _folder(cwd), name, dict(map(_server, servers or ())), tuple(map(_folder, roots or ()))
    )


def _folder(cwd: str) -> Path:
    path = Path(cwd)
    if not path.is_absolute() or not path.is_dir():
        raise acp.RequestError(INVALID_PARAMS, f"{cwd}: must be the absolute path of a folder")
    return path.resolve()


def _server(server: Any) -> tuple[str, dict[str, Any]]:
    """An MCP server that the editor names, configured as in our files."""
    if isinstance(server, schema.McpServerStdio):
        variables = {variable.name: variable.value for variable in server.env}
        return server.name, {"command": server.command, "args": server.args, "env": variables}
    if isinstance(server, schema.HttpMcpServer | schema.SseMcpServer):
        headers = {header.name: header.value for header in server.headers}
        return server.name, {"type": server.type, "url": server.url, "headers": headers}
    raise acp.RequestError(
        INVALID_PARAMS, "servers within the editor are not supported; name a command or an address"
    )


def serve(source: AgentSource) -> None:
    """Serve an editor over standard input and output until it goes away."""
    asyncio.run(_serve(source))


async def _serve(source: AgentSource) -> None:
    agent = EditorAgent(source)
    try:
        # Requests for which there is no method here are answered as the protocol says, so not all have to exist.
        await acp.run_agent(cast("acp.Agent", agent))
    finally:
        await agent.close()
