"""What the proposer of facts could read: the user's messages, and what else was in view."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from msgspec import Struct

from sevenfold.memory.generation import Origin
from sevenfold.memory.quotation import QuotedStatement, nearest
from sevenfold.memory.statements import statements, too_short
from sevenfold.memory.words import distinctive_words, shared

MIN_LIKENESS = 0.5
"""The least share of the words that matter in a quotation and in the statement that it seems to be from."""


class UsersStatement(Struct, frozen=True):
    """A statement of the user's, and where it was made."""

    text: str
    """The user's own words, whole."""
    record: str
    exact: bool = True
    """False if the quotation it was found by misspells a word of it."""


class Witness(Struct, frozen=True):
    """Everything that the proposer of facts could read."""

    messages: Mapping[str, str]
    """The user's messages, by record id, in the order in which they were sent."""
    days: Mapping[str, date] = {}
    """The dates of these records, where known."""
    times: Mapping[str, float] = {}
    """When these records were made, in seconds since 1970, where known."""
    unread: frozenset[str] = frozenset()
    """The records that were not examined before; if empty, all of them."""
    session: str = ""
    least_trusted: Origin = "model"
    """The least trusted source of any other content in view."""
    always_shown: tuple[str, ...] = ()
    """Texts that the model gets in every session: instruction files, the system prompt."""
    only_users_words: bool = False
    """Whether the proposer was shown the user's own words and entries alone, or with them what the model said while
    it had seen nothing else.

    Only such a proposer may end what the user said: text of others in view could make any model pair an innocent
    sentence of the user's with a rule of theirs.
    """
    shown: tuple[str, ...] = ()
    """Output of files, commands and memory: not worth storing unless the user says it."""

    def statement(
        self, quotation: str, message: str = "", *, forgiving: bool = True
    ) -> UsersStatement | None:
        """The user's whole statement that these words are from, if any.

        It is looked for in the named message first, then in the newest one that has it. Without ``forgiving``, no word
        may be misspelt.
        """
        if too_short(quotation):
            return None
        named = [message] if message in self.messages else []
        records = [*named, *(record for record in reversed(list(self.messages)) if record not in named)]
        misspelt: UsersStatement | None = None
        for record in records:
            match = nearest(self.messages[record], quotation, forgiving=forgiving)
            if match is None:
                continue
            if match.exact or record in named:
                return _at(record, match)
            misspelt = misspelt or _at(record, match)
        return misspelt

    def meant(self, quotation: str, message: str = "") -> UsersStatement | None:
        """The user's statement that these words are most like; None if it does not share half of what matters in both.

        Good enough to ask a model again what it meant, and for nothing else.
        """
        wanted = distinctive_words(quotation)
        best = 0.0
        closest = None
        for record in [message] if message in self.messages else self.messages:
            for statement in statements(self.messages[record]):
                statement_words = distinctive_words(statement.text)
                if statement_words and wanted:
                    alike = len(shared(wanted, statement_words)) / max(len(wanted), len(statement_words))
                    if alike >= max(best, MIN_LIKENESS):
                        best = alike
                        closest = UsersStatement(statement.text, record, exact=False)
        return closest

    def order(self, record: str) -> int:
        """The place of a record among the user's messages; -1 if it is none of them."""
        records = list(self.messages)
        return records.index(record) if record in self.messages else -1

    def is_new(self, record: str) -> bool:
        """Whether a record was not examined before."""
        return record in self.unread if self.unread else record in self.messages


def _at(record: str, match: QuotedStatement) -> UsersStatement:
    return UsersStatement(match.text, record, match.exact)
