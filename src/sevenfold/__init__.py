"""Sevenfold lets LLM agents work for weeks in a bounded context window, without silent forgetting."""

from __future__ import annotations

# As in `typing`, which takes longer to load than all the rest of this module.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any  # noqa: I001 (ruff would import each public name, which its alias marks, by itself)

    from sevenfold import errors as errors, events as events
    from sevenfold.agent.agent import Agent as Agent, AsyncAgent as AsyncAgent
    from sevenfold.agent.events import (
        Ended as Ended,
        Finished as Finished,
        Happened as Happened,
        Mentioned as Mentioned,
        Notice as Notice,
        ToolBegan as ToolBegan,
        ToolEnded as ToolEnded,
        ToolProgress as ToolProgress,
    )
    from sevenfold.agent.executor import Asked as Asked, Consented as Consented
    from sevenfold.agent.hooks.registry import AsyncHooks as AsyncHooks, Hooks as Hooks
    from sevenfold.agent.mcp.servers import McpServers as McpServers
    from sevenfold.agent.tools.context import Context as Context
    from sevenfold.agent.tools.functions import function_tool as function_tool
    from sevenfold.conversation.hooks import (
        InstructionsLoaded as InstructionsLoaded,
        PermissionRequest as PermissionRequest,
        PostCompact as PostCompact,
        PostToolUse as PostToolUse,
        PreCompact as PreCompact,
        PreToolUse as PreToolUse,
        SessionEnd as SessionEnd,
        SessionStart as SessionStart,
        Stop as Stop,
        SubagentStart as SubagentStart,
        SubagentStop as SubagentStop,
        UserPromptSubmit as UserPromptSubmit,
    )
    from sevenfold.events import Veto as Veto
    from sevenfold.memory.commands import MemoryCommands as MemoryCommands
    from sevenfold.memory.memory import Memory as Memory
    from sevenfold.ports import Piece as Piece
    from sevenfold.providers.anthropic_memory import (
        AsyncRunnerMemoryTool as AsyncRunnerMemoryTool,
        RunnerMemoryTool as RunnerMemoryTool,
    )
    from sevenfold.providers.offline import (
        AsyncOfflineClient as AsyncOfflineClient,
        OfflineClient as OfflineClient,
        Script as Script,
    )
    from sevenfold.session.async_session import AsyncSession as AsyncSession
    from sevenfold.session.factory import Tool as Tool, open_memory as open_memory, tool as tool
    from sevenfold.session.session import Completion as Completion, Session as Session

__version__ = "0.1.0"
_HOMES = {
    "agent.agent": "Agent AsyncAgent",
    "agent.events": "Ended Finished Happened Mentioned Notice ToolBegan ToolEnded ToolProgress",
    "agent.executor": "Asked Consented",
    "agent.hooks.registry": "AsyncHooks Hooks",
    "agent.mcp.servers": "McpServers",
    "agent.tools.context": "Context",
    "agent.tools.functions": "function_tool",
    "conversation.hooks": "InstructionsLoaded PermissionRequest PostCompact PostToolUse PreCompact PreToolUse "
    "SessionEnd SessionStart Stop SubagentStart SubagentStop UserPromptSubmit",
    "events": "Veto",
    "memory.commands": "MemoryCommands",
    "memory.memory": "Memory",
    "ports": "Piece",
    "providers.anthropic_memory": "AsyncRunnerMemoryTool RunnerMemoryTool",
    "providers.offline": "AsyncOfflineClient OfflineClient Script",
    "session.async_session": "AsyncSession",
    "session.factory": "Tool open_memory tool",
    "session.session": "Completion Session",
}
"""Module → the public names that are in it."""
__all__ = sorted({"errors", "events", *" ".join(_HOMES.values()).split()})


def __getattr__(name: str) -> Any:
    """Public names are loaded when they are first asked for: `import sevenfold` alone loads nothing."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = next((module for module, names in _HOMES.items() if name in names.split()), None)
    if home is None:
        return import_module(f"sevenfold.{name}")
    return getattr(import_module(f"sevenfold.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
