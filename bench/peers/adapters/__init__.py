"""One module for each measured engine.

An adapter module can be imported anywhere: the engine's own packages are imported by name, when a case runs, in the
engine's environment. They are not installed here, so their types are unknown.
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
"""The answer of every stand-in for a model; about 1.6 KB."""

SYSTEM = "You are a careful software engineer. " * 60
"""A system prompt of about 2 KB."""
