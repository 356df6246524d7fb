"""The plugin for Claude Code: its files, and where they go.

Claude Code loads a plugin from a folder among the user's skills, so no setting has to be changed for it. A plugin
cannot bring a status line; that one is an entry in the user's settings, and is only made if asked for.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from sevenfold.doors.plugins import shared
from sevenfold.doors.plugins.changes import Changes, NewFile
from sevenfold.doors.plugins.entries import JsonEntry

NAME = "claude-code"


def changes(*, with_status_line: bool) -> Changes:
    """What installing the plugin does."""
    folder = _home() / "skills" / "sevenfold"
    files = (
        NewFile(folder / ".claude-plugin" / "plugin.json", shared.encoded(shared.manifest())),
        NewFile(folder / "hooks" / "hooks.json", shared.encoded({"hooks": _hooks()})),
        NewFile(folder / ".mcp.json", shared.encoded({"mcpServers": {"sevenfold": _server()}})),
    )
    if not with_status_line:
        return Changes(NAME, files)
    entry = {"type": "command", "command": shared.command("status-line")}
    return Changes(NAME, files, JsonEntry(_home() / "settings.json", "statusLine", json.dumps(entry)))


def _home() -> Path:
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or "~/.claude").expanduser()


def _hooks() -> dict[str, Any]:
    # Each of the three commands has a limit of its own; together in one, most of the text would become a preview.
    brings_back = [shared.hook(part) for part in shared.PARTS]
    return {
        "SessionStart": [
            {"hooks": [shared.hook("session-starts")]},
            {"matcher": "compact", "hooks": brings_back},
        ],
        "PreCompact": [{"hooks": [shared.hook("before-compaction")]}],
        "UserPromptSubmit": [{"hooks": [shared.hook("before-message")]}],
    }


def _server() -> dict[str, Any]:
    """The MCP server. Without ``alwaysLoad`` its tools would have to be searched for first."""
    return {"type": "stdio", **shared.server(), "alwaysLoad": True}
