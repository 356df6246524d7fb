"""The folder where hooks keep what they hand to one another, readable by its owner alone."""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

A_DAY = 86_400.0
"""Seconds after which a file that was not fetched is removed."""


def state_folder(kind: str) -> Path:
    """The folder for one kind of files. `sevenfold.stores.home` has the same rule, and takes too long to load here."""
    root = Path(os.environ.get("SEVENFOLD_HOME") or "~/.sevenfold").expanduser()
    return root / "plugins" / kind


def file_for(kind: str, name: str) -> Path:
    """The file of this kind for a name that may come from anywhere, such as a session's id."""
    return state_folder(kind) / f"{hashlib.sha256(name.encode(errors='replace')).hexdigest()[:32]}.json"


def write(path: Path, content: dict[str, Any]) -> None:
    """Replace a file as a whole."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            json.dump(content, file)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def read(path: Path) -> dict[str, Any]:
    """What a file holds; empty if it is missing or damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def tidy(kind: str) -> None:
    """Remove files of this kind that were not fetched within a day."""
    with suppress(OSError):
        for path in state_folder(kind).iterdir():
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > A_DAY:
                    path.unlink()
