"""The agent's hands: what a tool is, the tools there are, and who may use them on what.

Everything here stands by itself. A `Toolbox` of tools and a `Context` are all it takes to run a call; `Permissions`
say beforehand whether it may be run. The loop that asks a model is somewhere else.
"""

from __future__ import annotations

from sevenfold.agent.permissions.engine import Decision, Mode, Permissions, Rules
from sevenfold.agent.permissions.request import Wish
from sevenfold.agent.tools.context import Abort, Context, Desk
from sevenfold.agent.tools.functions import function_tool
from sevenfold.agent.tools.output import ToolOutput
from sevenfold.agent.tools.tool import AsyncTool, StandardTool, Tool
from sevenfold.agent.tools.toolbox import Toolbox

__all__ = [
    "Abort",
    "AsyncTool",
    "Context",
    "Decision",
    "Desk",
    "Mode",
    "Permissions",
    "Rules",
    "StandardTool",
    "Tool",
    "ToolOutput",
    "Toolbox",
    "Wish",
    "function_tool",
]
