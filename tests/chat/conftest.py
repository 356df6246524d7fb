"""Where the app runs in tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from sevenfold.stores.trust import Trust


@pytest.fixture
def place(tmp_path: Path) -> dict[str, Path]:
    """A home and a trusted folder with a file in it."""
    home, folder = tmp_path / "home", tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("hello\n")
    home.mkdir(mode=0o700)
    Trust(home).add(folder)
    return {"home": home, "folder": folder}
