"""What must be spelt exactly: addresses, ids, hashes, tickets, versions, flags, ports, figures, names.

They are looked for in what the user and the model say, in command lines and in errors, not in whole
results: what was never taken up from a result was not needed. Those the user wrote come first, then those
used often and lately.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec import Struct

from sevenfold.layers.compact.extract.notation import Identifier
from sevenfold.layers.compact.extract.patterns import pattern
from sevenfold.layers.compact.extract.work import paths_in

MOST = 200
_PASTED = 600
"""Characters above which a message is taken to hold something pasted."""
_FROM_ONE_PASTE = 5
"""How many identifiers found only in one pasted message are kept: a log would fill the list."""
_LONGEST = 200
_LOOKED_AT = 40_000

_FOLDER = re.compile(r"(?<![\w.:/~])(?:[A-Za-z]:|~)?/(?:[\w.@+-]+/)+[\w@+-]+(?![\w./@-])")
"""A path from the root that names no file."""
_OFTEN = {"name": 2, "folder": 3}
"""How often something the user did not type must come up to count."""
_MAYBE = re.compile(r"[\d@_/\\]|--|localhost")
"""A word without any of these holds nothing of the kind."""
_NAME = re.compile(r"`([A-Za-z_][\w.:-]*\w(?:\(\))?)`")
_NAMING = re.compile(r"[_.:()\d-]|[a-z][A-Z]")
"""What a name in code has and a plain word has not."""
_PASSING = frozenset({"flag", "figure", "path"})


class IdentifierSource(Struct, frozen=True):
    """A text to look in."""

    text: str
    record: str
    by_user: bool = False
    from_tool: bool = False
    """What a tool is called with; its flags and figures are of no account unless somebody speaks of them."""


class _Seen:
    def __init__(self, kind: str, record: str) -> None:
        self.kind, self.record, self.count, self.by_user, self.place = kind, record, 0, False, 0
        self.typed = False
        """Does it come up in a text that was not pasted, or in several?"""


def identifiers(
    sources: Iterable[IdentifierSource],
    known: Iterable[Identifier] = (),
    besides: frozenset[str] = frozenset(),
) -> list[Identifier]:
    """The identifiers in these texts, oldest text first, added to those known from before."""
    seen: dict[str, _Seen] = {}
    for one in reversed(list(known)):
        entry = seen[one.text] = _Seen(one.kind, one.record)
        entry.count, entry.by_user, entry.typed = one.count, one.by_user, True
    place, words = 0, _Words()
    for place, source in enumerate(sources, 1):
        typed = len(source.text) <= _PASTED
        for text, kind in words.found(source.text[:_LOOKED_AT]):
            if text in besides or len(text) > _LONGEST or (source.from_tool and kind in _PASSING):
                continue
            entry = seen.setdefault(text, _Seen(kind, source.record))
            entry.typed |= typed or bool(entry.count and entry.record != source.record)
            entry.record, entry.place = source.record, place
            entry.count += 1
            entry.by_user |= source.by_user and typed
    used = [(text, it) for text, it in seen.items() if it.by_user or it.count >= _OFTEN.get(it.kind, 1)]
    ranked = sorted(used, key=lambda pair: _rank(pair[1], place), reverse=True)
    pasted: Counter[str] = Counter()
    kept: list[Identifier] = []
    for text, it in ranked:
        pasted[it.record] += not it.typed
        if it.typed or pasted[it.record] <= _FROM_ONE_PASTE:
            kept.append(Identifier(text, it.kind, it.record, it.count, it.by_user))
    return kept[:MOST]


class _Words(dict[str, list[tuple[str, str]]]):
    """Words with the identifiers in them, each looked at once however often it comes up."""

    def __missing__(self, word: str) -> list[tuple[str, str]]:
        matches = pattern("identifier").finditer(word)
        found = [(match[0].rstrip(".,"), match.lastgroup or "") for match in matches]
        if "/" in word or "\\" in word:
            found += [(path, "path") for path in paths_in(word) if "/" in path or "\\" in path]
            found += [(path, "folder") for path in _FOLDER.findall(word)]
        self[word] = found
        return found

    def found(self, text: str) -> Iterator[tuple[str, str]]:
        """The identifiers in a text, with what each is."""
        for word in text.split():
            if _MAYBE.search(word):
                yield from self[word]
        for match in pattern("spaced_identifier").finditer(text):
            yield match[0].rstrip(".,"), match.lastgroup or ""
        for name in _NAME.findall(text) if "`" in text else ():
            if _NAMING.search(name) and not pattern("identifier").fullmatch(name):
                yield name, "name"


def _rank(seen: _Seen, last: int) -> float:
    """The user's own first; then use, which counts for less the more there is of it, and how lately."""
    worth = -3.0 if seen.kind == "figure" else 6.0 * seen.by_user
    return worth + min(seen.count, 6) + 4.0 * seen.place / max(1, last)
