"""The plugin for Claude Code: its files, and where they go.

Claude Code loads a plugin from a folder among the user's skills, so no setting has to be changed for it. A plugin
cannot bring a status line; that one is an entry in the user's settings, and is only made if asked for.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

from sevenfold import __version__
from sevenfold.doors.plugins import hook
from sevenfold.doors.plugins.changes import Addition, Changes, NewFile

NAME = "claude-code"
_HOOK = "sevenfold.doors.plugins.hook"
_SECONDS_BEYOND = 5
"""How much longer the program waits for a hook than the hook takes at most."""
_PARTS = ("words", "things", "state")


def changes(*, with_status_line: bool) -> Changes:
    """What installing the plugin does."""
    folder = _home() / "skills" / "sevenfold"
    files = (
        NewFile(folder / ".claude-plugin" / "plugin.json", _encoded(_manifest())),
        NewFile(folder / "hooks" / "hooks.json", _encoded({"hooks": _hooks()})),
        NewFile(folder / ".mcp.json", _encoded({"mcpServers": {"sevenfold": _server()}})),
    )
    if not with_status_line:
        return Changes(NAME, files)
    entry = {"type": "command", "command": command("status-line")}
    return Changes(NAME, files, Addition(_home() / "settings.json", "statusLine", json.dumps(entry)))


def _home() -> Path:
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or "~/.claude").expanduser()


def _manifest() -> dict[str, Any]:
    about = "Brings back what a compaction loses, and says what a message to a cold cache costs. No model calls."
    return {"name": "sevenfold", "version": __version__, "description": about}


def _hooks() -> dict[str, Any]:
    # Each of the three commands has a limit of its own; together in one, most of the text would become a preview.
    brings_back = [_hook(part) for part in _PARTS]
    return {
        "SessionStart": [
            {"hooks": [_hook("session-starts")]},
            {"matcher": "compact", "hooks": brings_back},
        ],
        "PreCompact": [{"hooks": [_hook("before-compaction")]}],
        "UserPromptSubmit": [{"hooks": [_hook("before-message")]}],
    }


def _hook(event: str) -> dict[str, Any]:
    limit = hook.COMPACTION_TIME_LIMIT if event in hook.AROUND_A_COMPACTION else hook.TIME_LIMIT
    return {"type": "command", "command": command(event), "timeout": int(limit) + _SECONDS_BEYOND}


def command(event: str) -> str:
    """The command line of a hook; it says nothing and succeeds if this Python is gone.

    ``-P`` keeps modules in the folder the user works in from being taken for ours.
    """
    python = shlex.quote(sys.executable)
    return f"{python} -P -m {_HOOK} {event} 2>/dev/null || true"


def _server() -> dict[str, Any]:
    """The MCP server. Without ``alwaysLoad`` its tools would have to be searched for first."""
    arguments = ["-P", "-m", "sevenfold", "mcp"]
    return {"type": "stdio", "command": sys.executable, "args": arguments, "alwaysLoad": True}


def _encoded(content: dict[str, Any]) -> bytes:
    return f"{json.dumps(content, indent=2)}\n".encode()
