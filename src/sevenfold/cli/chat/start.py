"""How a chat begins: which session, which model, how free the agent is."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from sevenfold.agent.permissions.engine import Mode
from sevenfold.profiles import find
from sevenfold.providers.keys import ANTHROPIC, OPENAI

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
        provider = ANTHROPIC if find(self.model).provider == "anthropic" else OPENAI
        return not (provider.key_from_environment() or provider.url_from_environment())

    def no_key(self) -> str:
        """What to tell a user whom the offline model will answer."""
        provider = ANTHROPIC if find(self.model).provider == "anthropic" else OPENAI
        return (
            f"There is no key for {provider.name} ({provider.key_variable}) and no address "
            f"({provider.url_variable}), so the offline model answers: it only repeats what you say."
        )
