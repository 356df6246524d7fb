"""The memory tool: the model views and writes what outlives the session.

Its name, commands and fields are those of the Messages API's ``memory_20250818``, so models know how to use it; given
as a plain function, it works with every provider.
"""

from __future__ import annotations

from sevenfold.agent.tools.context import Context
from sevenfold.agent.tools.output import ToolOutput
from sevenfold.agent.tools.tool import StandardTool
from sevenfold.errors import Refused
from sevenfold.memory.commands import MemoryCommand


class MemoryTool(StandardTool[MemoryCommand]):
    """Views and writes memory."""

    name = "memory"

    def act(self, given: MemoryCommand, context: Context) -> ToolOutput:
        """Carry out a command."""
        if context.memory is None:
            raise Refused("This session has no lasting memory.")
        return ToolOutput(context.memory.carry_out(given))
