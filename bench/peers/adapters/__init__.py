"""One module for each engine that is measured.

An adapter module can be read anywhere: the engine's own packages are loaded by name, when a case runs, in the
environment made for it. They are not installed here, so nothing is known of their types.
"""

from __future__ import annotations

SUMMARY = "\n".join(
    [
        "## Goal",
        "Port the service.",
        "## Done",
        *["- changed a module; tests pass"] * 50,
        "## Next",
        "- the rest",
    ]
)
"""What every stand-in for a model answers; about 1.6 KB."""

SYSTEM = "You are a careful software engineer. " * 60
"""A system prompt of about 2 KB."""
