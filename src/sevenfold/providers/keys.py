"""Where keys and addresses of providers come from: the one place that names their variables."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from msgspec import Struct

from sevenfold.errors import NotAuthenticated, SettingError

WITHOUT_A_KEY = "`sevenfold simulate` serves a simulated provider on this machine"


class Provider(Struct, frozen=True):
    """A provider as the user knows it: its name, its variables, its address, its SDK."""

    name: str
    key_variable: str
    url_variable: str
    url: str
    sdk: str
    """The module of the official SDK, which is also the name of the extra that installs it."""

    def load(self) -> Any:
        """Import the official SDK; only now, because that takes longer than everything else here."""
        try:
            return import_module(self.sdk)
        except ModuleNotFoundError as error:
            if error.name != self.sdk:
                raise
            raise SettingError(
                f"Talking to {self.name} needs its SDK: pip install 'sevenfold[{self.sdk}]'"
            ) from None

    def key_from_environment(self) -> str | None:
        """The key in the environment, if there is one."""
        return os.environ.get(self.key_variable) or None

    def url_from_environment(self) -> str | None:
        """The address in the environment, if there is one."""
        return os.environ.get(self.url_variable) or None

    def no_key(self) -> NotAuthenticated:
        """The error for a key that nobody gave."""
        return NotAuthenticated(
            f"There is no key for {self.name}. Set {self.key_variable} or pass api_key=…; {WITHOUT_A_KEY}"
        )

    def bad_credentials(self, reason: Exception) -> NotAuthenticated:
        """The error for credentials that are there and cannot be used."""
        return NotAuthenticated(
            f"The credentials for {self.name} cannot be used: {reason} Or set {self.key_variable}"
        )


ANTHROPIC = Provider(
    "Anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "https://api.anthropic.com", "anthropic"
)
OPENAI = Provider("OpenAI", "OPENAI_API_KEY", "OPENAI_BASE_URL", "https://api.openai.com/v1", "openai")
