"""All tools of a session by their names; the one place where calls are checked and run.

Nothing is ever raised into the loop: a tool nobody knows, an input that does not fit, an error of any class, one that
would end a program included, each becomes an error result that says what can be done. Names and schemas come in the
order of names, so that the same tools always give the same bytes.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from difflib import get_close_matches
from typing import Any

import msgspec
from msgspec.structs import replace

from sevenfold.agent.permissions.request import Wish
from sevenfold.agent.tools.context import Abort, Context
from sevenfold.agent.tools.output import ToolOutput, failed
from sevenfold.agent.tools.soundness import sound
from sevenfold.agent.tools.tool import AsyncTool, Input, Tool
from sevenfold.agent.tools.validate import problems, without_nulls
from sevenfold.errors import InputError, SevenfoldError


class Toolbox:
    """Tools by name."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in sorted(tools, key=lambda one: one.name):
            if tool.name in self._tools:
                raise InputError(f"two tools are called {tool.name!r}; give one of them another name")
            self._tools[tool.name] = tool

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def get(self, name: str) -> Tool | None:
        """The tool of that name."""
        return self._tools.get(name)

    def schemas(self) -> list[dict[str, Any]]:
        """What the model is told, as the Messages API takes it."""
        return [
            {
                "name": tool.name,
                "description": tool.description,
                "input_schema": deepcopy(dict(tool.schema)),
            }
            for tool in self
        ]

    def kinds(self) -> dict[str, str]:
        """What each tool is for the engine."""
        return {tool.name: tool.kind for tool in self}

    def concurrent(self, name: str) -> bool:
        """May calls of this tool run beside others?"""
        tool = self.get(name)
        return tool is not None and tool.concurrent

    def wish(self, name: str, given: Any, context: Context) -> Wish | ToolOutput:
        """What a call is about to do, to be held against permissions; an error result if it cannot be done at all."""
        checked = self._checked(name, given)
        if isinstance(checked, ToolOutput):
            return checked
        tool, clean = checked
        try:
            wish: Any = tool.wish(clean, context)
        except BaseException as error:  # noqa: BLE001 (a tool may come from anybody; the loop goes on)
            return _told(tool, error)
        if isinstance(wish, Wish):
            return wish
        return failed(f"{name} does not say what it is about to do, so it cannot be permitted.")

    def run(self, name: str, given: Any, context: Context) -> ToolOutput:
        """Carry out a call; ``context.wish`` is what was permitted."""
        checked = self._checked(name, given)
        if isinstance(checked, ToolOutput):
            return checked
        tool, clean = checked
        return sound(_ran(tool, clean, context), name)

    async def run_async(self, name: str, given: Any, context: Context) -> ToolOutput:
        """The same, awaited: in a thread of its own unless the tool can be awaited. Cancelling it stops the tool."""
        checked = self._checked(name, given)
        if isinstance(checked, ToolOutput):
            return checked
        tool, clean = checked
        context = replace(context, abort=Abort(context.abort))
        try:
            if isinstance(tool, AsyncTool):
                return sound(await tool.run_async(clean, context), name)
            return sound(await _in_thread(tool, clean, context), name)
        except asyncio.CancelledError as error:
            if not _cancelled():
                return _told(tool, error)
            context.abort.set()
            raise
        except BaseException as error:  # noqa: BLE001 (a tool may come from anybody; the loop goes on)
            return _told(tool, error)

    def _checked(self, name: str, given: Any) -> tuple[Tool, Input] | ToolOutput:
        tool = self._tools.get(name)
        if tool is None:
            near = get_close_matches(str(name), self._tools, 1, 0.5)
            hint = (
                f" Did you mean {near[0]}?" if near else f" There are: {', '.join(self._tools) or 'none'}."
            )
            return failed(f"There is no tool called {name!r}.{hint}")
        if isinstance(given, Mapping):
            given = without_nulls(given, tool.schema)
        wrong = list(problems(given, tool.schema))
        if wrong:
            return failed(
                f"The input does not fit {name}: {'; '.join(wrong[:10])}. Correct it and call again."
            )
        return tool, given


def _ran(tool: Tool, given: Input, context: Context) -> ToolOutput:
    """What came of a call, in the thread it is made in: no interrupt from the keyboard is ever raised there."""
    try:
        return tool.run(given, context)
    except BaseException as error:  # noqa: BLE001 (a tool may come from anybody; the loop goes on)
        return _told(tool, error)


async def _in_thread(tool: Tool, given: Input, context: Context) -> ToolOutput:
    """A thread for each call: commands may take minutes, and a shared pool would make others wait for them."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[ToolOutput] = loop.create_future()

    def settle(came: ToolOutput) -> None:
        if not done.cancelled():
            done.set_result(came)

    def work() -> None:
        came = _ran(tool, given, context)
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, came)

    threading.Thread(target=work, daemon=True, name=f"tool {tool.name}").start()
    return await done


def _cancelled() -> bool:
    """Was it this task that somebody cancelled, and not something a tool waited for?"""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _told(tool: Tool, error: BaseException) -> ToolOutput:
    if isinstance(error, SevenfoldError):
        return failed(str(error))
    if isinstance(error, OSError) and error.strerror:
        where = f" ({error.filename})" if error.filename else ""
        return failed(f"{tool.name}: the system says: {error.strerror}{where}.")
    if isinstance(error, msgspec.ValidationError):
        return failed(f"The input does not fit {tool.name}: {error}. Correct it and call again.")
    return sound(failed(f"{tool.name} failed: {type(error).__name__}{_says(error)}"), tool.name)


def _says(error: BaseException) -> str:
    try:
        return f": {error}" if str(error) else ""
    except Exception:  # noqa: BLE001 (an error of anybody's may not even be able to say what it is)
        return ""
