"""What was typed, kept across sessions for its owner's eyes: one JSON string a line, secrets masked.

It is a convenience. That it cannot be read or written is no reason not to send what was typed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec
from prompt_toolkit.history import History

from sevenfold.record.redact import mask

MOST_READ = 1024 * 1024
"""Bytes of the file that are read, its newest."""


class TypedHistory(History):
    """The history in a file, made when something is typed."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def load_history_strings(self) -> Iterable[str]:
        """All that can be read, the newest first."""
        return [words for line in reversed(self._lines()) if (words := _words(line))]

    def store_string(self, string: str) -> None:
        """Keep what was typed, without the secrets in it."""
        line = msgspec.json.encode(mask(string).text.encode(errors="replace").decode()) + b"\n"
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self._path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
            with os.fdopen(handle, "ab") as file:
                file.write(line)

    def _lines(self) -> list[bytes]:
        try:
            with self._path.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - MOST_READ))
                return file.read().splitlines()
        except OSError:
            return []


def _words(line: bytes) -> str:
    try:
        return msgspec.json.decode(line, type=str)
    except msgspec.MsgspecError:
        return ""
