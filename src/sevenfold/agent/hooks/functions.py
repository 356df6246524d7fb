"""Python functions as hooks: called with the event, understood like a command that printed what they return.

This is the one place where an error of any kind is caught: the functions are the user's, and whatever they do,
the turn goes on.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from sevenfold.agent.hooks.answers import Answer, Printed, understood
from sevenfold.conversation.hooks import HookInput


class Function(Struct, frozen=True):
    """A function of the user's, and what it is called when it is spoken of."""

    label: str
    call: Callable[..., Any]


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it only makes a coroutine."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def called(function: Function, event: HookInput) -> Answer:
    """What a plain function says."""
    try:
        said = function.call(event)
        if inspect.iscoroutine(said):
            said.close()
            raise TypeError("it returned a coroutine, and this session does not await")
        printed = _printed(said)
    except Exception as error:  # noqa: BLE001 - a failing hook never breaks the turn
        printed = _raised(error)
    return understood(type(event), function.label, printed)


async def awaited(function: Function, event: HookInput) -> Answer:
    """What a function says, plain or coroutine; one that waits gets the time its event allows."""
    limit = asyncio.timeout(event.rule.seconds)
    try:
        async with limit:
            said = function.call(event)
            printed = _printed(await said if inspect.isawaitable(said) else said)
    except Exception as error:  # noqa: BLE001 - a failing hook never breaks the turn
        printed = _raised(error)
        if limit.expired():
            printed = Printed(None, problem=f"it took longer than {event.rule.seconds:g} s and was ended")
    return understood(type(event), function.label, printed)


def _printed(said: object) -> Printed:
    """What a function returned, as a command would have printed it."""
    match said:
        case None:
            return Printed()
        case str():
            return Printed(stdout=said.encode(errors="replace"))
        case Mapping():
            return Printed(stdout=msgspec.json.encode(dict(said)))
        case _:
            raise TypeError(f"a hook returns None, text or a mapping, not {said!r:.60}")


def _raised(error: Exception) -> Printed:
    return Printed(None, problem=f"it raised {type(error).__name__}: {error}")
