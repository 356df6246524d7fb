"""The thread in which an async program runs the steps of its flows.

A step may read and write the session's store, and a store may take its time: a database answers over a network, a disk
waits until a record is safe. So the steps of an async session run in a thread of the session's own, one after another,
and its event loop stays free meanwhile.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

R = TypeVar("R")


async def await_end(future: asyncio.Future[Any]) -> None:
    """Wait until a future is done; a cancellation of the waiting task is raised only afterwards."""
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait((future,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


class StepThread:
    """Runs functions in one thread, in the order they come; the thread starts with the first of them."""

    def __init__(self) -> None:
        # A thread of its own, not the loop's shared ones: tools may occupy those for minutes.
        self._executor: ThreadPoolExecutor | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self, step: Callable[[], R]) -> R:
        """Run a function and return its result.

        A cancellation is raised when the function is done: it cannot be stopped halfway, and may be writing a record.
        """
        self._loop = asyncio.get_running_loop()
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, "sevenfold-steps")
        context = contextvars.copy_context()
        future = self._loop.run_in_executor(self._executor, context.run, step)
        await await_end(future)
        return future.result()

    def on_loop(self, call: Callable[[], object]) -> None:
        """Call a function on the event loop, from a step or from the loop itself."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            if self._loop is None:
                raise
            self._loop.call_soon_threadsafe(call)
        else:
            self._loop = loop
            call()

    def close(self) -> None:
        """End the thread when it has done what it is doing; another one is started if there is more to do."""
        if self._executor is not None:
            self._executor.shutdown(wait=False)
            self._executor = None
