"""Running a flow: the only place where asking a model is waited for, once without and once with `await`.

A flow is a generator that yields what it needs and is sent what it gets. It holds all the decisions and
none of the waiting, so there is one of it for both worlds, and a test can be its driver.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from sevenfold.errors import ModelError
from sevenfold.ports import Ask, AsyncClient, Client, Reply, Watcher

Result = TypeVar("Result")
Flow = Generator[Ask, Reply, Result]


def drive(flow: Flow[Result], client: Client, watch: Watcher | None = None) -> Result:
    """Run a flow to its end."""
    try:
        wanted = next(flow)
        while True:
            try:
                reply = client.ask(wanted.call, watch)
            except ModelError as error:
                wanted = flow.throw(error)
            else:
                wanted = flow.send(reply)
    except StopIteration as end:
        result: Result = end.value
        return result


async def drive_async(flow: Flow[Result], client: AsyncClient, watch: Watcher | None = None) -> Result:
    """Run a flow to its end without blocking."""
    try:
        wanted = next(flow)
        while True:
            try:
                reply = await client.ask(wanted.call, watch)
            except ModelError as error:
                wanted = flow.throw(error)
            else:
                wanted = flow.send(reply)
    except StopIteration as end:
        result: Result = end.value
        return result
