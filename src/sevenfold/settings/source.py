"""Where a running session gets its settings from.

A session asks its source before each request, so that a switch can be flipped while it runs. Whatever the source
is kept up to date by, it answers from its last copy: nobody waits for a setting, and nothing goes wrong in a
session because of one.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct, structs

from sevenfold.settings.descriptions import described
from sevenfold.settings.fields import Settings


class Source(Protocol):
    """Someone who knows the settings."""

    def current(self) -> Settings:
        """The settings as of now, at once and without fail; the same object while nothing changes."""
        ...


class Fixed(Struct, frozen=True):
    """Settings that stay as they are."""

    settings: Settings

    def current(self) -> Settings:
        """These settings."""
        return self.settings


def latch(opened: Settings, now: Settings) -> Settings:
    """What a session goes by: the settings as of now, but the latched ones as they were when it opened."""
    if now is opened:
        return opened
    held = {one.name: getattr(opened, one.name) for one in described() if one.latched}
    return structs.replace(now, **held)
