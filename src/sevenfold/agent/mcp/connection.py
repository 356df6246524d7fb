"""The life of one MCP server: connecting, listing its tools, calling them, and restarting it when it goes away.

Everything runs on the event loop of `sevenfold.agent.mcp.servers.McpServers`. Failures of a server are not raised: they
show in its state, and a call to an unavailable server fails with the reason.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.agent.mcp.config import Server
from sevenfold.agent.mcp.transport import LogTail, http_streams, stdio_streams
from sevenfold.errors import Refused

if TYPE_CHECKING:
    from mcp import Client
    from mcp.shared.dispatcher import ProgressFnT

Progress = Callable[[str], None]
Status = Literal["connecting", "ready", "failed", "closed"]

MOST_TOOLS = 1000
MOST_PAGES = 100
LISTING_PAUSE = 1.0
"""Minimum seconds between two listings of a server's tools, however often it announces changes."""
ENDING = 6.0
"""Seconds to wait for a server to end."""
_CLOSED = -32000
"""The SDK's error code for a connection that closed during a request."""


class ServerState(Struct, frozen=True, kw_only=True):
    """The state of a server."""

    name: str
    where: str
    status: Status = "connecting"
    tools: tuple[Mapping[str, Any], ...] = ()
    """The tools it lists, unchecked; kept while it is disconnected, so that its tools stay listed."""
    instructions: str = ""
    problem: str = ""
    """Why it is not ready, or why it last failed."""
    log: str = ""
    """The end of its log: standard error, and output that is not a message."""
    restarts: int = 0
    revision: int = 0
    """A counter that grows when its tools or instructions change."""


class Connection:
    """Keeps one server connected. Only `now` may be called outside the event loop's thread."""

    def __init__(
        self,
        server: Server,
        environ: Mapping[str, str],
        pauses: tuple[float, ...],
        changed: Callable[[], None],
    ) -> None:
        self.state = ServerState(name=server.name, where=server.where)
        self._server = server
        self._environ = environ
        self._pauses = pauses
        self._changed = changed
        self._client: Client | None = None
        self._failures = 0
        self._settled = asyncio.Event()
        self._wake = asyncio.Event()
        self._gone = self._was_ready = False
        self._tail = LogTail()

    def now(self) -> ServerState:
        """Return the state of the server, with its log up to now."""
        return replace(self.state, log=self._tail.text() or self.state.log)

    def reset(self) -> None:
        """Return to the initial state, but keep the tools."""
        self._failures = 0
        self._become("connecting", restarts=0)

    async def run(self) -> None:
        """Start the server and restart it when it goes away, until it fails for good or this is cancelled."""
        try:
            while True:
                was_ready, problem = await self._session()
                may_retry = was_ready or self._server.url
                if not may_retry or self._failures >= len(self._pauses):
                    self._become("failed", problem=problem)
                    self._settled.set()
                    return
                self._become("connecting", problem=problem, restarts=self.state.restarts + 1)
                await asyncio.sleep(self._pauses[self._failures])
                self._failures += 1
        except asyncio.CancelledError:
            self._become("closed")
            raise

    async def call(self, tool: str, arguments: Mapping[str, Any], progress: Progress) -> Mapping[str, Any]:
        """Call one tool and return its result; raises `Refused` with the reason if that fails."""
        from mcp.shared.exceptions import MCPError
        from pydantic import ValidationError

        client = await self._ready()
        name = self._server.name
        limit = self._server.call_seconds
        try:
            async with asyncio.timeout(limit):
                result = await client.call_tool(tool, dict(arguments), progress_callback=_report(progress))
        except TimeoutError:
            raise Refused(f"{name} did not answer within {limit:g} s and was asked to stop.") from None
        except MCPError as error:
            if client is not self._client or error.code == _CLOSED:
                if client is self._client:
                    self._on_disconnect()
                raise Refused(self._lost()) from error
            self._list_again()
            raise Refused(f"{name} refused the call: {_short(error)}") from error
        except ValidationError as error:
            raise Refused(f"{name} returned an invalid answer: {_short(error)}") from error
        except Exception as error:
            self._list_again()
            raise Refused(f"{name} could not be asked: {_short(error)}") from error
        self._failures = 0
        answer: dict[str, Any] = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        return answer

    async def _ready(self) -> Client:
        """Wait for the server and return its client; raises `Refused` if it does not become ready."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._settled.wait(), self._server.startup_seconds)
        if self._client is None:
            raise Refused(
                f"The MCP server {self._server.name} is not available ({self.state.problem or self.state.status}). "
                "Do without it, or tell the user."
            )
        return self._client

    def _lost(self) -> str:
        log = self._tail.text()[-500:]
        return (
            f"The MCP server {self._server.name} disconnected during the call; its effects so far remain."
            + (f" Its last output: {log}" if log else "")
        )

    # -- from start to end ----------------------------------------------------------------------

    async def _session(self) -> tuple[bool, str]:
        """Run the server once; return whether it was ever ready, and why it ended."""
        self._settled.clear()
        self._wake.clear()
        self._gone, self._was_ready, self._tail = False, False, LogTail()
        life = asyncio.create_task(self._serve())
        settled = asyncio.create_task(self._settled.wait())
        late = False
        limit = self._server.startup_seconds
        try:
            await asyncio.wait((life, settled), timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            late = not self._was_ready and not life.done()
            if not late:
                await asyncio.wait((life,))
        finally:
            settled.cancel()
            life.cancel()
            await asyncio.wait((life,), timeout=ENDING)
            self._block_calls()
            error = life.exception() if life.done() and not life.cancelled() else None
        if late:
            return False, f"it did not answer within {limit:g} s"
        return self._was_ready, _short(error) if error is not None else "it disconnected"

    async def _serve(self) -> None:
        async with self._connected() as client:
            await self._list(client)
            self._client = client
            self._was_ready = True
            self._become("ready", instructions=client.instructions or "", problem="")
            self._settled.set()
            following = asyncio.create_task(self._follow(client))
            try:
                while True:
                    await self._wake.wait()
                    self._wake.clear()
                    if self._gone:
                        return
                    async with asyncio.timeout(self._server.startup_seconds):
                        await self._list(client)
                    await asyncio.sleep(LISTING_PAUSE)
            finally:
                following.cancel()
                await asyncio.wait((following,))

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[Client, None]:
        from mcp import Client

        async with Client(self._transport(), message_handler=self._hear, cache=None) as client:
            # Results are shown unchanged, so validating them against the server's own schema gains nothing, and a
            # regular expression in that schema could block this process forever.
            client.session.validate_tool_result = _accept  # type: ignore[method-assign]  # the only way past it
            yield client

    def _transport(self) -> AbstractAsyncContextManager[Any]:
        if self._server.url:
            return http_streams(self._server)
        return stdio_streams(self._server, self._environ, self._tail, self._on_disconnect)

    async def _list(self, client: Client) -> None:
        """Fetch the server's list of tools and put it into the state."""
        listed: list[Mapping[str, Any]] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            if client.server_capabilities.tools is None:
                break
            page = await client.list_tools(cursor=cursor)
            listed += [
                tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in page.tools
            ]
            cursor = page.next_cursor
            if not cursor or len(listed) >= MOST_TOOLS:
                break
        self._become(self.state.status, tools=tuple(listed[:MOST_TOOLS]))

    async def _hear(self, message: object) -> None:
        from mcp_types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification):
            self._list_again()

    async def _follow(self, client: Client) -> None:
        """Subscribe to tool changes, which servers of the newer protocol announce only to subscribers."""
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
        from mcp.shared.exceptions import MCPError

        with contextlib.suppress(ListenNotSupportedError, MCPError, TimeoutError):
            while True:
                try:
                    async with client.listen(tools_list_changed=True) as changes:
                        async for _ in changes:
                            self._list_again()
                        return
                except SubscriptionLost:
                    self._list_again()
                    await asyncio.sleep(LISTING_PAUSE)

    # -- state ----------------------------------------------------------------------------------

    def _list_again(self) -> None:
        self._wake.set()

    def _on_disconnect(self) -> None:
        self._gone = True
        self._block_calls()
        self._wake.set()

    def _block_calls(self) -> None:
        """Make new calls wait until the server is ready again."""
        self._client = None
        self._settled.clear()

    def _become(self, status: Status, **changes: Any) -> None:
        old_state = self.state
        log = self._tail.text() or old_state.log
        new_state = replace(old_state, status=status, log=log, **changes)
        if (new_state.tools, new_state.instructions) != (old_state.tools, old_state.instructions):
            new_state = replace(new_state, revision=old_state.revision + 1)
        self.state = new_state
        self._changed()


async def _accept(name: str, result: object) -> None:
    return None


def _report(report_line: Progress) -> ProgressFnT:
    async def report(progress: float, total: float | None, message: str | None) -> None:
        share = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
        report_line(f"{message or ''} {share}".strip() + "\n")

    return report


def _short(error: BaseException) -> str:
    """Return the message of an error, or of the first in a group, as one short line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    message = " ".join(str(error).split()) or type(error).__name__
    return message if len(message) <= 300 else f"{message[:300]}…"
