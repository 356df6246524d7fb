"""The words tools are described with, one Markdown file each, beside this module."""

from __future__ import annotations


def load(name: str) -> str:
    """The description in ``texts/<name>.md``."""
    from importlib import resources

    return (
        resources.files(__package__)
        .joinpath("texts", f"{name}.md")
        .read_text(encoding="utf-8")
        .rstrip("\n")
    )
