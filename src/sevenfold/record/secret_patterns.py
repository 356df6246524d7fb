"""What secrets look like: the rules of `secret_patterns.toml`, and checks that tell a real secret from an example.

Randomness alone is no sign of a secret: hashes, ids and images are random too, and masking them does harm. Examples
from documentation (one letter repeated, counted up, "your-key-here") are left alone, because a model that edits such
a file would otherwise write the mask back into it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from msgspec import Struct

MIN_DISTINCT = 8
"""A token with fewer distinct characters is an example."""


class Rule(Struct, frozen=True):
    """How one kind of secret is recognised."""

    kind: str
    hints: tuple[str, ...]
    """Fixed texts, one of which starts the match."""
    rest: re.Pattern[str]
    """What follows the hint. The group named ``secret`` is masked; without one, the hint and the rest are."""
    is_real: Callable[[str], bool]
    """Whether the match can be a real secret."""
    many_lines: bool = False
    """Whether the secret spans lines, so that all of it is checked, not only its beginning."""
    begins_word: bool = False
    """Whether the hint is so short that it counts only at the beginning of a word."""
    at_edge: bool = False
    """Whether it also occurs by chance in encoded data, and so counts only at the beginning or end of a word."""
    before: re.Pattern[str] | None = None
    """What precedes the hint and is part of the secret; the pattern ends with ``\\Z``."""


class Patterns:
    """All rules, indexed so that their hints can be found fast."""

    def __init__(self, formats: list[Rule], contexts: list[Rule]) -> None:
        hints = _hints_of(formats)
        self.rules = (*formats, *contexts)
        self.by_hint: dict[str, Rule] = {}
        for rule in self.rules:
            self.by_hint.update(dict.fromkeys(rule.hints, rule))
        self.names = frozenset(hint for hint in hints if len(hint) > 2 and hint[-1] in "-_.")
        """Hints that end in a sign. Most tokens are such a hint and a long word: one search finds them all."""
        self.lengths = sorted({len(name) for name in self.names})
        self.tails = frozenset(name[-self.lengths[0] :] for name in self.names)
        self.literals = [hint for hint in hints if hint not in self.names]
        self.contexts = _hints_of(contexts)
        """Hints in lower case that match in any case."""
        self.format_kinds = frozenset(rule.kind for rule in formats)


def _hints_of(rules: Iterable[Rule]) -> list[str]:
    return list(chain.from_iterable(rule.hints for rule in rules))


@cache
def _table() -> dict[str, Any]:
    import tomllib

    return tomllib.loads(Path(__file__).with_name("secret_patterns.toml").read_text("utf-8"))


@cache
def _pattern(name: str) -> re.Pattern[str]:
    """A pattern that tells secrets from other text."""
    return re.compile(_table()["checks"][name])


@cache
def patterns() -> Patterns:
    """The rules, read on first use."""
    table = _table()
    fragments: dict[str, str] = table["fragments"]

    def compiled(pattern: str) -> re.Pattern[str]:
        for name, fragment in fragments.items():
            pattern = pattern.replace(f"{{{name}}}", fragment)
        return re.compile(pattern)

    def rule(
        kind: str, hints: list[str], rest: str, check: str, literal: bool, before: str = "", **flags: bool
    ) -> Rule:
        spellings = dict.fromkeys(hints)
        if not literal:
            for sign in ("-", ""):
                spellings.update(dict.fromkeys(hint.replace("_", sign) for hint in hints))
        precedes = compiled(rf"{before}\Z") if before else None
        return Rule(kind, tuple(spellings), compiled(rest), _CHECKS[check], before=precedes, **flags)

    form: dict[str, Any] = {"check": "looks_random", "literal": True}
    return Patterns(
        [rule(**{**form, **entry, "hints": entry["hints"].split()}) for entry in table["formats"]],
        [rule(**{"literal": False, **entry}) for entry in table["contexts"]],
    )


def occurrences(text: str, wanted: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Every occurrence of the wanted texts: where it begins, and which it is."""
    for hint in wanted:
        position = text.find(hint)
        while position >= 0:
            yield position, hint
            position = text.find(hint, position + len(hint))


def _is_example(secret: str) -> bool:
    """Whether it is made up: words like ``your-key``, few distinct characters, or characters counted up."""
    if len(set(secret)) < MIN_DISTINCT or _pattern("example").search(secret):
        return True
    longest = max(_pattern("run").findall(secret), key=len, default="")
    steps = sum(ord(following) - ord(letter) == 1 for letter, following in pairwise(longest))
    return steps * 2 > len(longest)


def _looks_random(secret: str) -> bool:
    """Whether it is neither an example nor only lower-case words joined with dashes."""
    return not _is_example(secret) and any(letter.isupper() or letter.isdigit() for letter in secret)


def _looks_mixed(secret: str) -> bool:
    """Whether it has a run of mixed letters and digits and is no example; for secrets known only by their context."""
    return any(map(_is_no_word, _pattern("run").findall(secret))) and not _is_example(secret)


def _is_no_word(run: str) -> bool:
    digits = sum(map(str.isdigit, run))
    cases = any(map(str.isupper, run[1:])) and any(map(str.islower, run))
    return len(run) >= 8 and digits >= 1 and len(run) - digits >= 2 and (digits >= 3 or cases)


def _is_password(secret: str) -> bool:
    return not _pattern("no_password").fullmatch(secret) and not _pattern("example").search(secret)


def _is_assigned(secret: str) -> bool:
    """Whether a value with a secret name is real: no placeholder, variable name or plain word."""
    return _is_password(secret) and _looks_mixed(secret)


def _is_set_password(secret: str) -> bool:
    """Whether a value with a password's name is real: digits and other characters, and no piece of code."""
    digits = sum(map(str.isdigit, secret))
    return _is_password(secret) and 0 < digits < len(secret) and not _pattern("code").search(secret)


def _is_spoken_password(secret: str) -> bool:
    """Whether a word called a password in a sentence is real: letters and digits, no technical term or code."""
    mixed = any(map(str.isdigit, secret)) and any(map(str.isalpha, secret))
    no_code = not any(_pattern(name).search(secret) for name in ("example", "call"))
    return mixed and no_code and not _pattern("term").match(secret)


def _is_login(encoded: str) -> bool:
    """Whether it is Base64 of ``user:password``."""
    try:
        user, _, password = base64.b64decode(encoded + "=" * (-len(encoded) % 4)).decode().partition(":")
    except ValueError:
        return False
    return user.isprintable() and password.isprintable() and bool(password) and _is_password(password)


def _holds_a_key(block: str) -> bool:
    return _pattern("key_material").search(block) is not None


_CHECKS: dict[str, Callable[[str], bool]] = {
    "looks_random": _looks_random,
    "looks_mixed": _looks_mixed,
    "is_password": _is_password,
    "is_assigned": _is_assigned,
    "is_set_password": _is_set_password,
    "is_spoken_password": _is_spoken_password,
    "is_login": _is_login,
    "holds_a_key": _holds_a_key,
}
"""The checks by their names in the table."""
