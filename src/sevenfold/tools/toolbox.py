"""All tools of a session by their names; the one place where calls are checked and run.

Nothing is ever raised into the loop: a tool nobody knows, an input that does not fit, an error of any class, each
becomes an error result that says what can be done. Names and schemas come in the order of names, so that the same
tools always give the same bytes.
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

from sevenfold.errors import InputError, SevenfoldError
from sevenfold.tools.checking import problems, without_nulls
from sevenfold.tools.context import Abort, Context
from sevenfold.tools.output import ToolOutput, failed
from sevenfold.tools.tool import AsyncTool, Input, Tool
from sevenfold.tools.wish import Wish


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
            return tool.wish(clean, context)
        except Exception as error:  # noqa: BLE001 (a tool may come from anybody; the loop goes on)
            return _told(tool, error)

    def run(self, name: str, given: Any, context: Context) -> ToolOutput:
        """Carry out a call; ``context.wish`` is what was permitted."""
        checked = self._checked(name, given)
        if isinstance(checked, ToolOutput):
            return checked
        tool, clean = checked
        try:
            return tool.run(clean, context)
        except Exception as error:  # noqa: BLE001 (a tool may come from anybody; the loop goes on)
            return _told(tool, error)

    async def run_async(self, name: str, given: Any, context: Context) -> ToolOutput:
        """The same, awaited: in a thread of its own unless the tool can be awaited. Cancelling it stops the tool."""
        checked = self._checked(name, given)
        if isinstance(checked, ToolOutput):
            return checked
        tool, clean = checked
        context = replace(context, abort=Abort(context.abort))
        try:
            if isinstance(tool, AsyncTool):
                return await tool.run_async(clean, context)
            return await _in_thread(tool, clean, context)
        except asyncio.CancelledError:
            context.abort.set()
            raise
        except Exception as error:  # noqa: BLE001 (a tool may come from anybody; the loop goes on)
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


async def _in_thread(tool: Tool, given: Input, context: Context) -> ToolOutput:
    """A thread for each call: commands may take minutes, and a shared pool would make others wait for them."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[ToolOutput] = loop.create_future()

    def settle(came: ToolOutput | Exception) -> None:
        if done.cancelled():
            return
        if isinstance(came, Exception):
            done.set_exception(came)
        else:
            done.set_result(came)

    def work() -> None:
        try:
            came: ToolOutput | Exception = tool.run(given, context)
        except Exception as error:  # noqa: BLE001 (handed over to whoever awaits)
            came = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, came)

    threading.Thread(target=work, daemon=True, name=f"tool {tool.name}").start()
    return await done


def _told(tool: Tool, error: Exception) -> ToolOutput:
    if isinstance(error, SevenfoldError):
        return failed(str(error))
    if isinstance(error, OSError) and error.strerror:
        where = f" ({error.filename})" if error.filename else ""
        return failed(f"{tool.name}: the system says: {error.strerror}{where}.")
    if isinstance(error, msgspec.ValidationError):
        return failed(f"The input does not fit {tool.name}: {error}. Correct it and call again.")
    return failed(f"{tool.name} failed: {type(error).__name__}: {error}")
