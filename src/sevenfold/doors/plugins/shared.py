"""What the plugins for all programs have in common: the commands of hooks, the MCP server, the manifest."""

from __future__ import annotations

import json
import shlex
import sys
from typing import Any

from sevenfold import __version__
from sevenfold.doors.plugins.hook import AROUND_A_COMPACTION, COMPACTION_TIME_LIMIT, TIME_LIMIT

PARTS = ("words", "things", "state")
"""The texts that are brought back, each by a hook of its own."""
_HOOK = "sevenfold.doors.plugins.hook"
_SECONDS_BEYOND = 5
"""How much longer the program waits for a hook than the hook takes at most."""


def manifest() -> dict[str, Any]:
    """What a plugin says about itself."""
    about = "Brings back what a compaction loses, and says what a message to a cold cache costs. No model calls."
    return {"name": "sevenfold", "version": __version__, "description": about}


def hook(event: str) -> dict[str, Any]:
    """The entry of a hook for one of our events, with the program's time limit above our own."""
    limit = COMPACTION_TIME_LIMIT if event in AROUND_A_COMPACTION else TIME_LIMIT
    return {"type": "command", "command": command(event), "timeout": int(limit) + _SECONDS_BEYOND}


def command(event: str) -> str:
    """The command line of a hook; it says nothing and succeeds if this Python is gone.

    ``-P`` keeps modules in the folder the user works in from being taken for ours.
    """
    python = shlex.quote(sys.executable)
    return f"{python} -P -m {_HOOK} {event} 2>/dev/null || true"


def server() -> dict[str, Any]:
    """How the MCP server is started."""
    return {"command": sys.executable, "args": ["-P", "-m", "sevenfold", "mcp"]}


def encoded(content: dict[str, Any]) -> bytes:
    """The content of a JSON file that people may read."""
    return f"{json.dumps(content, indent=2)}\n".encode()
