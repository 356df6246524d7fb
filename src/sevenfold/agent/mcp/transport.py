"""The transports for the MCP SDK: a child process, or HTTP.

A child process exchanges one JSON message per line. It has its own process group, and is ended together with everything
it started, however the connection ends; the SDK's own client guarantees neither. Its environment is small, without the
API keys of ours. Standard error, and output that is not a message, go to its log; a line too long to be a message ends
the connection. HTTP means streamable HTTP, with responses limited in size so that they cannot fill the memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import IO, TYPE_CHECKING

from sevenfold.agent.interrupt import in_own_thread
from sevenfold.agent.mcp.config import Server
from sevenfold.agent.programs import ChildProcess, end
from sevenfold.conversation.step_thread import await_end
from sevenfold.errors import Refused

if TYPE_CHECKING:
    import httpx2
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage

    Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
    Outgoing = MemoryObjectSendStream[SessionMessage]
    _Received = MemoryObjectSendStream[SessionMessage | Exception]
    _ToSend = MemoryObjectReceiveStream[SessionMessage]

MOST_BYTES = 32 * 1024 * 1024
"""The size of the largest message."""
EXIT_SECONDS = 1.0
"""Seconds that a server has to exit by itself after its input is closed."""
GENTLY = 0.5
"""Seconds that it has to exit after it is then asked to terminate, before it is killed."""
PASSED_ON = (
    *("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
)
"""Environment variables that every server gets."""


class LogTail:
    """The end of a server's output."""

    MOST = 4096

    def __init__(self) -> None:
        self._tail = b""

    def add(self, chunk: bytes) -> None:
        """Append output, and drop the oldest beyond the limit."""
        self._tail = (self._tail + chunk)[-self.MOST :]

    def text(self) -> str:
        """Return the kept output."""
        return self._tail.decode(errors="replace").strip()


# -- child processes -------------------------------------------------------------------------------


@asynccontextmanager
async def stdio_streams(
    server: Server, environ: Mapping[str, str], tail: LogTail, gone: Callable[[], None]
) -> AsyncGenerator[tuple[Incoming, Outgoing], None]:
    """Start a child process and yield streams to it; ``gone`` is called when it stops writing or reading."""
    import anyio

    child = _Child(server, environ)
    received, incoming = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
    outgoing, to_send = anyio.create_memory_object_stream["SessionMessage"](0)
    with received, incoming, outgoing, to_send:
        async with anyio.create_task_group() as tasks:
            try:
                await child.connect()
                tasks.start_soon(_listen, child.output, received, tail, gone)
                tasks.start_soon(_speak, child.input, to_send, gone)
                tasks.start_soon(_log, child.errors, tail)
                yield incoming, outgoing
            finally:
                try:
                    with anyio.CancelScope(shield=True):
                        leaving = asyncio.ensure_future(child.leave())
                        await await_end(leaving)
                        leaving.result()
                finally:
                    tasks.cancel_scope.cancel()


class _Child(ChildProcess):
    """The child process, with its pipes as asyncio streams."""

    input: asyncio.StreamWriter
    output: asyncio.StreamReader
    errors: asyncio.StreamReader

    def __init__(self, server: Server, environ: Mapping[str, str]) -> None:
        self._reading: list[asyncio.ReadTransport] = []
        self._writing: list[asyncio.WriteTransport] = []
        passed_on = {name: environ[name] for name in PASSED_ON if name in environ}
        argv = [server.command, *server.args]
        child_environ = {**passed_on, **server.env}
        try:
            super().__init__(
                argv, cwd=server.cwd or ".", environ=child_environ, stdin=b"", separate_stderr=True
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise Refused(f"{server.command} cannot be started: {reason}") from error

    async def connect(self) -> None:
        """Connect its pipes to the event loop."""
        loop = asyncio.get_running_loop()
        self.output = await self._reader(self.child.stdout, MOST_BYTES)
        self.errors = await self._reader(self.child.stderr, LogTail.MOST)
        transport, flow = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), self.child.stdin
        )
        self._writing.append(transport)
        self.input = asyncio.StreamWriter(transport, flow, None, loop)

    async def _reader(self, pipe: IO[bytes] | None, limit: int) -> asyncio.StreamReader:
        reader = asyncio.StreamReader(limit)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        self._reading.append(transport)
        return reader

    async def leave(self) -> None:
        """Close its input, which tells a server to exit, and make sure that it and everything it started end."""
        for transport in self._writing:
            if not transport.is_closing():
                transport.abort()
        await asyncio.wrap_future(in_own_thread(self._end))
        for reading in self._reading:
            reading.close()
        self.__exit__(None)

    def _end(self) -> None:
        self._alive.all_gone(EXIT_SECONDS)
        end(self.child, self.mark, self._alive, gently=GENTLY)


async def _listen(
    output: asyncio.StreamReader, received: _Received, tail: LogTail, gone: Callable[[], None]
) -> None:
    """Forward the child's messages until it closes its output."""
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    try:
        while line := await output.readline():
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                tail.add(line)
                continue
            await received.send(SessionMessage(message))
    except ValueError:
        tail.add(f"\n(a message of more than {MOST_BYTES:,} bytes)\n".encode())
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError):
        pass
    finally:
        received.close()
        gone()


async def _speak(output: asyncio.StreamWriter, to_send: _ToSend, gone: Callable[[], None]) -> None:
    """Forward messages to the child, as fast as it reads them."""
    try:
        async for outgoing in to_send:
            output.write(
                outgoing.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
            )
            await output.drain()
    except OSError:
        gone()


async def _log(errors: asyncio.StreamReader, tail: LogTail) -> None:
    while chunk := await errors.read(LogTail.MOST):
        tail.add(chunk)


# -- HTTP ------------------------------------------------------------------------------------------


@asynccontextmanager
async def http_streams(server: Server) -> AsyncGenerator[TransportStreams, None]:
    """Connect to a server's URL and yield streams to it."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    # No read timeout here: the caller limits how long a call may take.
    timeout = httpx2.Timeout(server.startup_seconds, read=None)
    headers = {**server.headers, "accept-encoding": "identity"}
    client = httpx2.AsyncClient(headers=headers, timeout=timeout, event_hooks={"response": [_bound]})
    async with (
        client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=MOST_BYTES) as streams,
    ):
        yield streams


async def _bound(response: httpx2.Response) -> None:
    """Limit the size of a response; raises if it is compressed, because the limit counts bytes as received."""
    import httpx2

    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx2.ReadError("the answer is compressed, though that was not asked for")
    whole = response.stream
    # A stream of events may be endless; the size of each event is limited separately.
    events = response.headers.get("content-type", "").startswith("text/event-stream")
    if isinstance(whole, httpx2.AsyncByteStream) and not events:
        response.stream = _bounded(whole)


def _bounded(whole: httpx2.AsyncByteStream) -> httpx2.AsyncByteStream:
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        """The same stream, with an error if it exceeds the limit."""

        async def __aiter__(self) -> AsyncIterator[bytes]:
            received = 0
            async for chunk in whole:
                received += len(chunk)
                if received > MOST_BYTES:
                    raise httpx2.ReadError(f"the answer has more than {MOST_BYTES:,} bytes")
                yield chunk

        async def aclose(self) -> None:
            await whole.aclose()

    return Bounded()
