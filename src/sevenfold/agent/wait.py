"""Waiting for something that may be told to stop, and leaving it behind if it does not."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from sevenfold.agent.tools.context import Abort

Result = TypeVar("Result")
TICK = 0.05
GRACE = 3.0
"""Seconds something gets to end by itself after it was told to…"""
CANCEL_GRACE = 0.25
"""…and a coroutine, which can be cancelled, or a function, which cannot be told."""


class Left(Exception):
    """It did not end, and nobody waits for it any more."""


def unless_left(work: Callable[[], Result], abort: Abort, grace: float) -> Result:
    """What comes of the work, done in a thread of its own; raises `Left` if it goes on after the abort."""
    came: Future[Result] = Future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            came.set_result(context.run(work))
        except BaseException as error:  # noqa: BLE001 (handed over to whoever waits)
            came.set_exception(error)

    threading.Thread(target=run, daemon=True, name="sevenfold-call").start()
    while not came.done():
        wait([came], TICK)
        if abort.is_set() and not wait([came], grace).done:
            raise Left
    return came.result()


async def unless_left_async(work: Coroutine[Any, Any, Result], abort: Abort, grace: float) -> Result:
    """The same, awaited; what goes on after the abort is cancelled."""
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            await asyncio.wait((task,), timeout=TICK)
            if abort.is_set() and not task.done():
                done, _ = await asyncio.wait((task,), timeout=grace)
                if not done:
                    raise Left
    finally:
        task.cancel()
    return task.result()
