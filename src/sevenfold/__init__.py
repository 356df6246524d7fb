"""Sevenfold lets LLM agents work for weeks in a bounded context window, without silent forgetting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sevenfold.tools.functions import function_tool
    from sevenfold.wiring.agent import Agent, AsyncAgent
    from sevenfold.wiring.awaited import AsyncSession
    from sevenfold.wiring.opened import Tool, tool
    from sevenfold.wiring.session import Completion, Session

__version__ = "0.1.0"
__all__ = [
    "Agent",
    "AsyncAgent",
    "AsyncSession",
    "Completion",
    "Session",
    "Tool",
    "function_tool",
    "tool",
]

_HOMES = {
    "Agent": "sevenfold.wiring.agent",
    "AsyncAgent": "sevenfold.wiring.agent",
    "AsyncSession": "sevenfold.wiring.awaited",
    "Completion": "sevenfold.wiring.session",
    "Session": "sevenfold.wiring.session",
    "Tool": "sevenfold.wiring.opened",
    "function_tool": "sevenfold.tools.functions",
    "tool": "sevenfold.wiring.opened",
}


def __getattr__(name: str) -> Any:
    """Public names are loaded when they are first asked for: `import sevenfold` alone loads nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
