"""How a chat begins: which session, which model, how free the agent is."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from sevenfold.agent.permissions.engine import Mode
from sevenfold.providers.registry import provider_for

DEFAULT_MODEL = "claude-sonnet-5-5"
"""Whom a chat asks if nobody says otherwise and no session is continued."""


class Start(Struct, frozen=True, kw_only=True):
    """What an agent is opened with."""

    folder: Path
    name: str
    """Of the session."""
    model: str
    mode: Mode | None = None
    """None: as it was, or asking."""
    max_turns: int | None = None
    max_usd: float | None = None
    rules: dict[str, list[str]] = {}
    resumed: bool = False

    @property
    def offline(self) -> bool:
        """Does the offline model answer, because nothing is configured?"""
        return not provider_for(self.model).configured(os.environ)

    def no_key(self) -> str:
        """What to tell a user whom the offline model will answer."""
        missing = provider_for(self.model).unconfigured()
        return f"{missing}, so the offline model answers: it only repeats what you say."
