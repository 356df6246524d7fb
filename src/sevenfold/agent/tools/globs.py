"""Path patterns as in ``.gitignore``, matched segment by segment.

``*``, ``?`` and ``[…]`` stay within a segment, ``**`` crosses them, ``{a,b}`` are alternatives. A pattern without a
slash matches at any depth; with one, it is anchored.

Patterns of permission rules meet paths the model makes up, and patterns of searches are the model's own, so no pattern
may take more than a moment: there is no backtracking, neither within segments nor across them. That is why this is not
left to `pathspec`, whose expressions take half a minute over ``a*a*a*a*a*a*b`` and a name of 150 letters.
"""

from __future__ import annotations

import re
from fnmatch import translate

from sevenfold.errors import InputError

MOST_ALTERNATIVES = 64
"""How many patterns ``{…}`` may multiply to."""
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")

Segments = tuple[re.Pattern[str] | None, ...]
"""None matches any number of segments."""


class Glob:
    """A compiled pattern for paths with slashes, relative to some folder."""

    def __init__(self, pattern: str, *, ignore_case: bool = False) -> None:
        flags = re.IGNORECASE if ignore_case else re.NOFLAG
        self._forms = [_compiled(form, flags) for form in _alternatives(pattern)]

    def matches(self, path: str) -> bool:
        """Whether the pattern matches the whole path."""
        parts = path.strip("/").split("/")
        return any(len(parts) in _ends(form, parts) for form in self._forms)

    def covers(self, path: str) -> bool:
        """Whether it matches the path or a folder above it."""
        parts = path.strip("/").split("/")
        return any(_ends(form, parts) - {0} for form in self._forms)


def _alternatives(pattern: str) -> list[str]:
    waiting, done = [pattern], []
    while waiting:
        one = waiting.pop()
        if found := _BRACES.search(one):
            waiting += [
                one[: found.start()] + choice + one[found.end() :] for choice in found[1].split(",")
            ]
        else:
            done.append(one)
        if len(waiting) + len(done) > MOST_ALTERNATIVES:
            raise InputError(
                f"{pattern!r} expands to more than {MOST_ALTERNATIVES} patterns; use a simpler one"
            )
    return done


def _compiled(pattern: str, flags: re.RegexFlag) -> Segments:
    anchored = "/" in pattern.rstrip("/")
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    segments: list[re.Pattern[str] | None] = [] if anchored else [None]
    for part in parts:
        if part != "**":
            segments.append(re.compile(translate(part), flags))
        elif not segments or segments[-1] is not None:
            segments.append(None)
    return tuple(segments)


def _ends(form: Segments, parts: list[str]) -> set[int]:
    """How many parts the pattern can match, from the first on."""
    reached = {0}
    for number, segment in enumerate(form):
        if segment is None:
            # At its end "**" matches at least one segment: "src/**" is everything in src, not src itself.
            least = min(reached, default=len(parts)) + (number == len(form) - 1)
            reached = set(range(least, len(parts) + 1))
        else:
            reached = {place + 1 for place in reached if place < len(parts) and segment.match(parts[place])}
    return reached
