"""The server: it listens, and serves each connection until it ends."""

from __future__ import annotations

import asyncio
import secrets
import ssl
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

from sevenfold.doors.addresses import BACKLOG, is_loopback, listening
from sevenfold.doors.gateway.guard import TOKEN_PREFIX, Guard
from sevenfold.doors.gateway.recorder import Recorder
from sevenfold.doors.gateway.relay import PIECE, Handling, Relay, SharedParts
from sevenfold.doors.gateway.upstreams import Upstreams

STOPPING_SECONDS = 5.0
"""How long connections that are still open may take to end when the gateway stops."""


class Gateway:
    """A gateway in a thread of its own; use it as a context manager."""

    def __init__(
        self,
        recorder: Recorder,
        upstreams: Upstreams,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str = "",
        handling: Handling | None = None,
    ) -> None:
        """With a ``host`` that other machines reach, there is always a token; by default a new one."""
        if not is_loopback(host):
            token = token or secrets.token_urlsafe(24)
        self._recorder = recorder
        self._handling = handling or Handling()
        self._upstreams = upstreams
        self._listener = listening(host, port)
        self.port: int = self._listener.getsockname()[1]
        self._host = host
        self._guard = Guard(host, self.port, token)
        self._loop = asyncio.new_event_loop()
        self._connections: set[asyncio.Task[None]] = set()
        self._secure: ssl.SSLContext | None = None
        self._thread = threading.Thread(target=self._serve, name="gateway", daemon=True)
        self._stop: asyncio.Event | None = None
        self._ready = threading.Event()

    @property
    def url(self) -> str:
        """The address for Anthropic's clients; OpenAI's need ``/v1`` behind it."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        token = f"{TOKEN_PREFIX}{self._guard.token}" if self._guard.token else ""
        return f"http://{host}:{self.port}{token}"

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving, and record what has passed."""
        if self._stop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._recorder.close()

    def wait(self) -> None:
        """Wait until the gateway is stopped."""
        self._thread.join()

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._main())

    async def _main(self) -> None:
        self._stop = asyncio.Event()
        if self._upstreams.anthropic.secure or self._upstreams.openai.secure:
            self._secure = ssl.create_default_context()
        server = await asyncio.start_server(
            self._connected, sock=self._listener, limit=4 * PIECE, backlog=BACKLOG
        )
        self._ready.set()
        async with server:
            await self._stop.wait()
            server.close()
            for connection in self._connections:
                connection.cancel()
            if self._handling.broker is not None:
                await self._handling.broker.close()
            if self._connections:
                await asyncio.wait(self._connections, timeout=STOPPING_SECONDS)
            await asyncio.sleep(0)  # closed sockets are let go of in the next round of the loop

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
        shared = SharedParts(self._guard, self._upstreams, self._secure, self._handling)
        relay = Relay(reader, writer, shared, self._recorder.passage(), self._recorder.passage)
        with suppress(asyncio.CancelledError):
            await relay.run()
