"""Agents in tests keep their things in a home of their own, and nobody's key is in reach."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    monkeypatch.setenv("SEVENFOLD_HOME", str(folder))
    for name in (
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
    ):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The workspace."""
    made = tmp_path / "work"
    made.mkdir()
    return made
