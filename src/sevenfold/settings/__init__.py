"""Settings and kill switches: what they are, where their values come from, which are in force.

Pure: files, the environment and flags are read by adapters, which hand over layers of raw values.
"""

from __future__ import annotations

from sevenfold.settings.descriptions import Setting, by_name, described, in_force, overruled
from sevenfold.settings.fields import Settings, Stage
from sevenfold.settings.resolve import (
    DEFAULT,
    Fixed,
    Resolved,
    SettingsLayer,
    Source,
    checked,
    from_text,
    latch,
    overlaid,
    resolve,
    unknown,
)

__all__ = [
    "DEFAULT",
    "Fixed",
    "Resolved",
    "Setting",
    "Settings",
    "SettingsLayer",
    "Source",
    "Stage",
    "by_name",
    "checked",
    "described",
    "from_text",
    "in_force",
    "latch",
    "overlaid",
    "overruled",
    "resolve",
    "unknown",
]
