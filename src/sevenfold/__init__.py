"""Sevenfold lets LLM agents work for weeks in a bounded context window, without silent forgetting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sevenfold.wiring.opened import Tool, tool
    from sevenfold.wiring.session import AsyncSession, Completion, Session

__version__ = "0.1.0"
__all__ = ["AsyncSession", "Completion", "Session", "Tool", "tool"]

_HOMES = {
    "AsyncSession": "sevenfold.wiring.session",
    "Completion": "sevenfold.wiring.session",
    "Session": "sevenfold.wiring.session",
    "Tool": "sevenfold.wiring.opened",
    "tool": "sevenfold.wiring.opened",
}


def __getattr__(name: str) -> Any:
    """Public names are loaded when they are first asked for: `import sevenfold` alone loads nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
