"""The texts about this session: where it runs, how the user wants it, what it may use.

Each is said only when there is something to say. Whoever has the facts makes the text; who has none
leaves it out, and then nothing in the prompt hints at it.
"""

from __future__ import annotations

from sevenfold.prompts.text import KB, LINE_CAP, Text
from sevenfold.record.blocks import PLACEHOLDER_CLEARED


class Guidance(Text, frozen=True):
    """What the parts that are switched on in this session want the model to know."""

    file = "guidance"
    body = "advice"
    cap = 8 * KB

    advice: str


class Environment(Text, frozen=True):
    """Where the session runs: facts of the moment the prompt was made."""

    file = "environment"
    tag = "environment"
    body = "changes"
    cap = 2 * KB

    cwd: str
    platform: str
    shell: str | None = None
    model: str | None = None
    git: str | None = None
    """Branch and how it stands to its upstream."""
    changes: str | None = None
    """What `git status --short` lists; None where there is nothing, or nobody knows."""


class Today(Text, frozen=True):
    """The date."""

    file = "today"
    cap = KB
    volatile = "Days pass while a session goes on."

    date: str


class Language(Text, frozen=True):
    """The language to answer in."""

    file = "language"
    cap = LINE_CAP + KB

    language: str


class OutputStyle(Text, frozen=True):
    """A manner of answering the user has chosen."""

    file = "output_style"
    tag = "output-style"
    body = "style"
    cap = 16 * KB

    name: str
    style: str


class Scratch(Text, frozen=True):
    """A directory for what need not last."""

    file = "scratch"
    cap = LINE_CAP + KB

    path: str


class Clearing(Text, frozen=True):
    """The notice that old results are cleared in this session, and how many are kept."""

    file = "clearing"
    cap = LINE_CAP + KB

    kept: int
    placeholder: str = PLACEHOLDER_CLEARED


class Budgets(Text, frozen=True):
    """What is left to spend."""

    file = "budgets"
    tag = "budgets"
    cap = KB
    volatile = "What is left changes with every request."

    turns: int | None = None
    tokens: int | None = None
    dollars: str | None = None
