"""Session notes in a file that only its owner can read."""

from __future__ import annotations

from pathlib import Path

from sevenfold.stores.atomic import private_folder, write_whole
from sevenfold.stores.jsonl.lines import explain

LARGEST = 4 * 1024 * 1024


class FileNotes:
    """Notes in a Markdown file, replaced as a whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.path = str(path)

    def read(self) -> str | None:
        """Their text, or None if there are none yet."""
        try:
            with self._path.open("rb") as file:
                return file.read(LARGEST).decode(errors="replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise explain(error, self._path) from error

    def write(self, text: str) -> None:
        """Replace them."""
        private_folder(self._path.parent)
        write_whole(self._path, text.encode(errors="replace"))


class MemoryNotes:
    """Notes that are kept nowhere."""

    path = "memory/notes.md"

    def __init__(self) -> None:
        self._text: str | None = None

    def read(self) -> str | None:
        """Their text, or None if there are none yet."""
        return self._text

    def write(self, text: str) -> None:
        """Replace them."""
        self._text = text
