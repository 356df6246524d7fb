"""Sevenfold lets LLM agents work for weeks in a bounded context window, without silent forgetting."""

from __future__ import annotations

# As in `typing`, which takes longer to load than all the rest of this module.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from sevenfold import errors, events
    from sevenfold.agent.agent import Agent, AsyncAgent
    from sevenfold.agent.events import (
        Ended,
        Finished,
        Happened,
        Mentioned,
        Notice,
        ToolBegan,
        ToolEnded,
        ToolProgress,
    )
    from sevenfold.agent.executor import Asked, Consented
    from sevenfold.agent.hooks.registry import AsyncHooks, Hooks
    from sevenfold.agent.mcp.servers import McpServers
    from sevenfold.agent.tools.context import Context
    from sevenfold.agent.tools.functions import function_tool
    from sevenfold.conversation.hooks import (
        InstructionsLoaded,
        PermissionRequest,
        PostCompact,
        PostToolUse,
        PreCompact,
        PreToolUse,
        SessionEnd,
        SessionStart,
        Stop,
        SubagentStart,
        SubagentStop,
        UserPromptSubmit,
    )
    from sevenfold.events import Veto
    from sevenfold.memory.commands import MemoryCommands
    from sevenfold.memory.memory import Memory
    from sevenfold.ports import Piece
    from sevenfold.providers.anthropic_memory import AsyncRunnerMemoryTool, RunnerMemoryTool
    from sevenfold.providers.offline import AsyncOfflineClient, OfflineClient, Script
    from sevenfold.session.async_session import AsyncSession
    from sevenfold.session.factory import Tool, open_memory, tool
    from sevenfold.session.session import Completion, Session

__version__ = "0.1.0"
__all__ = [
    "Agent",
    "Asked",
    "AsyncAgent",
    "AsyncHooks",
    "AsyncOfflineClient",
    "AsyncRunnerMemoryTool",
    "AsyncSession",
    "Completion",
    "Consented",
    "Context",
    "Ended",
    "Finished",
    "Happened",
    "Hooks",
    "InstructionsLoaded",
    "McpServers",
    "Memory",
    "MemoryCommands",
    "Mentioned",
    "Notice",
    "OfflineClient",
    "PermissionRequest",
    "Piece",
    "PostCompact",
    "PostToolUse",
    "PreCompact",
    "PreToolUse",
    "RunnerMemoryTool",
    "Script",
    "Session",
    "SessionEnd",
    "SessionStart",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "Tool",
    "ToolBegan",
    "ToolEnded",
    "ToolProgress",
    "UserPromptSubmit",
    "Veto",
    "errors",
    "events",
    "function_tool",
    "open_memory",
    "tool",
]

_HOMES = {
    "Agent": "sevenfold.agent.agent",
    "Asked": "sevenfold.agent.executor",
    "AsyncAgent": "sevenfold.agent.agent",
    "AsyncHooks": "sevenfold.agent.hooks.registry",
    "AsyncOfflineClient": "sevenfold.providers.offline",
    "AsyncRunnerMemoryTool": "sevenfold.providers.anthropic_memory",
    "AsyncSession": "sevenfold.session.async_session",
    "Completion": "sevenfold.session.session",
    "Consented": "sevenfold.agent.executor",
    "Context": "sevenfold.agent.tools.context",
    "Ended": "sevenfold.agent.events",
    "Finished": "sevenfold.agent.events",
    "Happened": "sevenfold.agent.events",
    "Hooks": "sevenfold.agent.hooks.registry",
    "InstructionsLoaded": "sevenfold.conversation.hooks",
    "McpServers": "sevenfold.agent.mcp.servers",
    "Memory": "sevenfold.memory.memory",
    "MemoryCommands": "sevenfold.memory.commands",
    "Mentioned": "sevenfold.agent.events",
    "Notice": "sevenfold.agent.events",
    "OfflineClient": "sevenfold.providers.offline",
    "PermissionRequest": "sevenfold.conversation.hooks",
    "Piece": "sevenfold.ports",
    "RunnerMemoryTool": "sevenfold.providers.anthropic_memory",
    "PostCompact": "sevenfold.conversation.hooks",
    "PostToolUse": "sevenfold.conversation.hooks",
    "PreCompact": "sevenfold.conversation.hooks",
    "PreToolUse": "sevenfold.conversation.hooks",
    "Script": "sevenfold.providers.offline",
    "Session": "sevenfold.session.session",
    "SessionEnd": "sevenfold.conversation.hooks",
    "SessionStart": "sevenfold.conversation.hooks",
    "Stop": "sevenfold.conversation.hooks",
    "SubagentStart": "sevenfold.conversation.hooks",
    "SubagentStop": "sevenfold.conversation.hooks",
    "Tool": "sevenfold.session.factory",
    "ToolBegan": "sevenfold.agent.events",
    "ToolEnded": "sevenfold.agent.events",
    "ToolProgress": "sevenfold.agent.events",
    "UserPromptSubmit": "sevenfold.conversation.hooks",
    "Veto": "sevenfold.events",
    "function_tool": "sevenfold.agent.tools.functions",
    "open_memory": "sevenfold.session.factory",
    "tool": "sevenfold.session.factory",
}
_MODULES = ("errors", "events")


def __getattr__(name: str) -> Any:
    """Public names are loaded when they are first asked for: `import sevenfold` alone loads nothing."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"sevenfold.{name}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
