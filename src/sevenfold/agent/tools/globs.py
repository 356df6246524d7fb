"""Path patterns as in ``.gitignore``, matched segment by segment.

``*``, ``?`` and ``[…]`` match within a segment, ``**`` matches across segments, ``{a,b}`` are alternatives. A pattern
without a slash matches at any depth; with a slash, it is anchored.

The patterns of permission rules are matched against paths that the model makes up, and search patterns come from the
model, so every match must be fast: there is no backtracking within or across segments. `pathspec` would not do: for
``a*a*a*a*a*a*b`` and a name of 150 letters, it takes half a minute.
"""

from __future__ import annotations

import re
from fnmatch import translate

from sevenfold.errors import InputError

MOST_ALTERNATIVES = 64
"""How many patterns ``{…}`` may expand to."""
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")

Segments = tuple[re.Pattern[str] | None, ...]
"""A pattern for each segment; None matches any number of segments."""


class Glob:
    """A compiled pattern for paths that use slashes and are relative to some folder."""

    def __init__(self, pattern: str, *, ignore_case: bool = False) -> None:
        flags = re.IGNORECASE if ignore_case else re.NOFLAG
        self._forms = [_compiled(form, flags) for form in _alternatives(pattern)]

    def matches(self, path: str) -> bool:
        """Whether the pattern matches the whole path."""
        segments = path.strip("/").split("/")
        return any(len(segments) in _ends(form, segments) for form in self._forms)

    def covers(self, path: str) -> bool:
        """Whether the pattern matches the path or a folder above it."""
        segments = path.strip("/").split("/")
        return any(_ends(form, segments) - {0} for form in self._forms)


def _alternatives(pattern: str) -> list[str]:
    pending = [pattern]
    expanded = []
    while pending:
        form = pending.pop()
        if braces := _BRACES.search(form):
            pending += [
                form[: braces.start()] + choice + form[braces.end() :] for choice in braces[1].split(",")
            ]
        else:
            expanded.append(form)
        if len(pending) + len(expanded) > MOST_ALTERNATIVES:
            raise InputError(
                f"{pattern!r} expands to more than {MOST_ALTERNATIVES} patterns; use a simpler one"
            )
    return expanded


def _compiled(pattern: str, flags: re.RegexFlag) -> Segments:
    anchored = "/" in pattern.rstrip("/")
    texts = [text for text in pattern.split("/") if text not in ("", ".")]
    segments: list[re.Pattern[str] | None] = [] if anchored else [None]
    for text in texts:
        if text != "**":
            segments.append(re.compile(translate(text), flags))
        elif not segments or segments[-1] is not None:
            segments.append(None)
    return tuple(segments)


def _ends(form: Segments, path_segments: list[str]) -> set[int]:
    """The numbers of leading parts that the pattern can match."""
    lengths = {0}
    for index, segment in enumerate(form):
        if segment is None:
            # A final "**" matches at least one segment: "src/**" is everything in src, not src itself.
            fewest = min(lengths, default=len(path_segments)) + (index == len(form) - 1)
            lengths = set(range(fewest, len(path_segments) + 1))
        else:
            unfinished = [length for length in lengths if length < len(path_segments)]
            lengths = {length + 1 for length in unfinished if segment.match(path_segments[length])}
    return lengths
