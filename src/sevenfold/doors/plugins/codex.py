"""The plugin for Codex: its files, and where they go.

Codex loads a plugin from its folder of plugins once its settings enable it, so one table is added to them. Hooks run
only after the user has trusted them in Codex; installing does not, and must not, do that for the user.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sevenfold.doors.plugins import shared
from sevenfold.doors.plugins.changes import Changes, NewFile
from sevenfold.doors.plugins.entries import TomlTable

NAME = "codex"
AFTERWARDS = "Then enter /hooks in Codex and trust the hooks of sevenfold: Codex runs none before that."
KEY = "sevenfold@sevenfold"
"""The plugin and the marketplace it is from, which needs no more than a name."""
_FOLDER = Path("plugins", "cache", "sevenfold", "sevenfold", "local")
_TOKENS_BROUGHT_BACK = 8_000
"""The limit of one text. Codex counts four bytes as a token, and 9,500 characters of Cyrillic have 19,000 bytes; above
the limit, 2,500 if the hook does not name one, it cuts out the middle."""


def changes() -> Changes:
    """What installing the plugin does."""
    folder = home() / _FOLDER
    about = {**shared.manifest(), "hooks": "./hooks/hooks.json", "mcpServers": "./.mcp.json"}
    files = (
        NewFile(folder / ".codex-plugin" / "plugin.json", shared.encoded(about)),
        NewFile(folder / "hooks" / "hooks.json", shared.encoded({"hooks": _hooks()})),
        NewFile(folder / ".mcp.json", shared.encoded({"mcpServers": {"sevenfold": shared.server()}})),
    )
    table = TomlTable(home() / "config.toml", f'plugins."{KEY}"', ("enabled = true",))
    return Changes(NAME, files, table)


def home() -> Path:
    """Codex's folder."""
    return Path(os.environ.get("CODEX_HOME") or "~/.codex").expanduser()


def _hooks() -> dict[str, Any]:
    # What a hook prints before a compaction is not passed on here: it only prepares what the three hand over after it.
    limit = {"additionalContextLimit": _TOKENS_BROUGHT_BACK}
    brings_back = [{**shared.hook(part), **limit} for part in shared.PARTS]
    return {
        "SessionStart": [
            {"hooks": [shared.hook("session-starts")]},
            {"matcher": "compact", "hooks": brings_back},
        ],
        "PreCompact": [{"hooks": [shared.hook("prepare-compaction")]}],
        "UserPromptSubmit": [{"hooks": [shared.hook("before-message")]}],
    }
