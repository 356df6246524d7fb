"""Running a flow: the only place where models and hooks are waited for, once without and once with `await`.

A flow is a generator that yields what it needs and is sent what it gets. It holds all the decisions and
none of the waiting, so there is one of it for both worlds, and a test can be its driver.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

from msgspec import Struct

from sevenfold.errors import ModelError, Refused
from sevenfold.ports import Ask, AsyncClient, Client, Watcher
from sevenfold.runtime.hooks.inputs import HookInput
from sevenfold.runtime.hooks.outcomes import Outcome
from sevenfold.runtime.hooks.run import AsyncHooks, Hooks


class Fire(Struct, frozen=True):
    """What a flow yields when hooks are to run; it gets their `Outcome` back."""

    event: HookInput


Result = TypeVar("Result")
Flow = Generator[Any, Any, Result]
"""Yields `Ask` or `Fire`."""

NOBODY = "a model has to be asked, and no client was given"


def drive(
    flow: Flow[Result], client: Client | None, watch: Watcher | None = None, hooks: Hooks | None = None
) -> Result:
    """Run a flow to its end."""
    try:
        wanted = next(flow)
        while True:
            try:
                match wanted:
                    case Ask(call=call):
                        got: Any = _given(client).ask(call, watch)
                    case Fire(event=event):
                        got = hooks.fire(event) if hooks else _nothing(event)
            except ModelError as error:
                wanted = flow.throw(error)
            else:
                wanted = flow.send(got)
    except StopIteration as end:
        result: Result = end.value
        return result


async def drive_async(
    flow: Flow[Result],
    client: AsyncClient | None,
    watch: Watcher | None = None,
    hooks: AsyncHooks | None = None,
) -> Result:
    """Run a flow to its end without blocking."""
    try:
        wanted = next(flow)
        while True:
            try:
                match wanted:
                    case Ask(call=call):
                        got: Any = await _given(client).ask(call, watch)
                    case Fire(event=event):
                        got = await hooks.fire(event) if hooks else _nothing(event)
            except ModelError as error:
                wanted = flow.throw(error)
            else:
                wanted = flow.send(got)
    except StopIteration as end:
        result: Result = end.value
        return result


def _given(client: Any) -> Any:
    if client is None:
        raise Refused(NOBODY)
    return client


def _nothing(event: HookInput) -> Outcome:
    return Outcome(event=type(event).__name__)
