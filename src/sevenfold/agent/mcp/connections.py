"""Connections to MCP servers, on one event loop in a thread of its own, for callers that wait and callers that await.

Each server has a task that starts it, asks what it can do, follows what it says about changes, and starts it again
when it goes away. Nothing a server does is raised: how it is doing can be looked at (`Connections.states`), and a call
to one that is not there fails with the reason. The SDK is loaded in the thread, because that takes a second.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from importlib.util import find_spec
from typing import Any

from sevenfold.agent.mcp.connection import Connection, Progress
from sevenfold.agent.mcp.server import Server, ServerState
from sevenfold.errors import InputError, Refused

PAUSES = (0.5, 2.0, 8.0, 30.0)
"""Seconds before a server that went away is started again; after the last it is left alone."""
CLOSING = 10.0
"""Seconds in which all servers must have ended."""


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
                server, dict(os.environ if environ is None else environ), tuple(pauses), self._tell
            )
        self._loop = asyncio.new_event_loop()
        self._tasks: list[asyncio.Task[None]] = []
        self._stop = asyncio.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._work, daemon=True, name="sevenfold-mcp")
        self._thread.start()
        # A server that does not leave by itself would outlive a program that forgets to close.
        atexit.register(self.close)

    # -- looking --------------------------------------------------------------------------------

    def states(self) -> list[ServerState]:
        """Every server as it is now."""
        return [connection.now() for connection in self._connections.values()]

    def wait(self, seconds: float, settled: Callable[[Sequence[ServerState]], bool] | None = None) -> bool:
        """Wait until no server is still connecting, or ``settled`` of their states; says whether it came to that."""
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
        """Start a server anew, whatever became of it."""
        if name not in self._connections:
            raise InputError(f"there is no MCP server {name!r}; there are: {', '.join(self._connections)}")
        self._submit(self._restarted(self._connections[name])).result()

    def close(self) -> None:
        """End all servers, and all they started."""
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

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()


def _none_connecting(states: Sequence[ServerState]) -> bool:
    return all(state.status != "connecting" for state in states)
