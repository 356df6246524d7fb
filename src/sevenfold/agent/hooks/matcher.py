"""Matchers: which hooks of an event are meant.

Empty or `*` means all. A text of nothing but letters, digits, `_`, `-`, blanks, `,` and `|` is a list of exact
names. Anything else is a regular expression that may be found anywhere in the name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sevenfold.errors import SettingError

_LIST = re.compile(r"[A-Za-z0-9_\- ,|]*")
_SEPARATORS = re.compile(r"[,|]")


@dataclass(frozen=True, slots=True)
class Matcher:
    """One matcher, read once."""

    text: str
    names: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None

    def fits(self, value: str | None) -> bool:
        """Whether the hook is meant; an event with nothing to match (None) means all of its hooks."""
        if value is None or self.text in ("", "*"):
            return True
        return bool(self.pattern.search(value)) if self.pattern else value in self.names


def matcher(text: str, where: str) -> Matcher:
    """Read a matcher; ``where`` names its place for the error about one that cannot be used."""
    wanted = text.strip()
    if wanted in ("", "*"):
        return Matcher(wanted)
    if _LIST.fullmatch(wanted):
        names = frozenset(name.strip() for name in _SEPARATORS.split(wanted)) - {""}
        if not names:
            raise SettingError(f"{where}: the matcher {text!r} names nothing; use * to match everything")
        return Matcher(wanted, names)
    try:
        return Matcher(wanted, pattern=re.compile(wanted))
    except (re.error, OverflowError, RecursionError) as error:
        raise SettingError(
            f"{where}: the matcher {text!r} is no valid regular expression ({error}); "
            "mend it, or list exact names separated by |"
        ) from error
