"""Finds what must be spelt exactly: addresses, ids, hashes, tickets, versions, flags, ports, figures, names.

The search covers the text of the user and the model, the inputs of tool calls and the lines of errors, but not whole
tool results: anything in a result that was never mentioned again was not needed. Identifiers typed by the user come
first, then those used often and recently.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec import Struct

from sevenfold.layers.compact.extract.notation import Identifier
from sevenfold.layers.compact.extract.patterns import pattern
from sevenfold.layers.compact.extract.work import paths_in

MAX_IDENTIFIERS = 200
_PASTED = 600
"""A longer text, in characters, is assumed to contain something pasted."""
_FROM_ONE_PASTE = 5
"""The most identifiers to keep that occur only in one pasted text: otherwise a log would fill the list."""
_LONGEST = 200
_LOOKED_AT = 40_000

_FOLDER = re.compile(r"(?<![\w.:/~])(?:[A-Za-z]:|~)?/(?:[\w.@+-]+/)+[\w@+-]+(?![\w./@-])")
"""An absolute path whose last part has no file extension."""
_OFTEN = {"name": 2, "folder": 3}
"""How often an identifier of this kind must occur to be kept, unless the user typed it."""
_MAYBE = re.compile(r"[\d@_/\\]|--|localhost")
"""A word that does not match this contains no identifier."""
_NAME = re.compile(r"`([A-Za-z_][\w.:-]*\w(?:\(\))?)`")
_NAMING = re.compile(r"[_.:()\d-]|[a-z][A-Z]")
"""Characteristics of a name in code that a plain word does not have."""
_PASSING = frozenset({"flag", "figure", "path"})


class IdentifierSource(Struct, frozen=True):
    """A text to search for identifiers."""

    text: str
    record: str
    by_user: bool = False
    from_tool: bool = False
    """Whether it is a tool call's input: its flags, figures and paths count only if mentioned elsewhere."""


class _Use:
    def __init__(self, kind: str, record: str) -> None:
        self.kind = kind
        self.record = record
        self.count = 0
        self.by_user = False
        self.place = 0
        self.typed = False
        """Whether it occurs in a text that was not pasted, or in several texts."""


def identifiers(
    sources: Iterable[IdentifierSource],
    carried_over: Iterable[Identifier] = (),
    besides: frozenset[str] = frozenset(),
) -> list[Identifier]:
    """Rank the known identifiers and those found in these texts, given oldest first; skip new ones in ``besides``."""
    uses: dict[str, _Use] = {}
    for identifier in reversed(list(carried_over)):
        entry = uses[identifier.text] = _Use(identifier.kind, identifier.record)
        entry.count = identifier.count
        entry.by_user = identifier.by_user
        entry.typed = True
    number = 0
    identifiers_in = _IdentifiersIn()
    for number, source in enumerate(sources, 1):
        typed = len(source.text) <= _PASTED
        for text, kind in identifiers_in.text(source.text[:_LOOKED_AT]):
            if text in besides or len(text) > _LONGEST or (source.from_tool and kind in _PASSING):
                continue
            entry = uses.setdefault(text, _Use(kind, source.record))
            entry.typed |= typed or bool(entry.count and entry.record != source.record)
            entry.record = source.record
            entry.place = number
            entry.count += 1
            entry.by_user |= source.by_user and typed
    used = [
        (text, use) for text, use in uses.items() if use.by_user or use.count >= _OFTEN.get(use.kind, 1)
    ]
    ranked = sorted(used, key=lambda pair: _rank(pair[1], number), reverse=True)
    pasted: Counter[str] = Counter()
    chosen: list[Identifier] = []
    for text, use in ranked:
        pasted[use.record] += not use.typed
        if use.typed or pasted[use.record] <= _FROM_ONE_PASTE:
            chosen.append(Identifier(text, use.kind, use.record, use.count, use.by_user))
    return chosen[:MAX_IDENTIFIERS]


class _IdentifiersIn(dict[str, list[tuple[str, str]]]):
    """Maps each word to the identifiers in it; a cache, as words recur."""

    def __missing__(self, word: str) -> list[tuple[str, str]]:
        identifiers: list[tuple[str, str]] = []
        if _MAYBE.search(word):
            identifiers = self._in_word(word)
        self[word] = identifiers
        return identifiers

    def _in_word(self, word: str) -> list[tuple[str, str]]:
        matches = pattern("identifier").finditer(word)
        identifiers = [(match[0].rstrip(".,"), match.lastgroup or "") for match in matches]
        if "/" in word or "\\" in word:
            identifiers += [(path, "path") for path in paths_in(word) if "/" in path or "\\" in path]
            identifiers += [(path, "folder") for path in _FOLDER.findall(word)]
        return identifiers

    def text(self, text: str) -> Iterator[tuple[str, str]]:
        """The identifiers in a text, each with its kind."""
        for word in text.split():
            yield from self[word]
        for match in pattern("spaced_identifier").finditer(text):
            yield match[0].rstrip(".,"), match.lastgroup or ""
        for name in _NAME.findall(text) if "`" in text else ():
            if _NAMING.search(name) and not pattern("identifier").fullmatch(name):
                yield name, "name"


def _rank(use: _Use, last: int) -> float:
    """The rank of an identifier, by whether the user typed it, number of uses (up to six) and recency; figures less."""
    worth = -3.0 if use.kind == "figure" else 6.0 * use.by_user
    return worth + min(use.count, 6) + 4.0 * use.place / max(1, last)
