"""Any Python function as a tool: the schema comes from its type hints, the words from its docstring.

Functions may be plain, `async` or generators; without hints and docstring the name has to say it all. A parameter is
described by ``Annotated[int, "how many"]`` or in the docstring's list of arguments. A parameter whose type is `Context`
is not shown to the model: it gets the context of the call. What no schema can say is refused when the tool is made,
with the parameter's name.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import textwrap
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from typing import Any

from sevenfold.agent.permissions.request import Wish
from sevenfold.agent.tools.context import Context
from sevenfold.agent.tools.function_parameters import Parameters, unwrapped
from sevenfold.agent.tools.function_results import lines, shown, words
from sevenfold.agent.tools.output import ToolOutput, failed
from sevenfold.agent.tools.tool import Input, Kind, Tool
from sevenfold.errors import InputError

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_ARGUMENTS = re.compile(r"^(?:Args|Arguments|Parameters):\s*$")
_SECTION = re.compile(r"^[A-Z]\w*:\s*$")
_LISTED = re.compile(r"^\s+\**(\w+)(?:\s*\([^)]*\))?:\s*(.*)$")
_FIELD = re.compile(r"^\s*:param\s+(?:[^:]*\s)?(\w+):\s*(.*)$")
_STOPPED = "[stopped here]"
_TICK = 0.05


def function_tool(
    function: Callable[..., Any],
    *,
    kind: Kind = "",
    name: str = "",
    description: str = "",
    concurrent: bool = False,
    asks: bool = False,
) -> Tool:
    """A function, plain or async, as a tool.

    ``kind`` says that its results can be had again and may be cleared when old; ``asks`` that it needs permission.
    """
    if not callable(function):
        raise InputError(f"{function!r} is neither a function nor a tool, so no model can call it")
    meant = unwrapped(function)
    name = name or getattr(meant, "__name__", "") or type(meant).__name__
    if not _NAME.fullmatch(name):
        raise InputError(f"{name!r} cannot be the name of a tool: letters, digits, _ and -; pass name=…")
    said, listed = _documented(meant)
    made = _AwaitedFunction if _is_async(function) else FunctionTool
    return made(
        function,
        name,
        description or said or f"{name.replace('_', ' ').strip().capitalize()}.",
        Parameters.of(function, name, listed),
        kind,
        concurrent,
        asks,
    )


class FunctionTool:
    """A function that is called."""

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        description: str,
        parameters: Parameters,
        kind: Kind,
        concurrent: bool,
        asks: bool,
    ) -> None:
        self.name = name
        self.description = description
        self.kind = kind
        self.concurrent = concurrent
        self.schema = parameters.schema
        generates = inspect.isgeneratorfunction(unwrapped(function))
        self.listens = bool(parameters.context) or generates or _is_async(function)
        """Does it end when it is told to? A plain function cannot be ended from outside."""
        self._asks = asks
        self._function = function
        self._parameters = parameters

    def wish(self, given: Input, context: Context) -> Wish:
        """The function's own deed, which only its author knows."""
        return Wish(self.name, "call" if self._asks else "none")

    def run(self, given: Input, context: Context) -> ToolOutput:
        """Call it, and take what it yields as it comes."""
        came = self._called(given, context)
        if inspect.isawaitable(came) or isinstance(came, AsyncIterator):
            return _awaited_elsewhere(came, context, self.name)
        return _drained(came, context) if isinstance(came, Iterator) else shown(came)

    def _called(self, given: Input, context: Context) -> Any:
        positional, named = self._parameters.bind(given, context)
        return self._function(*positional, **named)


class _AwaitedFunction(FunctionTool):
    """A function that is awaited; from code that does not await, in an event loop of its own."""

    async def run_async(self, given: Input, context: Context) -> ToolOutput:
        """Await it."""
        return await _awaited(self._called(given, context), context)


async def _awaited(came: Any, context: Context) -> ToolOutput:
    """What comes of a coroutine, or of an iterator that has to be awaited."""
    if not isinstance(came, AsyncIterator):
        return shown(await came)
    pieces: list[str] = []
    async for one in came:
        _take(one, pieces, context)
        if context.abort.is_set():
            if isinstance(came, AsyncGenerator):
                await came.aclose()
            pieces.append(_STOPPED)
            break
    return ToolOutput(lines(pieces))


def _awaited_elsewhere(came: Any, context: Context, tool: str) -> ToolOutput:
    """The same in a thread of its own: there may be a loop running in this one."""
    done: list[ToolOutput | BaseException] = []

    def work() -> None:
        done.append(asyncio.run(_unless_stopped(came, context)))

    thread = threading.Thread(target=work, name=f"tool {tool}", daemon=True)
    thread.start()
    thread.join()
    if isinstance(done[0], BaseException):
        raise done[0]
    return done[0]


async def _unless_stopped(came: Any, context: Context) -> ToolOutput | BaseException:
    """What comes of it, an error included, or that it was cancelled because the call is to stop."""

    async def work() -> ToolOutput | BaseException:
        try:
            return await _awaited(came, context)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 (raised again in the thread that waits)
            return error

    task = asyncio.ensure_future(work())
    while not task.done():
        await asyncio.wait((task,), timeout=_TICK)
        if context.abort.is_set():
            task.cancel()
            await asyncio.wait((task,))
    return failed(_STOPPED) if task.cancelled() else task.result()


def _drained(came: Iterator[Any], context: Context) -> ToolOutput:
    """All that is yielded, a line each, unless something is returned in the end; an abort is an end too."""
    pieces: list[str] = []
    try:
        while not context.abort.is_set():
            _take(next(came), pieces, context)
    except StopIteration as end:
        return ToolOutput(lines(pieces)) if end.value is None else shown(end.value)
    if isinstance(came, Generator):
        came.close()
    return ToolOutput(lines([*pieces, _STOPPED]))


def _take(one: Any, pieces: list[str], context: Context) -> None:
    pieces.append(words(one))
    context.progress(f"{lines(pieces[-1:])}\n")


def _is_async(function: Callable[..., Any]) -> bool:
    called = getattr(unwrapped(function), "__call__", None)  # noqa: B004 (an object's own call may be async)
    return any(
        inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one) for one in (function, called)
    )


def _documented(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """What a docstring says of the function, and of each argument."""
    said: list[str] = []
    arguments: dict[str, str] = {}
    listing, last, indent = False, "", 0
    for line in (inspect.getdoc(function) or "").splitlines():
        if found := _FIELD.match(line):
            last, indent = found[1], len(line) - len(line.lstrip())
            arguments[last] = found[2]
        elif _ARGUMENTS.match(line):
            listing = True
        elif listing and (line.startswith((" ", "\t")) or not line.strip()):
            depth = len(line) - len(line.lstrip())
            if (found := _LISTED.match(line)) and (not last or depth <= indent):
                last, indent = found[1], depth
                arguments[last] = found[2]
            elif last:
                arguments[last] = f"{arguments[last]} {line.strip()}".strip()
        elif _SECTION.match(line) and said:
            break
        else:
            listing = False
            said.append(line)
    return textwrap.dedent("\n".join(said)).strip(), arguments
