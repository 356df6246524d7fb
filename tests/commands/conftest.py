"""Commands run with nothing configured, and with a home of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.recorded import VARIABLES


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "100")
