"""Clients whose calls can be stopped: at the next piece, or, if none comes, by no longer waiting for one.

A provider may think for minutes before its first word. So each call runs in its own thread or task. When the run is
interrupted the watcher raises `Aborted`, which closes the connection and keeps what was said; if no piece comes that
would wake the watcher, the call is abandoned with what had been seen of it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait

from sevenfold.conversation.flow import Signal
from sevenfold.errors import Aborted
from sevenfold.ports import AsyncClient, Call, Client, Piece, Reply, Watcher
from sevenfold.record import blocks
from sevenfold.record.log import Answer

SPOKEN = ("main", "sdk", "agent")
"""Sources whose text belongs to the conversation: only that is shown while it comes."""
TICK = 0.05
GRACE = 0.25
"""Seconds a stopped call gets to end by itself, with what was said."""


class Heard:
    """Passes pieces on until the call is stopped, and keeps their text."""

    def __init__(self, call: Call, watch: Watcher | None, stopped: Callable[[], bool]) -> None:
        self._watch = watch if call.source.partition(":")[0] in SPOKEN else None
        self._stopped = stopped
        self._words: list[str] = []

    def __call__(self, piece: Piece) -> None:
        """The next piece."""
        if self._stopped():
            raise Aborted("the call was stopped")
        if piece.kind == "text":
            self._words.append(piece.words)
        if self._watch is not None:
            self._watch(piece)

    def aborted(self) -> Aborted:
        """The error of a call that was abandoned."""
        words = "".join(self._words)
        said = Answer("msg_interrupted", "", (blocks.text(words),)) if words.strip() else None
        return Aborted("the call was stopped", partial=said)


class Interruptible:
    """A client that waits for an answer until the run is interrupted."""

    def __init__(self, client: Client, stopped: Callable[[], Signal]) -> None:
        self._client = client
        self._stopped = stopped

    def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        """Send the request; raises `Aborted` as soon as the run is interrupted."""
        signal = self._stopped()
        heard = Heard(call, watch, lambda: signal.wait(0))
        if signal.wait(0):
            raise heard.aborted()
        came = _in_thread(lambda: self._client.ask(call, heard))
        while not came.done():
            wait([came], TICK)
            if signal.wait(0) and not wait([came], GRACE).done:
                raise heard.aborted()
        return came.result()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


class AsyncInterruptible:
    """The same for asyncio."""

    def __init__(self, client: AsyncClient, stopped: Callable[[], Signal]) -> None:
        self._client = client
        self._stopped = stopped

    async def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        """Send the request; raises `Aborted` as soon as the run is interrupted."""
        signal = self._stopped()
        heard = Heard(call, watch, lambda: signal.wait(0))
        if signal.wait(0):
            raise heard.aborted()
        asking = asyncio.ensure_future(self._client.ask(call, heard))
        stopping = asyncio.ensure_future(_happens(signal))
        try:
            await asyncio.wait((asking, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            if not asking.done():
                asking.cancel()
        try:
            return await asking
        except asyncio.CancelledError as cancelled:
            if not signal.wait(0):
                raise
            cause = cancelled.__cause__
            raise (cause if isinstance(cause, Aborted) and cause.partial else heard.aborted()) from None

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


async def _happens(signal: Signal) -> None:
    while not await signal.wait_async(3600):
        pass


def _in_thread(work: Callable[[], Reply]) -> Future[Reply]:
    """Run the work in a thread that does not keep the program alive."""
    came: Future[Reply] = Future()

    def run() -> None:
        try:
            came.set_result(work())
        except BaseException as error:  # noqa: BLE001 (raised again in the thread that waits)
            came.set_exception(error)

    threading.Thread(target=run, daemon=True, name="sevenfold-ask").start()
    return came
