"""The plugin for Hermes: its files, and where they go.

Hermes loads a plugin from a folder of its own once its settings enable it. They are YAML that people comment, so they
are changed by Hermes' own commands, which the user is told.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from sevenfold import __version__
from sevenfold.doors.plugins.changes import Changes, NewFile

NAME = "hermes"
AFTERWARDS = """Then let Hermes use it:
    hermes plugins enable sevenfold
    hermes config set context.engine sevenfold
    hermes config set memory.provider sevenfold"""
WORKER = "sevenfold.doors.adapters.hermes"
_MANIFEST = f"""name: sevenfold
version: {__version__}
description: Compactions that lose nothing, and a memory of earlier sessions
# Said, because Hermes takes a folder with a memory in it for nothing else.
kind: standalone
"""


def changes() -> Changes:
    """What installing the plugin does."""
    folder = _home() / "plugins" / "sevenfold"
    source = Path(__file__).with_name("hermes_plugin.py").read_bytes()
    command = json.dumps([sys.executable, "-P", "-m", WORKER])
    files = (
        NewFile(folder / "plugin.yaml", _MANIFEST.encode()),
        NewFile(folder / "__init__.py", source),
        NewFile(folder / "command.json", f"{command}\n".encode()),
    )
    return Changes(NAME, files)


def _home() -> Path:
    return Path(os.environ.get("HERMES_HOME") or "~/.hermes").expanduser()
