"""Closing what consists of several parts: each gets its turn, whatever becomes of the others.

A lock that stays because something before it failed would shut everybody out for as long as the process lives.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable


def finish(*steps: Callable[[], object]) -> None:
    """Take all steps in order, then raise the first error there was."""
    errors: list[BaseException] = []
    for step in steps:
        try:
            step()
        except BaseException as error:  # noqa: BLE001 (raised again when all steps are taken)
            errors.append(error)
    if errors:
        raise errors[0]


async def finish_async(*steps: Callable[[], Awaitable[object]]) -> None:
    """The same, awaited."""
    errors: list[BaseException] = []
    for step in steps:
        try:
            await step()
        except BaseException as error:  # noqa: BLE001 (raised again when all steps are taken)
            errors.append(error)
    if errors:
        raise errors[0]
