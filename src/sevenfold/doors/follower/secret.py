"""The key under which credentials are hashed on this machine."""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path

from sevenfold.stores.files import private_folder, write_whole

SECRET_BYTES = 32


def secret_of(path: Path) -> bytes:
    """The key under which credentials are hashed on this machine; a new one if the file is missing or damaged."""
    with suppress(OSError):
        secret = path.read_bytes()
        if len(secret) == SECRET_BYTES:
            return secret
    secret = secrets.token_bytes(SECRET_BYTES)
    private_folder(path.parent)
    write_whole(path, secret)
    return secret
