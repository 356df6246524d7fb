"""Connections to MCP servers, on one event loop in a thread of its own, for sync and async callers.

Each server has a task that starts it, asks what it can do, follows its announcements of changes, and starts it again
when it goes away. Nothing a server does is raised: `Connections.states` says how each is doing, and a call to one
that is not there fails with the reason. The SDK is loaded in the thread, because that takes a second.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.agent.mcp.config import HttpServer, Server, StdioServer
from sevenfold.agent.mcp.transport import LogTail, http_streams, stdio_streams
from sevenfold.errors import InputError, Refused

if TYPE_CHECKING:
    from mcp import Client
    from mcp.shared.dispatcher import ProgressFnT

Progress = Callable[[str], None]
Status = Literal["connecting", "ready", "failed", "closed"]

MOST_TOOLS = 1000
MOST_PAGES = 100
LISTING_PAUSE = 1.0
"""Seconds between two listings of a server's tools, however often it says that they have changed."""
ENDING = 6.0
"""Seconds in which a server must have ended."""
PAUSES = (0.5, 2.0, 8.0, 30.0)
"""Seconds before a server that went away is started again; after the last it is left alone."""
CLOSING = 10.0
"""Seconds in which all servers must have ended."""
_CLOSED = -32000
"""The SDK's code for a connection that ended during a request."""


class ServerState(Struct, frozen=True, kw_only=True):
    """How a server is doing."""

    name: str
    where: str
    status: Status = "connecting"
    tools: tuple[Mapping[str, Any], ...] = ()
    """What it lists, unchecked; kept while it is away, so that its tools stay listed."""
    instructions: str = ""
    problem: str = ""
    """Why it is not ready, or was not."""
    log: str = ""
    """The end of what it printed on its error output."""
    restarts: int = 0
    revision: int = 0
    """Grows when its tools or instructions change."""


class Connection:
    """Keeps one server connected. Everything but `now` belongs to the event loop's thread."""

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
        """How the server is doing, with what it printed up to now."""
        return replace(self.state, log=self._tail.text() or self.state.log)

    def reset(self) -> None:
        """Go back to the beginning, but keep its tools."""
        self._failures = 0
        self._become("connecting", restarts=0)

    async def run(self) -> None:
        """Start the server, and start it again when it goes away, until cancelled."""
        try:
            while True:
                was_ready, problem = await self._session()
                if not (was_ready or isinstance(self._server, HttpServer)) or self._failures >= len(
                    self._pauses
                ):
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
        """Make one call; raises `Refused` with what went wrong."""
        from mcp.shared.exceptions import MCPError
        from pydantic import ValidationError

        client, name, most = await self._ready(), self._server.name, self._server.call_seconds
        try:
            async with asyncio.timeout(most):
                result = await client.call_tool(tool, dict(arguments), progress_callback=_report(progress))
        except TimeoutError:
            raise Refused(f"{name} did not answer within {most:g} s, and was told to stop.") from None
        except MCPError as error:
            if client is not self._client or error.code == _CLOSED:
                if client is self._client:
                    self._lose()
                raise Refused(self._lost()) from error
            self._list_again()
            raise Refused(f"{name} refused the call: {_short(error)}") from error
        except ValidationError as error:
            raise Refused(f"{name} gave an answer that is none: {_short(error)}") from error
        except Exception as error:
            self._list_again()
            raise Refused(f"{name} could not be asked: {_short(error)}") from error
        self._failures = 0
        found: dict[str, Any] = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        return found

    async def _ready(self) -> Client:
        """The client, once the server is ready; raises `Refused` if it does not become ready."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._settled.wait(), self._server.startup_seconds)
        if self._client is None:
            raise Refused(
                f"The MCP server {self._server.name} is not there ({self.state.problem or self.state.status}). "
                "Do without it, or tell the user."
            )
        return self._client

    def _lost(self) -> str:
        log = self._tail.text()[-500:]
        return (
            f"The MCP server {self._server.name} went away during the call; what it had done by then is done."
            + (f" It said last: {log}" if log else "")
        )

    # -- from start to end ----------------------------------------------------------------------

    async def _session(self) -> tuple[bool, str]:
        """Run the server once; whether it was ever ready, and why it ended."""
        self._settled.clear()
        self._wake.clear()
        self._gone, self._was_ready, self._tail = False, False, LogTail()
        life = asyncio.create_task(self._serve())
        settled = asyncio.create_task(self._settled.wait())
        late = False
        try:
            await asyncio.wait(
                (life, settled),
                timeout=self._server.startup_seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
            late = not self._was_ready and not life.done()
            if not late:
                await asyncio.wait((life,))
        finally:
            settled.cancel()
            life.cancel()
            await asyncio.wait((life,), timeout=ENDING)
            self._leave()
            error = life.exception() if life.done() and not life.cancelled() else None
        if late:
            return False, f"it did not answer within {self._server.startup_seconds:g} s"
        return self._was_ready, _short(error) if error is not None else "it went away"

    async def _serve(self) -> None:
        async with self._connected() as client:
            await self._list(client)
            self._client, self._was_ready = client, True
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
            # Results are shown as they came, so checking them against the server's own schema gains nothing, and a
            # pattern in it could keep this process busy for ever.
            client.session.validate_tool_result = _accept  # type: ignore[method-assign]  # the only way past it
            yield client

    def _transport(self) -> AbstractAsyncContextManager[Any]:
        match self._server:
            case StdioServer() as program:
                return stdio_streams(program, self._environ, self._tail, self._lose)
            case HttpServer() as server:
                return http_streams(server)

    async def _list(self, client: Client) -> None:
        """List its tools."""
        found: list[Mapping[str, Any]] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            if client.server_capabilities.tools is None:
                break
            page = await client.list_tools(cursor=cursor)
            found += [one.model_dump(by_alias=True, mode="json", exclude_none=True) for one in page.tools]
            cursor = page.next_cursor
            if not cursor or len(found) >= MOST_TOOLS:
                break
        self._become(self.state.status, tools=tuple(found[:MOST_TOOLS]))

    async def _hear(self, message: object) -> None:
        from mcp_types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification):
            self._list_again()

    async def _follow(self, client: Client) -> None:
        """Listen for changes, which servers of the newer protocol announce only to listeners."""
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

    def _lose(self) -> None:
        self._gone = True
        self._leave()
        self._wake.set()

    def _leave(self) -> None:
        """Let calls wait from now on, until the server is ready again."""
        self._client = None
        self._settled.clear()

    def _become(self, status: Status, **changes: Any) -> None:
        before = self.state
        log = self._tail.text() or before.log
        after = replace(before, status=status, log=log, **changes)
        if (after.tools, after.instructions) != (before.tools, before.instructions):
            after = replace(after, revision=before.revision + 1)
        self.state = after
        self._changed()


async def _accept(name: str, result: object) -> None:
    return None


def _report(to: Progress) -> ProgressFnT:
    async def report(progress: float, total: float | None, message: str | None) -> None:
        share = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
        to(f"{message or ''} {share}".strip() + "\n")

    return report


def _short(error: BaseException) -> str:
    """The first thing that went wrong, in a line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    words = " ".join(str(error).split()) or type(error).__name__
    return words if len(words) <= 300 else f"{words[:300]}…"


class Connections:
    """Servers under their names."""

    def __init__(
        self,
        servers: Iterable[Server],
        *,
        environ: Mapping[str, str] | None = None,
        pauses: Sequence[float] = PAUSES,
    ) -> None:
        if find_spec("mcp") is None:
            raise InputError(
                "MCP servers need the official SDK; install it with: pip install 'sevenfold[mcp]'"
            )
        self._changed = threading.Condition()
        self._connections: dict[str, Connection] = {}
        for server in servers:
            if server.name in self._connections:
                raise InputError(
                    f"two MCP servers are called {server.name!r}; give one of them another name"
                )
            self._connections[server.name] = Connection(
                server, dict(os.environ if environ is None else environ), tuple(pauses), self._notify
            )
        self._loop = asyncio.new_event_loop()
        self._tasks: list[asyncio.Task[None]] = []
        self._stop = asyncio.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._work, daemon=True, name="sevenfold-mcp")
        self._thread.start()
        # A server that does not end by itself would outlive a program that forgets to close.
        atexit.register(self.close)

    # -- looking --------------------------------------------------------------------------------

    def states(self) -> list[ServerState]:
        """How every server is doing now."""
        return [connection.now() for connection in self._connections.values()]

    def wait(self, seconds: float, settled: Callable[[Sequence[ServerState]], bool] | None = None) -> bool:
        """Wait until no server is still connecting, or until ``settled(states)``; whether that came about in time."""
        done, deadline = settled or _none_connecting, time.monotonic() + seconds
        with self._changed:
            return self._changed.wait_for(
                lambda: done(self.states()), max(0.0, deadline - time.monotonic())
            )

    # -- acting ---------------------------------------------------------------------------------

    def call(
        self, name: str, tool: str, arguments: Mapping[str, Any], progress: Progress
    ) -> Future[Mapping[str, Any]]:
        """Begin a call; the future holds the result as the protocol has it, or `Refused`. Cancelling it stops it."""
        return self._submit(self._connections[name].call(tool, arguments, progress))

    def restart(self, name: str) -> None:
        """Start a server again, whatever became of it; raises `InputError` for an unknown one."""
        if name not in self._connections:
            raise InputError(f"there is no MCP server {name!r}; there are: {', '.join(self._connections)}")
        self._submit(self._restarted(self._connections[name])).result()

    def close(self) -> None:
        """End all servers, and everything they started."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(CLOSING)

    # -- in the thread --------------------------------------------------------------------------

    def _submit(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        if self._closed:
            work.close()
            raise Refused("the MCP servers were closed; open the session again to use them")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _work(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._tasks = [asyncio.create_task(one.run()) for one in self._connections.values()]
        await self._stop.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _restarted(self, connection: Connection) -> None:
        place = list(self._connections.values()).index(connection)
        self._tasks[place].cancel()
        await asyncio.gather(self._tasks[place], return_exceptions=True)
        connection.reset()
        self._tasks[place] = asyncio.create_task(connection.run())

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()


def _none_connecting(states: Sequence[ServerState]) -> bool:
    return all(state.status != "connecting" for state in states)
