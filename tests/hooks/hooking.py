"""Hooks for tests: a session's events, and real commands written as small scripts."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from sevenfold.agent.hooks.registry import AsyncHooks, Hooks, run_command
from sevenfold.agent.hooks.settings import parse
from sevenfold.conversation import hooks as inputs

PLENTY = 60
"""Seconds no hook here needs; a test that takes them has found a hang."""

EXTRA: dict[str, dict[str, Any]] = {
    "SessionStart": {"source": "startup"},
    "SessionEnd": {"reason": "other"},
    "UserPromptSubmit": {"prompt": "hello"},
    "PreToolUse": {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t1"},
    "PostToolUse": {
        "tool_name": "Bash",
        "tool_input": {"command": "ls"},
        "tool_use_id": "t1",
        "tool_response": "a.txt",
        "duration_ms": 7,
    },
    "PermissionRequest": {"tool_name": "Bash", "tool_input": {"command": "ls"}},
    "PreCompact": {"trigger": "auto"},
    "PostCompact": {"trigger": "auto", "compact_summary": "all went well"},
    "Stop": {"stop_hook_active": False, "last_assistant_message": "done"},
    "SubagentStart": {"agent_id": "a1", "agent_type": "Explore"},
    "SubagentStop": {
        "agent_id": "a1",
        "agent_type": "Explore",
        "agent_transcript_path": "/t/a1.jsonl",
        "stop_hook_active": False,
        "last_assistant_message": "done",
    },
    "InstructionsLoaded": {"file_path": "/p/A.md", "memory_type": "Project", "load_reason": "compact"},
}


def happened(event: str, cwd: Path | str = ".", **extra: Any) -> inputs.HookInput:
    """An event, with what a test does not care about filled in."""
    given = {"session_id": "s1", "transcript_path": "/t/s1.jsonl", "cwd": str(cwd)}
    return inputs.EVENTS[event](**{**given, **EXTRA[event], **extra})


def settings(event: str, *handlers: dict[str, Any] | str, matcher: str = "") -> dict[str, Any]:
    """A settings mapping with these commands for one event."""
    written = [
        {"type": "command", "command": one, "timeout": PLENTY} if isinstance(one, str) else one
        for one in handlers
    ]
    return {"hooks": {event: [{"matcher": matcher, "hooks": written}]}}


def hooks(given: dict[str, Any] | None = None, project: Path | str = ".") -> Hooks:
    return Hooks(
        parse(given, "settings.json") if given else None,
        run=run_command,
        environ=os.environ,
        project_dir=str(project),
    )


def async_hooks(given: dict[str, Any] | None = None, project: Path | str = ".") -> AsyncHooks:
    return AsyncHooks(
        parse(given, "settings.json") if given else None,
        run=run_command,
        environ=os.environ,
        project_dir=str(project),
    )


def script(folder: Path, body: str, name: str = "hook.py") -> str:
    """A command line that runs this Python."""
    path = folder / name
    path.write_text(body, encoding="utf-8")
    return f"{sys.executable} -S -E {path}"
