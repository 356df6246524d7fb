"""Sevenfold lets LLM agents work for weeks in a bounded context window, without silent forgetting."""

from __future__ import annotations

# Instead of the one in `typing`, which takes longer to load than the rest of this module.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from sevenfold import errors, events
    from sevenfold.agent.agent import Agent, AsyncAgent
    from sevenfold.agent.agent_events import (
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
    from sevenfold.agent.submitted import SubmittedRun
    from sevenfold.agent.tools.context import Context
    from sevenfold.agent.tools.functions import function_tool
    from sevenfold.agent.tools.handed_over import handed_over
    from sevenfold.archive.transcript import ArchivedSession, transcript
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
    from sevenfold.doors.server.async_client import AsyncServerClient
    from sevenfold.doors.server.client import ServerClient
    from sevenfold.doors.wrapping import conversation, wrap
    from sevenfold.events import Veto
    from sevenfold.memory.commands import MemoryCommands
    from sevenfold.memory.memory import Memory
    from sevenfold.ports import Piece
    from sevenfold.providers.anthropic_memory import AsyncRunnerMemoryTool, RunnerMemoryTool
    from sevenfold.providers.offline import AsyncOfflineClient, OfflineClient, Script
    from sevenfold.session.async_session import AsyncSession
    from sevenfold.session.factory import Tool, open_memory, tool
    from sevenfold.session.session import Completion, Session
    from sevenfold.work.opening import open_jobs

__version__ = "0.1.0"
__all__ = [
    "Agent",
    "ArchivedSession",
    "Asked",
    "AsyncAgent",
    "AsyncHooks",
    "AsyncOfflineClient",
    "AsyncRunnerMemoryTool",
    "AsyncServerClient",
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
    "ServerClient",
    "Session",
    "SessionEnd",
    "SessionStart",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "SubmittedRun",
    "Tool",
    "ToolBegan",
    "ToolEnded",
    "ToolProgress",
    "UserPromptSubmit",
    "Veto",
    "conversation",
    "errors",
    "events",
    "function_tool",
    "handed_over",
    "open_jobs",
    "open_memory",
    "tool",
    "transcript",
    "wrap",
]

_HOMES = {
    "agent.agent": "Agent AsyncAgent",
    "agent.agent_events": "Ended Finished Happened Mentioned Notice ToolBegan ToolEnded ToolProgress",
    "agent.executor": "Asked Consented",
    "agent.hooks.registry": "AsyncHooks Hooks",
    "agent.mcp.servers": "McpServers",
    "agent.submitted": "SubmittedRun",
    "agent.tools.context": "Context",
    "agent.tools.functions": "function_tool",
    "agent.tools.handed_over": "handed_over",
    "archive.transcript": "ArchivedSession transcript",
    "conversation.hooks": "InstructionsLoaded PermissionRequest PostCompact PostToolUse PreCompact PreToolUse "
    "SessionEnd SessionStart Stop SubagentStart SubagentStop UserPromptSubmit",
    "doors.server.async_client": "AsyncServerClient",
    "doors.server.client": "ServerClient",
    "doors.wrapping": "conversation wrap",
    "events": "Veto",
    "memory.commands": "MemoryCommands",
    "memory.memory": "Memory",
    "ports": "Piece",
    "providers.anthropic_memory": "AsyncRunnerMemoryTool RunnerMemoryTool",
    "providers.offline": "AsyncOfflineClient OfflineClient Script",
    "session.async_session": "AsyncSession",
    "session.factory": "Tool open_memory tool",
    "session.session": "Completion Session",
    "work.opening": "open_jobs",
}
"""Module → the public names defined in it."""


def __getattr__(name: str) -> Any:
    """Load public names on first use: `import sevenfold` alone loads nothing."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = next((module for module, names in _HOMES.items() if name in names.split()), None)
    if home is None:
        return import_module(f"sevenfold.{name}")
    return getattr(import_module(f"sevenfold.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
