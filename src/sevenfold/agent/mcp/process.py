"""An MCP server as a child process: one JSON message per line, in and out.

The child leads a process group of its own and ends with all it has started, however the conversation ends. Its
environment is small: what else is in ours, keys above all, is none of its business. What it prints on its error
output, or on its output without being a message, goes to its log; a line too long to be one ends the conversation.
"""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import IO, TYPE_CHECKING, Any

from sevenfold.agent.mcp.server import Program, Tail
from sevenfold.agent.processes.tree import Mark, Witness, end
from sevenfold.errors import Refused

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

    Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
    Outgoing = MemoryObjectSendStream[SessionMessage]
    _Said = MemoryObjectSendStream[SessionMessage | Exception]
    _ToSay = MemoryObjectReceiveStream[SessionMessage]

MOST_BYTES = 32 * 1024 * 1024
"""Of one message."""
LEAVING = 1.0
"""Seconds a server gets to leave by itself once its input is closed…"""
GENTLY = 0.5
"""…and once it is told to."""
PASSED_ON = (
    *("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
)
"""Variables every server gets."""


@asynccontextmanager
async def process(
    program: Program, environ: Mapping[str, str], tail: Tail, gone: Callable[[], None]
) -> AsyncGenerator[tuple[Incoming, Outgoing], None]:
    """The streams the SDK talks through; ``gone`` is called when the child says no more."""
    import anyio

    child = _Child(program, environ)
    said, incoming = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
    outgoing, to_say = anyio.create_memory_object_stream["SessionMessage"](0)
    with said, incoming, outgoing, to_say:
        async with anyio.create_task_group() as tasks:
            try:
                await child.connect()
                tasks.start_soon(_listen, child.output, said, tail, gone)
                tasks.start_soon(_speak, child.input, to_say, gone)
                tasks.start_soon(_log, child.errors, tail)
                yield incoming, outgoing
            finally:
                try:
                    with anyio.CancelScope(shield=True):
                        await _to_its_end(child.leave())
                finally:
                    tasks.cancel_scope.cancel()


class _Child:
    """The process, the pipes to it, and what is needed to end it."""

    input: asyncio.StreamWriter
    output: asyncio.StreamReader
    errors: asyncio.StreamReader

    def __init__(self, program: Program, environ: Mapping[str, str]) -> None:
        self._mark, self._witness = Mark(), Witness()
        self._reading: list[asyncio.ReadTransport] = []
        self._writing: list[asyncio.WriteTransport] = []
        kept = {name: environ[name] for name in PASSED_ON if name in environ}
        try:
            self._process = subprocess.Popen(
                [program.command, *program.args],
                cwd=program.cwd,
                env={**kept, **program.env, **self._mark.environ},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
                pass_fds=(self._witness.held,),
            )
        except (OSError, ValueError) as error:
            self._witness.__exit__()
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise Refused(f"{program.command} cannot be started: {why}") from error
        self._witness.let_go()

    async def connect(self) -> None:
        """Take its pipes into the event loop."""
        loop = asyncio.get_running_loop()
        self.output = await self._reader(self._process.stdout, MOST_BYTES)
        self.errors = await self._reader(self._process.stderr, Tail.MOST)
        transport, flow = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), self._process.stdin
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
        """Hang up, which tells a server to leave, and see that it ends with all it started."""
        for transport in self._writing:
            if not transport.is_closing():
                transport.abort()
        await _in_thread(self._end)
        for reading in self._reading:
            reading.close()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        self._witness.__exit__()

    def _end(self) -> None:
        self._witness.all_gone(LEAVING)
        end(self._process, self._mark, self._witness, gently=GENTLY)


async def _listen(output: asyncio.StreamReader, said: _Said, tail: Tail, gone: Callable[[], None]) -> None:
    """Pass on what the child says, message by message, until it says no more."""
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
            await said.send(SessionMessage(message))
    except ValueError:
        tail.add(f"\n(a message of more than {MOST_BYTES:,} bytes)\n".encode())
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError):
        pass
    finally:
        said.close()
        gone()


async def _speak(to: asyncio.StreamWriter, to_say: _ToSay, gone: Callable[[], None]) -> None:
    """Pass on what is said to the child, as fast as it reads."""
    try:
        async for one in to_say:
            to.write(one.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            await to.drain()
    except OSError:
        gone()


async def _log(errors: asyncio.StreamReader, tail: Tail) -> None:
    while chunk := await errors.read(Tail.MOST):
        tail.add(chunk)


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Wait for work whoever is cancelled meanwhile: nothing of a server must stay behind."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled


async def _in_thread(work: Callable[[], None]) -> None:
    """Wait for something that blocks, in a thread that may be started even while the interpreter shuts down."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def run() -> None:
        try:
            work()
        finally:
            loop.call_soon_threadsafe(done.set_result, None)

    threading.Thread(target=run, daemon=True, name="sevenfold-mcp-end").start()
    await done
