"""One MCP server from its start to its end, with all its lives in between."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from sevenfold.agent.mcp.http import http
from sevenfold.agent.mcp.process import process
from sevenfold.agent.mcp.server import Address, Program, Server, ServerState, Status, Tail
from sevenfold.errors import Refused

if TYPE_CHECKING:
    from mcp import Client
    from mcp.shared.dispatcher import ProgressFnT

Progress = Callable[[str], None]

MOST_TOOLS = 1000
MOST_PAGES = 100
LISTING_PAUSE = 1.0
"""Seconds between two looks at what a server can do, however often it says that this has changed."""
ENDING = 6.0
"""Seconds in which a server must have ended."""


class Connection:
    """Keeps one server connected. All but `state` belongs to the event loop's thread."""

    def __init__(
        self,
        server: Server,
        environ: Mapping[str, str],
        pauses: tuple[float, ...],
        tell: Callable[[], None],
    ) -> None:
        self.state = ServerState(name=server.name, where=server.where)
        self._server = server
        self._environ = environ
        self._pauses = pauses
        self._tell = tell
        self._client: Client | None = None
        self._failures = 0
        self._settled = asyncio.Event()
        self._woken = asyncio.Event()
        self._gone = self._was_ready = False
        self._tail = Tail()

    def now(self) -> ServerState:
        """How the server is doing, with what it printed up to now."""
        return replace(self.state, log=self._tail.text() or self.state.log)

    def reset(self) -> None:
        """As if it had never been started, but for what it could do."""
        self._failures = 0
        self._become("connecting", restarts=0)

    async def run(self) -> None:
        """Start the server, and start it again when it goes away, until cancelled."""
        try:
            while True:
                was_ready, problem = await self._one_life()
                if not (was_ready or isinstance(self._server, Address)) or self._failures >= len(
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
        """One call; raises `Refused` with what went wrong."""
        from mcp.shared.exceptions import MCPError
        from pydantic import ValidationError

        client, name, most = await self._ready(), self._server.name, self._server.call_seconds
        try:
            async with asyncio.timeout(most):
                result = await client.call_tool(tool, dict(arguments), progress_callback=_told(progress))
        except TimeoutError:
            raise Refused(f"{name} did not answer within {most:g} s, and was told to stop.") from None
        except MCPError as error:
            if client is not self._client or error.code == _CLOSED:
                if client is self._client:
                    self._lose()
                raise Refused(self._lost()) from error
            self._look_again()
            raise Refused(f"{name} refused the call: {_short(error)}") from error
        except ValidationError as error:
            raise Refused(f"{name} gave an answer that is none: {_short(error)}") from error
        except Exception as error:
            self._look_again()
            raise Refused(f"{name} could not be asked: {_short(error)}") from error
        self._failures = 0
        found: dict[str, Any] = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        return found

    async def _ready(self) -> Client:
        """The client, once the server is there."""
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

    # -- one life -------------------------------------------------------------------------------

    async def _one_life(self) -> tuple[bool, str]:
        """From start to end; whether it was ready at some time, and why it ended."""
        self._settled.clear()
        self._woken.clear()
        self._gone, self._was_ready, self._tail = False, False, Tail()
        life = asyncio.create_task(self._live())
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

    async def _live(self) -> None:
        async with self._connected() as client:
            await self._look(client)
            self._client, self._was_ready = client, True
            self._become("ready", instructions=client.instructions or "", problem="")
            self._settled.set()
            following = asyncio.create_task(self._follow(client))
            try:
                while True:
                    await self._woken.wait()
                    self._woken.clear()
                    if self._gone:
                        return
                    async with asyncio.timeout(self._server.startup_seconds):
                        await self._look(client)
                    await asyncio.sleep(LISTING_PAUSE)
            finally:
                following.cancel()
                await asyncio.wait((following,))

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[Client, None]:
        from mcp import Client

        async with Client(self._transport(), message_handler=self._hear, cache=None) as client:
            # Results are shown as they came, so holding them against a schema of the server's own gains nothing,
            # and a pattern in it could keep this process busy for ever.
            client.session.validate_tool_result = _as_it_came  # type: ignore[method-assign]  # the only way past it
            yield client

    def _transport(self) -> AbstractAsyncContextManager[Any]:
        match self._server:
            case Program() as program:
                return process(program, self._environ, self._tail, self._lose)
            case Address() as address:
                return http(address)

    async def _look(self, client: Client) -> None:
        """Ask what it can do."""
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
            self._look_again()

    async def _follow(self, client: Client) -> None:
        """Servers of the newer protocol tell of changes only whoever listens."""
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
        from mcp.shared.exceptions import MCPError

        with contextlib.suppress(ListenNotSupportedError, MCPError, TimeoutError):
            while True:
                try:
                    async with client.listen(tools_list_changed=True) as changes:
                        async for _ in changes:
                            self._look_again()
                        return
                except SubscriptionLost:
                    self._look_again()
                    await asyncio.sleep(LISTING_PAUSE)

    # -- telling --------------------------------------------------------------------------------

    def _look_again(self) -> None:
        self._woken.set()

    def _lose(self) -> None:
        self._gone = True
        self._leave()
        self._woken.set()

    def _leave(self) -> None:
        """Calls wait from now on, until the server is there again."""
        self._client = None
        self._settled.clear()

    def _become(self, status: Status, **changes: Any) -> None:
        before = self.state
        log = self._tail.text() or before.log
        after = replace(before, status=status, log=log, **changes)
        if (after.tools, after.instructions) != (before.tools, before.instructions):
            after = replace(after, revision=before.revision + 1)
        self.state = after
        self._tell()


_CLOSED = -32000
"""How the SDK says that the connection ended under a request."""


async def _as_it_came(name: str, result: object) -> None:
    return None


def _told(tell: Progress) -> ProgressFnT:
    async def told(progress: float, total: float | None, message: str | None) -> None:
        share = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
        tell(f"{message or ''} {share}".strip() + "\n")

    return told


def _short(error: BaseException) -> str:
    """The first thing that went wrong, in a line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    words = " ".join(str(error).split()) or type(error).__name__
    return words if len(words) <= 300 else f"{words[:300]}…"
