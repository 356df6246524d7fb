"""What an entry claims about the project's files: the paths, commands and flags that it names."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import chain

MOST_CLAIMS = 8
_SPAN = re.compile(r"`([^`\n]{2,120})`")
_PATH = re.compile(
    r"(?<![\w/:.])(?:[\w.-]+/)+[\w.-]*\w|(?<![\w/])[\w-]+\.(?:py|js|ts|toml|json|ya?ml|md|sh|cfg|ini)\b"
)
_FLAG = re.compile(r"(?<=\s)--?[a-zA-Z][\w-]*")
_COMMAND = re.compile(r"[a-z][\w.+-]{1,40}")


def stale(entry: str, exists: Callable[[str], bool]) -> list[str]:
    """The paths, commands and script flags named in an entry that no longer exist."""
    spans = _SPAN.findall(entry)
    # Only for scripts can flags be checked without running anything.
    scripts = filter(None, map(_PATH.search, spans))
    flags: list[str] = []
    for script in scripts:
        flags += [f"{flag} in {script[0]}" for flag in _FLAG.findall(script.string, script.end())]
    first_words = chain.from_iterable(span.split()[:1] for span in spans)
    commands = filter(_COMMAND.fullmatch, first_words)
    claims = dict.fromkeys((*_PATH.findall(entry), *commands, *flags))
    return [claim for claim in list(claims)[:MOST_CLAIMS] if not exists(claim)]
