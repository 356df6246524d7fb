"""Exact identifiers: what must be repeated to the letter to be of any use.

Candidates are whatever stands between white space, without the punctuation around it; a candidate is an
identifier by its shape. That is cheap enough for megabytes, because each different candidate is looked at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from sevenfold.layers.fidelity.reading import Call, Told

_EDGES = "\"'`“”‘’«»()[]{}<>,;:!?*|=…"
_SHAPE = re.compile(
    r"""(?:
      https?://\S{6,}                                     # addresses
    | --[A-Za-z][\w-]+(?:=\S+)?                           # flags
    | (?:[A-Za-z]:)?[\w.@~+-]*(?:[/\\][\w.@+-]+)+\.\w{1,8}(?::\d+)?   # paths to a file
    | (?:[A-Za-z]:|~)?[/\\](?:[\w.@+-]+[/\\])+[\w.@+-]+   # absolute paths
    | [\w+-]+\.(?:py|go|tsx?|jsx?|rs|c|h|cpp|java|rb|sh|mdx?|json[cl]?|toml|ya?ml|sql|txt|css|html|cfg|ini|lock)
      (?::\d+)?                                           # names of files
    | [0-9a-f]{7,12} | [0-9a-f]{40} | [0-9a-f]{64}        # hashes
    | [0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}
    | v?\d+\.\d+(?:\.\d+)+(?:[-+.][\w.]+)? | v\d+(?:\.\d+)+   # versions
    | [A-Z][A-Z0-9]{1,9}-\d+ | \#\d+                      # tickets
    | [a-z]{2,8}_[A-Za-z0-9]{16,}                         # ids with a prefix
    | [A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+                       # constants and variables of the environment
    | [\w.-]*[\w.]:\d{2,5}                               # hosts and places with a number
    )""",
    re.X,
)
_SAID_FIGURE = re.compile(
    r"(?<![A-Za-z0-9_.#/-])\d[\d.,]*[ \t]?(?:%|bytes|tokens|seconds|minutes|hours|days|weeks|lines|commits|chars"
    r"|characters|percent|ms|min|px|rem|[kKMG]i?B|files|rows)(?![A-Za-z0-9_])|(?<!\w)port \d{2,5}(?!\w)"
)
_MAYBE = re.compile(r"[0-9/\\_]|\.\w|--\w")
_HEX = re.compile(r"[0-9a-f]{7,64}")
_MIXED = re.compile(r"(?=.*\d)(?=.*[a-f])")
SHORTEST, LONGEST = 3, 200
PASTED = 600
"""Characters from which on a message holds more than what the user had in mind."""
OFTEN = 3
"""Calls that name the same thing, from which on it counts though nobody spoke of it."""


class Named(Struct, frozen=True):
    """An identifier and the records that hold it."""

    text: str
    records: tuple[str, ...]
    known_as: frozenset[str]
    importance: tuple[int, int]
    """What the user typed comes first, then what the user pasted, then what comes up most."""


class _Finding:
    """Where an identifier was seen."""

    __slots__ = ("level", "records", "spoken")

    def __init__(self) -> None:
        self.records: dict[str, str] = {}
        self.spoken = False
        self.level = 0


def names(user: Iterable[Told], model: Iterable[Told], calls: Iterable[Call]) -> list[Named]:
    """Identifiers the user said, and those of the conversation that come up more than once."""
    found: dict[str, _Finding] = {}
    words = _Words()
    for told in user:
        figures = (" ".join(hit.split()) for hit in _SAID_FIGURE.findall(told.text))
        level = 1 if len(told.text) > PASTED else 2
        _note(found, [*words.identifiers(told.text), *figures], told.record, told.known_as, level)
    for told in model:
        _note(found, words.identifiers(told.text), told.record, told.known_as)
    for call in calls:
        short = (value for value in call.given.values() if isinstance(value, str) and len(value) <= 1_000)
        named = (name for name in words.identifiers(" ".join(short)) if not name.startswith("--"))
        _note(found, named, call.record, "tool_use")
    return _telling(found)


class _Words(dict[str, str]):
    """Words with the identifier each is, worked out once; empty for those that are none."""

    def __missing__(self, word: str) -> str:
        self[word] = name = _identifier(word) if _MAYBE.search(word) else ""
        return name

    def identifiers(self, text: str) -> list[str]:
        """Those in a text, in the order in which they come up."""
        return [name for word in dict.fromkeys(text.split()) if (name := self[word])]


def _note(
    found: dict[str, _Finding], names: Iterable[str], record: str, known_as: str, level: int = 0
) -> None:
    for name in names:
        finding = found.get(name)
        if finding is None:
            finding = found[name] = _Finding()
        finding.records.setdefault(record, known_as)
        finding.spoken |= known_as != "tool_use"
        finding.level = max(finding.level, level)


def _telling(found: dict[str, _Finding]) -> list[Named]:
    longer = "\n".join(found)
    kept = []
    for text, seen in found.items():
        often = len(seen.records) > 1 if seen.spoken else len(seen.records) >= OFTEN
        # A folder is not worth looking for where things in it are.
        if seen.level or (often and f"{text}/" not in longer and f"{text}\\" not in longer):
            kept.append(_named(text, found, longer))
    return kept


def _named(text: str, found: dict[str, _Finding], longer: str) -> Named:
    """The identifier with all records that hold it, also as a part of a longer one."""
    records = dict(found[text].records)
    place = longer.find(text)
    while place >= 0:
        start, end = longer.rfind("\n", 0, place) + 1, longer.find("\n", place)
        end = len(longer) if end < 0 else end
        records = {**found[longer[start:end]].records, **records}
        place = longer.find(text, end)
    own = found[text]
    return Named(text, tuple(records), frozenset(records.values()), (own.level, len(own.records)))


def _identifier(word: str) -> str:
    """The identifier a word is; empty if it is none."""
    name = word.strip(_EDGES).rstrip(".").removesuffix("'s").rstrip(_EDGES)
    if not SHORTEST <= len(name) <= LONGEST or not _SHAPE.fullmatch(name):
        return ""
    return "" if _HEX.fullmatch(name) and not _MIXED.match(name) else name
