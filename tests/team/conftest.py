"""The same home and workspace as other tests of agents have."""

from __future__ import annotations

from tests.agent.conftest import folder, home

__all__ = ["folder", "home"]
