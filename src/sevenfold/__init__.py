"""Sevenfold lets LLM agents work for weeks in a bounded context window, without silent forgetting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sevenfold import errors, events
    from sevenfold.adapters.offline import AsyncOfflineClient, OfflineClient, Script
    from sevenfold.events import Veto
    from sevenfold.ports import Piece
    from sevenfold.runtime.hooks.inputs import (
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
    from sevenfold.runtime.hooks.run import AsyncHooks, Hooks
    from sevenfold.runtime.loop import Finished
    from sevenfold.tools.context import Context
    from sevenfold.tools.functions import function_tool
    from sevenfold.wiring.agent import Agent, AsyncAgent
    from sevenfold.wiring.agent_events import (
        Ended,
        Happened,
        Mentioned,
        Notice,
        ToolBegan,
        ToolEnded,
        ToolProgress,
    )
    from sevenfold.wiring.awaited import AsyncSession
    from sevenfold.wiring.hands import Asked, Consented
    from sevenfold.wiring.mcp import McpServers
    from sevenfold.wiring.opened import Tool, tool
    from sevenfold.wiring.session import Completion, Session

__version__ = "0.1.0"
__all__ = [
    "Agent",
    "Asked",
    "AsyncAgent",
    "AsyncHooks",
    "AsyncOfflineClient",
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
    "Mentioned",
    "Notice",
    "OfflineClient",
    "PermissionRequest",
    "Piece",
    "PostCompact",
    "PostToolUse",
    "PreCompact",
    "PreToolUse",
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
    "tool",
]

_HOMES = {
    "Agent": "sevenfold.wiring.agent",
    "Asked": "sevenfold.wiring.hands",
    "AsyncAgent": "sevenfold.wiring.agent",
    "AsyncHooks": "sevenfold.runtime.hooks.run",
    "AsyncOfflineClient": "sevenfold.adapters.offline",
    "AsyncSession": "sevenfold.wiring.awaited",
    "Completion": "sevenfold.wiring.session",
    "Consented": "sevenfold.wiring.hands",
    "Context": "sevenfold.tools.context",
    "Ended": "sevenfold.wiring.agent_events",
    "Finished": "sevenfold.runtime.loop",
    "Happened": "sevenfold.wiring.agent_events",
    "Hooks": "sevenfold.runtime.hooks.run",
    "InstructionsLoaded": "sevenfold.runtime.hooks.inputs",
    "McpServers": "sevenfold.wiring.mcp",
    "Mentioned": "sevenfold.wiring.agent_events",
    "Notice": "sevenfold.wiring.agent_events",
    "OfflineClient": "sevenfold.adapters.offline",
    "PermissionRequest": "sevenfold.runtime.hooks.inputs",
    "Piece": "sevenfold.ports",
    "PostCompact": "sevenfold.runtime.hooks.inputs",
    "PostToolUse": "sevenfold.runtime.hooks.inputs",
    "PreCompact": "sevenfold.runtime.hooks.inputs",
    "PreToolUse": "sevenfold.runtime.hooks.inputs",
    "Script": "sevenfold.adapters.offline",
    "Session": "sevenfold.wiring.session",
    "SessionEnd": "sevenfold.runtime.hooks.inputs",
    "SessionStart": "sevenfold.runtime.hooks.inputs",
    "Stop": "sevenfold.runtime.hooks.inputs",
    "SubagentStart": "sevenfold.runtime.hooks.inputs",
    "SubagentStop": "sevenfold.runtime.hooks.inputs",
    "Tool": "sevenfold.wiring.opened",
    "ToolBegan": "sevenfold.wiring.agent_events",
    "ToolEnded": "sevenfold.wiring.agent_events",
    "ToolProgress": "sevenfold.wiring.agent_events",
    "UserPromptSubmit": "sevenfold.runtime.hooks.inputs",
    "Veto": "sevenfold.events",
    "function_tool": "sevenfold.tools.functions",
    "tool": "sevenfold.wiring.opened",
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
