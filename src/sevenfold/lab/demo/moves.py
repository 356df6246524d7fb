"""What the scripted assistant does next: plans as generators that yield moves and are sent what the tools said.

Nothing here knows of requests or prompts; `assistant` stands between these plans and the simulated provider.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from msgspec import Struct

UNREAD = "Read it"
"""How the edit tool ends its refusal to change what was not read, or changed since."""


class Do(Struct, frozen=True):
    """A tool call."""

    tool: str
    given: Mapping[str, Any]


class Move(Struct, frozen=True):
    """One answer of the assistant: a thought, words, and calls; without calls its turn is over."""

    words: str = ""
    calls: tuple[Do, ...] = ()
    thought: str = ""


Plan = Generator[Move, Sequence[str], str]
"""Is sent what each call of its last move came to, as far as the model can still see it; returns its last words."""
Step = Generator[Move, Sequence[str], str]


def do(words: str, *calls: Do, thought: str = "") -> Step:
    """One move; gives all that came of it as one text."""
    said = yield Move(words, calls, thought)
    return "\n".join(said)


def read(path: str, **more: Any) -> Do:
    """Look at a file."""
    return Do("Read", {"path": path, **more})


def run(command: str) -> Do:
    """Run a command."""
    return Do("Shell", {"command": command})


def grep(pattern: str, path: str = ".", **more: Any) -> Do:
    """Look for a text."""
    return Do("Grep", {"pattern": pattern, "path": path, **more})


def write(path: str, content: str) -> Do:
    """Make a file."""
    return Do("Write", {"path": path, "content": content})


def todo(entries: Mapping[str, str]) -> Do:
    """The list of what there is to do, with the state of each."""
    return Do("Todo", {"todos": [{"content": text, "status": state} for text, state in entries.items()]})


def edit(words: str, path: str, old: str, new: str, *, everywhere: bool = False, thought: str = "") -> Step:
    """Change a file; one that counts as unread is read first."""
    given = {"path": path, "old": old, "new": new} | ({"replace_all": True} if everywhere else {})
    said = yield from do(words, Do("Edit", given), thought=thought)
    if UNREAD in said:
        yield from do(f"I have to look at {path} again first.", read(path))
        said = yield from do("Now the change.", Do("Edit", given))
    return said
