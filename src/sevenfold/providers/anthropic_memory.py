"""Memory as a tool for the tool runner of Anthropic's SDK (``client.beta.messages.tool_runner``)."""

from __future__ import annotations

import asyncio

from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
from anthropic.types.beta import BetaMemoryTool20250818Command

from sevenfold.errors import UserError
from sevenfold.memory.commands import MemoryCommands
from sevenfold.memory.memory import Memory


class RunnerMemoryTool(BetaAbstractMemoryTool):
    """The memory tool for a synchronous client."""

    def __init__(self, memory: Memory) -> None:
        super().__init__()
        self._commands = MemoryCommands(memory)

    def execute(self, command: BetaMemoryTool20250818Command) -> str:
        """Execute a command; raises the SDK's `ToolError` if that fails."""
        try:
            return self._commands.run(command.to_dict())
        except UserError as error:
            raise ToolError(str(error)) from error

    view = create = str_replace = insert = delete = rename = execute


class AsyncRunnerMemoryTool(BetaAsyncAbstractMemoryTool):
    """The memory tool for an asynchronous client."""

    def __init__(self, memory: Memory) -> None:
        super().__init__()
        self._tool = RunnerMemoryTool(memory)

    async def execute(self, command: BetaMemoryTool20250818Command) -> str:
        """Execute a command in a thread; raises the SDK's `ToolError` if that fails."""
        return await asyncio.to_thread(self._tool.execute, command)

    view = create = str_replace = insert = delete = rename = execute
