"""A token in a file of its own, which only its owner can read: it gives access to a server on this machine."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from sevenfold.errors import InputError

_TOKEN_BYTES = 32


def token(path: Path) -> str:
    """The token in this file, which is made if it is missing; raises `InputError` if others can read it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _read(path)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(f"{secrets.token_urlsafe(_TOKEN_BYTES)}\n")
    return _read(path)


def _read(path: Path) -> str:
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    with os.fdopen(handle, encoding="utf-8", errors="replace") as file:
        about = os.fstat(handle)
        if os.name != "nt" and (about.st_mode & 0o077 or about.st_uid != os.getuid()):
            mode = stat.filemode(about.st_mode)
            raise InputError(f"{path} can be read by others ({mode}); remove it, and a new one is made")
        words = file.read(1_000).strip()
    if len(words) < _TOKEN_BYTES:
        raise InputError(f"{path} holds no token of at least {_TOKEN_BYTES} characters; remove it")
    return words
