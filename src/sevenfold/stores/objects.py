"""Large results as objects: in a folder, or in S3 and what speaks like it, through the library obstore.

A database need not carry what is large, never changes and is seldom read. Objects are named by the SHA-256 of their
content below a prefix for each session, so storing one twice, or by two writers, does no harm.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from sevenfold.errors import InputError, TranscriptDenied, TranscriptError, TranscriptFull
from sevenfold.stores.files import missing_result, safe_name

SMALLEST = 50_000
"""Bytes from which a result is worth an object; smaller ones are read faster from their row."""


class ObjectStorage:
    """Objects below a URL: ``file:///folder`` or ``s3://bucket/prefix``."""

    def __init__(self, url: str) -> None:
        """Open it; credentials and addresses come from the environment, as the provider's own tools take them."""
        self.url = url
        self._store = _opened(url)

    def put(self, prefix: str, content: bytes) -> str:
        """Store content below a prefix; returns its path. It is stored when this returns."""
        path = f"{prefix}/{hashlib.sha256(content).hexdigest()}"
        try:
            self._store.put(path, content)
        except Exception as error:
            raise self._explained(error) from error
        return path

    def get(self, path: str) -> bytes:
        """The content at a path that `put` returned; raises `sevenfold.errors.ResultMissing`."""
        try:
            content = bytes(self._store.get(path).bytes())
        except FileNotFoundError:
            raise missing_result(path) from None
        except Exception as error:
            raise self._explained(error) from error
        if hashlib.sha256(content).hexdigest() != path.rpartition("/")[2]:
            raise TranscriptError(f"{self.url}/{path}: this object has been changed since it was stored")
        return content

    def below(self, prefix: str) -> list[str]:
        """The paths of all objects below a prefix."""
        paths: list[str] = []
        try:
            for page in self._store.list(prefix):
                paths += [entry["path"] for entry in page]
        except Exception as error:
            raise self._explained(error) from error
        return paths

    def remove(self, paths: Sequence[str]) -> None:
        """Remove objects; those that are gone already do no harm."""
        for path in paths:
            try:
                self._store.delete(path)
            except FileNotFoundError:
                continue
            except Exception as error:
                raise self._explained(error) from error

    def _explained(self, error: Exception) -> TranscriptError:
        """The error for something that failed, which says what to do."""
        reason = str(error).strip().partition("\n")[0]
        if isinstance(error, PermissionError) or "Denied" in type(error).__name__:
            return TranscriptDenied(
                f"{self.url}: access to results is denied ({reason}); check the credentials"
            )
        if "No space left" in str(error):
            return TranscriptFull(
                f"{self.url}: there is no room for results ({reason}); nothing was stored"
            )
        return TranscriptError(
            f"{self.url}: results cannot be stored or read ({reason}); check that it can be reached"
        )


def prefix_of(tenant: str, project: str, session: str) -> str:
    """Below which prefix the objects of a session are; no other session has the same one."""
    # A tenant or project without a name must not be left out: the next name would take its place.
    return "/".join(safe_name(name) if name else "_" for name in (tenant, project, session))


def _opened(url: str) -> Any:
    try:
        from obstore.store import LocalStore, from_url
    except ImportError as error:
        raise InputError(
            "keeping results in objects needs obstore: pip install 'sevenfold[objects]'"
        ) from error
    parts = urlsplit(url)
    try:
        if parts.scheme == "file":
            folder = Path(unquote(parts.path))
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            return LocalStore(folder)
        return from_url(url)
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise InputError(
            f"results={url}: {reason}; give file:///FOLDER, s3://BUCKET/PREFIX or another address that obstore knows"
        ) from error
