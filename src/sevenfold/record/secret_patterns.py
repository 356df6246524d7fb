"""What secrets look like: the table of `secret_patterns.toml`, and what tells a secret in use from an example.

Nothing is guessed from randomness alone: hashes, ids and pictures are random too, and a mask in their place does harm.
Examples from documentation (one letter repeated, counted up, "your-key-here") are left alone, because a model that
edits such a file would otherwise write the mask back into it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from msgspec import Struct

LEAST_DIFFERENT = 8
"""A token with fewer different characters is an example."""


class Rule(Struct, frozen=True):
    """How one kind of secret is recognised."""

    kind: str
    hints: tuple[str, ...]
    """Texts one of which comes first."""
    rest: re.Pattern[str]
    """What follows the hint. A group named ``secret`` is what is masked; without one, it is hint and rest."""
    is_real: Callable[[str], bool]
    """Whether what was found can be a secret in use."""
    many_lines: bool = False
    """A whole block of text, in which no other secret is looked for."""
    begins_word: bool = False
    """The hint is so short that it counts only at the beginning of a word."""
    at_edge: bool = False
    """It also occurs by chance in encoded data, and counts only where a word begins or ends with it."""
    before: re.Pattern[str] | None = None
    """What precedes the hint and belongs to the secret; it ends with ``\\Z``."""


class Patterns:
    """All rules, and what finds the hint of one in a text fast."""

    def __init__(self, formats: list[Rule], contexts: list[Rule]) -> None:
        hints = [hint for rule in formats for hint in rule.hints]
        self.rules = (*formats, *contexts)
        self.by_hint = {hint: rule for rule in self.rules for hint in rule.hints}
        self.names = frozenset(hint for hint in hints if len(hint) > 2 and hint[-1] in "-_.")
        """Most tokens are a name, one of these signs, and a long word: looking for that is faster than for each."""
        self.lengths = sorted({len(name) for name in self.names})
        self.tails = frozenset(name[-self.lengths[0] :] for name in self.names)
        self.literals = [hint for hint in hints if hint not in self.names]
        self.contexts = [hint for rule in contexts for hint in rule.hints]
        """In lower case, and found in any."""
        self.format_kinds = frozenset(rule.kind for rule in formats)


@cache
def _table() -> dict[str, Any]:
    import tomllib

    return tomllib.loads(Path(__file__).with_name("secret_patterns.toml").read_text("utf-8"))


@cache
def _pattern(name: str) -> re.Pattern[str]:
    """A pattern by which secrets are told from other words."""
    return re.compile(_table()["checks"][name])


@cache
def patterns() -> Patterns:
    """The table, read when it is first needed."""
    table = _table()
    fragments: dict[str, str] = table["fragments"]

    def compiled(pattern: str) -> re.Pattern[str]:
        for name, fragment in fragments.items():
            pattern = pattern.replace(f"{{{name}}}", fragment)
        return re.compile(pattern)

    def rule(
        kind: str, hints: list[str], rest: str, check: str, literal: bool, before: str = "", **flags: bool
    ) -> Rule:
        signs = ("_",) if literal else ("_", "-", "")
        spelled = {hint.replace("_", sign): None for sign in signs for hint in hints}
        precedes = compiled(rf"{before}\Z") if before else None
        return Rule(kind, tuple(spelled), compiled(rest), _CHECKS[check], before=precedes, **flags)

    form: dict[str, Any] = {"check": "looks_random", "literal": True}
    return Patterns(
        [rule(**{**form, **entry, "hints": entry["hints"].split()}) for entry in table["formats"]],
        [rule(**{"literal": False, **entry}) for entry in table["contexts"]],
    )


def places(text: str, wanted: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Where each of the wanted texts begins, wherever it comes up."""
    for one in wanted:
        place = text.find(one)
        while place >= 0:
            yield place, one
            place = text.find(one, place + len(one))


def _is_example(secret: str) -> bool:
    """Is it made up: words like ``your-key``, few different characters, or characters counted up?"""
    if len(set(secret)) < LEAST_DIFFERENT or _pattern("example").search(secret):
        return True
    longest = max(_pattern("run").findall(secret), key=len, default="")
    steps = sum(ord(after) - ord(before) == 1 for before, after in pairwise(longest))
    return steps * 2 > len(longest)


def _looks_random(secret: str) -> bool:
    """Not an example, and not words joined with dashes."""
    return not _is_example(secret) and any(letter.isupper() or letter.isdigit() for letter in secret)


def _looks_mixed(secret: str) -> bool:
    """The same where only the context speaks for it: a run that no word is, of letters and digits."""
    return any(map(_is_no_word, _pattern("run").findall(secret))) and not _is_example(secret)


def _is_no_word(run: str) -> bool:
    digits = sum(map(str.isdigit, run))
    cases = any(map(str.isupper, run[1:])) and any(map(str.islower, run))
    return len(run) >= 8 and digits >= 1 and len(run) - digits >= 2 and (digits >= 3 or cases)


def _is_password(secret: str) -> bool:
    return not _pattern("no_password").fullmatch(secret) and not _pattern("example").search(secret)


def _is_assigned(secret: str) -> bool:
    """A value that a name calls secret: no placeholder, no name of another variable, no plain word."""
    return _is_password(secret) and _looks_mixed(secret)


def _is_set_password(secret: str) -> bool:
    """A value that a name calls a password: with digits and other characters, and no piece of code."""
    digits = sum(map(str.isdigit, secret))
    return _is_password(secret) and 0 < digits < len(secret) and not _pattern("code").search(secret)


def _is_spoken_password(secret: str) -> bool:
    """A word in a sentence that calls it a password: letters and digits, and no name of an encoding or a place."""
    mixed = any(map(str.isdigit, secret)) and any(map(str.isalpha, secret))
    no_code = not any(_pattern(name).search(secret) for name in ("example", "call"))
    return mixed and no_code and not _pattern("term").match(secret)


def _is_login(encoded: str) -> bool:
    """Base64 of ``user:password``."""
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
"""By their names in the table."""
